"""The baselines of the in-domain benchmark, its tables, and that all systems get the same data."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from benchmarks.in_domain import run
from benchmarks.in_domain.probe import (
    Labelled,
    choose_neighbours,
    choose_probe,
    fit_probe,
    neighbour_scores,
    probe_scores,
)
from benchmarks.in_domain.table import FROZEN, OWN, PROBE, Measured, render
from tests.hash_encoder import HashEncoder

from toolheads.embedder import Embedder
from toolheads_train.data import folders
from toolheads_train.data.modules import FolderData
from toolheads_train.data.selection import ValidationSettings

pytestmark = pytest.mark.train

EYE = np.eye(4, dtype=np.float32)


def labelled(queries, tools):
    """Requests with lists of tools."""
    offsets = np.cumsum([0, *map(len, tools)])
    rows = np.array([row for one in tools for row in one])
    return Labelled(np.asarray(queries, dtype=np.float32), offsets, rows)


def random_labelled(n=30, d=5, seed=0):
    rng = np.random.default_rng(seed)
    queries = rng.normal(size=(n, d)).astype(np.float32)
    lists = [rng.choice([1, 2, 5, 7], size=rng.integers(1, 3), replace=False) for _ in range(n)]
    return labelled(queries, lists)


def test_a_probe_is_where_the_gradient_of_its_loss_is_zero():
    """The gradient worked out by hand: (softmax - share) x / q + strength * weights."""
    given, strength = random_labelled(), 0.01
    weights = fit_probe(given, strength).numpy().astype(np.float64)
    x = np.concatenate([given.queries, np.ones((30, 1))], axis=1)
    share = np.zeros((30, 4))
    counts = np.diff(given.offsets)
    share[given.owners, np.searchsorted(given.seen, given.rows)] = 1 / counts[given.owners]
    odds = np.exp(x @ weights.T)
    gradient = (odds / odds.sum(1, keepdims=True) - share).T @ x / 30
    gradient[:, :-1] += strength * weights[:, :-1]
    assert np.abs(gradient).max() < 1e-3  # float32


def test_a_probe_ranks_the_tools_it_has_seen_above_all_others_and_those_by_their_cosine():
    given = labelled(EYE[:2], [[3], [1]])
    scores = probe_scores(
        fit_probe(given, 1e-3), given.seen, EYE, np.array([[0.1, 0.2, 0.9, 0]], np.float32)
    )
    assert np.argsort(-scores[0]).tolist()[:2] == [1, 3]  # nearer to the second request
    assert np.argsort(-scores[0]).tolist()[2:] == [2, 0]  # cosines 0.9 and 0.1
    assert scores[0, [1, 3]].min() > scores[0, [0, 2]].max()


def test_a_request_of_two_tools_counts_half_for_each():
    given = labelled(EYE[:1], [[0, 2]])
    scores = probe_scores(fit_probe(given, 1e-4), given.seen, EYE, EYE[:1])
    np.testing.assert_allclose(np.exp(scores[0, [0, 2]]), 0.5, atol=1e-3)


def test_the_strength_of_the_probe_is_the_one_that_validates_best():
    given = random_labelled()
    values = iter([0.2, 0.9, 0.3])
    chosen = choose_probe(
        given,
        np.eye(8, 5, dtype=np.float32),
        given.queries,
        lambda scores: next(values),
        given.queries[:3],
        strengths=(1.0, 0.1, 0.01),
    )
    assert (chosen.setting, chosen.validation) == (0.1, 0.9)
    start = fit_probe(given, 1.0)
    expected = probe_scores(
        fit_probe(given, 0.1, start=start),
        given.seen,
        np.eye(8, 5, dtype=np.float32),
        given.queries[:3],
    )
    np.testing.assert_array_equal(chosen.scores, expected)


def test_near_requests_vote_for_their_tools_with_their_cosine():
    given = labelled([[1, 0, 0, 0], [0.8, 0.6, 0, 0], [0, 0, 1, 0]], [[0], [0, 2], [3]])
    (scores,) = neighbour_scores(given, 2, EYE, EYE[:1])
    assert scores[0] == pytest.approx(1.8)
    assert scores[2] == pytest.approx(0.8)
    assert scores[3] < scores[2]  # the third request is too far to have a vote
    assert max(scores[1], scores[3]) < 0


def test_the_number_of_neighbours_is_the_one_that_validates_best_and_the_smallest_of_equals():
    given = labelled(EYE, [[0], [1], [2], [3]])
    values = {1: 0.5, 2: 0.7, 3: 0.7}
    calls = iter(values.values())
    chosen = choose_neighbours(
        given, EYE, EYE, lambda scores: next(calls), EYE, counts=tuple(values)
    )
    assert chosen.setting == 2


def measured(name, *, seen, **values):
    return Measured(
        name=name,
        train=10,
        validation=2,
        tools=5,
        seen_tools=3,
        seen=tuple(seen),
        values={system: tuple(one) for system, one in values.items()},
        chosen={PROBE: 1e-4, "nearest requests": 3},
        cpu_s={PROBE: 1.2, OWN: 3.4},
    )


def two_sets():
    few = {FROZEN: [0.1] * 40, PROBE: [0.5] * 40, OWN: [0.6] * 40}
    other = {FROZEN: [0.5] * 20 + [0.2] * 20, PROBE: [0.9] * 20 + [0.0] * 20, OWN: [0.8] * 40}
    return [
        measured("one", seen=[True] * 40, **few),
        measured("two", seen=[True] * 20 + [False] * 20, **other),
    ]


def lines_of(text, title):
    block = text.split(f"**{title}**")[1].split("**Training**")[0].strip().split("\n\n")[1]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]


def test_a_table_has_only_the_requests_of_its_part_and_counts_data_sets_the_same():
    text = render(two_sets(), "head")
    seen = lines_of(text, "Requests whose tools all occur in training requests")
    assert seen[2][:5] == ["one", "40", "10.00", "50.00", "**60.00**"]
    assert seen[3][:5] == ["two", "20", "50.00", "**90.00**", "80.00"]
    assert seen[4][:5] == ["**macro average**", "60", "30.00", "**70.00**", "**70.00**"]
    unseen = lines_of(text, "Requests with a tool that occurs in none")
    assert [line[0] for line in unseen[2:]] == ["two", "**macro average**"]


def test_differences_to_the_probe_have_intervals_and_corrected_p():
    text = render(two_sets(), "head")
    (one, two, macro) = (line[-1] for line in lines_of(text, "All test requests")[2:])
    assert one == "+10.00 [+10.0, +10.0], p <0.001"
    assert two.startswith("+35.00 [")
    assert macro.startswith("+22.50 [")


@pytest.fixture
def data(tmp_path, monkeypatch):
    """One data set of 12 tools, 60 training requests and 12 test requests; one catalogue."""
    monkeypatch.setattr(folders, "make_encoder", lambda settings: HashEncoder(16))
    words = [
        "red",
        "green",
        "blue",
        "pink",
        "grey",
        "gold",
        "cyan",
        "plum",
        "rust",
        "teal",
        "navy",
        "lime",
    ]
    tools = [{"id": w, "name": w, "description": f"paints {w}"} for w in words]
    queries = [
        {
            "id": f"q{i}",
            "text": f"please paint wall {i} in {words[i % 12]}, door {7 * i} in {words[i % 11]}",
            "relevant": [words[i % 12]] if i < 70 else [],
            "split": "train" if i < 60 else "test",
        }
        for i in range(72)
    ]
    for name, more in (("paints", queries), ("catalogue", None)):
        folder = tmp_path / "data" / name
        folder.mkdir(parents=True)
        _write(folder / "tools.jsonl", tools)
        if more:
            _write(folder / "queries.jsonl", more)
    return tmp_path / "data"


def _write(path, records):
    path.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")


def test_a_catalogue_without_requests_is_not_measured(data):
    assert [folder.name for folder in run._usable(data, None)] == ["paints"]


def test_baselines_learn_from_the_requests_that_the_trainer_learns_from(data, monkeypatch):
    settings = ValidationSettings(by="query", share=0.2, max_queries=500, min_queries=1)
    monkeypatch.setattr(run, "VALIDATION", settings)
    prepared = run._prepared(data / "paints", Embedder(HashEncoder(16)))
    trainer = FolderData(
        str(data / "paints"),
        cache=None,
        validation=settings,
        min_cosine=run.MIN_COSINE,
        max_queries=run.MOST,
    )
    trainer.prepare_data()
    assert torch.equal(trainer.corpus.queries, torch.from_numpy(prepared.labelled.queries))
    assert trainer.corpus.positives.values.tolist() == prepared.labelled.rows.tolist()
    (validation,) = trainer.validation_sets
    assert torch.equal(validation.queries, torch.from_numpy(prepared.validation))
    assert [query.id for query in prepared.test] == [f"q{i}" for i in range(60, 70)]
