"""Arrays that both sides of the benchmark read: numpy and the standard library alone.

callbus and toolheads run in environments of their own and never import each other. What one
prepares and the other uses goes through files of this module, so that both see the same vectors.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Pairs:
    """Queries, tools, and for each query the rows of its tools with their grades."""

    queries: Rows
    """(q, d) of length 1."""
    tools: Rows
    """(n, d) of length 1."""
    relevant: Sequence[dict[int, int]]
    """For each query, row of a tool → its grade."""

    def save(self, path: Path) -> None:
        """Write an .npz."""
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(
            path,
            queries=self.queries,
            tools=self.tools,
            offsets=np.cumsum([0, *map(len, self.relevant)], dtype=np.int64),
            rows=np.array([row for one in self.relevant for row in one], np.int64),
            grades=np.array([g for one in self.relevant for g in one.values()], np.int64),
        )

    @classmethod
    def load(cls, path: Path) -> Pairs:
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as file:
            offsets, rows, grades = (file[name].tolist() for name in ("offsets", "rows", "grades"))
            relevant = [
                dict(zip(rows[start:end], grades[start:end], strict=True))
                for start, end in pairwise(offsets)
            ]
            return cls(file["queries"], file["tools"], relevant)

    @property
    def positives(self) -> list[list[int]]:
        """Rows of the relevant tools of each query."""
        return [[row for row, grade in one.items() if grade > 0] for one in self.relevant]

    def some(self, count: int, seed: int) -> Pairs:
        """At most so many queries, drawn at random, with the tools they need and no others."""
        drawn = np.random.default_rng(seed).permutation(len(self.queries))[:count]
        used = sorted({row for i in drawn for row in self.relevant[i]})
        place = {row: new for new, row in enumerate(used)}
        relevant = [{place[row]: g for row, g in self.relevant[i].items()} for i in drawn]
        return Pairs(self.queries[drawn], self.tools[used], relevant)


def unit_rows(count: int, width: int, seed: int) -> Rows:
    """(count, width) float32 random rows of length 1, the same for the same seed."""
    rows = np.random.default_rng(seed).standard_normal((count, width), dtype=np.float32)
    scaled: Rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled


def random_pairs(count: int, width: int, seed: int) -> Pairs:
    """As many tools as queries, each query with a tool of its own."""
    rows = unit_rows(2 * count, width, seed)
    return Pairs(rows[:count], rows[count:], [{row: 1} for row in range(count)])


def pairs_of(source: str, count: int, seed: int) -> Pairs:
    """`random:WIDTH`, or the path of pairs that `Pairs.save` wrote."""
    if source.startswith("random:"):
        return random_pairs(count, int(source.removeprefix("random:")), seed)
    return Pairs.load(Path(source)).some(count, seed)


class VectorTable:
    """Text → vector, as a frozen encoder would give it, at once."""

    def __init__(self, texts: Sequence[str], vectors: Rows) -> None:
        self.texts, self.vectors = list(texts), vectors
        self._row_of = {text: row for row, text in enumerate(self.texts)}

    @property
    def width(self) -> int:
        """Entries of a vector."""
        return int(self.vectors.shape[1])

    def rows(self, texts: Sequence[str]) -> Rows:
        """(n, d); a KeyError names a text that is not in the table."""
        found: Rows = self.vectors[[self._row_of[text] for text in texts]]
        return found

    def also(self, texts: Sequence[str], written: Sequence[str]) -> VectorTable:
        """The table with other spellings: `written[i]` gets the vector of `texts[i]`."""
        new = {w: t for t, w in zip(texts, written, strict=True) if w not in self._row_of}
        rows = np.concatenate([self.vectors, self.rows(list(new.values()))])
        return VectorTable([*self.texts, *new], rows)

    def save(self, folder: Path) -> None:
        """Write `texts.json` and `vectors.npy`."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "texts.json").write_text(json.dumps(self.texts), encoding="utf-8")
        np.save(folder / "vectors.npy", self.vectors)

    @classmethod
    def load(cls, folder: Path) -> VectorTable:
        """Read what `save` wrote."""
        texts = json.loads((folder / "texts.json").read_text(encoding="utf-8"))
        return cls(texts, np.load(folder / "vectors.npy", allow_pickle=False))


def write_json(path: Path, value: object) -> None:
    """Write JSON that a person can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def percentiles_ms(seconds: Sequence[float]) -> dict[str, float]:
    """p50, p99 and mean of the durations of single calls, in milliseconds."""
    values = 1000 * np.asarray(seconds)
    p50, p99 = np.percentile(values, [50, 99])
    return {"p50_ms": float(p50), "p99_ms": float(p99), "mean_ms": float(values.mean())}
