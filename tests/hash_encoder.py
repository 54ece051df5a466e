"""A deterministic encoder without a model: texts that share words are near each other."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Sequence

import numpy as np

from toolheads.arrays import Floats, normalized
from toolheads.identity import EncoderIdentity


class HashEncoder:
    """Sums one seeded vector for each word and a small one for the whole text.

    Args:
        width: Entries of a vector.
        model: Name in the fingerprint.
        weights: Seed of the vectors; no part of the fingerprint, so that two encoders can be
            told apart by their probe alone.
        seconds_per_text: How long each text takes.

    Attributes:
        sent: Every text that was encoded, in order, repeats included.
    """

    def __init__(
        self,
        width: int = 16,
        *,
        model: str = "hash",
        weights: str = "one",
        seconds_per_text: float = 0.0,
    ) -> None:
        self._identity = EncoderIdentity(model, "", "mean", 0, width, "float32")
        self._weights = weights
        self._seconds = seconds_per_text
        self._words: dict[str, Floats] = {}
        self.sent: list[str] = []

    @property
    def identity(self) -> EncoderIdentity:
        return self._identity

    @property
    def count(self) -> int:
        return len(self.sent)

    def encode(self, texts: Sequence[str]) -> Floats:
        self.sent.extend(texts)
        rows = np.empty((len(texts), self._identity.width), np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[:] = 0.3 * self._seeded(f"text {text}")
            for word in re.findall(r"\w+", text.lower()):
                if word not in self._words:
                    self._words[word] = self._seeded(f"word {word}")
                row += self._words[word]
            if self._seconds:
                time.sleep(self._seconds)
        return normalized(rows)

    def close(self) -> None:
        pass

    def _seeded(self, what: str) -> Floats:
        seed = hashlib.sha256(f"{self._weights} {what}".encode("utf-8", "surrogatepass")).digest()
        rng = np.random.default_rng(int.from_bytes(seed[:8], "big"))
        row: Floats = rng.standard_normal(self._identity.width).astype(np.float32)
        return row / np.linalg.norm(row)
