"""What a call says beside model and messages, and what goes when a server says no to it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

DEFAULTS: Mapping[str, Any] = {"temperature": 0.0, "max_tokens": 1024}
_THINKING = "chat_template_kwargs"
_NO_THINKING: Mapping[str, Any] = {_THINKING: {"enable_thinking": False}}
"""What vLLM, SGLang and llama.cpp hand to the template of a model that thinks aloud."""

_FORM, _LIMIT, _SYSTEM = "response_format", "maxItems", "system role"

_ORDER: Sequence[tuple[str, ...]] = ((_THINKING,), (_LIMIT,), (_FORM,), tuple(DEFAULTS))
"""What goes first where a refusal names nothing: what the fewest servers know."""

_NAMED = {
    _SYSTEM: re.compile(r"system.{0,20}role|role.{0,20}system|roles must alternate", re.I),
    **{part: re.compile(part) for part in (_THINKING, _LIMIT, _FORM, *DEFAULTS)},
}
_LENGTH = re.compile(r"context[ _](?:length|size|window)|too many tokens|prompt is too long", re.I)


@dataclass(frozen=True)
class Fields:
    """The parts of a call that a server takes.

    `maxItems` of the schema and the message of the system count as parts like any field.
    """

    left_out: frozenset[str] = frozenset()

    def body(
        self,
        messages: Sequence[Mapping[str, str]],
        system: str,
        schema: Mapping[str, Any] | None,
        parameters: Mapping[str, Any],
    ) -> dict[str, Any]:
        """A call without the model; parameters win."""
        said = {**DEFAULTS, **_NO_THINKING}
        if schema:
            held = _without_limits(schema) if _LIMIT in self.left_out else schema
            form = {"name": "reply", "strict": True, "schema": held}
            said[_FORM] = {"type": "json_schema", "json_schema": form}
        kept = {name: value for name, value in said.items() if name not in self.left_out}
        return {"messages": self._messages(messages, system), **kept, **parameters}

    def after(
        self, refusal: str, schema: Mapping[str, Any] | None, parameters: Mapping[str, Any]
    ) -> tuple[Fields, bool] | None:
        """What to try after a refusal, and whether to remember it if the server takes that.

        Args:
            refusal: What the server said. A part that it names goes first.
            schema: That of the call.
            parameters: Those of the caller, which stay.

        Returns:
            None where there is nothing more to leave out that could help.
        """
        sent = {_SYSTEM, _THINKING, *DEFAULTS} - self.left_out - set(parameters)
        if schema and _FORM not in self.left_out:
            sent |= {_FORM, _LIMIT} if _has_limits(schema) else {_FORM}
        sent -= self.left_out
        if _LENGTH.search(refusal):
            # The room for the reply counts too. It is this call that is too long, not each.
            return (self._without("max_tokens"), False) if "max_tokens" in sent else None
        for part, pattern in _NAMED.items():
            if part in sent and pattern.search(refusal):
                return self._without(part), True
        for parts in _ORDER:
            if left := sent.intersection(parts):
                return self._without(*left), True
        return None

    def _without(self, *parts: str) -> Fields:
        return replace(self, left_out=self.left_out.union(parts))

    def _messages(
        self, messages: Sequence[Mapping[str, str]], system: str
    ) -> list[Mapping[str, str]]:
        if _SYSTEM not in self.left_out:
            return [{"role": "system", "content": system}, *messages]
        first, *rest = messages
        return [{**first, "content": f"{system}\n\n{first['content']}"}, *rest]


def _has_limits(schema: Any) -> bool:
    return bool(schema != _without_limits(schema))


def _without_limits(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        return {key: _without_limits(v) for key, v in schema.items() if key != _LIMIT}
    return schema
