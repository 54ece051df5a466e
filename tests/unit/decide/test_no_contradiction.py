"""What holds of every catalogue: `resolve` and `shortlist` say the same."""

import copy

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.decide.made import names, picker, tool

from toolheads.decide import Absent, Ambiguous, Bind, Picker, PickerSettings, RowSimilarity

eighths = st.integers(-4, 10).map(lambda n: n / 8)


@st.composite
def catalogues(draw):
    """Few servers, few scores and few rows, so that ties, twins and boundaries are common."""
    n = draw(st.integers(0, 7))
    hints = st.sampled_from([{}, {"readOnly": True}, {"destructive": False}])
    servers = [draw(st.sampled_from(["a", "b"])) for _ in range(n)]
    tools = [tool(f"t{i}", server, **draw(hints)) for i, server in enumerate(servers)]
    scores = [draw(st.none() | eighths) for _ in range(n)]
    rows = [draw(st.sampled_from([[1, 0], [0, 1], [0.6, 0.8]])) for _ in range(n)]
    settings = PickerSettings(
        similarity_floor=draw(st.sampled_from([0.0, 0.25, 0.5, 1.0])),
        margin=draw(st.sampled_from([0.0, 0.125, 0.25, 1.0])),
        duplicate_threshold=draw(st.sampled_from([0.0, 0.75, 1.0])),
        solo_floor=draw(st.sampled_from([0.0, 0.25, 1.0])),
        top_k=draw(st.integers(1, 4)),
    )
    return picker(tools, scores, settings, rows=np.reshape(rows, (n, 2)))


@given(catalogues())
def test_resolve_and_shortlist_cannot_contradict(one):
    decision, everything = one.resolve("x"), one.shortlist("x", 99)
    assert isinstance(decision, Absent) == (everything == ())
    assert isinstance(decision, Bind) == (len(everything) == 1)
    assert set(names(decision.hits)) <= set(names(everything))
    assert decision.hits[:1] == everything[:1]
    if isinstance(decision, Ambiguous):
        assert decision.hits == everything[: len(decision.hits)]


@given(catalogues())
def test_a_shorter_list_is_the_start_of_a_longer_one(one):
    everything = one.shortlist("x", 99)
    for limit in range(len(everything) + 1):
        assert one.shortlist("x", limit) == everything[:limit]


@given(catalogues(), st.integers(1, 4))
def test_top_k_changes_how_many_are_named_and_nothing_else(one, top_k):
    other = one.with_settings(one.settings.changed(top_k=top_k))
    first, second = one.resolve("x"), other.resolve("x")
    assert first.outcome == second.outcome
    assert first.hits[:2] == second.hits[:2]


@given(catalogues())
def test_a_higher_floor_never_binds_what_a_lower_one_did_not_offer(one):
    if not isinstance(one.resolve("x"), Absent):
        return
    higher = min(1.0, one.settings.similarity_floor + 0.25)
    strict = one.with_settings(one.settings.changed(similarity_floor=higher, solo_floor=1.0))
    assert isinstance(strict.resolve("x"), Absent)


@given(catalogues(), st.floats(0.5, 4.0))
def test_the_unit_of_scores_changes_no_decision(one, unit):
    unit = float(np.exp2(np.round(np.log2(unit))))  # exact in binary
    scorer = copy.copy(one._scorer)
    scorer.scores = [None if s is None else s * unit for s in scorer.scores]
    other = Picker(
        one.tools,
        scorer,
        one.settings.changed(score_unit=unit),
        similarity=lambda tools: one._catalogue.similarity or RowSimilarity(np.empty((0, 2))),
    )
    assert other.resolve("x") == one.resolve("x")
