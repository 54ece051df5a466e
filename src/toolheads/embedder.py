"""The use case of embedding: texts in, vectors out, each text sent once and kept in the cache.

Knows the encoder port and the cache; which encoder it is, it does not know.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np

from toolheads.arrays import Floats, Ids, as_rows
from toolheads.cache import VectorCache
from toolheads.domain import Tool
from toolheads.errors import BackboneMismatchError, ConfigError, EncoderError, ShapeError
from toolheads.identity import PROBE_TEXTS, Fingerprint
from toolheads.ports import Encoder
from toolheads.texts import TextSettings, query_view_texts, tool_view_texts

Progress = Callable[[int, int], None]
"""Called with the texts embedded so far and the texts to embed; first with (0, total)."""

_DEFAULT_TEXTS = TextSettings()

_FIRST_CALL = 64
"""Texts of the first call to the encoder; later calls grow or shrink with its speed."""

_SHORT_CALL_S, _LONG_CALL_S = 2.0, 8.0
"""A call that takes less makes the next one larger, one that takes more makes it smaller:
often enough for a progress bar, seldom enough to keep the encoder's batches full."""


@dataclass(frozen=True)
class QueryEmbeddings:
    """Vectors of queries and of their clauses."""

    whole: Floats
    """(q, d) float32, the whole text of each query."""
    clauses: Floats
    """(m, d) float32, all clauses, query by query."""
    offsets: Ids
    """(q + 1,) int64. Clauses of query i are the rows offsets[i]:offsets[i + 1]; a query of one
    clause has none."""


@dataclass(frozen=True)
class EmbedCounts:
    """What embedding a list of texts took."""

    texts: int
    unique: int
    reused: int
    """Of the unique texts, those that were in the cache."""
    embedded: int
    """Of the unique texts, those that the encoder was asked for."""
    seconds: float


