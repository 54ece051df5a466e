"""What an answer must be before a vector of it is believed."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from toolheads.arrays import Floats
from toolheads.encoders.outputs import unit_rows
from toolheads.errors import EncoderError

_SHOWN = 500
"""Characters of a server's message that an error shows."""


def read_rows(content: bytes, *, count: int, width: int | None, truncation: int) -> Floats:
    """The vectors of one answer, in the order of the texts.

    Args:
        content: Body of the answer.
        count: How many texts were sent.
        width: The d that is expected; None takes any, but one for all.
        truncation: Tokens the server was asked to cut at; 0 for none.

    Returns:
        (count, d) float32, rows of length 1.

    Raises:
        EncoderError: If anything is not as it must be. The message says what, not who.
    """
    answer = _json(content)
    if not isinstance(answer, dict) or not isinstance(answer.get("data"), list):
        msg = f"answered 200 without a list of embeddings: {server_message(content)}"
        raise EncoderError(msg)
    items = answer["data"]
    if len(items) != count:
        msg = f"must answer {count} embeddings for {count} texts, got {len(items)}"
        raise EncoderError(msg)
    _check_truncated(answer, count, truncation)
    vectors: dict[int, Floats] = {}
    for item in items:
        row = item.get("index") if isinstance(item, dict) else None
        if type(row) is not int or not 0 <= row < count or row in vectors:
            msg = f"must answer each index of 0 to {count - 1} exactly once, got {row!r:.50}"
            msg += " twice" if type(row) is int and row in vectors else ""
            raise EncoderError(msg)
        vectors[row] = _vector(item.get("embedding"), row)
    return _rows([vectors[row] for row in range(count)], width)


def server_message(content: bytes) -> str:
    """What a server says is wrong, on one line.

    Three shapes are in use: `{"error": {"message": …}}`, `{"error": "…"}` and `{"detail": …}`;
    older servers put `message` at the top. Anything else is shown as it is.
    """
    text = content.decode(errors="replace")
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = text
    if isinstance(said, dict):
        for key in ("error", "detail", "message"):
            if said.get(key):
                said = said[key]
                break
    if isinstance(said, dict) and isinstance(said.get("message"), str):
        kind = said.get("type")
        said = f"{kind}: {said['message']}" if isinstance(kind, str) else said["message"]
    line = " ".join((said if isinstance(said, str) else json.dumps(said)).split())
    if not line:
        return "an empty body"
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as e:
        msg = f"must answer JSON, got: {server_message(content[: 4 * _SHOWN])}"
        raise EncoderError(msg) from e


def _check_truncated(answer: dict[str, Any], count: int, truncation: int) -> None:
    """A server that ignores the limit would give vectors that the identity does not describe."""
    usage = answer.get("usage")
    used = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    if truncation and type(used) is int and used > count * truncation:
        msg = f"must cut texts at {truncation} tokens, got {used} tokens used for {count} texts"
        msg += "; the server knows no truncate_prompt_tokens, set truncation to 0"
        raise EncoderError(msg)


def _vector(embedding: Any, row: int) -> Floats:
    """One vector, from base64 of little-endian float32 or from a list of numbers."""
    if isinstance(embedding, str):
        try:
            return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
        except ValueError as e:
            msg = f"must answer base64 of float32, got {embedding!r:.50} for text {row}"
            raise EncoderError(msg) from e
    try:
        vector = np.asarray(embedding)
    except ValueError:  # lists of different lengths in the list
        vector = np.asarray(None)
    if vector.ndim != 1 or vector.dtype.kind not in "fiu":
        msg = f"must answer base64 or a list of numbers, got {embedding!r:.50} for text {row}"
        raise EncoderError(msg)
    with np.errstate(over="ignore"):  # becomes inf and is refused with the others
        return vector.astype(np.float32)


def _rows(vectors: list[Floats], width: int | None) -> Floats:
    """(n, d) of length 1, after the checks that need all rows."""
    want = vectors[0].size if width is None else width
    for row, vector in enumerate(vectors):
        if vector.size != want:
            msg = f"must answer vectors of width {want}, got {vector.size} for text {row}"
            raise EncoderError(msg)
    return unit_rows(np.stack(vectors), count=len(vectors), width=want, encoder="")
