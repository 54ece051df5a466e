"""What shapes a vector, as plain data: encoder identity, fingerprint and probe.

Two vectors may be compared only if their fingerprints are equal and their probes agree. The
fingerprint catches what is declared (another model, format or truncation); the probe catches
what is not (other weights behind the same name).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from toolheads.arrays import Floats, as_rows, normalized
from toolheads.errors import BackboneMismatchError, ConfigError
from toolheads.texts.formats import TextSettings

PROBE_TEXTS = (
    "Send a message to a channel.",
    "weather forecast: get the forecast for a city\nParameters: city; days",
    "Convert 250 US dollars to Japanese yen, then mail me the result.",
    "将文件上传到云存储",
)
"""Texts whose vectors are kept with every cache and heads file. Never change them: their
vectors in files that exist would no longer match."""

PROBE_MIN_COSINE = 0.995
"""Smallest cosine between a stored and a fresh probe vector of the same weights. Engines and
bf16 against fp32 stay above 0.999 on the local model; two builds of one server were reported at
0.997; another checkpoint of the same family falls far below."""


@dataclass(frozen=True)
class EncoderIdentity:
    """What an encoder declares about its vectors. The address it is reached at is no part."""

    model: str
    revision: str
    """Digest or tag of the weights; empty when the server does not tell."""
    pooling: str
    """`mean`, `last` or `cls`; `server` when the server decides."""
    truncation: int
    """Most tokens of a text, >= 1; 0 when the server decides."""
    width: int
    """d, entries of a vector."""
    dtype: str
    """Precision of the weights, such as `float32` or `bfloat16`; `server` when it decides."""


@dataclass(frozen=True)
class Fingerprint:
    """Encoder identity together with the text settings: the scope of vectors that may mix."""

    encoder: EncoderIdentity
    texts: TextSettings

    @property
    def key(self) -> str:
        """First 16 hex digits of the sha256 over the canonical JSON of all fields."""
        canonical = json.dumps(self.to_json(), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """JSON types only; `from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Fingerprint:
        """Read what `to_json` wrote.

        Raises:
            ConfigError: If a field is missing, unknown or of the wrong type.
        """
        try:
            encoder = _checked(EncoderIdentity, data["encoder"])
            texts = _checked(TextSettings, data["texts"])
        except (KeyError, TypeError) as e:
            msg = f"a fingerprint must have encoder and texts with all fields, got {data!r:.200}"
            raise ConfigError(msg) from e
        return cls(EncoderIdentity(**encoder), TextSettings(**texts))

    def difference(self, other: Fingerprint) -> str:
        """Name the fields that differ, as `model 'a' != 'b', width 384 != 768`."""
        mine, theirs = self.to_json(), other.to_json()
        return ", ".join(
            f"{name} {mine[part][name]!r} != {theirs[part][name]!r}"
            for part in ("encoder", "texts")
            for name in mine[part]
            if mine[part][name] != theirs[part][name]
        )


def check_probe(stored: Floats, fresh: Floats, *, owner: str) -> None:
    """Compare the probe vectors of a file with those of the encoder at hand.

    Args:
        stored: (p, d) float32, as the file has them.
        fresh: (p, d) float32, as the encoder gives them now.
        owner: The file, as the caller knows it; used in the error.

    Raises:
        BackboneMismatchError: If shapes differ or a cosine is below `PROBE_MIN_COSINE`.
    """
    if stored.shape != fresh.shape:
        msg = f"{owner} has probe vectors of shape {stored.shape}, the encoder gives {fresh.shape}"
        raise BackboneMismatchError(msg)
    one, two = (normalized(as_rows(x, width=None, name="probe")) for x in (stored, fresh))
    cosines = np.einsum("pd,pd->p", one, two)  # (p,)
    if cosines.min(initial=1.0) < PROBE_MIN_COSINE:
        msg = (
            f"{owner} was made with other weights: its probe vectors must have a cosine >= "
            f"{PROBE_MIN_COSINE} to the encoder's, got {cosines.min():.4f}; use the encoder that "
            "made it, or make it anew"
        )
        raise BackboneMismatchError(msg)


def _checked(cls: type[EncoderIdentity] | type[TextSettings], data: Any) -> dict[str, Any]:
    """The fields of a flat dataclass, each of the type of its annotation."""
    kinds = {f.name: {"str": str, "int": int}[str(f.type)] for f in fields(cls)}
    if set(data) != set(kinds) or not all(type(data[n]) is kind for n, kind in kinds.items()):
        raise TypeError(sorted(data))
    return dict(data)
