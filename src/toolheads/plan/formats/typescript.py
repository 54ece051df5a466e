"""Tools as the methods of a TypeScript interface."""

from __future__ import annotations

import json
import re

from toolheads.domain import Tool
from toolheads.plan.formats.block import Format
from toolheads.plan.formats.shapes import Field, Shape, parameters_of
from toolheads.sources.lists.naming import object_schema
from toolheads.texts.untrusted import one_line

_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_NAMES = {
    "any": "unknown",
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}


def type_name(shape: Shape) -> str:
    """A type on one line."""
    if shape.kind == "literals":
        return " | ".join(dict.fromkeys(map(_literal, shape.literals)))
    if shape.kind == "union":
        return " | ".join(dict.fromkeys(map(type_name, shape.of)))
    if shape.kind == "array":
        item = type_name(shape.of[0])
        return f"({item})[]" if shape.of[0].kind in ("union", "literals") else f"{item}[]"
    if shape.kind == "object":
        if not shape.fields:
            return "Record<string, unknown>"
        return "{ " + "; ".join(map(_member, shape.fields)) + " }"
    return _NAMES[shape.kind]


def _write(name: str, tool: Tool) -> str:
    lines = _comment(tool.description, "  ")
    fields = parameters_of(object_schema(tool))
    if not fields:
        return "\n".join([*lines, f"  {_key(name)}(): unknown;"])
    lines.append(f"  {_key(name)}(args: {{")
    for field in fields:
        lines += _comment(_said(field), "    ")
        lines.append(f"    {_member(field)};")
    return "\n".join([*lines, "  }): unknown;"])


def _member(field: Field) -> str:
    return f"{_key(field.name)}{'' if field.is_required else '?'}: {type_name(field.shape)}"


def _said(field: Field) -> str:
    default = f" @default {_literal(field.default)}" if field.has_default else ""
    return (field.line + default).strip()


def _comment(text: str, indent: str) -> list[str]:
    """A comment that ends where it is meant to, its lines marked as such."""
    lines = [one_line(line) for line in text.replace("*/", "*\\/").splitlines()]
    said = [line for line in lines if line]
    if not said:
        return []
    if len(said) == 1:
        return [f"{indent}/** {said[0]} */"]
    return [f"{indent}/**", *(f"{indent} * {line}" for line in said), f"{indent} */"]


def _key(name: str) -> str:
    return name if _IDENTIFIER.fullmatch(name) else _literal(name)


def _literal(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    # Line ends to JavaScript, though not to JSON; and no comment is closed by a default.
    for char in "\u2028\u2029\u0085":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text.replace("*/", "*\\/")


TYPESCRIPT = Format(
    "typescript", _write, head="interface Tools {\n", tail="\n}", empty="interface Tools {}"
)
