"""Thresholds that come with packaged heads, and floors that say when nothing matches."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import numpy as np
import pytest
from tests.hash_encoder import HashEncoder
from tests.made_heads import made_head, made_heads
from tests.unit.decide.test_calibration import TOOLS, made_dataset
from tests.unit.decide.test_thresholds import drawn, episodes, leads

import toolheads
from toolheads.decide import (
    CalibrationSettings,
    KindsOfThresholds,
    Picker,
    PickerSettings,
    calibrate,
    packaged_settings,
    packaged_thresholds,
)
from toolheads.decide.calibration import save_kinds, subject_of
from toolheads.decide.calibration.conformal import highest_floor
from toolheads.decide.calibration.match_floor import (
    fit_match_floor,
    floor_across,
    match_shares,
)
from toolheads.decide.calibration.subject import Range
from toolheads.durable import file_sha256
from toolheads.embedder import Embedder
from toolheads.entrypoints.cli import main
from toolheads.errors import CalibrationError, DigestError
from toolheads.heads import Architecture, digests, save_heads
from toolheads.scorers.bm25 import BM25Scorer
from toolheads.scorers.clm import CLMScorer

D = 32
SETTINGS = CalibrationSettings(targets=(0.05, 0.1))


def test_a_floor_is_as_high_as_the_bound_allows():
    """99 queries, alpha 0.02: one of them may be lost."""
    scores = np.linspace(0.01, 0.99, 99).astype(np.float32)
    assert highest_floor(scores, 0.02) == pytest.approx(0.02)
    assert highest_floor(scores, 0.01) == pytest.approx(0.01)
    assert highest_floor(scores[:98], 0.01) is None


def test_queries_without_any_hit_may_leave_no_floor():
    assert highest_floor(np.full(99, -np.inf, np.float32), 0.02) is None


@pytest.mark.parametrize("alpha", [0.02, 0.1])
def test_new_queries_are_told_nothing_by_mistake_as_rarely_as_promised_on_average(alpha):
    rng = np.random.default_rng(3)
    missed = []
    for _ in range(60):
        floor = fit_match_floor([drawn(400, rng)], alpha)
        assert floor is not None
        missed.append(match_shares([drawn(1000, rng)], floor.score)[0])
    assert np.mean(missed) < alpha + 0.006  # four standard errors over 60 sets
    assert np.mean(missed) > alpha / 2


def test_a_data_set_with_low_scores_keeps_the_bound_of_its_own():
    high, low = [0.9] * 1000, [0.3] * 100
    both = [episodes(leads(high), leads(high)), episodes(leads(low), leads(low))]
    floor = fit_match_floor(both, 0.1)
    assert floor is not None
    assert floor.score < 0.3
    assert match_shares(both[1:], floor.score) == (0.0, 0.0)


def test_a_data_set_of_few_queries_counts_among_all():
    both = [
        episodes(leads([0.9] * 1000), leads([0.5] * 1000)),
        episodes(leads([0.3] * 19), leads([0.3] * 19)),
    ]
    floor = fit_match_floor(both, 0.1)
    assert floor is not None
    assert floor.score == pytest.approx(0.9, abs=1e-6)
    assert floor.missed == pytest.approx(19 / 1019)
    assert floor.noticed == 1.0


def test_too_few_queries_give_no_floor():
    assert fit_match_floor([episodes(leads([0.9] * 9), leads([0.9] * 9))], 0.05) is None


@pytest.mark.parametrize("n", [3, 5, 10])
def test_a_floor_across_data_sets_holds_for_nineteen_of_twenty_new_ones(n):
    """Data sets whose lowest scores differ; within each, one query in a hundred is far below."""
    rng, held, sets = np.random.default_rng(5), 0, 1500
    for _ in range(sets):
        lows = rng.normal(0.6, 0.1, n + 1)
        known = [np.concatenate([[0.0], np.full(99, low)]).astype(np.float32) for low in lows[:n]]
        held += floor_across(known, 0.02) <= lows[n]
    assert held / sets == pytest.approx(0.95, abs=0.025)  # four standard errors


def test_a_floor_across_data_sets_takes_the_lowest_score_of_few_queries():
    sets = [np.array([0.2, 0.9, 0.9], np.float32)] * 3
    assert floor_across(sets, 0.01) == pytest.approx(0.2)
    with pytest.raises(CalibrationError, match="at least 3"):
        floor_across(sets[:2], 0.01)


def scorer_of(seed=1):
    embedder = Embedder(HashEncoder(D))
    head = made_head(Architecture(D, hidden=(8,)), alpha=0.01, seed=seed)
    heads = made_heads(
        state=head, action=head, fingerprint=embedder.fingerprint, probe=embedder.probe()
    )
    return heads, CLMScorer(heads, embedder)


@pytest.fixture(scope="module")
def fitted():
    """Thresholds for all tools, and for a few of them."""
    _, scorer = scorer_of()
    few = [tool for tool in TOOLS if tool.name.endswith(("mail", "song"))][:8]
    small = made_dataset("few", few)
    return tuple(calibrate(scorer, [one], SETTINGS) for one in (made_dataset(), small))


@pytest.fixture
def packaged(tmp_path, monkeypatch, fitted):
    heads, _ = scorer_of()
    sha256 = save_heads(tmp_path / "small.npz", heads, dtype="float32")
    path = save_kinds(tmp_path / "small.thresholds.json", KindsOfThresholds(fitted))
    entry = {"sha256": sha256, "description": "", "thresholds": file_sha256(path)}
    (tmp_path / "index.json").write_text(json.dumps({"small.npz": entry}), encoding="utf-8")
    monkeypatch.setattr(digests, "packaged_folder", lambda: tmp_path)
    return tmp_path


def test_a_picker_takes_the_thresholds_that_come_with_its_heads(packaged, fitted):
    _, scorer = scorer_of()
    assert packaged_settings(scorer, TOOLS) == fitted[0].settings(0.05)
    picker = Picker(TOOLS, scorer)
    assert picker.settings == fitted[0].settings(0.05)
    few = TOOLS[:8]
    assert picker.rebuild(few).settings == fitted[1].settings(0.05)
    own = PickerSettings(similarity_floor=0.1)
    assert Picker(TOOLS, scorer_of()[1], own).settings == own


def test_the_thresholds_of_the_nearest_kind_of_catalogue_are_taken(packaged, fitted):
    kinds = packaged_thresholds(subject_of(scorer_of()[1]))
    assert kinds is not None
    assert kinds.of(TOOLS[:12]) == fitted[1]
    assert kinds.of(TOOLS[:60]) == fitted[0]


def test_a_catalogue_without_parameters_takes_the_thresholds_of_such_ones(fitted):
    bare = fitted[0]
    parameters = replace(bare.kind, with_schema=Range(0.4, 1.0))
    kinds = KindsOfThresholds((replace(bare, kind=parameters), bare))
    assert kinds.of(TOOLS) == bare
    with_some = [replace(t, input_schema={"properties": {"p": {}}}) for t in TOOLS]
    assert kinds.of(with_some).kind == parameters


def test_thresholds_of_other_heads_and_for_other_catalogues_are_not_taken(packaged):
    _, other = scorer_of(seed=2)
    assert packaged_settings(other, TOOLS) is None
    assert Picker(TOOLS, other).settings == PickerSettings()
    assert packaged_settings(BM25Scorer(), TOOLS) is None
    _, scorer = scorer_of()
    strange = [replace(tool, description="word " * 30) for tool in TOOLS]
    for tools, said in ((TOOLS[:1], "1 tools, not"), (strange, "descriptions of 30 words")):
        with pytest.raises(CalibrationError, match=said):
            Picker(tools, scorer)


def test_thresholds_that_were_changed_or_are_missing_stop_the_loading(packaged):
    _, scorer = scorer_of()
    path = packaged / "small.thresholds.json"
    path.write_bytes(path.read_bytes().replace(b"0.05", b"0.06", 1))
    with pytest.raises(DigestError, match=r"small.thresholds.json must have sha256"):
        Picker(TOOLS, scorer)
    path.unlink()
    with pytest.raises(CalibrationError, match="must be there, got No such file"):
        Picker(TOOLS, scorer)


def test_verifying_packaged_heads_verifies_their_thresholds(packaged, fitted, capsys):
    assert main(["heads", "verify"]) == 0
    assert "thresholds for 2 kinds of catalogues" in capsys.readouterr().out
    others = [replace(one, subject=subject_of(scorer_of(seed=2)[1])) for one in fitted]
    path = save_kinds(packaged / "small.thresholds.json", KindsOfThresholds(tuple(others)))
    assert main(["heads", "verify"]) == 1
    assert "must have sha256" in capsys.readouterr().out
    index = json.loads((packaged / "index.json").read_text("utf-8"))
    index["small.npz"]["thresholds"] = file_sha256(path)
    (packaged / "index.json").write_text(json.dumps(index), "utf-8")
    assert main(["heads", "verify"]) == 1
    assert "scorer they were calibrated on" in capsys.readouterr().out


def test_calibrations_of_different_scorers_are_no_kinds_of_one(fitted):
    other = replace(fitted[0], subject={"scorer": "bm25"})
    with pytest.raises(CalibrationError, match="scorer they were calibrated on"):
        KindsOfThresholds((fitted[0], other))


PATIENCE_S = 30.0
OFF_TOPIC = "zzz qqq xxx"


def retriever(tools=TOOLS, **options):
    heads, _ = scorer_of()
    made = toolheads.load_retriever(
        heads, HashEncoder(D), tools=tools, scorer="clm", in_memory=True, **options
    )
    assert made.wait(PATIENCE_S)
    return made


def test_a_retriever_says_that_nothing_matches_below_the_floor(packaged, fitted):
    floor = fitted[0].match_floor(0.01).score
    with retriever() as made, retriever(thresholds=None) as plain:
        assert made.status().floor == floor
        assert plain.status().floor is None
        best = plain.search(OFF_TOPIC, 1).hits[0].score
        assert best < floor
        for k in (None, 3):
            answer = made.search(OFF_TOPIC, k)
            assert (answer.nothing_matches, answer.hits) == (True, ())
            assert plain.search(OFF_TOPIC, k).hits
        assert made.search(OFF_TOPIC, may_be_nothing=False).hits == plain.search(OFF_TOPIC).hits
        assert made.search("please archive the invoice").hits
        named = made.search("archive_invoice zzz", 1)
        assert [hit.tool_id for hit in named.hits] == ["archive_invoice"]


def test_a_floor_counts_only_where_the_best_of_enough_tools_is_looked_for(packaged):
    tools = [replace(tool, server="few" if i < 1 else "many") for i, tool in enumerate(TOOLS)]
    with retriever(tools) as made:
        assert made.search(OFF_TOPIC, sources={"many"}).nothing_matches
        assert made.search(OFF_TOPIC, sources={"few"}).hits


def test_a_catalogue_of_another_kind_has_no_floor(packaged):
    with retriever(TOOLS[:1]) as made:
        assert made.status().floor is None
        assert made.search(OFF_TOPIC).hits
        made.update(TOOLS)
        assert made.wait(PATIENCE_S)
        assert made.search(OFF_TOPIC).nothing_matches


class Waits(HashEncoder):
    """Embeds texts about kites only once it is told to."""

    def __init__(self):
        super().__init__(D)
        self.is_free = threading.Event()

    def encode(self, texts):
        if any("kite" in text for text in texts):
            self.is_free.wait(PATIENCE_S)
        return super().encode(texts)


def test_nothing_is_said_to_match_only_once_nearly_all_tools_are_embedded(packaged):
    encoder, (heads, _) = Waits(), scorer_of()
    kites = [replace(TOOLS[i], id=f"kite{i}", name=f"fly_kite{i}") for i in range(3)]
    with toolheads.load_retriever(
        heads, encoder, tools=TOOLS, scorer="clm", in_memory=True
    ) as made:
        assert made.wait(PATIENCE_S)
        assert made.status().floor is not None
        made.update([*TOOLS, *kites])
        assert (made.status().pending, made.status().floor) == (3, None)
        assert made.search(OFF_TOPIC).hits
        encoder.is_free.set()
        assert made.wait(PATIENCE_S)
        assert made.search(OFF_TOPIC).nothing_matches


def test_a_cut_off_of_ones_own_says_alone_what_matches(packaged):
    own = toolheads.RetrieverSettings(cutoff=toolheads.CutoffSettings())
    with retriever(settings=own) as made:
        assert made.search(OFF_TOPIC).hits


def test_thresholds_that_are_given_must_be_of_the_same_heads(fitted):
    other = replace(fitted[0], subject={"scorer": "bm25"})
    with pytest.raises(CalibrationError, match="calibrate anew"):
        retriever(thresholds=other)
    with pytest.raises(CalibrationError, match="alpha must be one of"):
        retriever(thresholds=fitted[0], told_nothing=0.3)
    with retriever(thresholds=fitted[0], told_nothing=0.02) as made:
        assert made.status().floor == fitted[0].match_floor(0.02).score
        assert made.search(OFF_TOPIC).nothing_matches
