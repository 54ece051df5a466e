"""What is chosen after training: share, weights of views, margin."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.train.synthetic import pairs, turned, unit, validation_of  # noqa: E402

from toolheads.cutoff import CutoffSettings  # noqa: E402
from toolheads.errors import ConfigError  # noqa: E402
from toolheads.heads import Architecture, Views  # noqa: E402
from toolheads.scorers.exact import ProjectedTools, QueryProjections  # noqa: E402
from toolheads_train.loop.validation import validate  # noqa: E402
from toolheads_train.model.heads import TwoHeads  # noqa: E402
from toolheads_train.outcome.calibration import (  # noqa: E402
    CalibrationSettings,
    MarginPoint,
    best_of,
    calibrate,
    choose_margin,
    cut_lengths,
    scaled,
)
from toolheads_train.outcome.export import to_head  # noqa: E402

pytestmark = pytest.mark.train

TEXT = {"text": 1.0}


def noisy_heads(strength, d=16, seed=0, **settings):
    """Heads whose last layer is random: they move every vector somewhere."""
    torch.manual_seed(seed)
    heads = TwoHeads(Architecture(d, hidden=(8,)), **settings)
    with torch.no_grad():
        for head in (heads.state, heads.action):
            head.out.weight.normal_(std=strength)
    return heads


def plain_set(n=40):
    """Queries that are near their tools: any change of the vectors hurts."""
    source = pairs(n)
    near = replace(source, queries=turned(source.tools, strength=0.1))
    return validation_of(near)


def with_clauses(one, counts, seed=3):
    """The set with so many random clauses of each query, and a random second view of its tools."""
    offsets = tuple(int(x) for x in np.cumsum([0, *counts]))
    return replace(
        one,
        clauses=torch.from_numpy(unit(max(offsets[-1], 1), seed=seed)[: offsets[-1]]),
        clause_offsets=offsets,
        other_views={"name": torch.from_numpy(unit(len(one.tools), seed=seed + 1))},
    )


def point(margin, recall, length=1.0):
    return MarginPoint(margin, recall, recall, length)


def test_nothing_is_kept_of_a_training_that_hurt():
    found = calibrate(noisy_heads(3.0), [plain_set()], TEXT, CalibrationSettings())
    assert found.share == 0
    assert found.trained[""]["ndcg@10"] < found.frozen[""]["ndcg@10"]
    assert found.chosen == found.frozen


def test_equal_shares_leave_the_smallest():
    untrained = TwoHeads(Architecture(16, hidden=(8,)))
    found = calibrate(untrained, [plain_set()], TEXT, CalibrationSettings(alphas=(1.0, 0.4)))
    assert found.share == 0.4
    assert len(set(found.shares.values())) == 1


def test_a_share_is_kept_of_a_training_that_helped():
    source = pairs(64)
    turn = np.linalg.lstsq(source.queries, source.tools, rcond=None)[0]
    heads = TwoHeads(Architecture(16, hidden=()), freeze_action=True)
    with torch.no_grad():
        heads.state.out.weight.copy_(torch.from_numpy(10 * turn.T))
    found = calibrate(heads, [validation_of(source)], TEXT, CalibrationSettings())
    assert found.share > 0
    assert found.chosen[""]["ndcg@10"] > found.frozen[""]["ndcg@10"]


def test_the_numbers_are_those_of_the_validation_during_training():
    heads, one = noisy_heads(0.5), validation_of(pairs(40))
    found = calibrate(heads, [one], TEXT, CalibrationSettings(alphas=(1.0,)))
    assert found.trained == validate(heads, [one], torch.tensor([1.0]))


def test_the_heads_are_afterwards_what_they_were():
    heads = noisy_heads(0.5, alpha=0.7)
    before = {name: value.clone() for name, value in heads.state_dict().items()}
    calibrate(heads, [plain_set()], TEXT, CalibrationSettings())
    assert all(torch.equal(before[name], value) for name, value in heads.state_dict().items())


def test_a_share_is_a_share_of_the_alpha_of_training_also_of_one_head_for_both():
    heads = noisy_heads(0.5, alpha=0.5, shared=True)
    with scaled(heads, 0.4):
        assert float(heads.state.alpha) == pytest.approx(0.2)
    assert float(heads.state.alpha) == 0.5


def test_scores_and_rows_are_those_that_are_served():
    """Clauses, views and ties of counts included: the ranking is the scorer's."""
    heads = noisy_heads(0.3)
    one = with_clauses(plain_set(30), [0, 3, 1] * 10)
    views = Views(tool={"text": 0.7, "name": 0.3}, query={"text": 0.75, "clause": 0.25})
    settings = CalibrationSettings(
        alphas=(1.0,),
        tool_weights=({"text": 0.7, "name": 0.3},),
        clause_weights=(0.25,),
        margins=(0.5,),
    )
    found = calibrate(heads, [one], TEXT, settings)
    assert found.views == views
    state, action = to_head(heads.state), to_head(heads.action)
    tools = ProjectedTools(
        {"text": one.tools[:, 0].numpy(), "name": one.other_views["name"].numpy()},
        {"text": 0.7, "name": 0.3},
        action,
    )
    queries = QueryProjections(
        whole=state(one.queries.numpy()),
        clauses=state(one.clauses.numpy()),
        offsets=np.array(one.clause_offsets),
        whole_weight=0.75,
        clause_weight=0.25,
    )
    ranked = list(tools.top(queries, 10))
    hits = [query in rows for query, (rows, _) in enumerate(ranked)]
    assert found.chosen[""]["recall@10"] == pytest.approx(np.mean(hits))
    lengths = [CutoffSettings(margin=0.5).count(scores) for _, scores in ranked]
    assert found.margins[0].length == pytest.approx(np.mean(lengths))


