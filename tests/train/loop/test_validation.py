from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.train.synthetic import pairs, unit, validation_of  # noqa: E402

from toolheads.errors import ConfigError  # noqa: E402
from toolheads.evaluation.metrics import ndcg  # noqa: E402
from toolheads.heads.architecture import Architecture  # noqa: E402
from toolheads_train.errors import NotFiniteError  # noqa: E402
from toolheads_train.loop import validation  # noqa: E402
from toolheads_train.loop.validation import top_k, validate  # noqa: E402
from toolheads_train.model.heads import TwoHeads  # noqa: E402

pytestmark = pytest.mark.train

HEADS = TwoHeads(Architecture(16, hidden=(4,)))


@pytest.mark.parametrize("tiles", [(512, 16_384), (3, 7)])
def test_tiled_top_k_equals_a_stable_sort_of_all_scores(monkeypatch, tiles):
    monkeypatch.setattr(validation, "QUERY_TILE", tiles[0])
    monkeypatch.setattr(validation, "TOOL_TILE", tiles[1])
    queries, tools = torch.from_numpy(unit(10)), torch.from_numpy(unit(40, seed=1))
    want = np.argsort(-(queries @ tools.T).numpy(), axis=1, kind="stable")[:, :9]
    np.testing.assert_array_equal(top_k(queries, tools, 9).numpy(), want)


@pytest.mark.parametrize("tile", [16_384, 4])
def test_equal_scores_are_ordered_by_row(monkeypatch, tile):
    monkeypatch.setattr(validation, "TOOL_TILE", tile)
    tools = torch.tensor([[0.0], [1.0], [-1.0], [1.0], [0.0], [1.0], [-0.0], [-1.0]])
    got = top_k(torch.ones(2, 1), tools, 8)
    assert got.tolist() == [[1, 3, 5, 0, 4, 6, 2, 7]] * 2


def test_k_beyond_the_corpus_gives_the_whole_corpus():
    assert top_k(torch.ones(1, 1), torch.tensor([[0.1], [0.3]]), 10).tolist() == [[1, 0]]


def test_the_metric_of_the_log_is_the_metric_of_a_report():
    source = pairs(30)
    found = validate(HEADS, [validation_of(source)], torch.ones(1), ["ndcg@10"])
    order = np.argsort(-(source.queries @ source.tools.T), axis=1, kind="stable")
    want = [ndcg([str(r) for r in order[i]], {str(i): 1}, 10) for i in range(30)]
    assert found["toy"]["ndcg@10"] == pytest.approx(np.mean(want), abs=1e-9)


def test_the_macro_mean_weighs_small_sets_like_large_ones():
    sets = [validation_of(pairs(40, name="a")), validation_of(pairs(5, name="b", seed=3))]
    found = validate(HEADS, sets, torch.ones(1), ["mrr@10"])
    want = (found["a"]["mrr@10"] + found["b"]["mrr@10"]) / 2
    assert found[""]["mrr@10"] == pytest.approx(want)


def test_a_projection_that_is_not_finite_stops_with_the_name_of_the_set():
    one = validation_of(pairs(5))
    queries = one.queries.clone()
    queries[2] = torch.inf
    with pytest.raises(NotFiniteError, match=r"queries in validation set toy .* first row 2"):
        validate(HEADS, [replace(one, queries=queries)], torch.ones(1))


def test_validation_without_a_set_is_refused():
    with pytest.raises(ConfigError, match="at least one set"):
        validate(HEADS, [], torch.ones(1))