class Embedder:
    """Embeds texts with one encoder, through a cache if there is one.

    Args:
        encoder: Gives the vectors.
        texts: How tools and queries are written for it.
        cache: Where to keep vectors: a folder, or an open cache of the same fingerprint. None
            embeds every text anew.
        dtype: What a cache given as a folder stores vectors in.
        progress: Told how far it is.
        chunk_texts: After this many texts a shard is written; a killed run loses less.
        chunk_seconds: And after this much time, at the next answer of the encoder.
        clock: Seconds from any start.

    Attributes:
        encoder: The encoder.
        texts: The text settings.
    """

    def __init__(
        self,
        encoder: Encoder,
        texts: TextSettings = _DEFAULT_TEXTS,
        cache: VectorCache | Path | str | None = None,
        *,
        dtype: str = "float16",
        progress: Progress | None = None,
        chunk_texts: int = 4096,
        chunk_seconds: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if chunk_texts < 1:
            msg = f"chunk_texts must be >= 1, got {chunk_texts}"
            raise ConfigError(msg)
        self.encoder, self.texts = encoder, texts
        self._fingerprint = Fingerprint(encoder.identity, texts)
        if isinstance(cache, VectorCache) and cache.fingerprint != self._fingerprint:
            difference = cache.fingerprint.difference(self._fingerprint)
            msg = f"cache {cache.folder} is of another encoder than the one given: {difference}"
            raise BackboneMismatchError(msg)
        self._cache, self._dtype = cache, dtype
        self._progress = progress
        self._chunk_texts, self._chunk_seconds, self._clock = chunk_texts, chunk_seconds, clock
        self._probe: Floats | None = None

    @property
    def fingerprint(self) -> Fingerprint:
        """The scope of its vectors: encoder identity and text settings."""
        return self._fingerprint

    @property
    def cache(self) -> VectorCache | None:
        """The open cache, if there is one; a folder is opened at the first use.

        Raises:
            BackboneMismatchError: If the cache was made with other weights of the same name.
        """
        if isinstance(self._cache, Path | str):
            self._cache = VectorCache.open(
                self._cache, self._fingerprint, self.probe(), dtype=self._dtype
            )
        return self._cache

    def probe(self) -> Floats:
        """(p, d) float32 vectors of the probe texts, embedded once and never cached."""
        if self._probe is None:
            self._probe = self._encode(PROBE_TEXTS)
        return self._probe

    def embed(self, texts: Sequence[str], *, keep: bool = True) -> Floats:
        """Embed texts that are already in the encoder's format.

        Args:
            texts: n texts; equal ones are sent once.
            keep: Whether new vectors go into the cache. A server passes False: what users type
                would fill it without bound.

        Returns:
            (n, d) float32. With a cache they are as precise as it stores, whether they were in
            it before or not.

        Raises:
            EncoderError: If the encoder fails. What was embedded before stays in the cache.
            CacheError: If the cache cannot be read or written.
        """
        _refuse_one_text(texts)
        cache = self.cache
        if cache is not None and keep:
            self.fill(texts)
            return cache.rows(texts)
        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        unique = list(places)
        vectors = np.empty((len(unique), self._width), np.float32)
        missing = np.arange(len(unique))
        if cache is not None:
            found = cache.find(unique)
            missing, at_hand = np.flatnonzero(found < 0), np.flatnonzero(found >= 0)
            vectors[at_hand] = cache.gather(found[at_hand])

        def store(start: int, rows: Floats) -> None:
            kept = rows if cache is None else cache.rounded(rows)
            vectors[missing[start : start + len(rows)]] = kept

        self._encode_in_chunks([unique[i] for i in missing], store)
        return vectors[[places[text] for text in texts]]

    def fill(self, texts: Sequence[str]) -> EmbedCounts:
        """Embed the texts that the cache lacks, without returning vectors.

        Finished chunks are stored one by one, so that an interrupted run goes on where it was.

        Raises:
            ConfigError: If there is no cache.
            EncoderError: If the encoder fails. What was embedded before stays in the cache.
            CacheError: If the cache cannot be read or written.
        """
        _refuse_one_text(texts)
        cache = self.cache
        if cache is None:
            raise ConfigError("cache must be given to fill it, got None")
        began = self._clock()
        unique = list(dict.fromkeys(texts))
        missing = [unique[i] for i in np.flatnonzero(cache.find(unique) < 0)]

        def store(start: int, rows: Floats) -> None:
            cache.add(missing[start : start + len(rows)], rows)

        self._encode_in_chunks(missing, store)
        return EmbedCounts(
            texts=len(texts),
            unique=len(unique),
            reused=len(unique) - len(missing),
            embedded=len(missing),
            seconds=self._clock() - began,
        )

    def tools(self, tools: Sequence[Tool], views: Sequence[str] = ("text",)) -> dict[str, Floats]:
        """Embed tools.

        Args:
            tools: n tools.
            views: Which of `toolheads.texts.TOOL_VIEWS`.

        Returns:
            view → (n, d) float32, in the order of the tools.
        """
        texts = [tool_view_texts(tool, views, self.texts) for tool in tools]
        vectors = self.embed([text for of_tool in texts for text in of_tool])  # (n * v, d)
        return {view: vectors[at :: len(views)] for at, view in enumerate(views)}

    def queries(
        self, texts: Sequence[str], *, with_clauses: bool, keep: bool = True
    ) -> QueryEmbeddings:
        """Embed queries, all of them and their clauses in one go.

        Args:
            texts: q queries as users type them; the query format is applied here.
            with_clauses: Whether to embed the clauses of queries that have several.
            keep: As for `embed`.
        """
        views = [query_view_texts(t, self.texts, with_clauses=with_clauses) for t in texts]
        vectors = self.embed([text for of_query in views for text in of_query], keep=keep)
        lengths = [len(of_query) for of_query in views]
        starts = np.array([0, *accumulate(lengths)], np.int64)
        is_whole = np.zeros(len(vectors), np.bool_)
        is_whole[starts[:-1]] = True
        return QueryEmbeddings(
            whole=vectors[is_whole],
            clauses=vectors[~is_whole],
            offsets=starts - np.arange(len(starts)),  # the whole texts are no clauses
        )

    @property
    def _width(self) -> int:
        return self._fingerprint.encoder.width

    def _encode_in_chunks(self, texts: Sequence[str], store: Callable[[int, Floats], None]) -> None:
        """Embed texts and hand over each finished chunk with the place of its first text."""
        report = self._progress or _no_progress
        calls, call_texts = [], _FIRST_CALL
        start = done = 0
        chunk_began = self._clock()
        report(0, len(texts))
        while done < len(texts):
            began = self._clock()
            upto = min(done + call_texts, start + self._chunk_texts, len(texts))
            try:
                calls.append(self._encode(texts[done:upto]))
            except BaseException:  # Ctrl-C as well: what is finished need not be done again
                if calls:
                    store(start, np.concatenate(calls))
                raise
            done, now = upto, self._clock()
            report(done, len(texts))
            is_full = done - start == self._chunk_texts or now - chunk_began >= self._chunk_seconds
            if is_full or done == len(texts):
                store(start, np.concatenate(calls))
                calls, start, chunk_began = [], done, self._clock()
            if now - began < _SHORT_CALL_S:
                call_texts *= 2
            elif now - began > _LONG_CALL_S:
                call_texts = max(1, call_texts // 2)

    def _encode(self, texts: Sequence[str]) -> Floats:
        """Ask the encoder, and refuse an answer that is not one good row for each text."""
        answer = self.encoder.encode(texts)
        model = self._fingerprint.encoder.model
        try:
            rows = as_rows(answer, width=self._width, name=f"vectors of encoder {model}")
        except ShapeError as e:
            raise EncoderError(str(e)) from e
        if len(rows) != len(texts):
            msg = (
                f"encoder {model} must give one vector for each text, {len(texts)}, got {len(rows)}"
            )
            raise EncoderError(msg)
        zero = np.flatnonzero(~rows.any(axis=1))
        if zero.size:
            text = texts[zero[0]]
            msg = (
                f"encoder {model} must give no zero vector, got {zero.size}, first for {text!r:.60}"
            )
            raise EncoderError(msg)
        return rows


def _refuse_one_text(texts: Sequence[str]) -> None:
    """A str is a sequence of texts too: its letters."""
    if isinstance(texts, str):
        msg = f"texts must be a sequence of texts, got one str {texts!r:.60}"
        raise ConfigError(msg)


def _no_progress(done: int, total: int) -> None:
    """The default: say nothing."""