def test_the_weights_with_the_best_ranking_are_taken_and_all_are_reported():
    one = plain_set(30)
    right = replace(one, clauses=one.queries, clause_offsets=tuple(range(31)))
    lost = replace(right, queries=torch.from_numpy(unit(30, seed=9)))  # only clauses know
    settings = CalibrationSettings(alphas=(0.0,), clause_weights=(0.5, 0.0, 0.25))
    found = calibrate(noisy_heads(1.0), [lost], TEXT, settings)
    assert found.views.query == {"text": 0.5, "clause": 0.5}
    assert [dict(views.query).get("clause", 0.0) for views, _ in found.weights] == [0.0, 0.25, 0.5]
    assert found.weights[0][1] == found.frozen[""]["ndcg@10"]


def test_the_margin_rule_on_a_case_worked_by_hand():
    """10 hits find 0.80, so 0.792 is enough: 0.2 has 0.795, 0.1 has only 0.79."""
    points = [point(0.2, 0.795), point(0.05, 0.7), point(0.1, 0.79), point(0.3, 0.8)]
    assert choose_margin(points, 0.8, 0.01) == 0.2
    assert choose_margin(points, 0.8, 0.0) == 0.3
    assert choose_margin(points, 0.8, 0.02) == 0.1
    assert choose_margin(points[:3], 0.8, 0.0) == 0.2  # none qualifies: the largest


def test_a_margin_of_no_use_falls_back_to_one_that_shows_all():
    one = validation_of(pairs(40))
    settings = CalibrationSettings(alphas=(0.0,), margins=(0.0,), recall_loss=0.0)
    found = calibrate(noisy_heads(0.5), [one], TEXT, settings)
    assert found.cutoff.margin == 2.0
    assert found.margins[-1].recall == found.fixed.recall
    assert found.margins[-1].length == 10
    assert math.isnan(found.fixed.margin)


def test_the_length_of_a_list_is_that_of_the_served_cut():
    rng = np.random.default_rng(0)
    scores = -np.sort(-rng.normal(scale=0.2, size=(200, 6)).astype(np.float32), axis=1)
    scores[0] = [0.6, 0.4, 0.39, 0.1, 0.0, -0.1]  # 0.4 lies on the edge and stays
    for max_k, min_k in ((6, 1), (10, 3), (6, 0)):
        settings = CalibrationSettings(max_k=max_k, min_k=min_k)
        served = CutoffSettings(margin=0.2, max_k=max_k, min_k=min_k)
        expected = [served.count(row) for row in scores]
        assert cut_lengths(scores, 0.2, settings).tolist() == expected


def test_the_mean_is_over_data_sets_not_over_queries():
    small, large = plain_set(4), replace(validation_of(pairs(60)), name="large")
    found = calibrate(noisy_heads(1.0), [small, large], TEXT, CalibrationSettings())
    values = [found.frozen[name]["ndcg@10"] for name in ("toy", "large")]
    assert found.frozen[""]["ndcg@10"] == pytest.approx(sum(values) / 2)


def test_a_view_without_embeddings_is_refused():
    for settings, view in (
        (CalibrationSettings(clause_weights=(0.0, 0.5)), "clause"),
        (CalibrationSettings(tool_weights=({"text": 0.5, "summary": 0.5},)), "summary"),
    ):
        with pytest.raises(ConfigError, match=f"got '{view}'; name it in data.validation_views"):
            calibrate(noisy_heads(0.5), [plain_set()], TEXT, settings)
    assert CalibrationSettings(clause_weights=(0.0,)).views == ()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("alphas", ()),
        ("alphas", (1.5,)),
        ("clause_weights", (math.nan,)),
        ("margins", (-0.1,)),
        ("recall_loss", 1.0),
    ],
)
def test_a_setting_out_of_its_range_is_refused(setting, value):
    with pytest.raises(ConfigError, match=f"calibration.{setting} must be"):
        CalibrationSettings(**{setting: value})


def test_the_first_of_equal_values_is_the_best():
    assert best_of({0.0: 0.5, 0.2: 0.5 + 1e-12, 1.0: 0.4}) == 0.0
