"""Tools as the JSON that is sent to OpenAI and to Anthropic, two spaces a level."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from toolheads.data.jsonl import shown
from toolheads.domain import Tool
from toolheads.errors import DataError
from toolheads.plan.formats.block import Format, Read, Write
from toolheads.sources.lists import from_anthropic, from_openai, to_anthropic, to_openai


def _written(to_list: Callable[[Sequence[Tool]], list[dict[str, Any]]]) -> Write:
    def write(name: str, tool: Tool) -> str:
        # Alone in its list, and of no source, a tool keeps the name that it is given here.
        (entry,) = to_list([_renamed(tool, name)])
        text = json.dumps(entry, indent=2, ensure_ascii=False, allow_nan=False)
        return "  " + text.replace("\n", "\n  ")

    return write


def _read(from_list: Callable[[Any], list[Tool]]) -> Read:
    def read(block: str) -> list[Tool]:
        try:
            return from_list(json.loads(block))
        except (json.JSONDecodeError, RecursionError) as e:
            msg = f"a block must be JSON, got {shown(block)}: {e}"
            raise DataError(msg) from e

    return read


def _renamed(tool: Tool, name: str) -> Tool:
    return Tool(name, name, None, tool.description, tool.input_schema, tool.extra)


def _format(format_id: str, write: Write, read: Read) -> Format:
    return Format(
        format_id,
        write,
        joiner=",\n",
        head="[\n",
        tail="\n]",
        empty="[]",
        is_sent=True,
        read=read,
    )


OPENAI = _format("json_schema_openai", _written(to_openai), _read(from_openai))
ANTHROPIC = _format("json_schema_anthropic", _written(to_anthropic), _read(from_anthropic))
