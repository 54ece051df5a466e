"""Texts of tools to rows of an index: from the cache, and from the encoder only for what is new."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np

from toolheads.arrays import Floats, Ids
from toolheads.cache import VectorCache
from toolheads.domain import Tool
from toolheads.embedder import Embedder
from toolheads.errors import EncoderError
from toolheads.heads import Heads
from toolheads.identity import PROBE_TEXTS
from toolheads.indexes import row_key, space_of
from toolheads.ports import Encoder
from toolheads.scorers.clm import check_backbone
from toolheads.scorers.exact import folded_rows
from toolheads.scorers.recipe import Recipe
from toolheads.texts import tool_view_texts

_PROJECTED_AT_ONCE = 512
"""Tools that one thread projects in one call."""


@dataclass
class Counts:
    """Texts by where their vectors came from."""

    reused: int = 0
    embedded: int = 0


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
        self._heads, self._make_encoder = heads, encoder
        self._recipe = Recipe.of_heads(heads)
        self._folder, self._dtype = cache, dtype
        self._cache = VectorCache.open(cache, heads.fingerprint, heads.probe, dtype=dtype)
        self._encoder: Encoder | None = None
        self._embedder: Embedder | None = None
        self._pool = ThreadPoolExecutor(threads, "toolheads-project")
        self.counts = Counts()
        self.space = space_of(
            heads.fingerprint,
            heads_sha256=self._recipe.action_sha256(),
            views=self._recipe.tool_weights,
        )

    @property
    def width(self) -> int:
        """e, entries of a row."""
        return self._recipe.width

    @property
    def entries(self) -> int:
        """Numbers that are held for one tool while its row is made."""
        return len(self._recipe.tool_weights) * self._heads.fingerprint.encoder.width

    def texts(self, tool: Tool) -> list[str]:
        """The texts that a tool's row is made of, one for each view."""
        return tool_view_texts(tool, list(self._recipe.tool_weights), self._heads.texts)

    def key(self, texts: Sequence[str]) -> str:
        """Key of the row that is made of texts."""
        return row_key(self.space, texts)

    def rows(self, tools: Sequence[Sequence[str]]) -> Made:
        """Make the rows of a batch of tools.

        Args:
            tools: The texts of each tool.

        Raises:
            EncoderError: If the encoder fails for any text, or cannot be made.
            CacheError: If the cache cannot be read or written.
        """
        unique = list(dict.fromkeys(chain.from_iterable(tools)))
        found = self._cache.find(unique)
        missing = [unique[i] for i in np.flatnonzero(found < 0)]
        bad: dict[str, str] = {}
        if missing:
            bad = self._embed(missing)
            found = self._cache.find(unique)
        number_of = dict(zip(unique, found.tolist(), strict=True))
        self.counts.reused += len(unique) - len(missing)
        self.counts.embedded += len(missing) - len(bad)
        reasons = [next((bad[t] for t in texts if t in bad), None) for texts in tools]
        places = [place for place, reason in enumerate(reasons) if reason is None]
        numbers = [number_of[text] for place in places for text in tools[place]]
        rows = self._projected(np.array(numbers, np.int64))
        refused = {place: why for place, why in enumerate(reasons) if why is not None}
        return Made(places, rows, refused)

    def projected(self, tools: Sequence[Sequence[str]]) -> Floats:
        """(n, e) float32 rows of n tools whose texts are all in the cache."""
        return self._projected(self._cache.find(list(chain.from_iterable(tools))))

    def close(self) -> None:
        """Release the encoder and the threads."""
        self._pool.shutdown()
        if self._encoder is not None:
            self._encoder.close()

    def _projected(self, numbers: Ids) -> Floats:
        """(n, e) float32 rows of n tools, of (n * v,) numbers of their vectors in the cache."""
        step = _PROJECTED_AT_ONCE * len(self._recipe.tool_weights)
        parts = [numbers[start : start + step] for start in range(0, len(numbers), step)]
        rows = list(self._pool.map(self._project, parts))
        self._cache.let_go()
        return np.concatenate([np.empty((0, self.width), np.float32), *rows])

    def _project(self, numbers: Ids) -> Floats:
        weights = self._recipe.tool_weights
        vectors = self._cache.gather(numbers)
        views = {view: vectors[at :: len(weights)] for at, view in enumerate(weights)}
        return folded_rows(views, weights, self._recipe.action)

    def _embed(self, texts: list[str]) -> dict[str, str]:
        """Fill the cache; the texts that the encoder refuses, though it takes others, and why."""
        if self._embedder is None:
            self._encoder = self._encoder or self._make_encoder()
            embedder = Embedder(self._encoder, self._heads.texts, self._cache)
            check_backbone(self._heads, embedder)
            # The cache may be of other weights of the same name than the encoder now has.
            fingerprint, probe = self._heads.fingerprint, embedder.probe()
            VectorCache.open(self._folder, fingerprint, probe, dtype=self._dtype)
            self._embedder = embedder
        return self._filled(self._embedder, texts)

    def _filled(self, embedder: Embedder, texts: list[str]) -> dict[str, str]:
        try:
            embedder.fill(texts)
        except EncoderError as e:
            embedder.encoder.encode(PROBE_TEXTS[:1])  # fails when it is not about these texts
            if len(texts) == 1:
                return {texts[0]: str(e).partition("\n")[0]}
            half = len(texts) // 2
            first = self._filled(embedder, texts[:half])
            return first | self._filled(embedder, texts[half:])
        return {}
