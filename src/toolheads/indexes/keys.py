"""Names of spaces and rows. A row's key says all that the row was made of, so nothing can mix."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from toolheads.errors import ConfigError
from toolheads.identity import Fingerprint

_ROW_FORMAT = 1
"""Raised when the way from texts to a row changes other than by what a space names."""


def space_of(
    fingerprint: Fingerprint,
    *,
    heads_sha256: str | None = None,
    views: Mapping[str, float] | None = None,
) -> str:
    """Name of the space whose rows may be compared: who made them, from which texts, and how.

    The precision that rows are stored in is no part of it.

    Args:
        fingerprint: Of the encoder and its text formats.
        heads_sha256: Of the heads file that projects the embeddings; None without heads.
        views: View of a tool → its weight in the row; None for the whole text alone.

    Returns:
        64 hex digits.
    """
    about = {
        "row_format": _ROW_FORMAT,
        "fingerprint": fingerprint.to_json(),
        "heads": heads_sha256,
        # As a list in the caller's order: texts of a row come in this order. `float.hex` tells
        # any two weights apart.
        "views": [[view, float(weight).hex()] for view, weight in (views or {"text": 1.0}).items()],
    }
    canonical = json.dumps(about, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def row_key(space: str, texts: str | Sequence[str]) -> str:
    """Key of the row that a space makes of one tool's texts.

    Args:
        space: As `space_of` names it.
        texts: The text, or one for each view in the order of the space's views.

    Returns:
        64 hex digits. Lists of texts that differ anywhere have keys that differ.

    Raises:
        ConfigError: If there is no text.
    """
    listed = [texts] if isinstance(texts, str) else list(texts)
    if not listed:
        msg = "texts must hold at least one text, got none"
        raise ConfigError(msg)
    digest = hashlib.sha256()
    for part in (space, *listed):
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big"))  # so that no two lists run together
        digest.update(encoded)
    return digest.hexdigest()
