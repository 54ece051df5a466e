"""Files of every format version, written once by make.py; a change here breaks released heads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from toolheads.cutoff import CutoffSettings
from toolheads.heads import Architecture, load_heads, save_heads

FOLDER = Path(__file__).parent
SHA256 = {"heads_v1": "7480cecee914f79216db2586f3138a6b3d6f26b883304bcba6f48f574cbe8b76"}


@pytest.mark.parametrize("name", SHA256)
def test_golden_heads_still_give_the_same_projections(name):
    heads = load_heads(FOLDER / f"{name}.npz", sha256=SHA256[name])
    with np.load(FOLDER / f"{name}_vectors.npz") as vectors:
        np.testing.assert_allclose(heads.state(vectors["x"]), vectors["state"], atol=1e-6)
        np.testing.assert_allclose(heads.action(vectors["x"]), vectors["action"], atol=1e-6)


def test_the_header_of_format_1_still_says_the_same():
    heads = load_heads(FOLDER / "heads_v1.npz")
    assert heads.state.architecture == Architecture(
        8, hidden=(6, 5), input_scaling="layernorm", hidden_norm=True
    )
    assert (heads.state.alpha, heads.action.alpha) == (0.7, 0.3)
    assert heads.header.cutoff == CutoffSettings(margin=0.15, max_k=8, min_k=2, threshold=0.3)
    assert heads.header.views.to_json() == {
        "tool": {"text": 0.6, "name": 0.3, "summary": 0.1},
        "query": {"text": 0.7, "clause": 0.3},
    }
    assert heads.fingerprint.encoder.model == "made"
    assert dict(heads.header.training) == {
        "name": "golden",
        "seed": 11,
        "metrics": {"ndcg@10": 0.5},
        "note": "é 工具",
    }


def test_format_1_is_still_written_to_the_byte(tmp_path):
    assert save_heads(tmp_path / "h.npz", load_heads(FOLDER / "heads_v1.npz")) == SHA256["heads_v1"]
