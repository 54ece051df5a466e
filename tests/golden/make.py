"""Writes the golden heads file. Run by hand, once for each format version, never again.

PYTHONPATH=. python tests/golden/make.py
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from tests.made_heads import ALL_VIEWS, DEEP, PLAIN, made_head, made_heads

from toolheads.cutoff import CutoffSettings
from toolheads.heads import load_heads, save_heads
from toolheads.heads.files import FORMAT

FOLDER = Path(__file__).parent


def main() -> None:
    path = FOLDER / f"heads_v{FORMAT}.npz"
    if path.exists():
        raise SystemExit(f"{path} must not be there yet; a golden file is written once")
    heads = made_heads(
        state=replace(
            made_head(DEEP, alpha=0.7, seed=11), centre=np.arange(8, dtype=np.float32) / 16
        ),
        action=made_head(PLAIN, alpha=0.3, seed=12),
        views=ALL_VIEWS,
        cutoff=CutoffSettings(margin=0.15, max_k=8, min_k=2, threshold=0.3),
        training={"name": "golden", "seed": 11, "metrics": {"ndcg@10": 0.5}, "note": "é 工具"},
        widths=(2, 5),
    )
    save_heads(path, heads)
    loaded = load_heads(path)
    x = np.random.default_rng(13).normal(size=(6, 8)).astype(np.float32)
    narrow = {f"state_{width}": loaded.at_width(width).state(x) for width in (2, 5)}
    vectors = FOLDER / f"heads_v{FORMAT}_vectors.npz"
    np.savez(vectors, x=x, state=loaded.state(x), action=loaded.action(x), **narrow)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
