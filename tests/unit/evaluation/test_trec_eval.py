"""Our numbers against trec_eval's own code, which pytrec_eval calls."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.evaluation.builders import QRELS, RANKED, TOOL_IDS

from toolheads.evaluation.ranked import per_query_metrics
from toolheads.evaluation.trec import read_qrels, read_run

GOLDEN = Path("tests/golden/trec")
CUTOFFS = (1, 3, 5, 20)
THEIRS = {"ndcg": "ndcg_cut", "recall": "recall", "precision": "P", "map": "map_cut"}
NAMES = {f"{ours}@{k}": f"{theirs}_{k}" for ours, theirs in THEIRS.items() for k in CUTOFFS}


def trec_eval(run, qrels):
    """Metric → {query_id: value}, from run: query_id → {tool_id: score}."""
    depths = ",".join(map(str, CUTOFFS))
    wanted = {f"{theirs}.{depths}" for theirs in THEIRS.values()} | {"recip_rank"}
    found = pytrec_eval.RelevanceEvaluator(qrels, wanted).evaluate(run)
    names = NAMES | {"mrr@100": "recip_rank"}  # recip_rank has no cutoff; lists are shorter
    return {
        ours: {q: found.get(q, {}).get(theirs, 0.0) for q in qrels}
        for ours, theirs in names.items()
    }


@settings(max_examples=60)
@given(st.lists(st.tuples(RANKED, QRELS), min_size=1, max_size=5))
def test_ordered_lists_score_as_in_trec_eval(cases):
    qrels = {f"q{i}": judged for i, (_, judged) in enumerate(cases) if judged}
    run = {f"q{i}": ranked for i, (ranked, _) in enumerate(cases)}
    scored = {q: {t: float(-rank) for rank, t in enumerate(ranked)} for q, ranked in run.items()}
    want = trec_eval(scored, qrels)
    for name, values in per_query_metrics(run, qrels, list(want)).items():
        np.testing.assert_allclose(values, [want[name][q] for q in qrels], atol=1e-9)


@settings(max_examples=60)
@given(RANKED, QRELS.filter(bool), st.integers(1, 12))
def test_reciprocal_rank_is_that_of_the_list_cut_at_k(ranked, judged, cutoff):
    cut = {"q": {tool_id: float(-rank) for rank, tool_id in enumerate(ranked[:cutoff])}}
    want = trec_eval(cut, {"q": judged})["mrr@100"]["q"]
    got = per_query_metrics({"q": ranked}, {"q": judged}, [f"mrr@{cutoff}"])
    assert got[f"mrr@{cutoff}"][0] == pytest.approx(want)


SCORES = st.sampled_from([0.0, 0.5, 0.5 + 1e-9, 1.0, 1.5, -2.0])
"""Few values, so that ties are common; two of them are equal as float32."""


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from(TOOL_IDS), SCORES, min_size=1), QRELS.filter(bool))
def test_ties_in_a_file_are_ordered_as_in_trec_eval(tmp_path_factory, scored, judged):
    path = tmp_path_factory.mktemp("run") / "run.txt"
    path.write_text("".join(f"q Q0 {tool} 1 {score!r} t\n" for tool, score in scored.items()))
    want = trec_eval({"q": scored}, {"q": judged})
    for name, values in per_query_metrics(read_run(path), {"q": judged}, list(want)).items():
        assert values[0] == pytest.approx(want[name]["q"], abs=1e-9)


def test_the_golden_run_has_the_numbers_that_trec_eval_gave():
    expected = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))
    qrels = read_qrels(GOLDEN / "qrels.txt")
    names = list(next(iter(expected.values())))
    got = per_query_metrics(read_run(GOLDEN / "run.txt"), qrels, names)
    for at, query_id in enumerate(qrels):
        want = expected.get(query_id, dict.fromkeys(names, 0.0))  # q4 has no list
        assert {name: got[name][at] for name in names} == pytest.approx(want, abs=1e-9)


def test_the_golden_run_has_the_numbers_worked_out_by_hand():
    """q1: score order gamma, then the three at 0.5 by id from the back: epsilon, beta, alpha."""
    run = read_run(GOLDEN / "run.txt")
    assert run["q1"] == ["gamma", "epsilon", "beta", "alpha", "delta"]
    got = per_query_metrics(run, read_qrels(GOLDEN / "qrels.txt"), ["recall@3", "map@5", "mrr@5"])
    assert got["recall@3"][0] == pytest.approx(1 / 3)
    assert got["map@5"][0] == pytest.approx((1 / 2 + 2 / 4 + 3 / 5) / 3)
    assert got["mrr@5"][0] == pytest.approx(1 / 2)
