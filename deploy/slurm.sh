#!/bin/sh
#SBATCH --job-name=toolheads
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=32
#SBATCH --mem=256G
#SBATCH --time=02:00:00
#SBATCH --signal=TERM@120
# A vLLM server on each GPU of a node, training through all of them.
#
#   apptainer build toolheads-gpu.sif docker-daemon://toolheads-gpu:latest
#   sbatch deploy/slurm.sh [CONFIG]
#
# Run from a folder that all nodes see, with data/ in it. A job that ran out of time goes on where it
# was: texts that were embedded are in the cache. Compute nodes without a network need the model in
# HF_HOME and HF_HUB_OFFLINE=1.
set -eu

config=${1:-configs/qwen3-embedding-8b.yaml}
model=Qwen/Qwen3-Embedding-8B
image=${IMAGE:-toolheads-gpu.sif}
gpus=${SLURM_GPUS_ON_NODE:-8}
# Takes the place of the shell it is called in, so that a signal reaches it.
in_image() { exec apptainer exec --nv --bind "$PWD:/jobs" --pwd /jobs "$image" "$@"; }

servers=
stop() {
    for server in $servers; do kill "$server" 2>/dev/null || true; done
    wait
}
trap stop EXIT
trap 'exit 143' TERM INT

# A port of its own for each job, so that two jobs may share a node.
first=$((20000 + ${SLURM_JOB_ID:-0} % 20000))
urls=
gpu=0
while [ "$gpu" -lt "$gpus" ]; do
    port=$((first + gpu))
    (
        export CUDA_VISIBLE_DEVICES="$gpu"
        in_image vllm serve "$model" --runner pooling --dtype bfloat16 \
            --max-model-len 8192 --max-num-batched-tokens 32768 --gpu-memory-utilization 0.7 \
            --host 127.0.0.1 --port "$port"
    ) > "vllm-$gpu.log" 2>&1 &
    servers="$servers $!"
    urls="$urls${urls:+,}http://127.0.0.1:$port/v1"
    gpu=$((gpu + 1))
done

# Half an hour for the weights to arrive; a server that ended is an end.
tries=360
for url in $(echo "$urls" | tr , ' '); do
    until curl --silent --fail --output /dev/null "${url%/v1}/health"; do
        for server in $servers; do
            kill -0 "$server" || { echo "a vLLM server ended, see vllm-*.log" >&2; exit 1; }
        done
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || { echo "no answer of $url, see vllm-*.log" >&2; exit 1; }
        sleep 5
    done
done

(in_image toolheads train fit --config "$config" --data.encoder.url "$urls")
