"""A chat model as reranking sees it, and the one behind an OpenAI-compatible server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from threading import Event
from typing import Any, Protocol

from toolheads.encoders.openai.address import api_key_for, route_url
from toolheads.encoders.openai.answers import server_message
from toolheads.encoders.openai.transport import Patience, RefusedError, Transport
from toolheads.errors import ChatError, ConfigError, EncoderError
from toolheads.rerank.llm.fields import Fields
from toolheads.rerank.llm.settings import ChatSettings

_ABOUT_FIELDS = (400, 415, 422)
"""Refusals that a field can cause that the server does not know."""

_MOST_ANSWER_BYTES = 4 << 20


class ChatModel(Protocol):
    """Answers messages.

    Contract:
        1. `send` returns what the model said. It is not trusted: anything may be in it.
        2. Every failure is an exception; whoever calls takes any.
        3. A reply schema is a wish: a model that cannot be held to it answers anyway.
    """

    def send(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        system: str,
        reply_schema: Mapping[str, Any] | None = None,
    ) -> object:
        """Ask.

        Args:
            messages: Objects with `role` and `content`.
            system: What the model is told before them.
            reply_schema: JSON Schema of the reply; None for free text.
        """
        ...


class OpenAIChat:
    """Chat model behind an OpenAI-compatible server. See `ChatModel`.

    May be used from several threads at once. What servers differ in (thinking off, a reply schema
    and its limits, temperature, max_tokens, a system message) is dropped part by part if the
    server refuses the call, first what the refusal names, and left out from then on.

    Args:
        settings: Server, model, key and parameters.
        deadline_s: Longest wait for one answer, in seconds.

    Raises:
        ConfigError: If there is no address or no model, or a setting breaks its rule.
        MissingExtraError: If httpx is not installed.
    """

    def __init__(self, settings: ChatSettings, *, deadline_s: float = 30.0) -> None:
        for name in ("url", "model"):
            if not getattr(settings, name):
                msg = f"{name} must be that of a chat model, got nothing"
                raise ConfigError(msg)
        self.url = route_url(settings.url, "chat/completions")
        self._model = settings.model
        self._parameters = dict(settings.parameters or {})
        # Retries would eat the time that the caller waits; one is for a connection that went stale.
        patience = Patience(timeout_s=deadline_s, deadline_s=deadline_s, retries=1, backoff_s=0.1)
        self._transport = Transport(
            self.url,
            key=api_key_for(self.url, settings.api_key),
            encoder=f"chat model {settings.model!r} at {self.url}",
            patience=patience,
            keep_alive=4,
        )
        self._fields = Fields()
        """What the server takes, as far as it has said."""

    def __repr__(self) -> str:
        return f"OpenAIChat({self.url!r}, {self._model!r})"

    def send(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        system: str,
        reply_schema: Mapping[str, Any] | None = None,
        deadline_s: float | None = None,
    ) -> str:
        """Ask. See `ChatModel`.

        Args:
            messages: At least one.
            system: What the model is told before them.
            reply_schema: JSON Schema of the reply.
            deadline_s: Longest wait in seconds, where it is shorter than the usual one.

        Raises:
            ChatError: If the server cannot be reached, refuses, or answers without a text.
        """
        try:
            return self._answered(messages, system, reply_schema, deadline_s)
        except EncoderError as e:
            raise ChatError(str(e)) from e

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()

    def _answered(
        self,
        messages: Sequence[Mapping[str, str]],
        system: str,
        schema: Mapping[str, Any] | None,
        deadline_s: float | None,
    ) -> str:
        fields = lasting = self._fields
        while True:
            said = fields.body(messages, system, schema, self._parameters)
            try:
                content = self._transport.post(
                    json.dumps({"model": self._model, **said}).encode(),
                    most_bytes=_MOST_ANSWER_BYTES,
                    stop=Event(),
                    limit_s=deadline_s,
                )
            except RefusedError as e:
                next_try = fields.after(str(e), schema, self._parameters)
                if e.status not in _ABOUT_FIELDS or next_try is None:
                    raise
                fields, lasts = next_try
                lasting = fields if lasts else lasting
                continue
            self._fields = lasting
            try:
                return reply_text(content)
            except ChatError as e:
                raise ChatError(self._transport.error(str(e))) from e


def reply_text(content: bytes) -> str:
    """The text of the first choice of an answer.

    Raises:
        ChatError: If there is none.
    """
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError) as e:
        msg = f"must answer JSON, got: {server_message(content[:2000])}"
        raise ChatError(msg) from e
    choices = answer.get("choices") if isinstance(answer, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    said = message.get("content") if isinstance(message, dict) else None
    if isinstance(said, list):  # some servers answer in blocks
        texts = [part.get("text") for part in said if isinstance(part, dict)]
        said = "".join(text for text in texts if isinstance(text, str))
    if not isinstance(said, str):
        msg = f"must answer a message with text, got: {server_message(content[:2000])}"
        raise ChatError(msg)
    return said
