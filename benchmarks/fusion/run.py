"""What can be mixed with frozen vectors, and what each mixture is worth. No heads, no training.

    python benchmarks/fusion/run.py DATA [--cache DIR] [--queries 200] [--seed 0]

Ranks training requests of each data set over all its tools; test requests are not touched. Prints
the mean nDCG@10 over the data sets, its difference to the row the variant builds on, and the data
set that loses most against frozen vectors. The weights that the packaged heads serve with were
chosen here. Spread: the standard deviation of a query's scores over the corpus.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

import toolheads
from toolheads.data import Dataset, read_datasets
from toolheads.embedder import Embedder
from toolheads.evaluation.ranked import Relevant, ranked_metrics
from toolheads.heads.fusion import FIELD_WEIGHTS, LEXICAL_SETTINGS
from toolheads.lexical import FieldedIndex
from toolheads.scorers.hubness import hubness
from toolheads.texts.clauses import split_clauses

NAMES = (
    *("aws_cli", "azure_cli", "glaive_demo", "gorilla_apibench", "metatool"),
    *("seal_tools", "tldr_commands", "toolbench", "toollinkos", "toolrl_rlla"),
)
VIEWS = {"text": 0.7, "name": 0.15, "summary": 0.15}
CLAUSES, WORDS = 0.5, 0.5
FIELDS = {
    "name counts three times": {"name": 3.0, "server": 1.0, "description": 1.0, "parameters": 0.5},
    "name counts twice": {**FIELD_WEIGHTS, "name": 2.0},
    "no parameters": {**FIELD_WEIGHTS, "parameters": 0.0},
    "all fields alike": dict.fromkeys(FIELD_WEIGHTS, 1.0),
}
METRIC = "ndcg@10"


@dataclass
class Material:
    """One data set: products of queries and clauses with the views of tools, and words."""

    name: str
    whole: dict[str, np.ndarray]
    """View → (q, n)."""
    clauses: dict[str, np.ndarray]
    """View → (m, n)."""
    offsets: np.ndarray
    words: np.ndarray
    """(q, n) with the weights of the packaged heads."""
    by_weights: dict[str, np.ndarray]
    """Key of `FIELDS` → (q, n) words with these weights."""
    clause_words: np.ndarray
    """(m, n)."""
    mass: np.ndarray
    """(q, n) words, divided by what a tool with all words of the query would get."""
    plain: np.ndarray
    """(q, n) words that are not folded to stems."""
    apart: np.ndarray
    """(q, n) words, each field scored apart and added."""
    hubs: np.ndarray
    """(n,)."""
    servers: np.ndarray
    """(n,) number of the server of each tool; a tool without one has its own."""
    queries: np.ndarray
    tools: np.ndarray
    relevant: Relevant


Score = Callable[[Material], np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path, default=Path(".cache/toolheads"))
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--encoder", default=None, help="kind, such as sentence-transformers")
    parser.add_argument("--model", default=None)
    args = parser.parse_args()
    encoder = toolheads.encoder(args.encoder, model=args.model)
    embedder = Embedder(encoder, cache=args.cache)
    materials = [
        _material(read_datasets([args.data / name])[0], embedder, args.queries, args.seed)
        for name in NAMES
        if (args.data / name).is_dir()
    ]
    frozen = _measured(materials, lambda one: one.whole["text"])
    print("| variant | nDCG@10 | against | difference | worst data set |")
    print("| --- | ---: | --- | ---: | ---: |")
    means: dict[str, float] = {}
    for name, base, score in _variants():
        values = _measured(materials, score)
        means[name] = float(values.mean())
        at = int((values - frozen).argmin())
        worst = f"{(values - frozen)[at]:+.2f} ({materials[at].name})"
        change = f"{means[name] - means[base]:+.2f}" if base else ""
        print(f"| {name} | {means[name]:.2f} | {base} | {change} | {worst} |", flush=True)


def _variants() -> list[tuple[str, str, Score]]:
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
    ]


def _material(dataset: Dataset, embedder: Embedder, most: int, seed: int) -> Material:
    queries = [query for query in dataset.split("train") if query.relevant]
    kept = np.random.default_rng(seed).permutation(len(queries))[:most]
    queries = [queries[row] for row in np.sort(kept)]
    texts = [query.text for query in queries]
    tools = embedder.tools(dataset.tools, tuple(VIEWS))
    asked = embedder.queries(texts, with_clauses=True)
    index = FieldedIndex(dataset.tools, LEXICAL_SETTINGS)
    folded = index.folded(FIELD_WEIGHTS)
    clauses = [clause for text in texts for clause in split_clauses(text)]
    row_of = {tool.id: row for row, tool in enumerate(dataset.tools)}
    names: dict[object, int] = {}
    servers = [names.setdefault(t.server or (t.id,), len(names)) for t in dataset.tools]
    apart = index.with_settings(replace(LEXICAL_SETTINGS, combine="sum"))
    plain = FieldedIndex(dataset.tools, replace(LEXICAL_SETTINGS, stem="none"))
    return Material(
        name=dataset.name,
        whole={view: asked.whole @ rows.T for view, rows in tools.items()},
        clauses={view: asked.clauses @ rows.T for view, rows in tools.items()},
        offsets=asked.offsets,
        words=folded.scores(texts),
        by_weights={name: index.folded(w).scores(texts) for name, w in FIELDS.items()},
        clause_words=folded.scores(clauses),
        mass=folded.scores(texts, normalise="mass"),
        plain=plain.folded(FIELD_WEIGHTS).scores(texts),
        apart=apart.folded(FIELD_WEIGHTS).scores(texts),
        hubs=hubness(tools["text"], tools["summary"], 10).astype(np.float32),
        servers=np.array(servers),
        queries=asked.whole,
        tools=sum(weight * tools[view] for view, weight in VIEWS.items()),
        relevant=Relevant.from_qrels([query.relevance for query in queries], row_of),
    )


def _measured(materials: list[Material], score: Score) -> np.ndarray:
    values = []
    for one in materials:
        rows = np.argsort(-score(one), axis=1, kind="stable")[:, :10]
        values.append(100 * ranked_metrics(rows, one.relevant, (METRIC,))[METRIC].mean())
    return np.array(values)


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


if __name__ == "__main__":
    main()
