"""Texts of tools to rows of an index, with the vectors that `toolheads.jobs.vectors` finds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from toolheads.arrays import Floats, Ids
from toolheads.domain import Tool
from toolheads.heads import Head, Heads
from toolheads.indexes import row_key, space_of
from toolheads.jobs.vectors import Counts, Vectors
from toolheads.ports import Encoder
from toolheads.scorers.folding import Folding, fold_rows, tools_of_a_block
from toolheads.scorers.recipe import Recipe
from toolheads.texts import TextSettings, tool_view_texts

_BATCH_ENTRIES = 1 << 24
_MOST_TOOLS = 8192
"""Of one batch. Its vectors have so many entries at most, 64 MB in float32; a few such arrays are
held at once."""

_READ_ENTRIES = 1 << 24
"""Entries of vectors that are read before the memory that the cache's files take is let go of: to
map a file's pages again takes longer than to read a few vectors."""


def tools_of_a_batch(width: int, views: int, threads: int) -> int:
    """Tools that are held at once: bounded, and whole blocks for each thread if these fit in.

    Args:
        width: d, entries of a vector.
        views: Vectors of a tool.
        threads: Threads that project.
    """
    together = threads * tools_of_a_block(views)
    fitting = max(1, min(_MOST_TOOLS, _BATCH_ENTRIES // (views * width)))
    return fitting - fitting % together if fitting > together else fitting


@dataclass(frozen=True)
class Wording:
    """What a row is made of, apart from any weights."""

    space: str
    """See `toolheads.indexes.keys.space_of`."""
    views: tuple[str, ...]
    settings: TextSettings

    def texts(self, tool: Tool) -> list[str]:
        """The texts that a tool's row is made of, one for each view."""
        return tool_view_texts(tool, list(self.views), self.settings)

    def key(self, texts: Sequence[str]) -> str:
        """Key of the row that is made of texts."""
        return row_key(self.space, texts)


@dataclass(frozen=True)
class Made:
    """Rows of a batch of tools.

    Attributes:
        places: (n,) which tools of the batch have a row, rising.
        rows: (n, e) float32.
        refused: Place of a tool that the encoder refuses → why.
    """

    places: list[int]
    rows: Floats
    refused: dict[int, str] = field(default_factory=dict)


class RowMaker:
    """Makes the rows that a retriever would make of the same tools, to the bit.

    The encoder is made when the first text is missing in the cache, and not before: new heads over
    tools that were embedded once need none.

    Args:
        heads: Project the vectors; they name the encoder too.
        encoder: Makes the encoder.
        cache: Folder of the vectors.
        dtype: What the cache stores new vectors in, and which of its vectors are read.
        threads: Threads that project.

    Attributes:
        wording: What rows are made of.

    Raises:
        BackboneMismatchError: If the cache was made with other weights than the heads.
        CacheError: If it cannot be read.
    """

    def __init__(
        self,
        heads: Heads,
        encoder: Callable[[], Encoder],
        cache: Path,
        *,
        dtype: str = "float16",
        threads: int = 1,
    ) -> None:
        recipe = Recipe.of_heads(heads)
        self._weights, self._action = recipe.tool_weights, recipe.action
        self.width = recipe.width
        """e, entries of a row."""
        self._at_once = tools_of_a_block(len(self._weights))
        width = heads.fingerprint.encoder.width
        self.batch = tools_of_a_batch(width, len(self._weights), threads)
        """Tools of a batch that is not too large, and that threads can share."""
        self._vectors = Vectors(heads, encoder, cache, dtype=dtype)
        self._threads = threads
        self._of_thread = threading.local()
        # While half of the threads multiply, the others do what is between two products: that
        # takes less time than the products do.
        self._turns = threading.Semaphore(max(1, threads // 2))
        self._pool = ThreadPoolExecutor(threads, "toolheads-project")
        self._projected = np.empty((0, self.width), np.float32)
        self._read, self._most_read = 0, _READ_ENTRIES // heads.fingerprint.encoder.width
        self._spare = np.empty(0, np.float32), np.empty(0, np.float32)
        space = space_of(
            heads.fingerprint, heads_sha256=recipe.action_sha256(), views=self._weights
        )
        self.wording = Wording(space, tuple(self._weights), heads.texts)

    @property
    def space(self) -> str:
        """Name of the space of the rows."""
        return self.wording.space

    @property
    def counts(self) -> Counts:
        """Texts so far."""
        return self._vectors.counts

    def texts(self, tool: Tool) -> list[str]:
        """See `Wording.texts`."""
        return self.wording.texts(tool)

    def key(self, texts: Sequence[str]) -> str:
        """See `Wording.key`."""
        return self.wording.key(texts)

    def rows(self, tools: Sequence[Sequence[str]]) -> Made:
        """Make the rows of a batch of tools.

        Args:
            tools: The texts of each tool.

        Returns:
            Rows that stay for one more call; the second from here writes over them.

        Raises:
            EncoderError: If the encoder fails for any text, or cannot be made.
            CacheError: If the cache cannot be read or written.
        """
        found = self._vectors.find(tools)
        return Made(found.places, self.rows_at(found.numbers), found.refused)

    def projected(self, tools: Sequence[Sequence[str]]) -> Floats:
        """(n, e) float32 rows of n tools whose texts are all in the cache. See `rows`."""
        return self.rows_at(self._vectors.cache.find(list(chain.from_iterable(tools))))

    def close(self) -> None:
        """Release the encoder and the threads."""
        self._pool.shutdown()
        self._vectors.close()

    def rows_at(self, numbers: Ids) -> Floats:
        """Make rows of vectors that are known to be in the cache: the projecting stage of a job.

        Args:
            numbers: (n * v,) numbers of their vectors in the cache, tool by tool.

        Returns:
            (n, e) float32 rows of n tools, that stay for one more call, see `rows`.
        """
        views, weights = len(self._weights), tuple(self._weights.values())
        rows = self._fresh(len(numbers) // views)
        if (numbers[1:] > numbers[:-1]).all():
            self._write(numbers, weights, rows)
        else:
            # A vector of many texts of a batch is projected once, and those that were stored
            # together are read together.
            distinct, place = np.unique(numbers, return_inverse=True)
            if len(self._projected) < len(distinct):
                self._projected = np.empty((len(distinct), self.width), np.float32)
            projected = self._projected[: len(distinct)]
            self._write(distinct, (1.0,), projected)
            self._share(
                len(rows),
                len(rows),
                lambda part: fold_rows(
                    projected, place.reshape(-1, views)[part], weights, rows[part]
                ),
            )
        self._read += len(numbers)
        if self._read > self._most_read:
            self._vectors.cache.let_go()
            self._read = 0
        return rows

    def _fresh(self, count: int) -> Floats:
        """(n, e) float32, where the rows of the call before the last were.

        Those of the last are still written while these are made. Fresh memory for each batch would
        cost the system as much as some steps over it.
        """
        entries = count * self.width
        older, newer = self._spare
        if older.size < entries:
            older = np.empty(entries, np.float32)
        self._spare = newer, older
        return older[:entries].reshape(count, self.width)

    def _write(self, numbers: Ids, weights: tuple[float, ...], out: Floats) -> None:
        """Write the rows of vectors, as many for each as there are weights, block by block."""
        views = len(weights)
        self._share(
            len(out),
            tools_of_a_block(views),
            lambda part: self._project(
                numbers[part.start * views : part.stop * views], weights, out[part]
            ),
        )

    def _share(self, count: int, most: int, work: Callable[[slice], None]) -> None:
        """Share rows among the threads, `most` at a time at most."""
        step = min(most, max(1, -(-count // self._threads)))
        parts = [slice(at, min(at + step, count)) for at in range(0, count, step)]
        list(self._pool.map(work, parts))

    def _project(self, numbers: Ids, weights: tuple[float, ...], out: Floats) -> None:
        def read(vectors: Floats) -> None:
            self._vectors.cache.gather(numbers, out=vectors)

        foldings: dict[tuple[float, ...], Folding] = self._of_thread.__dict__.setdefault("own", {})
        if weights not in foldings:
            foldings[weights] = Folding(weights, self._action, self._turns)
        foldings[weights].fold(read, out)


def rows_of(vectors: Floats, weights: Mapping[str, float], action: Head) -> Floats:
    """(n, e) float32 rows of tools.

    Args:
        vectors: (n * v, d) float32 embeddings of their views, tool by tool.
        weights: View → weight, v of them.
        action: Projects the embeddings.
    """
    views = len(weights)
    rows = np.empty((len(vectors) // views, action.projection_width), np.float32)
    folding = Folding(list(weights.values()), action)
    at_once = tools_of_a_block(views)
    for start in range(0, len(rows), at_once):
        out = rows[start : start + at_once]
        part = vectors[start * views : (start + len(out)) * views]
        folding.fold(partial(_copy, part), out)
    return rows


def _copy(one: Floats, into: Floats) -> None:
    into[:] = one
