"""What every variant is made of: products of frozen vectors, and words, of one data set."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from toolheads.data import Dataset
from toolheads.embedder import Embedder
from toolheads.evaluation.ranked import Relevant
from toolheads.heads.fusion import FIELD_WEIGHTS, LEXICAL_SETTINGS
from toolheads.lexical import FieldedIndex
from toolheads.scorers.hubness import hubness
from toolheads.texts.clauses import split_clauses

VIEWS = {"text": 0.7, "name": 0.15, "summary": 0.15}
FIELDS = {
    "name counts three times": {"name": 3.0, "server": 1.0, "description": 1.0, "parameters": 0.5},
    "name counts twice": {**FIELD_WEIGHTS, "name": 2.0},
    "no parameters": {**FIELD_WEIGHTS, "parameters": 0.0},
    "all fields alike": dict.fromkeys(FIELD_WEIGHTS, 1.0),
}


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
    bare: np.ndarray
    """(q, n) products with the texts of tools without their parameters."""
    bare_clauses: np.ndarray
    """(m, n)."""
    hubs: np.ndarray
    """(n,)."""
    servers: np.ndarray
    """(n,) number of the server of each tool; a tool without one has its own."""
    queries: np.ndarray
    asked: np.ndarray
    """(m, d) clauses."""
    tools: np.ndarray
    relevant: Relevant


def material_of(dataset: Dataset, embedder: Embedder, most: int, seed: int) -> Material:
    """Products and words of at most `most` training requests with all tools."""
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
    bare_tools = [replace(tool, input_schema={}) for tool in dataset.tools]
    bare = embedder.tools(bare_tools, ("text",))["text"]
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
        bare=asked.whole @ bare.T,
        bare_clauses=asked.clauses @ bare.T,
        hubs=hubness(tools["text"], tools["summary"], 10).astype(np.float32),
        servers=np.array(servers),
        queries=asked.whole,
        asked=asked.clauses,
        tools=sum(weight * tools[view] for view, weight in VIEWS.items()),
        relevant=Relevant.from_qrels([query.relevance for query in queries], row_of),
    )
