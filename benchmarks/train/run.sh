#!/bin/sh
# How fast heads are trained: callbus, a plain loop, sentence-transformers and toolheads on the same
# vectors, and how far each is from the matrix products that a step cannot do without.
#
#   benchmarks/train/run.sh [--quick] [--work DIR] [--threads N] [--rounds N]
#
# Random vectors with a planted turn; no data is needed. Makes an environment of its own for callbus
# (shared with benchmarks/ancestor); toolheads runs from $TOOLHEADS_PYTHON, by default the
# environment that `make quickstart` makes. On a GPU: benchmarks/gpu.sh.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
ours=${TOOLHEADS_PYTHON:-$root/.venv/bin/python}
callbus=${CALLBUS_VENV:-$root/benchmarks/ancestor/work/venv}

if [ ! -x "$ours" ]; then
    make -C "$root" .venv/.quickstart >&2
fi
if ! "$ours" -c 'import sentence_transformers' 2>/dev/null; then
    "$ours" -m pip install --quiet --disable-pip-version-check \
        -c "$root/constraints.txt" --editable "$root[sentence-transformers]" >&2
fi
if ! "$callbus/bin/python" -c 'import callbus, torch' 2>/dev/null; then
    echo "making an environment for callbus in $callbus" >&2
    "$ours" -m venv "$callbus"
    # The same torch and numpy as toolheads has: the code is compared, not the libraries.
    numpy=$("$ours" -c 'import numpy; print(numpy.__version__)')
    "$callbus/bin/python" -m pip install --quiet --disable-pip-version-check \
        -c "$root/constraints.txt" torch "numpy==$numpy" 'callbus[clm]==0.3.1' >&2
fi
PYTHONPATH="$root" exec "$ours" -m benchmarks.train.main \
    --callbus-python "$callbus/bin/python" "$@"
