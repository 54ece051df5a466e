"""Tools as XML: a `parameter` element for each argument, and JSON for what those cannot say."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape, quoteattr

from toolheads.domain import Tool
from toolheads.errors import DataError
from toolheads.plan.formats.block import Format
from toolheads.sources.lists.naming import object_schema

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 has no way to write."""


def _write(name: str, tool: Tool) -> str:
    lines: list[str] = []
    if tool.description:
        lines.append(_element("description", tool.description))
    schema = object_schema(tool)
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        required = schema.get("required")
        listed = [key for key in properties if isinstance(required, list) and key in required]
        is_plain = (
            bool(listed) and required == listed
        )  # else it names others, or in an order of its own
        lines += [_parameter(n, p, is_plain and n in listed) for n, p in properties.items()]
        rest = {k: v for k, v in schema.items() if k != "properties" or not properties}
        if is_plain:
            del rest["required"]
    else:
        rest = dict(schema)
    if rest.get("type") == "object":
        del rest["type"]
    if rest and rest != {"properties": {}}:
        lines.append(_schema(rest))
    if not lines:
        return f"<tool name={_attribute(name)}/>"
    return "\n".join([f"<tool name={_attribute(name)}>", *lines, "</tool>"])


def _parameter(name: str, about: Any, is_required: bool) -> str:
    attributes = f"name={_attribute(name)}"
    rest = about
    inner = ""
    if isinstance(about, Mapping):
        rest = dict(about)
        if isinstance(rest.get("type"), str) and not _FORBIDDEN.search(rest["type"]):
            attributes += f" type={_attribute(rest.pop('type'))}"
        if is_required:
            attributes += ' required="true"'
        if isinstance(rest.get("description"), str) and rest["description"]:
            inner = _element("description", rest.pop("description"))
    elif is_required:
        attributes += ' required="true"'
    if rest != {}:
        inner += _schema(rest)
    return f"<parameter {attributes}>{inner}</parameter>" if inner else f"<parameter {attributes}/>"


def _schema(value: Any) -> str:
    """JSON can spell any character, so nothing is lost in it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    text = _FORBIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return f"<schema>{escape(text)}</schema>"


def _element(tag: str, text: str) -> str:
    return f"<{tag}>{escape(_legal(text), {chr(13): '&#13;'})}</{tag}>"


def _attribute(text: str) -> str:
    return quoteattr(_legal(text))


def _legal(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)


def _read(block: str) -> list[Tool]:
    if "<!" in block:  # no document type, and so no entities that blow up
        msg = "a block must be XML without declarations, got <!"
        raise DataError(msg)
    try:
        root = ET.fromstring(block)
        return [_tool(element) for element in root.iter("tool")]
    except (ET.ParseError, ValueError, RecursionError) as e:
        msg = f"a block must be XML as it is written here, got: {e!s:.200}"
        raise DataError(msg) from e


def _tool(element: ET.Element) -> Tool:
    name = element.get("name", "")
    properties: dict[str, Any] = {}
    required: list[str] = []
    for parameter in element.findall("parameter"):
        about = _json(parameter, {})
        if isinstance(about, dict):
            about |= {"type": parameter.get("type")} if "type" in parameter.attrib else {}
            description = parameter.findtext("description")
            about |= {"description": description} if description else {}
        properties[parameter.get("name", "")] = about
        required += [parameter.get("name", "")] if parameter.get("required") == "true" else []
    rest = _json(element, {})
    schema = {"type": "object", **rest}
    if properties or not rest:
        schema["properties"] = properties
    if required:
        schema["required"] = required
    return Tool(name, name, None, element.findtext("description") or "", schema)


def _json(element: ET.Element, default: Any) -> Any:
    text = element.findtext("schema")
    return default if text is None else json.loads(text)


XML = Format(
    "xml_schema",
    _write,
    head="<tools>\n",
    tail="\n</tools>",
    empty="<tools/>",
    read=_read,
)
