"""A call as an HTTP message: address, headers and body. Sends nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from toolheads.calls.serialisation import (
    form_pairs,
    header_text,
    path_text,
    plain,
    query_pairs,
)
from toolheads.sources.openapi.operation import FORM_MEDIA_TYPE, Body, Operation, Parameter

_TEMPLATE = re.compile(r"\{([^{}]*)\}")
_SAFE_IN_PATH = "%-._~!$&'()*+,;=:@/"
"""Characters of a template that stay as they are."""

_MOST_TARGET = 16_000
"""Characters of path and query; servers refuse about 8,000 and more."""


class RefusedError(ValueError):
    """Why a call is not sent: one line."""


@dataclass(frozen=True)
class HttpMessage:
    """What is sent, below a base address."""

    method: str
    target: str
    """Path and query, encoded."""
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes = b""


def http_message(
    operation: Operation, arguments: Mapping[str, Any], *, most_bytes: int
) -> HttpMessage:
    """Write a call.

    Args:
        operation: How the tool is called.
        arguments: JSON values.
        most_bytes: Longest body.

    Raises:
        RefusedError: If an argument is missing, belongs to nothing, or could lead elsewhere.
    """
    left = dict(arguments)
    in_path: dict[str, str] = {}
    query: list[tuple[str, str]] = []
    headers: dict[str, str] = {}
    for parameter in operation.parameters:
        is_given = parameter.argument in left
        value = left.pop(parameter.argument, None)
        if parameter.location == "path":
            in_path[parameter.name] = _path_part(parameter, value)
        elif not is_given or value is None:
            if parameter.required and not is_given:
                msg = f"arguments must have {parameter.argument}, got none"
                raise RefusedError(msg)
        elif parameter.location == "query":
            query += query_pairs(parameter, value)
        else:
            headers[parameter.name] = _header(parameter, value)
    content, media_type = _content(operation.body, left)
    if left:
        msg = f"arguments must be those of the tool, got {min(left)!r:.80}, which it does not have"
        raise RefusedError(msg)
    if len(content) > most_bytes:
        msg = f"the body must have at most {most_bytes:,} bytes, got {len(content):,}"
        raise RefusedError(msg)
    if media_type:
        headers["Content-Type"] = media_type
    target = _path(operation.path, in_path)
    if query:
        target += "?" + "&".join(f"{name}={value}" for name, value in query)
    if len(target) > _MOST_TARGET:
        msg = f"path and query must have at most {_MOST_TARGET:,} characters, got {len(target):,}"
        raise RefusedError(msg)
    return HttpMessage(operation.method, target, headers, content)


def _path_part(parameter: Parameter, value: Any) -> str:
    """An argument in the path. An empty one would name the collection instead of its item."""
    shown = json.dumps(value, default=str)[:80]
    items = value if isinstance(value, list) else [value]
    if value == {} or not items or any(_is_blank(item) for item in items):
        msg = f"{parameter.argument} must not be empty, since it stands in the path, got {shown}"
        raise RefusedError(msg)
    text = path_text(parameter, value)
    steps = re.split(r"[/\\]", _decoded(text))
    if any(step.strip() in (".", "..") for step in steps):
        msg = f"{parameter.argument} must have no dot segments, got {shown}"
        raise RefusedError(msg)
    return text


def _decoded(text: str) -> str:
    """A text as the most eager of servers reads it."""
    while (decoded := unquote(text)) != text:
        text = decoded
    return text


def _is_blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _path(template: str, values: Mapping[str, str]) -> str:
    def filled(found: re.Match[str]) -> str:
        if found[1] not in values:
            msg = (
                f"path must have a parameter for each of its braces, got none for {found[1]!r:.80}"
            )
            raise RefusedError(msg)
        return values[found[1]]

    pieces = _TEMPLATE.split(template)  # text, name, text, …
    literal = "".join(
        f"{{{piece}}}" if i % 2 else quote(piece, safe=_SAFE_IN_PATH)
        for i, piece in enumerate(pieces)
    )
    path = _TEMPLATE.sub(filled, literal)
    if any(unquote(step) in (".", "..") for step in path.split("/")) or path.startswith("//"):
        msg = f"path must have no dot segments once it is filled in, got {path!r:.80}"
        raise RefusedError(msg)
    return path


def _header(parameter: Parameter, value: Any) -> str:
    text = header_text(parameter, value)
    if not all(" " <= c <= "~" or c == "\t" for c in text) or text != text.strip():
        shown = json.dumps(text)[:80]
        msg = f"{parameter.argument} must be printable ASCII to be sent as a header, got {shown}"
        raise RefusedError(msg)
    return text


def _content(body: Body | None, left: dict[str, Any]) -> tuple[bytes, str]:
    """(body, media type) of the arguments that are left; those it takes are taken out."""
    if body is None:
        return b"", ""
    if body.argument is None:
        if not left and not body.required:
            return b"", ""
        value: Any = dict(left)
        left.clear()
    elif body.argument in left:
        value = left.pop(body.argument)
    elif body.required:
        msg = f"arguments must have {body.argument}, got none"
        raise RefusedError(msg)
    else:
        return b"", ""
    if body.media_type == FORM_MEDIA_TYPE:
        if not isinstance(value, Mapping):
            shown = json.dumps(value, default=str)[:80]
            msg = f"{body.argument} must be an object to be sent as a form, got {shown}"
            raise RefusedError(msg)
        text = "&".join(f"{name}={inner}" for name, inner in form_pairs(value))
        return text.encode(), body.media_type
    if body.media_type.startswith("text/"):
        return plain(value).encode(), f"{body.media_type}; charset=utf-8"
    return json.dumps(value, ensure_ascii=False, default=dict).encode(), body.media_type
