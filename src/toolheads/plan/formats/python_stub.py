"""Tools as the functions of a Python stub, which `ast` reads."""

from __future__ import annotations

import json
import keyword
import re
import unicodedata

from toolheads.domain import Tool
from toolheads.plan.formats.block import Format
from toolheads.plan.formats.shapes import Field, Shape, parameters_of
from toolheads.plan.formats.typescript import type_name
from toolheads.sources.lists.naming import object_schema
from toolheads.texts.untrusted import one_line

_NO_IDENTIFIER = re.compile(r"\W+")
_NAMES = {
    "any": "Any",
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "object": "dict[str, Any]",
}
_INDENT = "    "


def annotation(shape: Shape) -> str:
    """A type as Python writes it."""
    if shape.kind == "literals":
        return f"Literal[{', '.join(dict.fromkeys(map(repr, shape.literals)))}]"
    if shape.kind == "union":
        return " | ".join(dict.fromkeys(map(annotation, shape.of)))
    if shape.kind == "array":
        return f"list[{annotation(shape.of[0])}]"
    return _NAMES[shape.kind]


def _write(name: str, tool: Tool) -> str:
    own = _identifier(name, set())
    taken: set[str] = set()
    signature, described = [], []
    for field in parameters_of(object_schema(tool)):
        key = _identifier(field.name, taken)
        taken.add(unicodedata.normalize("NFKC", key))
        signature.append(f"{key}: {annotation(field.shape)}{_default(field)}")
        if said := _said(field, key):
            described.append(f"{key}: {said}")
    arguments = f"*, {', '.join(signature)}" if signature else ""
    lines = [f"def {own}({arguments}) -> Any:"]
    if own != name:
        lines.insert(0, f"# The tool's name is {json.dumps(name, ensure_ascii=False)}.")
    docs = _docstring(tool.description, described)
    return "\n".join([*lines, *(docs or [f"{_INDENT}..."])])


def _said(field: Field, key: str) -> str:
    called = "" if key == field.name else f"(named {json.dumps(one_line(field.name))}) "
    inner = type_name(field.shape) if _has_fields(field.shape) else ""
    return " ".join(f"{called}{field.line} {inner}".split())


def _has_fields(shape: Shape) -> bool:
    return bool(shape.fields) or any(map(_has_fields, shape.of))


def _default(field: Field) -> str:
    if field.is_required:
        return ""
    return f" = {field.default!r}" if field.has_default else " = ..."


def _docstring(description: str, described: list[str]) -> list[str]:
    """Lines of a docstring that ends where it is meant to; none for nothing to say."""
    said = [one_line(line) for line in description.splitlines()]
    while said and not said[-1]:
        said.pop()
    while said and not said[0]:
        said.pop(0)
    if described:
        said += [*([""] if said else []), "Args:", *(f"{_INDENT}{line}" for line in described)]
    if not said:
        return []
    lines = [line.replace("\\", "\\\\").replace('"""', '\\"\\"\\"') for line in said]
    if len(lines) == 1:
        only = re.sub('"$', '\\\\"', lines[0])  # else it would join the quotes that follow
        return [f'{_INDENT}"""{only}"""']
    lines[0] = f'"""{lines[0]}'
    return [*((_INDENT + line).rstrip() for line in lines), f'{_INDENT}"""']


def _identifier(name: str, taken: set[str]) -> str:
    plain = unicodedata.normalize("NFKC", _NO_IDENTIFIER.sub("_", name))
    plain = plain if plain.isidentifier() else f"_{plain}"
    plain = plain if plain.isidentifier() else "_" + re.sub("[^A-Za-z0-9_]", "_", plain)
    if keyword.iskeyword(plain):
        plain += "_"
    unique, number = plain, 2
    while unique in taken:
        unique, number = f"{plain}_{number}", number + 1
    return unique


PYTHON = Format("python_stub", _write, joiner="\n\n")
