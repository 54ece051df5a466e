"""All tools that can be called, and the lists of some of them that a model is shown."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from toolheads.domain import Tool
from toolheads.errors import ConfigError
from toolheads.sources.lists.anthropic import to_anthropic
from toolheads.sources.lists.mcp import to_mcp
from toolheads.sources.lists.naming import provider_names
from toolheads.sources.lists.openai import to_openai

Load = Callable[[], Mapping[str, Any]]
"""Gives the JSON Schema of a tool's arguments, which may take a while."""

Form = Literal["openai", "anthropic", "mcp"]
Order = Literal["registration", "given"]


class ToolRegistry:
    """Tools by id, in the order they were registered. May be used from several threads.

    What a list leaves out is not shown, and can still be called: `tool` finds every tool.

    Args:
        tools: The first ones, whose schemas are known.
    """

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._loads: dict[str, Load] = {}
        self._names: dict[str, str] = {}
        """Name in a list → id. Of all tools, so that no name depends on which are listed; empty
        until it is needed."""
        self._lock = threading.RLock()
        for tool in tools:
            self.register(tool)

    def register(self, tool: Tool, *, parameters: Load | None = None) -> None:
        """Add a tool; one of the same id is replaced, in its place.

        Args:
            tool: The tool.
            parameters: Gives its schema when it is first listed; None takes `tool.input_schema`.
        """
        with self._lock:
            self._tools[tool.id] = tool
            self._loads.pop(tool.id, None)
            if parameters is not None:
                self._loads[tool.id] = parameters
            self._names = {}

    @property
    def tools(self) -> tuple[Tool, ...]:
        """All tools; a schema that was not needed yet is None. Reranking needs no more."""
        with self._lock:
            return tuple(self._tools.values())

    def tool(self, name: str) -> Tool | None:
        """The tool of an id, of a name in a list, or of a plain name that no other has.

        Its schema is loaded, since a call is checked against it.
        """
        with self._lock:
            found = self._found(name)
            return self._resolved(found[0]) if len(found) == 1 else None

    def listed(
        self,
        form: Form,
        names: Iterable[str | Tool] | None = None,
        *,
        order: Order = "registration",
    ) -> list[dict[str, Any]]:
        """Write tools as a provider's API lists them; schemas of others are not loaded.

        Args:
            form: `openai` (Chat Completions), `anthropic`, or `mcp` (the `tools` of `tools/list`).
            names: Tools, ids, names in a list or plain names; unknown ones are passed over. None
                lists all tools, an empty list none.
            order: `registration`, which stays the same from turn to turn, or as `given`, such as
                the tools of `rerank`, best first.

        Raises:
            ConfigError: If there is no such form or order, or a loader gives no object.
            DataError: If a tool is no JSON.
        """
        for setting, value, choices in (("form", form, Form), ("order", order, Order)):
            if value not in get_args(choices):
                msg = f"{setting} must be one of {', '.join(get_args(choices))}, got {value!r:.80}"
                raise ConfigError(msg)
        if order == "given" and (names is None or isinstance(names, set | frozenset)):
            kind = "None" if names is None else "a set"
            msg = f"names must be in an order for order given, got {kind}"
            raise ConfigError(msg)
        with self._lock:
            shown = self._under_their_names(self._chosen(names, order))
        if form == "openai":
            return to_openai(shown)
        if form == "anthropic":
            return to_anthropic(shown)
        listed: list[dict[str, Any]] = to_mcp(shown)["tools"]
        return listed

    def _chosen(self, names: Iterable[str | Tool] | None, order: Order) -> Sequence[Tool]:
        everything = tuple(self._tools.values())
        if names is None:
            return everything
        asked = [names] if isinstance(names, str) else names
        ids = dict.fromkeys(tool.id for name in asked for tool in self._found(name))
        if order == "given":
            return [self._tools[tool_id] for tool_id in ids]
        return [tool for tool in everything if tool.id in ids]

    def _found(self, name: str | Tool) -> Sequence[Tool]:
        key = name.id if isinstance(name, Tool) else name
        if key in self._tools or isinstance(name, Tool):
            return [self._tools[key]] if key in self._tools else []
        if key in self._listed_names():
            return [self._tools[self._names[key]]]
        return [tool for tool in self._tools.values() if tool.name == key]

    def _listed_names(self) -> dict[str, str]:
        if not self._names:
            names = provider_names(list(self._tools.values()))
            self._names = {name: tool.id for name, tool in names.items()}
        return self._names

    def _under_their_names(self, tools: Sequence[Tool]) -> list[Tool]:
        names = {tool_id: name for name, tool_id in self._listed_names().items()}
        return [
            replace(self._resolved(tool), id=names[tool.id], name=names[tool.id], server=None)
            for tool in tools
        ]

    def _resolved(self, tool: Tool) -> Tool:
        load = self._loads.get(tool.id)
        if load is None:
            return self._tools[tool.id]
        schema = load()
        if not isinstance(schema, Mapping):
            msg = f"parameters of {tool.id!r} must load as an object, got {type(schema).__name__}"
            raise ConfigError(msg)
        del self._loads[tool.id]
        self._tools[tool.id] = replace(tool, input_schema=schema)
        return self._tools[tool.id]
