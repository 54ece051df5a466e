"""Tools as Markdown: a heading each, and a list of parameters."""

from __future__ import annotations

import json
import re

from toolheads.domain import Tool
from toolheads.plan.formats.block import Format
from toolheads.plan.formats.shapes import Field, parameters_of
from toolheads.plan.formats.typescript import type_name
from toolheads.sources.lists.naming import object_schema
from toolheads.texts.untrusted import one_line

_STARTS_A_BLOCK = re.compile(r"(?=[#>*+\-=|~`<])|(?<=\d)(?=[.)])")


def _write(name: str, tool: Tool) -> str:
    lines = [f"## {name}"]
    if said := one_line(tool.description):
        lines.append(_paragraph(said))
    if fields := parameters_of(object_schema(tool)):
        lines += ["", *map(_item, fields)]
    return "\n".join(lines)


def _item(field: Field) -> str:
    words = [type_name(field.shape)]
    if field.is_required:
        words.append("required")
    if field.has_default:
        words.append(f"default {json.dumps(field.default, ensure_ascii=False)}")
    described = f": {field.line}" if field.line else ""
    return one_line(f"- {_code(field.name)} ({', '.join(words)}){described}")


def _paragraph(line: str) -> str:
    """A line that is a paragraph and no heading, list or table, whatever it begins with."""
    return re.sub(r"^(\d*)(?=[#>*+\-=|~`<.)])", r"\1\\", line)


def _code(text: str) -> str:
    line = one_line(text)
    return f"`` {line} ``" if "`" in line else f"`{line}`"


MARKDOWN = Format("markdown", _write, joiner="\n\n")
