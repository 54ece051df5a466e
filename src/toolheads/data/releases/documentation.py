"""One tool's documentation, as releases write it, to the fields of a tool.

Collections of tools were joined from many sources, and each kept its own way to list parameters.
Every way below was met in ToolRet's files.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from typing import Any

from toolheads.data.releases.rows import parse_json, whole_text, whole_value
from toolheads.domain import Tool

_NAMES = ("api_name", "name", "tool_name", "func_name", "function_name")
_DESCRIPTIONS = ("api_description", "description", "tool_description", "func_description")
_PARAMETERS = ("parameters", "doc_arguments", "arguments", "input_schema", "inputSchema")
_TYPES = {
    "str": "string",
    "string": "string",
    "text": "string",
    "int": "integer",
    "integer": "integer",
    "float": "number",
    "number": "number",
    "bool": "boolean",
    "boolean": "boolean",
    "list": "array",
    "array": "array",
    "tuple": "array",
    "set": "array",
    "dict": "object",
    "object": "object",
}
_TYPE_FIRST = re.compile(r"\(([^()]*)\)\s*(.*)", re.DOTALL)


def to_documented_tool(tool_id: str, documentation: Any, **extra: Any) -> Tool:
    """Read a tool from its documentation.

    Args:
        tool_id: Its id; its name, too, where the documentation has none.
        documentation: An object, the text of one (JSON or Python), or any other text, which is
            the description then.
        extra: Fields to keep beside; the documentation's text is kept as `documentation`.
    """
    document = _as_object(documentation)
    if isinstance(documentation, str):
        extra["documentation"] = whole_text(documentation)
    if document is None:
        return Tool(tool_id, tool_id, None, whole_text(str(documentation or "")), None, extra)
    if isinstance(inner := document.get("function"), Mapping):
        document = dict(inner)
    name = _first_text(document, _NAMES) or tool_id
    server = document.get("tool_name") if document.get("api_name") else None
    return Tool(
        id=tool_id,
        name=name,
        server=whole_text(server) if isinstance(server, str) and server.strip() else None,
        description=_first_text(document, _DESCRIPTIONS),
        input_schema=_schema_of(document),
        extra=extra,
    )


def typed_parameter(text: str) -> tuple[dict[str, Any], bool]:
    """Read `(type) description` or `(optional, type) description`.

    Returns:
        The JSON Schema, and whether the parameter is required: it is not where the brackets say
        `optional` or are not there.
    """
    match = _TYPE_FIRST.fullmatch(text.strip())
    if not match:
        return _property(None, text), False
    words = [word.strip() for word in match[1].split(",")]
    kinds = [word for word in words if word.lower() not in ("optional", "required")]
    optional = any(word.lower() == "optional" for word in words)
    return _property(kinds[0] if kinds else None, match[2]), not optional


def _as_object(documentation: Any) -> dict[str, Any] | None:
    value = documentation
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except ValueError:
            try:
                value = ast.literal_eval(value)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                return None
    return dict(value) if isinstance(value, Mapping) else None


def _first_text(document: Mapping[str, Any], names: Iterable[str]) -> str:
    for name in names:
        value = document.get(name)
        if isinstance(value, str) and value.strip():
            return whole_text(value)
    return ""


def _schema_of(document: Mapping[str, Any]) -> dict[str, Any] | None:
    lists = [document.get(f"{kind}_parameters") for kind in ("required", "optional")]
    if any(isinstance(one, list) for one in lists):
        required, optional = (_listed(one) if isinstance(one, list) else {} for one in lists)
        return _object_schema(required | optional, list(required))
    for name in _PARAMETERS:
        value = document.get(name)
        if isinstance(value, Mapping):
            return _mapped(value, document.get("required"))
        if isinstance(value, list):
            stated = [
                one["name"]
                for one in value
                if isinstance(one, Mapping) and one.get("required") is True and "name" in one
            ]
            return _object_schema(_listed(value), stated)
    return None


def _mapped(parameters: Mapping[str, Any], required: Any) -> dict[str, Any]:
    """A schema as it is, or a mapping name → parameter made one."""
    if isinstance(parameters.get("properties"), Mapping) and (
        parameters.get("type") in ("object", "dict") or "required" in parameters
    ):
        schema: dict[str, Any] = whole_value(dict(parameters))
        return schema | {"type": "object"}
    properties: dict[str, Any] = {}
    for name, about in parameters.items():
        if isinstance(about, Mapping):
            properties[str(name)] = _property(about.get("type"), about.get("description"), about)
        elif isinstance(about, str):
            properties[str(name)] = typed_parameter(about)[0]
    return _object_schema(properties, required if isinstance(required, list) else [])


def _listed(parameters: list[Any]) -> dict[str, Any]:
    """Name → schema of a list of parameters; what has no name is passed over."""
    properties: dict[str, Any] = {}
    for one in parameters:
        if isinstance(one, Mapping) and isinstance(name := one.get("name"), str) and name:
            schema = one.get("schema")
            kind = schema.get("type") if isinstance(schema, Mapping) else one.get("type")
            properties[name] = _property(kind, one.get("description"), one)
    return properties


def _property(
    kind: Any, description: Any, about: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    about = about or {}
    made: dict[str, Any] = {}
    word = re.match(r"[A-Za-z]+", kind) if isinstance(kind, str) else None
    if word and (known := _TYPES.get(word[0].lower())):
        made["type"] = known
    if isinstance(description, str) and description.strip():
        made["description"] = description.strip()
    if isinstance(about.get("enum"), list):
        made["enum"] = about["enum"]
    if about.get("default") not in (None, ""):
        made["default"] = about["default"]
    return made


def _object_schema(properties: Mapping[str, Any], required: list[Any]) -> dict[str, Any]:
    named = [name for name in required if name in properties]
    schema = {"type": "object", "properties": dict(properties)}
    made: dict[str, Any] = whole_value(schema | ({"required": named} if named else {}))
    return made
