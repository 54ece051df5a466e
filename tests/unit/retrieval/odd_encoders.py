"""Encoders that hang, fail or answer nonsense when told to, and work otherwise."""

from __future__ import annotations

import threading

import numpy as np
from tests.hash_encoder import HashEncoder

from toolheads.errors import EncoderError


class OddEncoder(HashEncoder):
    """A `HashEncoder` whose mood can be changed.

    Attributes:
        mood: `well`, `fails`, `hangs`, `nan`, `narrow` or `breaks`.
        calls: Calls of `encode`.
        poison: Texts with this in them are refused, with `poisoned`.
    """

    def __init__(self, width=16, **options):
        super().__init__(width, **options)
        self.mood = "well"
        self.calls = 0
        self.poison = ""
        self.poisoned: Exception = EncoderError("encoder odd refused a text")
        self._awake = threading.Event()

    def encode(self, texts):
        self.calls += 1
        if self.poison and any(self.poison in text for text in texts):
            raise self.poisoned
        if self.mood == "hangs":
            self._awake.wait(60)
        if self.mood == "fails":
            raise EncoderError("encoder odd must be reachable, got a refused connection")
        if self.mood == "breaks":
            raise RuntimeError("not even an error of ours")
        rows = super().encode(texts)
        if self.mood == "nan":
            return np.full_like(rows, np.nan)
        return rows[:, :-1] if self.mood == "narrow" else rows

    def heal(self):
        """Work again, and end all calls that hang."""
        self.mood = "well"
        self._awake.set()

    def swap_weights(self, weights):
        """Other weights behind the same name."""
        self._weights = weights
        self._words.clear()
