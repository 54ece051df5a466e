"""Vectors of the texts of tools: from the cache, and from the encoder only for what is new."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np

from toolheads.arrays import Ids
from toolheads.cache import VectorCache
from toolheads.embedder import Embedder
from toolheads.errors import EncoderError
from toolheads.heads import Heads
from toolheads.identity import PROBE_TEXTS
from toolheads.ports import Encoder
from toolheads.scorers.clm import check_backbone


@dataclass
class Counts:
    """Texts by where their vectors came from."""

    reused: int = 0
    embedded: int = 0


@dataclass(frozen=True)
class Found:
    """Where the vectors of a batch of tools are.

    Attributes:
        places: (n,) which tools of the batch have all their vectors, rising.
        numbers: (n * v,) their numbers in the cache, tool by tool.
        refused: Place of a tool that the encoder refuses → why.
    """

    places: list[int]
    numbers: Ids
    refused: dict[int, str] = field(default_factory=dict)


class Vectors:
    """A cache, and an encoder that is made when the first text is missing in it, and not before.

    Args:
        heads: That the vectors are for; they name the encoder.
        encoder: Makes the encoder.
        cache: Folder of the vectors.
        dtype: What the cache stores new vectors in, and which of its vectors are read.

    Attributes:
        cache: The open cache.
        counts: Texts so far.

    Raises:
        BackboneMismatchError: If the cache was made with other weights than the heads.
        CacheError: If it cannot be read.
    """

    def __init__(
        self, heads: Heads, encoder: Callable[[], Encoder], cache: Path, *, dtype: str = "float16"
    ) -> None:
        self._heads, self._make_encoder = heads, encoder
        self._folder, self._dtype = cache, dtype
        self.cache = VectorCache.open(cache, heads.fingerprint, heads.probe, dtype=dtype)
        self.counts = Counts()
        self._encoder: Encoder | None = None
        self._embedder: Embedder | None = None

    def find(self, tools: Sequence[Sequence[str]]) -> Found:
        """Find the vectors of a batch of tools, and embed what is missing.

        Args:
            tools: The texts of each tool, as many for each.

        Raises:
            EncoderError: If the encoder fails for any text, or cannot be made.
            CacheError: If the cache cannot be read or written.
        """
        unique = list(dict.fromkeys(chain.from_iterable(tools)))
        found = self.cache.find(unique)
        missing = [unique[i] for i in np.flatnonzero(found < 0)]
        bad: dict[str, str] = {}
        if missing:
            bad = self._embed(missing)
            found = self.cache.find(unique)
        number_of = dict(zip(unique, found.tolist(), strict=True))
        self.counts.reused += len(unique) - len(missing)
        self.counts.embedded += len(missing) - len(bad)
        reasons = [next((bad[t] for t in texts if t in bad), None) for texts in tools]
        places = [place for place, reason in enumerate(reasons) if reason is None]
        numbers = [number_of[text] for place in places for text in tools[place]]
        refused = {place: why for place, why in enumerate(reasons) if why is not None}
        return Found(places, np.array(numbers, np.int64), refused)

    def close(self) -> None:
        """Release the encoder."""
        if self._encoder is not None:
            self._encoder.close()

    def _embed(self, texts: list[str]) -> dict[str, str]:
        """Fill the cache; the texts that the encoder refuses, though it takes others, and why."""
        if self._embedder is None:
            self._encoder = self._encoder or self._make_encoder()
            embedder = Embedder(self._encoder, self._heads.texts, self.cache)
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
