"""An OpenAPI document as plain JSON values: read within limits, references looked up inside it.

Knows JSON, YAML and pointers; what an operation is stands in `toolheads.sources.openapi.listing`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from toolheads.data.jsonl import shown
from toolheads.errors import DataError
from toolheads.sources.openapi.yaml_text import YamlError, parse_yaml
from toolheads.sources.schemas import levels

MOST_BYTES = 32 * 2**20
"""Bytes of a description; the largest public ones have about half of it."""

MOST_LEVELS = 100

VERSIONS = ("3.0", "3.1", "3.2")
"""Versions of OpenAPI that can be read."""

_MOST_HOPS = 32
"""References that lead to references."""


class OperationError(ValueError):
    """Why something in a description cannot be used; costs the operations that need it."""


class Document:
    """A description, with its references looked up."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        """Take over a parsed description.

        Args:
            root: JSON values only.

        Raises:
            DataError: If it is no OpenAPI description of a version that can be read.
        """
        version = root.get("openapi")
        if not isinstance(version, str) or version[:3] not in VERSIONS:
            named = "swagger" if "swagger" in root else "openapi"
            hint = "; convert it to OpenAPI 3 first" if named == "swagger" else ""
            msg = (
                f"openapi must be one of {', '.join(VERSIONS)}, "
                f"got {named} {shown(root.get(named))}{hint}"
            )
            raise DataError(msg)
        if not isinstance(root.get("paths", {}), Mapping):
            msg = f"paths must be an object, got {shown(root['paths'])}"
            raise DataError(msg)
        self.root = root
        self.is_3_0 = version.startswith("3.0")

    def at(self, reference: Any) -> Any:
        """The value that a reference leads to.

        Raises:
            OperationError: If it leads out of the document, or nowhere.
        """
        if not isinstance(reference, str):
            msg = f"$ref must be a string, got {shown(reference)}"
            raise OperationError(msg)
        if not reference.startswith("#/"):
            msg = f"$ref must lead to a place in the document (#/…), got {shown(reference)}"
            raise OperationError(msg)
        value: Any = self.root
        for step in reference[2:].split("/"):
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(value, Mapping) and key in value:
                value = value[key]
            elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
                value = value[int(key)]
            else:
                msg = f"$ref must lead to a value, got {shown(reference)}, where there is none"
                raise OperationError(msg)
        return value

    def followed(self, value: Any, *, what: str) -> Mapping[str, Any]:
        """An object, references to it followed. For parameters, bodies and the like, not schemas.

        Raises:
            OperationError: If it is no object, or the references lead in a circle.
        """
        for _ in range(_MOST_HOPS):
            if not isinstance(value, Mapping):
                msg = f"{what} must be an object, got {shown(value)}"
                raise OperationError(msg)
            if "$ref" not in value:
                return value
            value = self.at(value["$ref"])
        msg = f"{what} must be at the end of its references, got a circle"
        raise OperationError(msg)


def parse_document(content: bytes, *, name: str) -> Document:
    """Read a description in JSON or YAML.

    Args:
        content: UTF-8, at most `MOST_BYTES`.
        name: The file or address, for errors.

    Raises:
        DataError: If it is too large, nests too deep, is neither JSON nor YAML, or is no OpenAPI
            description.
        MissingExtraError: If it is YAML and PyYAML is not installed.
    """
    try:
        return Document(_parsed(content))
    except DataError as e:
        msg = f"{name}: {e}"
        raise DataError(msg) from e


def _parsed(content: bytes) -> Mapping[str, Any]:
    if len(content) > MOST_BYTES:
        msg = f"a description must have at most {MOST_BYTES:,} bytes, got more"
        raise DataError(msg)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        msg = f"a description must be UTF-8, got {content[e.start : e.start + 4].hex(' ')}"
        raise DataError(msg) from e
    value = _json(text) if text.lstrip()[:1] == "{" else _NOT_JSON
    if value is _NOT_JSON:
        try:
            value = parse_yaml(text, most_levels=MOST_LEVELS)
        except YamlError as e:
            raise DataError(str(e)) from e
    if not isinstance(value, Mapping):
        msg = f"a description must be an object, got {shown(value)}"
        raise DataError(msg)
    return value


_NOT_JSON = object()


def _json(text: str) -> Any:
    """The value, or `_NOT_JSON`: what starts with a brace may still be YAML."""
    try:
        value = json.loads(text)
    except RecursionError as e:
        raise DataError(_too_deep()) from e
    except ValueError:
        return _NOT_JSON
    if levels(value) > MOST_LEVELS:
        raise DataError(_too_deep())
    return value


def _too_deep() -> str:
    return f"a description must nest at most {MOST_LEVELS} levels deep, got more"
