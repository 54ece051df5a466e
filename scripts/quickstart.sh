#!/bin/sh
# The whole path on the sample catalogue: embed, train, verify, evaluate, search.
# Run by `make quickstart`; each step is a command a user would type.
set -eu

OUT=quickstart-run
CACHE=$OUT/cache
HEADS=$OUT/train/heads.npz
rm -rf "$OUT"
mkdir -p "$OUT"
say() { printf '\n== %s\n' "$*"; }

say "1/6 embed the sample catalogue with the local encoder"
toolheads embed --data sample --cache "$CACHE" --views text,name,summary --clauses

say "2/6 train two heads on the cached vectors"
toolheads train fit --config configs/quickstart.yaml

say "3/6 verify the exported heads"
toolheads heads verify "$HEADS"

say "4/6 evaluate on tools that training never saw: keywords, frozen vectors, trained heads"
toolheads eval --data sample --cache "$CACHE" --scorer bm25 --json "$OUT/bm25.json"
toolheads eval --data sample --cache "$CACHE" --scorer dense --json "$OUT/frozen.json"
toolheads eval --data sample --cache "$CACHE" --scorer clm --heads "$HEADS" --json "$OUT/heads.json"

say "5/6 compare the heads with the frozen vectors and with keywords"
toolheads compare "$OUT/frozen.json" "$OUT/heads.json" --paired
toolheads compare "$OUT/bm25.json" "$OUT/heads.json" --paired

say "6/6 search"
toolheads search "turn the heating in greenhouse 3 down a bit tonight" \
  --data sample --cache "$CACHE" --heads "$HEADS"

say "look at"
find "$OUT/train" -name '*.png' -o -name 'README.md' -o -name 'card.md' | sort
