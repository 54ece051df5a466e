"""Small caches for the tests of this folder."""

from pathlib import Path

import numpy as np

from toolheads.cache import VectorCache
from toolheads.identity import EncoderIdentity, Fingerprint
from toolheads.texts import TextSettings

WIDTH = 4
FINGERPRINT = Fingerprint(EncoderIdentity("m", "", "mean", 0, WIDTH, "float32"), TextSettings())
PROBE = np.eye(4, WIDTH, dtype=np.float32)


def open_cache(root: Path, dtype: str = "float32") -> VectorCache:
    return VectorCache.open(root, FINGERPRINT, PROBE, dtype=dtype)


def vectors(*first_entries: float) -> np.ndarray:
    """A row for each number, which is its first entry; the second is 1."""
    rows = np.zeros((len(first_entries), WIDTH), np.float32)
    rows[:, 0], rows[:, 1] = first_entries, 1.0
    return rows


def shard_files(root: Path) -> list[Path]:
    return sorted(root.glob("*/float*/*.safetensors"))


def flip_byte(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
