"""Mining tile by tile finds what mining over all scores finds, on numpy and on torch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from toolheads.errors import ConfigError  # noqa: E402
from toolheads.scorers.best import MeanScored, best  # noqa: E402
from toolheads.scorers.exact import (  # noqa: E402
    ProjectedTools,
    QueryProjections,
    multiplied,
)
from toolheads_train.labelling.device import multiply_on  # noqa: E402
from toolheads_train.labelling.mine import (  # noqa: E402
    Groups,
    MiningSettings,
    mined_rows,
    mined_tools,
)

pytestmark = pytest.mark.train

WIDTH = 8


def asked(seed, n, q, multiply=multiplied):
    """q queries against n tools of a few kinds of rows, so that there are ties."""
    rng = np.random.default_rng(seed)
    kinds = rng.standard_normal((max(1, n // 2), WIDTH)).astype(np.float32)
    tools = ProjectedTools.of_rows(kinds[rng.integers(len(kinds), size=n)])
    rows = rng.standard_normal((q, WIDTH)).astype(np.float32)
    queries = QueryProjections(rows, rows[:0], np.zeros(q + 1, np.int64), 1.0, 0.0)
    return tools.asked(queries, multiply=multiply)


@given(
    st.integers(0, 10_000),
    st.integers(2, 80),
    st.integers(1, 6),
    st.sampled_from([1, 9, 100, None]),
    st.sampled_from(["drop", "positive"]),
    st.integers(1, 5),
    st.booleans(),
)
def test_tiles_mine_what_all_scores_mine(seed, n, q, entries, relabel, first, of_two):
    rng = np.random.default_rng(seed + 1)
    trained, base = asked(seed, n, q), asked(seed + 5, n, q)
    if of_two:
        trained = MeanScored([trained, asked(seed + 7, n, q)])
    rights = [np.sort(rng.choice(n, rng.integers(1, min(n, 4)), replace=False)) for _ in range(q)]
    settings = MiningSettings(first, first + 6, margin=0.1, count=4, relabel=relabel)
    everything = np.arange(n)
    found = list(mined_tools(trained, base, rights, settings, tile_entries=entries))
    assert len(found) == q
    for row, (negatives, positives) in enumerate(found):
        is_right = np.isin(everything, rights[row])
        scores = trained.exact(row, everything), base.exact(row, everything)
        expected = mined_rows(*scores, is_right, settings)
        assert negatives.tolist() == expected[0].tolist()
        assert positives.tolist() == expected[1].tolist()


def test_a_device_finds_the_same_to_the_bit():
    here, there = (list(best(asked(3, 300, 9, m), 20)) for m in (multiplied, multiply_on("cpu")))
    for (rows, scores), (others, their) in zip(here, there, strict=True):
        assert rows.tolist() == others.tolist()
        assert scores.tolist() == their.tolist()


def test_products_on_a_device_are_those_of_float32(monkeypatch):
    seen = []
    plain = torch.Tensor.__matmul__

    def watched(one, two):
        seen.append((one.dtype, torch.get_float32_matmul_precision()))
        return plain(one, two)

    monkeypatch.setattr(torch.Tensor, "__matmul__", watched)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")  # as training on a GPU may set it
    try:
        one, two = np.eye(3, 4, dtype=np.float32), np.arange(8, dtype=np.float32).reshape(2, 4)
        np.testing.assert_array_equal(multiply_on("cpu")(one, two), one @ two.T)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)
    assert seen == [(torch.float32, "highest")]


def test_a_device_that_is_not_there_is_told():
    with pytest.raises(ConfigError, match="device must be auto, numpy or one that torch has"):
        multiply_on("abacus")


def test_tools_of_equal_texts_are_one_group():
    groups = Groups(["a", "b", "a", "\ud800", "b"])
    assert groups.rows([groups.number(4), groups.number(0)]).tolist() == [0, 1, 2, 4]
    assert groups.rows([groups.number(3)]).tolist() == [3]
    assert groups.rows([]).tolist() == []
