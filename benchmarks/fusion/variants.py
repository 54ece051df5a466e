"""The variants: each a way to mix what a data set's material has into (q, n) scores."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from benchmarks.fusion.material import FIELDS, VIEWS, Material

CLAUSES, WORDS = 0.5, 0.5

Score = Callable[[Material], np.ndarray]


def variants() -> list[tuple[str, str, Score]]:
    """Name, name of the variant it builds on or nothing, and how it scores."""
    best, mixed = "views and clauses", "… and words"
    rows: list[tuple[str, str, Score]] = [
        ("frozen", "", lambda one: one.whole["text"]),
        ("words alone", "frozen", lambda one: one.words),
        ("words alone, not folded", "words alone", lambda one: one.plain),
        ("views", "frozen", _folded),
        ("clauses", "frozen", lambda one: _with_clauses(one, {"text": 1.0})),
        (best, "views", lambda one: _with_clauses(one, VIEWS)),
        (mixed, best, _served),
    ]
    return [
        *rows,
        *((f"words weigh {w}", mixed, _weighing(w)) for w in (0.3, 0.7, 1.0)),
        *((f"soft clauses, {t}", mixed, _soft(t)) for t in (0.02, 0.1, 0.3)),
        ("words not folded", mixed, lambda one: _mixed(one, one.plain)),
        ("fields scored apart and added", mixed, lambda one: _mixed(one, one.apart)),
        ("words by the best score", mixed, lambda one: _dense(one) + 0.3 * _by_best(one.words)),
        ("words by the query's mass", mixed, lambda one: _dense(one) + 0.9 * one.mass),
        ("words of clauses too", mixed, _clause_words),
        *((name, mixed, _weighed(name)) for name in FIELDS),
        ("hubness 0.1", mixed, _without_hubs(0.1)),
        ("hubness 0.2", mixed, _without_hubs(0.2)),
        ("hubness 0.4", mixed, _without_hubs(0.4)),
        ("best tool of the server, 0.25", mixed, _server(0.25)),
        ("best tool of the server, 0.5", mixed, _server(0.5)),
        ("query moved to its 3 best tools", mixed, _feedback),
        *((f"tools less {share} of their mean", mixed, _less_mean(share)) for share in (0.3, 0.6)),
        ("without parameters, alone", "frozen", lambda one: one.bare),
        ("without parameters, half of the text", mixed, _half_bare),
        ("clauses brought to one level, 0.3", mixed, _level_clauses(0.3)),
        ("clauses brought to one level, 1.0", mixed, _level_clauses(1.0)),
        ("a clause's next tools count less, 0.2", mixed, _covering(0.2)),
        ("a clause's next tools count less, 1.0", mixed, _covering(1.0)),
    ]


def _folded(one: Material) -> np.ndarray:
    return sum(weight * one.whole[view] for view, weight in VIEWS.items())


def _with_clauses(one: Material, views: dict[str, float], temperature: float = 0) -> np.ndarray:
    whole = sum(weight * one.whole[view] for view, weight in views.items())
    clauses = sum(weight * one.clauses[view] for view, weight in views.items())
    best = _best_clause(clauses, one.offsets, whole, temperature)
    return (1 - CLAUSES) * whole + CLAUSES * best


def _best_clause(
    clauses: np.ndarray, offsets: np.ndarray, whole: np.ndarray, temperature: float = 0
) -> np.ndarray:
    """(q, n) the best clause; the whole text of a query without clauses."""
    out = whole.copy()
    for row, (start, end) in enumerate(pairwise(offsets)):
        if end > start:
            own = clauses[start:end]
            out[row] = own.max(axis=0)
            if temperature:
                soft = np.exp((own - out[row]) / temperature).mean(axis=0)
                out[row] += temperature * np.log(soft)
    return out


def _dense(one: Material) -> np.ndarray:
    return _with_clauses(one, VIEWS)


def _spread(scores: np.ndarray) -> np.ndarray:
    return scores.std(axis=1, keepdims=True)


def _scaled(one: Material, scores: np.ndarray) -> np.ndarray:
    """Scores brought to the spread of the dense scores."""
    spread = _spread(scores)
    return _spread(_folded(one)) * scores / np.where(spread > 0, spread, 1)


def _mixed(one: Material, words: np.ndarray, weight: float = WORDS) -> np.ndarray:
    return _dense(one) + weight * _scaled(one, words)


def _served(one: Material) -> np.ndarray:
    return _mixed(one, one.words)


def _weighing(weight: float) -> Score:
    return lambda one: _mixed(one, one.words, weight)


def _soft(temperature: float) -> Score:
    return lambda one: _with_clauses(one, VIEWS, temperature) + WORDS * _scaled(one, one.words)


def _by_best(words: np.ndarray) -> np.ndarray:
    best = words.max(axis=1, keepdims=True)
    return words / np.where(best > 0, best, 1)


def _clause_words(one: Material) -> np.ndarray:
    best = _best_clause(one.clause_words, one.offsets, one.words)
    return _mixed(one, (1 - CLAUSES) * one.words + CLAUSES * best)


def _weighed(name: str) -> Score:
    return lambda one: _mixed(one, one.by_weights[name])


def _without_hubs(weight: float) -> Score:
    return lambda one: _served(one) - weight * _spread(_folded(one)) * one.hubs


def _server(weight: float) -> Score:
    def score(one: Material) -> np.ndarray:
        scores = _served(one)
        best = np.full((len(scores), one.servers.max() + 1), -np.inf, scores.dtype)
        np.maximum.at(best, (slice(None), one.servers), scores)
        return scores + weight * best[:, one.servers]

    return score


def _feedback(one: Material) -> np.ndarray:
    rows = np.argsort(-_served(one), axis=1, kind="stable")[:, :3]
    moved = one.queries + 0.3 * one.tools[rows].mean(axis=1)
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    return _served(one) + (moved @ one.tools.T - _folded(one))


def _less_mean(share: float) -> Score:
    def score(one: Material) -> np.ndarray:
        tools = one.tools - share * one.tools.mean(axis=0)
        tools /= np.linalg.norm(tools, axis=1, keepdims=True)
        whole = one.queries @ tools.T
        return _with_words(one, whole, _best_clause(one.asked @ tools.T, one.offsets, whole))

    return score


def _half_bare(one: Material) -> np.ndarray:
    views = {**VIEWS, "text": VIEWS["text"] / 2}
    whole = VIEWS["text"] / 2 * one.bare + sum(w * one.whole[view] for view, w in views.items())
    clauses = VIEWS["text"] / 2 * one.bare_clauses
    clauses = clauses + sum(w * one.clauses[view] for view, w in views.items())
    return _with_words(one, whole, _best_clause(clauses, one.offsets, whole))


def _level_clauses(share: float) -> Score:
    """The best tool of each clause nearer to the best of all clauses."""

    def score(one: Material) -> np.ndarray:
        clauses = sum(weight * one.clauses[view] for view, weight in VIEWS.items())
        for start, end in pairwise(one.offsets):
            if end > start:
                best = clauses[start:end].max(axis=1, keepdims=True)
                clauses[start:end] += share * (best.max() - best)
        whole = _folded(one)
        return _with_words(one, whole, _best_clause(clauses, one.offsets, whole))

    return score


def _covering(step: float) -> Score:
    """Ten tools one by one; each one that a clause has chosen holds its next ones back."""

    def score(one: Material) -> np.ndarray:
        scores = _served(one)
        clauses = sum(weight * one.clauses[view] for view, weight in VIEWS.items())
        for row, (start, end) in enumerate(pairwise(one.offsets)):
            if end - start < 2:  # one clause has nothing to share
                continue
            near = np.argsort(-scores[row], kind="stable")[:30]
            clause_of = clauses[start:end, near].argmax(axis=0)
            values, held = scores[row, near].copy(), step * scores[row].std()
            first = scores[row].max() + 1
            for place in range(min(10, len(near))):
                at = int(values.argmax())
                scores[row, near[at]] = first + 10 - place
                values[clause_of == clause_of[at]] -= held
                values[at] = -np.inf
        return scores

    return score


def _with_words(one: Material, whole: np.ndarray, best: np.ndarray) -> np.ndarray:
    spread = _spread(one.words)
    scaled = _spread(whole) * one.words / np.where(spread > 0, spread, 1)
    return (1 - CLAUSES) * whole + CLAUSES * best + WORDS * scaled
