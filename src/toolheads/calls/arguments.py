"""Whether arguments fit a tool's schema, found out in bounded time.

The schema comes from the tool's server and may be anything: broken, huge, or made so that
checking against it never ends. What cannot be checked in time is left to the server, which has
the last word anyway; what is checked and does not fit is not sent.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from toolheads.calls.patterns import found
from toolheads.calls.reasons import reason
from toolheads.calls.safe_schema import SchemaProblem, safe_schema
from toolheads.domain import Tool
from toolheads.errors import import_extra
from toolheads.sources.schemas import levels

MOST_BYTES = 2**20
"""Arguments with more bytes as JSON are refused."""

MOST_LEVELS = 100
"""Arguments that nest deeper are refused."""

_MOST_STEPS = 200_000
"""Keywords looked at in one check; about half a second."""

_KEPT = 1_024
"""Prepared schemas."""

_log = logging.getLogger(__name__)


class _TooLongError(Exception):
    """The check took more steps than it may."""


class ArgumentChecker:
    """Checks arguments; keeps what it made of each tool's schema. Safe to use from threads."""

    def __init__(self, *, most_steps: int = _MOST_STEPS) -> None:
        self._jsonschema = import_extra("jsonschema", user="calls", extra="serve")
        self._referencing = import_extra("referencing", user="calls", extra="serve")
        self._most_steps = most_steps
        self._steps = threading.local()
        self._classes: dict[type, type] = {}
        self._kept: OrderedDict[str, tuple[Any, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def problem(self, tool: Tool, arguments: Any) -> str | None:
        """What is wrong with the arguments, in one line; None if they may be sent."""
        if not isinstance(arguments, Mapping):
            return f"arguments must be an object, got {type(arguments).__name__}"
        try:
            text = json.dumps(arguments, ensure_ascii=False, allow_nan=False, default=_plain)
            size = len(text.encode())
        except UnicodeEncodeError:
            return "arguments must hold no lone surrogate, got one"
        except (TypeError, ValueError, RecursionError) as e:
            return f"arguments must be JSON values, got what is none: {e}"
        if size > MOST_BYTES:
            return f"arguments must have at most {MOST_BYTES:,} bytes, got {size:,}"
        if (depth := levels(arguments)) > MOST_LEVELS:
            return f"arguments must nest at most {MOST_LEVELS} levels deep, got {depth}"
        validator = self._validator(tool)
        return None if validator is None else self._first(tool, validator, json.loads(text))

    def _first(self, tool: Tool, validator: Any, arguments: dict[str, Any]) -> str | None:
        """The error that says most, of those found in time."""
        self._steps.left = self._most_steps
        try:
            error = self._jsonschema.exceptions.best_match(validator.iter_errors(arguments))
        except (
            _TooLongError,
            RecursionError,
            ArithmeticError,
            self._jsonschema.exceptions.UnknownType,
            self._referencing.exceptions.Unresolvable,
        ) as e:
            _log.info("arguments of %s are not checked: %s", tool.id, type(e).__name__)
            return None
        return None if error is None else reason(error)

    def _validator(self, tool: Tool) -> Any:
        """The prepared validator of a tool; None if its schema cannot be used."""
        with self._lock:
            kept = self._kept.get(tool.id)
            if kept is not None and kept[0] is tool.input_schema:
                self._kept.move_to_end(tool.id)
                return kept[1]
        validator = None
        if tool.input_schema is not None:
            try:
                validator = self._made(tool.input_schema)
            except (
                SchemaProblem,
                RecursionError,
                self._jsonschema.exceptions.SchemaError,
                self._referencing.exceptions.Unresolvable,
            ) as e:
                _log.info("arguments of %s are not checked: its schema is %s", tool.id, e)
        with self._lock:
            self._kept[tool.id] = (tool.input_schema, validator)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return validator

    def _made(self, schema: Mapping[str, Any]) -> Any:
        jsonschema = self._jsonschema
        dialect = schema.get("$schema")
        named = {"$schema": dialect} if isinstance(dialect, str) else {}
        base = jsonschema.validators.validator_for(named, default=jsonschema.Draft202012Validator)
        safe = safe_schema(schema)
        base.check_schema(safe)
        # An own registry: the default one would fetch what a reference names.
        return self._bounded(base)(safe, registry=self._referencing.Registry())

    def _bounded(self, base: Any) -> Any:
        """A class of validators that counts its steps."""
        if base not in self._classes:
            keywords = dict(base.VALIDATORS)
            keywords |= {
                "pattern": _pattern(self._jsonschema),
                "uniqueItems": _unique(self._jsonschema),
            }
            counted = {name: self._counted(check) for name, check in keywords.items()}
            self._classes[base] = self._jsonschema.validators.extend(base, counted)
        return self._classes[base]

    def _counted(self, check: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
        def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
            self._steps.left -= 1
            if self._steps.left < 0:
                raise _TooLongError
            yield from check(validator, value, instance, schema) or ()

        return counted


def _pattern(jsonschema: Any) -> Callable[..., Iterator[Any]]:
    """The keyword `pattern`, not looked at where that could take long."""

    def check(_: Any, pattern: str, instance: Any, __: Any) -> Iterator[Any]:
        if isinstance(instance, str) and found(pattern, instance) is False:
            yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")

    return check


def _unique(jsonschema: Any) -> Callable[..., Iterator[Any]]:
    """The keyword `uniqueItems` in linear time; the library's takes the square of it."""

    def check(_: Any, wanted: Any, instance: Any, __: Any) -> Iterator[Any]:
        if wanted is True and isinstance(instance, list):
            texts = [json.dumps(item, sort_keys=True) for item in instance]
            if len(set(texts)) < len(texts):
                yield jsonschema.ValidationError("has non-unique elements")

    return check


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    msg = f"got {type(value).__name__}"
    raise TypeError(msg)
