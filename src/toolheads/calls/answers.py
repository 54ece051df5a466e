"""An HTTP answer as the result of a call. Knows no client."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from toolheads.calls.result import CallResult, failure, text_block

_SHOWN = 200
_BLOCKS = {"image/": "image", "audio/": "audio"}


def result_of(
    *,
    status: int,
    content_type: str,
    content: bytes,
    is_cut: bool,
    most_characters: int,
    redirect: str = "",
) -> CallResult:
    """Read an answer.

    Args:
        status: HTTP status.
        content_type: The header; empty if it is not there.
        content: The body, or its start.
        is_cut: Whether the body goes on.
        most_characters: Most text that is kept; a note says that there was more.
        redirect: Where the answer points, if it does.
    """
    blocks, structured = _content(content_type, content, is_cut, most_characters)
    if 200 <= status < 300:
        blocks = blocks or [text_block(f"HTTP {status}, no content")]
        return CallResult("ok", tuple(blocks), structured, status)
    if redirect or 300 <= status < 400:
        error = f"HTTP {status}: a redirect to {redirect[:_SHOWN] or 'nowhere'}, not followed"
        return failure("tool_error", error, http_status=status)
    error = f"HTTP {status}"
    if message := _message(structured, blocks):
        error += f": {message}"
    return failure("tool_error", error, content=blocks, structured=structured, http_status=status)


def _content(
    content_type: str, content: bytes, is_cut: bool, most_characters: int
) -> tuple[list[dict[str, Any]], Any]:
    media_type, _, settings = content_type.partition(";")
    media_type = media_type.strip().lower()
    if not content:
        return [], None
    for prefix, kind in _BLOCKS.items():
        if media_type.startswith(prefix) and media_type != "image/svg+xml":
            if is_cut:
                return [text_block(f"[more than {len(content):,} bytes of {media_type}]")], None
            data = base64.b64encode(content).decode()
            return [{"type": kind, "data": data, "mimeType": media_type}], None
    text = _text(content, settings, is_cut)
    if text is None:
        size = f"more than {len(content):,}" if is_cut else f"{len(content):,}"
        return [text_block(f"[{size} bytes of {media_type or 'an unknown type'}]")], None
    structured = None if is_cut else _json(text)
    if len(text) > most_characters or is_cut:
        shown = text[:most_characters]
        note = f"\n[cut: {len(shown):,} characters of {'more' if is_cut else f'{len(text):,}'}]"
        return [text_block(shown + note)], structured
    return [text_block(text)], structured


def _text(content: bytes, settings: str, is_cut: bool) -> str | None:
    """The text of a body; None if it is none."""
    name = "utf-8"
    for setting in settings.split(";"):
        key, _, value = setting.partition("=")
        if key.strip().lower() == "charset":
            name = value.strip().strip("\"'")
    for dropped in range(4 if is_cut else 1):  # the cut may be inside a character
        text = _decoded(content[: len(content) - dropped], name)
        if text is not None:
            break
    else:
        return None
    return None if "\0" in text else text.removeprefix("\ufeff")


def _decoded(content: bytes, encoding: str) -> str | None:
    try:
        return content.decode(encoding)
    except LookupError:  # not known, or no encoding of text
        return _decoded(content, "utf-8")
    except ValueError:
        return None


def _json(text: str) -> Any:
    """The value of a JSON text; None if it is none, or has numbers that JSON has not."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None


def _no_constant(name: str) -> float:
    raise ValueError(name)


def _message(structured: Any, blocks: list[dict[str, Any]]) -> str:
    """What an error's body says, in a line."""
    if isinstance(structured, Mapping):
        for name in ("message", "detail", "error_description", "title", "error"):
            value = structured.get(name)
            if isinstance(value, Mapping):
                value = value.get("message")
            if isinstance(value, str) and value.strip():
                return " ".join(value.split())[:_SHOWN]
    text = next((block["text"] for block in blocks if block["type"] == "text"), "")
    return " ".join(text.split())[:_SHOWN]
