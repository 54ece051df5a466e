#!/bin/sh
# The results table: keywords, frozen vectors, the published recipe and our heads, on every data
# set of a folder that has test queries.
#
#   benchmarks/results/run.sh DATA_DIR [--cache DIR] [--heads NAME|FILE] [--ancestor FILE]
#                             [--work DIR] [--docs FILE] [--readme FILE] [--label TEXT] [--keep]
#
# The work folder is also where mpnet.sh looks for the keyword report.
# Writes docs/results.md and, where README.md has the markers, its table (results:main). Without
# --ancestor the heads of the published recipe are trained first (configs/ancestor.yaml). Reports
# stay in the work folder; one that is there already is measured
# again unless --keep is given.
# toolheads is taken from $TOOLHEADS_PYTHON's environment, by default that of `make quickstart`.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
python=${TOOLHEADS_PYTHON:-$root/.venv/bin/python}
work=$here/work cache='' heads=minilm ancestor='' label='' data='' keep=''
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
    --keep)
        keep=1
        shift ;;
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
    [ -z "$keep" ] || [ ! -f "$work/$name.json" ] || return 0
    say "measure $name"
    "$toolheads" eval --data "$data" --json "$work/$name.json" "$@" >/dev/null
}
measure bm25 --scorer bm25
measure frozen --scorer dense --cache "$cache"
measure ancestor --scorer clm --heads "$ancestor" --cache "$cache"
measure heads --scorer clm --heads "$heads" --cache "$cache"
# The same file with parts switched off: what needs no training, and what training is worth alone.
measure mixed --scorer clm --heads "$heads" --cache "$cache" --without heads
measure alone --scorer clm --heads "$heads" --cache "$cache" --without views,clauses,lexical

say "render"
# Catalogues whose tools no training request names; of seal_tools, the requests for unseen fields.
unseen=livemcpbench,mcp_bench,toolret_apigen,bfcl,bfcl_multi_turn,autotools,api_bank,toolalpaca
unseen=$unseen,tau2_bench,rotbench,tooltalk,toolbench,seal_tools
for report in bm25 frozen ancestor alone mixed heads; do
    PYTHONPATH="$root" "$python" -m benchmarks.results.choose "$work/$report.json" \
        "$work/unseen-$report.json" --sets "$unseen" --only seal_tools=part:test_out_domain \
        --data "$data"
done
table() {
    of=$1
    shift
    "$toolheads" table "$of"bm25.json "$of"frozen.json "$of"ancestor.json "$of"alone.json \
        "$of"mixed.json "$of"heads.json --label BM25 --label 'frozen vectors' \
        --label 'published recipe' --label 'heads alone' --label 'all but heads' \
        --label "$label" "$@"
}
summary() {
    table "$1" --summary --metric ndcg@10 --metric recall@5 --metric completeness@10
}
summary "$work/" | put "$docs" summary
table "$work/unseen-" --metric ndcg@10 | put "$docs" unseen
for metric in ndcg@10 recall@5 completeness@10; do
    table "$work/" --metric "$metric" | put "$docs" "$(echo "$metric" | tr @ -)"
done
paired() {
    "$toolheads" compare "$work/$1.json" "$work/$2.json" --paired >"$work/$3.txt"
    # The paths in the first lines are those of one machine.
    sed -E 's/^(A|B): (.*) \([^()]*\)$/\1: \2  /' "$work/$3.txt" | put "$docs" "$3"
}
paired frozen heads paired
paired mixed heads paired-mixed
paired ancestor heads paired-ancestor
paired unseen-frozen unseen-heads unseen-paired
paired unseen-frozen unseen-alone unseen-alone
if grep -q '<!-- results:main -->' "$readme" 2>/dev/null; then
    table "$work/" --summary --metric ndcg@10 --metric recall@5 --metric completeness@10 \
        --into "$readme" --marker main
else
    say "no <!-- results:main --> in $readme, left as it is"
fi
cat "$work/paired.txt"
say "written: $docs; reports in $work"
