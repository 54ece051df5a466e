"""An encoder that is asked for each text once, with a cache or without."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toolheads.arrays import Floats
from toolheads.identity import EncoderIdentity
from toolheads.ports import Encoder


class RememberingEncoder:
    """Another encoder, with all vectors kept in memory. See `toolheads.ports.Encoder`.

    Training and the scorers of the given and of the new heads want the same texts.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._vectors: dict[str, Floats] = {}

    @property
    def identity(self) -> EncoderIdentity:
        """That of the other encoder."""
        return self._encoder.identity

    def encode(self, texts: Sequence[str]) -> Floats:
        """Embed texts. See `toolheads.ports.Encoder`."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            rows = self._encoder.encode(new)
            self._vectors.update(zip(new, rows, strict=True))
        found = [self._vectors[text] for text in texts]
        return np.stack(found) if found else np.empty((0, self.identity.width), np.float32)

    def close(self) -> None:
        """Close the other encoder."""
        self._encoder.close()
