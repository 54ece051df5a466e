"""A Python function as a tool: its signature, annotations and docstring as a schema."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from toolheads.catalogue.names import tool_id
from toolheads.data.jsonl import LineError, parse_object, to_line
from toolheads.domain import Tool
from toolheads.errors import ConfigError
from toolheads.sources.lists.annotations import TypeProblem, Types, default_of, type_hints
from toolheads.sources.lists.docstrings import split_docstring

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def from_function(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    source: str | None = None,
    leave_out: tuple[str, ...] = (),
) -> Tool:
    """Make a tool of a function.

    Types may be those of JSON, `list`, `dict` and their like, `Literal`, `Optional`, unions,
    enums, dataclasses, `TypedDict`, dates, UUIDs, pydantic models, and `Annotated` with a text
    that describes the parameter. A parameter without annotation takes anything.

    Args:
        function: The function or method.
        name: Name of the tool; None for that of the function.
        description: None for what the docstring says before its sections.
        source: `server` of the tool; None for none.
        leave_out: Parameters that the model does not fill in; each must have a default, or be
            filled in by the caller.

    Raises:
        ConfigError: If a parameter cannot be filled from JSON.
    """
    called = name or getattr(function, "__name__", "") or type(function).__name__
    if called == "<lambda>":
        msg = "a lambda must be given a name to be a tool, got none"
        raise ConfigError(msg)
    head, texts = split_docstring(inspect.getdoc(function) or "")
    schema = _schema(function, called, texts, leave_out)
    tool = Tool(
        tool_id(source, called),
        called,
        source,
        head if description is None else description,
        schema,
        {"kind": "function"},
    )
    try:
        parse_object(to_line({"name": called, "text": tool.description, "schema": schema}))
    except LineError as e:
        msg = f"function {called} must have a schema that is JSON, got: {e}"
        raise ConfigError(msg) from e
    return tool


def _schema(
    function: Callable[..., Any], called: str, texts: dict[str, str], leave_out: tuple[str, ...]
) -> dict[str, Any]:
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError) as e:
        msg = f"function {called} must have a signature, got none"
        raise ConfigError(msg) from e
    hints = _hints(function, called)
    types = Types()
    properties: dict[str, Any] = {}
    required: list[str] = []
    takes_more = False
    for parameter in signature.parameters.values():
        if parameter.name in leave_out:
            continue
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            takes_more = True
            continue
        if parameter.kind not in _NAMED:
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL or _has_default(parameter):
                continue
            msg = (
                f"parameter {parameter.name} of {called} must be one that can be named, got a "
                "positional one"
            )
            raise ConfigError(msg)
        try:
            one = types.schema(hints.get(parameter.name, Any))
        except TypeProblem as e:
            msg = (
                f"parameter {parameter.name} of {called} must have a type that JSON has, got {e}; "
                "name it in leave_out if the model is not to fill it in"
            )
            raise ConfigError(msg) from e
        if parameter.name in texts:
            one.setdefault("description", texts[parameter.name])
        if _has_default(parameter):
            one |= default_of(parameter.default)
        else:
            required.append(parameter.name)
        properties[parameter.name] = one
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    if not takes_more:
        schema["additionalProperties"] = False
    if types.definitions:
        schema["$defs"] = types.definitions
    return schema


def _hints(function: Callable[..., Any], called: str) -> dict[str, Any]:
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    if not (inspect.isroutine(inner) or inspect.isclass(inner)):
        inner = type(inner).__call__
    try:
        return type_hints(inspect.unwrap(inner))
    except TypeProblem as e:
        msg = f"annotations of {called} must be known names, got: {e}"
        raise ConfigError(msg) from e


def _has_default(parameter: inspect.Parameter) -> bool:
    return parameter.default is not inspect.Parameter.empty
