#!/bin/sh
# Training on a GPU in under six minutes: an epoch of 60,000 pairs at 4096-d with the card's floor
# beside it, recorded steps (CUDA graphs) against eager ones, eight heads at once against one.
#
#   benchmarks/gpu.sh [--seconds 330] [--out DIR] [--tiny]
#
# Needs no data and no network if the current `python3` (or $TOOLHEADS_PYTHON) has torch, lightning
# and numpy; this package runs from the checkout. Otherwise an environment is made in
# benchmarks/train/work/venv. --tiny runs everything in small sizes on a CPU.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/.." && pwd)
python=${TOOLHEADS_PYTHON:-python3}
needs='import torch, lightning.pytorch, jsonargparse, numpy, yaml'

if ! "$python" -c "$needs" 2>/dev/null; then
    venv=$here/train/work/venv
    if ! "$venv/bin/python" -c "$needs" 2>/dev/null; then
        echo "making an environment in $venv" >&2
        "$python" -m venv --system-site-packages "$venv"
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
            -c "$root/constraints.txt" "$root[train]" >&2
    fi
    python=$venv/bin/python
fi
PYTHONUNBUFFERED=1 PYTHONPATH="$root/src:$root/train:$root" exec "$python" -m benchmarks.train.gpu "$@"
