"""Files of every format version, written once by make.py; a change here breaks released heads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from toolheads.cutoff import CutoffSettings
from toolheads.heads import Architecture, load_heads, save_heads
from toolheads.heads.files import header_json

FOLDER = Path(__file__).parent
SHA256 = {
    "heads_v1": "7480cecee914f79216db2586f3138a6b3d6f26b883304bcba6f48f574cbe8b76",
    "heads_v2": "ce4f27c3abbd1dccdd89a9dec74acb9db3a46682621d3a7c267b64f424cd404c",
}


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


def test_the_header_of_format_2_still_says_the_same():
    heads = load_heads(FOLDER / "heads_v2.npz")
    assert heads.header.widths == (2, 5)
    assert heads.state.centre is not None
    np.testing.assert_array_equal(heads.state.centre, np.arange(8, dtype=np.float32) / 16)
    assert heads.action.centre is None
    assert heads.fusion is None
    assert heads.name == "golden"


def test_golden_heads_still_give_the_same_projections_at_every_width():
    heads = load_heads(FOLDER / "heads_v2.npz")
    with np.load(FOLDER / "heads_v2_vectors.npz") as vectors:
        for width in (2, 5):
            narrow, want = heads.at_width(width), vectors[f"state_{width}"]
            np.testing.assert_allclose(narrow.state(vectors["x"]), want, atol=1e-6)


def test_format_2_is_still_written_to_the_byte(tmp_path):
    assert save_heads(tmp_path / "h.npz", load_heads(FOLDER / "heads_v2.npz")) == SHA256["heads_v2"]


def test_format_1_saved_anew_is_format_2_and_projects_the_same(tmp_path):
    old = load_heads(FOLDER / "heads_v1.npz")
    save_heads(tmp_path / "h.npz", old)
    new = load_heads(tmp_path / "h.npz")
    assert header_json(new)["format"] == 2
    assert (new.header, new.sha256 == old.sha256) == (old.header, False)
    x = np.random.default_rng(1).normal(size=(5, 8))
    np.testing.assert_array_equal(new.state(x), old.state(x))
