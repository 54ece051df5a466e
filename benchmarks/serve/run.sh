#!/bin/sh
# `callbus serve` 0.3.1 and `toolheads serve` on the same tools and the same machine.
#
#   benchmarks/serve/run.sh [DATA_DIR] [--quick] [--only callbus|toolheads] [--work DIR]
#
# DATA_DIR is a folder of data sets; without it the sample catalogue is served. Makes an environment
# of its own for callbus ($CALLBUS_VENV, default: in the work folder); toolheads runs from
# $TOOLHEADS_PYTHON, by default the environment that `make quickstart` makes.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
ours=${TOOLHEADS_PYTHON:-$root/.venv/bin/python}
callbus=${CALLBUS_VENV:-$here/work/venv}

if [ ! -x "$ours" ]; then
    make -C "$root" .venv/.quickstart >&2
fi
if ! "$ours" -c 'import httpx, starlette, uvicorn' 2>/dev/null; then
    "$ours" -m pip install --quiet --disable-pip-version-check \
        -c "$root/constraints.txt" --editable "$root[openai,serve]" >&2
fi
if ! "$callbus/bin/python" -c 'import callbus, mcp, uvicorn' 2>/dev/null; then
    echo "making an environment for callbus in $callbus" >&2
    "$ours" -m venv "$callbus"
    # The same numpy as toolheads has: the code is compared, not the libraries.
    numpy=$("$ours" -c 'import numpy; print(numpy.__version__)')
    "$callbus/bin/python" -m pip install --quiet --disable-pip-version-check \
        -c "$root/constraints.txt" "numpy==$numpy" 'callbus[mcp]==0.3.1' >&2
fi
PYTHONPATH="$root" exec "$ours" -m benchmarks.serve.run --callbus "$callbus/bin/callbus" "$@"
