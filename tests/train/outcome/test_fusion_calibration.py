"""Words, hubness and soft clauses: torch ranks as the scorer does, and what is chosen helps."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.hash_encoder import HashEncoder  # noqa: E402
from tests.made_heads import ALL_VIEWS  # noqa: E402
from tests.train.synthetic import pairs, unit, validation_of  # noqa: E402

from toolheads.domain import Query, Tool  # noqa: E402
from toolheads.embedder import Embedder  # noqa: E402
from toolheads.errors import ConfigError  # noqa: E402
from toolheads.evaluation.ranked import Relevant  # noqa: E402
from toolheads.heads import Architecture, Fusion, Heads, HeadsHeader, Views  # noqa: E402
from toolheads.heads.fusion import FIELD_WEIGHTS, HubnessPart, LexicalPart  # noqa: E402
from toolheads.sample import sample_dataset  # noqa: E402
from toolheads.scorers.clm import CLMScorer  # noqa: E402
from toolheads_train.data.validation_set import ValidationSet  # noqa: E402
from toolheads_train.model.heads import TwoHeads  # noqa: E402
from toolheads_train.outcome import served_scores  # noqa: E402
from toolheads_train.outcome.calibration import (  # noqa: E402
    MACRO,
    CalibrationSettings,
    calibrate,
    preferred,
    scaled,
)
from toolheads_train.outcome.export import to_head  # noqa: E402
from toolheads_train.outcome.served_scores import LexicalScores, ProjectedSet  # noqa: E402

pytestmark = pytest.mark.train

D = 24
TEXT = {"text": 1.0}
WORDS = LexicalPart(0.5)
HUBS = HubnessPart(0.2, 5)


def noisy_heads(strength=0.3, d=D, seed=0):
    torch.manual_seed(seed)
    heads = TwoHeads(Architecture(d, hidden=(8,)))
    with torch.no_grad():
        for head in (heads.state, heads.action):
            head.out.weight.normal_(std=strength)
    return heads


@pytest.fixture(scope="module")
def embedder():
    return Embedder(HashEncoder(D))


@pytest.fixture(scope="module")
def sample(embedder):
    """The sample catalogue with 80 requests, as `data.folders` makes a validation set."""
    dataset = sample_dataset()
    queries = [query for query in dataset.split("test") if query.relevant][:80]
    return set_of(embedder, dataset.tools, queries)


def set_of(embedder, tools, queries, name="sample"):
    own = embedder.tools(tools, ("text", "name", "summary"))
    asked = embedder.queries([query.text for query in queries], with_clauses=True)
    row_of = {tool.id: row for row, tool in enumerate(tools)}
    return ValidationSet(
        name=name,
        queries=torch.from_numpy(asked.whole),
        tools=torch.from_numpy(own["text"])[:, None],
        relevant=Relevant.from_qrels([query.relevance for query in queries], row_of),
        clauses=torch.from_numpy(asked.clauses),
        clause_offsets=tuple(asked.offsets.tolist()),
        other_views={view: torch.from_numpy(own[view]) for view in ("name", "summary")},
        catalogue=tuple(tools),
        texts=tuple(query.text for query in queries),
    )


def served(heads, embedder, views, fusion, tools):
    """The numpy scorer with the torch heads."""
    header = HeadsHeader(embedder.fingerprint, views)
    file = Heads(
        to_head(heads.state), to_head(heads.action), header, embedder.probe(), fusion=fusion
    )
    scorer = CLMScorer(file, embedder)
    scorer.index(tools)
    return scorer


NAMES = LexicalPart(2.0, {"name": 1, "server": 0, "description": 0, "parameters": 0})
FUSIONS = {
    "nothing": None,
    "words": Fusion(WORDS),
    "names alone": Fusion(NAMES),
    "hubness": Fusion(None, HUBS),
    "soft clauses": Fusion(clause_temperature=0.05),
    "all": Fusion(WORDS, HUBS, 0.1),
}


@pytest.mark.parametrize("fusion", FUSIONS.values(), ids=list(FUSIONS))
@pytest.mark.parametrize("views", [ALL_VIEWS, Views()], ids=["views", "text"])
def test_torch_ranks_as_the_scorer_that_is_served(sample, embedder, fusion, views):
    heads = noisy_heads().eval()
    with torch.no_grad():
        projected = ProjectedSet.of(heads, sample, TEXT, [(views, fusion)], LexicalScores(sample))
        found = projected.ranked(views, 10, fusion)
    scorer = served(heads, embedder, views, fusion, sample.catalogue)
    ranked = scorer.rank([Query(str(i), text) for i, text in enumerate(sample.texts)], 10)
    row_of = {tool.id: row for row, tool in enumerate(sample.catalogue)}
    expected = np.array([[row_of[hit.tool_id] for hit in hits] for hits in ranked])
    scores = np.array([[hit.score for hit in hits] for hits in ranked])
    # The served spread is summed over entries of 16 bits.
    np.testing.assert_allclose(found.scores, scores, atol=3e-6, rtol=5e-5)
    swapped = found.rows != expected
    # Only tools that this cannot tell apart may stand in another order.
    gaps = np.abs(np.diff(scores, axis=1, prepend=np.inf, append=-np.inf))
    near = np.minimum(gaps[:, :-1], gaps[:, 1:])
    assert (near[swapped] < 5e-5).all()
    assert swapped.mean() < 0.01


def test_blocks_and_matrices_that_are_not_kept_change_nothing(sample, monkeypatch):
    heads, fusion = noisy_heads().eval(), FUSIONS["all"]

    def ranked():
        with torch.no_grad():
            asked = [(ALL_VIEWS, fusion)]
            one = ProjectedSet.of(heads, sample, TEXT, asked, LexicalScores(sample))
            return one.ranked(ALL_VIEWS, 10, fusion)

    whole = ranked()
    monkeypatch.setattr(served_scores, "MOST_KEPT", 0)
    monkeypatch.setattr(served_scores, "QUERY_BLOCK", 7)
    monkeypatch.setattr(served_scores, "_HUB_ENTRIES", 1)
    parts = ranked()
    np.testing.assert_allclose(parts.scores, whole.scores, atol=1e-5)
    assert (parts.rows == whole.rows).mean() > 0.99


def test_lexical_scores_follow_the_fields_that_are_asked_for(sample):
    lexical = LexicalScores(sample)
    first = lexical.block(WORDS, slice(0, 5)).clone()
    assert not torch.equal(first, lexical.block(NAMES, slice(0, 5)))
    assert torch.equal(first, lexical.block(WORDS, slice(0, 5)))


def test_with_nothing_to_mix_nothing_of_it_is_tried(sample):
    found = calibrate(noisy_heads(), [sample], TEXT, CalibrationSettings())
    assert (found.fusion, found.steps) == (None, ())


@pytest.fixture(scope="module")
def wordy():
    """Vectors know nothing; words know everything."""
    tools = [Tool(str(i), f"tool{i}x", None, f"Does word{i}.") for i in range(60)]
    one = validation_of(pairs(60))
    return replace(
        one,
        name="wordy",
        queries=torch.from_numpy(unit(60, seed=9)),
        catalogue=tuple(tools),
        texts=tuple(f"please word{i}" for i in range(60)),
    )


def misleading(one):
    """The same set, whose words name the wrong tool and whose vectors are right."""
    vectors = one.tools[:, 0] + 0.01 * torch.from_numpy(unit(60, seed=3))
    return replace(one, name="misleading", queries=vectors, texts=one.texts[1:] + one.texts[:1])


def test_words_that_help_are_chosen_and_the_numbers_are_those_of_the_ranking(wordy):
    settings = CalibrationSettings(alphas=(1.0, 0.0), lexical_weights=(0.0, 0.5, 2.0))
    found = calibrate(noisy_heads(d=16), [wordy], TEXT, settings)
    assert found.fusion is not None
    assert found.fusion.lexical == LexicalPart(2.0)
    assert found.chosen[MACRO]["ndcg@10"] > 0.9 > 0.3 > found.frozen[MACRO]["ndcg@10"]
    heads = noisy_heads(d=16).eval()
    with torch.no_grad(), scaled(heads, found.share):
        asked = [(found.views, found.fusion)]
        projected = ProjectedSet.of(heads, wordy, TEXT, asked, LexicalScores(wordy))
        rows = projected.ranked(found.views, 10, found.fusion).rows
    hits = [query in shown for query, shown in enumerate(rows)]
    assert found.chosen[MACRO]["recall@10"] == pytest.approx(np.mean(hits))
    (first, *_) = found.steps
    assert [part and part.weight for (part,), _ in first.values] == [None, 0.5, 2.0]
    assert (first.settings, first.chosen) == (("lexical",), (LexicalPart(2.0),))


def test_words_that_mislead_are_left_out_where_that_is_allowed(wordy):
    settings = CalibrationSettings(alphas=(0.0,), lexical_weights=(0.0, 0.5, 2.0))
    assert calibrate(noisy_heads(d=16), [misleading(wordy)], TEXT, settings).fusion is None
    fixed = replace(settings, lexical_weights=(2.0, 0.5))
    found = calibrate(noisy_heads(d=16), [misleading(wordy)], TEXT, fixed).fusion
    assert found is not None
    assert found.lexical == LexicalPart(0.5)


def test_the_fields_that_help_are_chosen_beside_the_weight(wordy):
    noise = {"name": 1.0}  # names share no word with the requests
    whole = {"description": 1.0}
    settings = CalibrationSettings(
        alphas=(0.0,), lexical_weights=(0.5,), lexical_fields=(noise, whole)
    )
    found = calibrate(noisy_heads(d=16), [wordy], TEXT, settings).fusion
    assert found is not None
    assert found.lexical is not None
    assert found.lexical.fields == {**dict.fromkeys(FIELD_WEIGHTS, 0.0), "description": 1.0}


def test_a_set_that_would_fall_below_frozen_holds_the_weight_down(wordy):
    lost = misleading(wordy)
    sets = [wordy, replace(lost, name="lost")]
    settings = CalibrationSettings(alphas=(0.0,), lexical_weights=(0.0, 0.2, 4.0))
    free = calibrate(noisy_heads(d=16), sets, TEXT, settings)
    assert free.fusion is not None
    assert free.fusion.lexical == LexicalPart(4.0)
    held = calibrate(noisy_heads(d=16), sets, TEXT, replace(settings, worst_loss=0.02))
    lost_then, lost_before = (x["lost"]["ndcg@10"] for x in (held.chosen, held.frozen))
    assert lost_then >= lost_before - 0.02
    assert free.chosen["lost"]["ndcg@10"] < lost_before - 0.02


def means(**sets):
    measured = {name: {"ndcg@10": value} for name, value in sets.items()}
    return measured | {MACRO: {"ndcg@10": sum(sets.values()) / len(sets)}}


def test_the_preference_on_a_case_worked_by_hand():
    frozen = means(a=0.5, b=0.5)
    measured = {"best": means(a=0.9, b=0.4), "safe": means(a=0.6, b=0.49), "bad": means(a=0.1, b=0)}
    free, held, strict = (CalibrationSettings(worst_loss=x) for x in (None, 0.02, 0.0))
    assert preferred(measured, frozen, free) == "best"
    assert preferred(measured, frozen, held) == "safe"
    assert preferred(measured, frozen, strict) == "safe"  # all lose more: it loses least


def test_share_and_views_are_chosen_again_beside_the_words(wordy):
    settings = CalibrationSettings(alphas=(1.0, 0.0), lexical_weights=(2.0,))
    found = calibrate(noisy_heads(d=16), [wordy], TEXT, settings)
    assert {step.settings for step in found.steps} == {("share",)}  # lists of one are fixed
    assert found.fusion is not None
    assert found.fusion.lexical == LexicalPart(2.0)


def test_words_and_views_are_tried_together(wordy):
    settings = CalibrationSettings(
        alphas=(0.0,), clause_weights=(0.0, 0.5), lexical_weights=(0.0, 0.5), worst_loss=0.0
    )
    clauses = replace(wordy, clauses=wordy.queries, clause_offsets=tuple(range(61)))
    found = calibrate(noisy_heads(d=16), [clauses], TEXT, settings)
    (first, *_) = found.steps
    assert first.settings == ("lexical", "views")
    assert [(w and w.weight, v.has_clauses) for (w, v), _ in first.values] == [
        (None, False),
        (None, True),
        (0.5, False),
        (0.5, True),
    ]
    best = max(value for _, value in first.values)
    assert found.chosen[MACRO]["ndcg@10"] == pytest.approx(best)


def test_hubness_and_soft_clauses_are_chosen_too(sample):
    settings = CalibrationSettings(
        alphas=(0.0,),
        clause_weights=(0.5,),
        clause_temperatures=(0.0, 0.05, 0.5),
        hubness_weights=(0.0, 0.1, 0.3),
        hubness_neighbours=4,
    )
    found = calibrate(noisy_heads(), [sample], TEXT, settings)
    assert {step.settings for step in found.steps} == {("hubness",), ("clause_temperature",)}
    best = max(value for step in found.steps for _, value in step.values)
    assert found.chosen[MACRO]["ndcg@10"] == pytest.approx(best)


def test_a_margin_shows_all_hits_however_far_words_spread_the_scores(wordy):
    settings = CalibrationSettings(
        alphas=(0.0,), lexical_weights=(50.0,), margins=(0.0,), recall_loss=0.0
    )
    found = calibrate(noisy_heads(d=16), [wordy], TEXT, settings)
    assert found.margins[-1].length == 10
    assert found.margins[-1].recall == found.fixed.recall


def test_words_of_data_without_texts_are_refused():
    settings = CalibrationSettings(lexical_weights=(0.0, 0.5))
    with pytest.raises(ConfigError, match="lexical_weights must be empty for data without texts"):
        calibrate(noisy_heads(d=16), [validation_of(pairs(8))], TEXT, settings)
    nothing = CalibrationSettings(alphas=(0.0,), lexical_weights=(0.0,))
    assert calibrate(noisy_heads(d=16), [validation_of(pairs(8))], TEXT, nothing).fusion is None


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("lexical_weights", (-0.1,), r"calibration.lexical_weights must be in \[0, 100\]"),
        ("hubness_weights", (math.nan,), "calibration.hubness_weights must be in"),
        ("hubness_neighbours", 0, "hubness.neighbours must be a whole number"),
        ("clause_temperatures", (2.0,), "calibration.clause_temperatures must be 0 or in"),
        ("lexical_fields", ({"title": 1.0},), "calibration.lexical_fields must weigh name, server"),
        ("lexical_fields", ({"name": -1.0},), "the weight of lexical field name must be"),
        ("lexical_fields", ({},), "fields must have a weight above 0"),
        ("worst_loss", 1.5, r"calibration.worst_loss must be in \[0, 1\] or unset"),
    ],
)
def test_a_setting_out_of_its_range_is_refused(setting, value, message):
    with pytest.raises(ConfigError, match=message):
        CalibrationSettings(**{setting: value})


def test_weights_to_try_need_fields():
    with pytest.raises(ConfigError, match="lexical_fields must have weights to try, got none"):
        CalibrationSettings(lexical_weights=(0.5,), lexical_fields=())
