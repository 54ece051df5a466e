"""The calls that a reply holds, as JSON objects. What they do is for whoever runs them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from toolheads.domain import Tool
from toolheads.plan.lookup import find_tool
from toolheads.plan.selection import said_text

MOST_CALLS = 20
_MOST_CHARS = 200_000
_MOST_TRIES = 100
_NAME_KEYS = ("name", "tool", "tool_name")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "input")


@dataclass(frozen=True)
class ToolCall:
    """One call that a model wrote."""

    name: str
    """As it was written."""
    arguments: Mapping[str, Any]
    fault: str | None = None
    """Why it should not be run, on one line; None where nothing speaks against it."""

    @property
    def is_valid(self) -> bool:
        """Whether the tool was shown and its required arguments are there."""
        return self.fault is None


def read_calls(reply: object, shown: Mapping[str, Tool]) -> list[ToolCall]:
    """The calls of a reply: `{"name": …, "arguments": {…}}`, alone, in a list, a fence or prose.

    Args:
        reply: What the model said.
        shown: Name → tool, the tools whose definitions it was shown. A call of any other is a
            fault: the model made up its arguments.

    Returns:
        At most `MOST_CALLS`, in the order of the reply; none where it holds none.
    """
    if not isinstance(reply, str):
        return []
    text = said_text(reply)[:_MOST_CHARS]
    calls = [call for value in _objects(text) if (call := _call(value, shown))]
    return calls[:MOST_CALLS]


def _call(value: Mapping[str, Any], shown: Mapping[str, Tool]) -> ToolCall | None:
    if isinstance(value.get("function"), dict):
        value = value["function"]
    name = next((value[key] for key in _NAME_KEYS if isinstance(value.get(key), str)), None)
    if name is None:
        return None
    arguments: Any = next((value[key] for key in _ARGUMENT_KEYS if key in value), {})
    if isinstance(arguments, str):  # as OpenAI's API has them
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return ToolCall(name, {}, "arguments must be a JSON object, got text that is none")
    if not isinstance(arguments, dict):
        return ToolCall(name, {}, f"arguments must be an object, got {arguments!r:.80}")
    tool = shown.get(name) or find_tool(shown.values(), name)
    if tool is None:
        return ToolCall(name, arguments, f"name must be a tool that was shown, got {name!r:.80}")
    required = (tool.input_schema or {}).get("required")
    missing = (
        [key for key in required if key not in arguments] if isinstance(required, list) else []
    )
    fault = f"arguments must have {missing[0]!r:.80}, got none" if missing else None
    return ToolCall(name, arguments, fault)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of a text, those of a list one by one."""
    decoder = json.JSONDecoder()
    start, tries = 0, 0
    while tries < _MOST_TRIES and (start := _next_opening(text, start)) >= 0:
        try:
            value, start = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            start, tries = start + 1, tries + 1
            continue
        listed = value if isinstance(value, list) else [value]
        yield from (item for item in listed if isinstance(item, dict))


def _next_opening(text: str, start: int) -> int:
    found = [place for char in "{[" if (place := text.find(char, start)) >= 0]
    return min(found, default=-1)
