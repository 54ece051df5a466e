#!/bin/sh
# callbus 0.3.1 against toolheads on the same vectors and the same machine.
#
#   benchmarks/ancestor/run.sh [DATA_DIR] [--quick] [--heads NAME|FILE] [--cache DIR] [--work DIR]
#
# DATA_DIR is a folder of data sets; without it the sample catalogue is embedded on the spot.
# Makes an environment of its own for callbus in the work folder; toolheads runs from
# $TOOLHEADS_PYTHON, by default the environment that `make quickstart` makes.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
ours=${TOOLHEADS_PYTHON:-$root/.venv/bin/python}
callbus=${CALLBUS_VENV:-$here/work/venv}

if [ ! -x "$ours" ]; then
    make -C "$root" .venv/.quickstart >&2
    "$ours" -m pip install --quiet --disable-pip-version-check \
        -c "$root/constraints.txt" --editable "$root[openai]" >&2
fi
if ! "$callbus/bin/python" -c 'import callbus, torch' 2>/dev/null; then
    echo "making an environment for callbus in $callbus" >&2
    "$ours" -m venv "$callbus"
    # The same torch and numpy as toolheads has: the code is compared, not the libraries.
    numpy=$("$ours" -c 'import numpy; print(numpy.__version__)')
    "$callbus/bin/python" -m pip install --quiet --disable-pip-version-check \
        -c "$root/constraints.txt" torch "numpy==$numpy" 'callbus[clm]==0.3.1' >&2
fi
PYTHONPATH="$root" exec "$ours" -m benchmarks.ancestor.main \
    --callbus-python "$callbus/bin/python" "$@"
