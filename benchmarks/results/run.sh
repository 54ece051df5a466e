#!/bin/sh
# The results table: keywords, frozen vectors, the published recipe and our heads, on every data
# set of a folder that has test queries.
#
#   benchmarks/results/run.sh DATA_DIR [--cache DIR] [--heads NAME|FILE] [--ancestor FILE]
#                             [--work DIR] [--docs FILE] [--readme FILE] [--label TEXT]
#
# Writes docs/results.md and, where README.md has the markers, its table (results:main). Without
# --ancestor the heads of the published recipe are trained first (configs/ancestor.yaml). Reports
# stay in the work folder; one that is there already is measured again.
# toolheads is taken from $TOOLHEADS_PYTHON's environment, by default that of `make quickstart`.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
python=${TOOLHEADS_PYTHON:-$root/.venv/bin/python}
work=$here/work cache='' heads=minilm ancestor='' label='' data=''
docs=$root/docs/results.md readme=$root/README.md
while [ $# -gt 0 ]; do
    case $1 in
    --cache | --heads | --ancestor | --work | --docs | --readme | --label)
        [ $# -ge 2 ] || { echo "run.sh: $1 needs a value" >&2; exit 2; }
        case $1 in
        --cache) cache=$2 ;; --heads) heads=$2 ;; --ancestor) ancestor=$2 ;; --work) work=$2 ;;
        --docs) docs=$2 ;; --readme) readme=$2 ;; --label) label=$2 ;;
        esac
        shift 2 ;;
    -*) echo "run.sh: unknown option $1; see the head of $0" >&2; exit 2 ;;
    *)
        [ -z "$data" ] || { echo "run.sh: one DATA_DIR, got $data and $1" >&2; exit 2; }
        data=$1
        shift ;;
    esac
done
[ -n "$data" ] || { echo "run.sh: DATA_DIR must be given; see the head of $0" >&2; exit 2; }
[ -x "$python" ] || make -C "$root" .venv/.quickstart >&2
toolheads=$(dirname "$python")/toolheads
cache=${cache:-$work/cache}
label=${label:-heads ($(basename "$heads" .npz))}
mkdir -p "$work"
say() { printf '== %s\n' "$*" >&2; }
put() { PYTHONPATH="$root" "$python" -m benchmarks.results.document "$@"; }

if [ -z "$ancestor" ]; then
    say "train the published recipe"
    # sgd is share-alike and no part of our heads; the recipe gets the same data.
    exclude='[]'
    [ ! -d "$data/sgd" ] || exclude='[sgd]'
    "$toolheads" train fit --config "$root/configs/ancestor.yaml" --data.root "[$data]" \
        --data.cache "$cache" --data.exclude "$exclude" --calibration.alphas '[1.0]' \
        --runs "$work/runs" --name ancestor --overwrite true --trainer.enable_progress_bar false >&2
    ancestor=$work/runs/ancestor/heads.npz
fi

measure() {
    name=$1
    shift
    say "measure $name"
    "$toolheads" eval --data "$data" --json "$work/$name.json" "$@" >/dev/null
}
measure bm25 --scorer bm25
measure frozen --scorer dense --cache "$cache"
# The views and clauses that the packaged heads weigh, without the heads: what needs no training.
measure views --scorer dense --cache "$cache" --tool-views text=0.8,name=0.1,summary=0.1 \
    --query-views text=0.5,clause=0.5
measure ancestor --scorer clm --heads "$ancestor" --cache "$cache"
measure heads --scorer clm --heads "$heads" --cache "$cache"

say "render"
table() {
    "$toolheads" table "$work/bm25.json" "$work/frozen.json" "$work/views.json" \
        "$work/ancestor.json" "$work/heads.json" --label BM25 --label 'frozen vectors' \
        --label 'frozen, with views' --label 'published recipe' --label "$label" "$@"
}
table --summary --metric ndcg@10 --metric recall@5 --metric completeness@10 |
    put "$docs" summary
for metric in ndcg@10 recall@5 completeness@10; do
    table --metric "$metric" | put "$docs" "$(echo "$metric" | tr @ -)"
done
paired() {
    "$toolheads" compare "$work/$1.json" "$work/heads.json" --paired >"$work/$2.txt"
    # The paths in the first lines are those of one machine.
    sed -E 's/^(A|B): (.*) \([^()]*\)$/\1: \2  /' "$work/$2.txt" | put "$docs" "$2"
}
paired frozen paired
paired views paired-views
paired ancestor paired-ancestor
if grep -q '<!-- results:main -->' "$readme" 2>/dev/null; then
    table --summary --metric ndcg@10 --metric recall@5 --metric completeness@10 \
        --into "$readme" --marker main
else
    say "no <!-- results:main --> in $readme, left as it is"
fi
cat "$work/paired.txt"
say "written: $docs; reports in $work"
