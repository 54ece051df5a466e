#!/bin/sh
# The table of the second backbone: the packaged heads for all-mpnet-base-v2 on the catalogues whose
# tools no training request names. Run it after run.sh, with the same work folder.
#
#   benchmarks/results/mpnet.sh DATA_DIR MODEL [WORK] [CACHE]
#
# A report that is in the work folder already is not measured again. MODEL is a sentence-transformers folder of all-mpnet-base-v2, or its name on the hub.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
python=${TOOLHEADS_PYTHON:-$root/.venv/bin/python}
toolheads=$(dirname "$python")/toolheads
data=$1 model=$2 work=${3:-$here/work}
cache=${4:-$work/cache-mpnet}
docs=$root/docs/results.md
unseen=livemcpbench,mcp_bench,toolret_apigen,bfcl,bfcl_multi_turn,autotools,api_bank,toolalpaca
unseen=$unseen,tau2_bench,rotbench,tooltalk,toolbench,seal_tools
put() { PYTHONPATH="$root" "$python" -m benchmarks.results.document "$docs" "$1"; }

mkdir -p "$work/unseen"
for name in $(echo "$unseen" | tr , ' '); do
    ln -sfn "$(cd "$data/$name" && pwd)" "$work/unseen/$name"
done
measure() {
    name=$1
    shift
    [ ! -f "$work/mpnet-all-$name.json" ] || return 0
    "$toolheads" eval --data "$work/unseen" --json "$work/mpnet-all-$name.json" --cache "$cache" \
        --encoder sentence-transformers --compute-dtype bfloat16 --model "$model" "$@" >/dev/null
}
measure frozen --scorer dense
measure heads --scorer clm --heads mpnet
measure mixed --scorer clm --heads mpnet --without heads
measure alone --scorer clm --heads mpnet --without views,clauses,lexical
cp "$work/bm25.json" "$work/mpnet-all-bm25.json"
for report in bm25 frozen alone mixed heads; do
    PYTHONPATH="$root" "$python" -m benchmarks.results.choose "$work/mpnet-all-$report.json" \
        "$work/mpnet-$report.json" --sets "$unseen" --only seal_tools=part:test_out_domain \
        --data "$data"
done
"$toolheads" table "$work/mpnet-bm25.json" "$work/mpnet-frozen.json" "$work/mpnet-alone.json" \
    "$work/mpnet-mixed.json" "$work/mpnet-heads.json" --label BM25 --label 'frozen vectors' \
    --label 'heads alone' --label 'all but heads' --label 'heads (mpnet)' --metric ndcg@10 | put mpnet
paired() {
    "$toolheads" compare "$work/$1.json" "$work/$2.json" --paired |
        sed -E 's/^(A|B): (.*) \([^()]*\)$/\1: \2  /' | put "$3"
}
paired mpnet-frozen mpnet-heads mpnet-paired
paired mpnet-frozen mpnet-alone mpnet-alone
