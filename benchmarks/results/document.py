"""Puts text that a command printed between two markers of a document.

python -m benchmarks.results.document DOCUMENT MARKER < TEXT
"""

from __future__ import annotations

import sys
from pathlib import Path

from toolheads.data.jsonl import write_lines
from toolheads.errors import ConfigError
from toolheads.evaluation.table import put_between_markers

BLOCKS = (
    *("summary", "unseen", "unseen-paired", "unseen-alone"),
    *("mpnet", "mpnet-paired", "mpnet-alone", "fusion", "switches", "in-domain"),
    *("ndcg@10", "recall@5", "completeness@10"),
    *("paired", "paired-mixed", "paired-ancestor"),
)
"""Names of the markers in a new document, in order."""

_TITLES = {
    "summary": "",
    "unseen": "## Catalogues whose tools no training request names",
    "unseen-paired": "### The whole scorer against frozen vectors there, query by query",
    "unseen-alone": "### Heads alone against frozen vectors there, query by query",
    "mpnet": "## The same catalogues with all-mpnet-base-v2",
    "mpnet-paired": "### The whole scorer against frozen vectors there, query by query",
    "mpnet-alone": "### Heads alone against frozen vectors there, query by query",
    "fusion": "## What each part is worth, on training requests, without heads",
    "switches": "## What each switch of the trainer does to heads alone, on data sets left out",
    "in-domain": "## Heads for one catalogue against a probe",
    "ndcg@10": "## nDCG@10",
    "recall@5": "## R@5",
    "completeness@10": "## C@10",
    "paired": "## Heads against frozen vectors, query by query",
    "paired-mixed": "## Heads against the same scorer without them: what training alone adds",
    "paired-ancestor": "## Heads against the published recipe, query by query",
}


def main() -> int:
    """Replace one block; a document that is not there yet is begun."""
    path, marker = Path(sys.argv[1]), sys.argv[2]
    text = path.read_text(encoding="utf-8") if path.exists() else new_document()
    try:
        changed = put_between_markers(text, marker, sys.stdin.read())
    except ConfigError as e:
        sys.stderr.write(f"{path}: {e}\n")
        return 1
    write_lines(path, [changed.removesuffix("\n").encode()])
    return 0


def new_document() -> str:
    """A document with all markers and nothing between them."""
    parts = [
        "# Results",
        "Rendered by `benchmarks/results/run.sh DATA_DIR` from reports of `toolheads eval`; the "
        "protocol and the statistics are described in [evaluation.md](evaluation.md). Values are "
        "in percent with 95 % bootstrap intervals over queries; each query is ranked over all "
        "tools of its own data set. The macro average counts each data set the same.",
    ]
    for name in BLOCKS:
        block = (
            f"<!-- results:{name.replace('@', '-')} -->\n<!-- /results:{name.replace('@', '-')} -->"
        )
        parts += [part for part in (_TITLES[name], block) if part]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
