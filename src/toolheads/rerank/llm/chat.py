"""A chat model as reranking sees it, and the one behind an OpenAI-compatible server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from threading import Event
from typing import Any, Protocol

from toolheads.encoders.openai.address import api_key_for, route_url
from toolheads.encoders.openai.answers import server_message
from toolheads.encoders.openai.transport import Patience, RefusedError, Transport
from toolheads.errors import ChatError, ConfigError, EncoderError
from toolheads.rerank.llm.settings import ChatSettings

_DEFAULTS: Mapping[str, Any] = {"temperature": 0.0, "max_tokens": 1024}
_NO_THINKING: Mapping[str, Any] = {"chat_template_kwargs": {"enable_thinking": False}}
"""What vLLM, SGLang and llama.cpp hand to the template of a model that thinks aloud."""

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

    May be used from several threads at once. Fields that servers differ in (a reply schema,
    thinking off, temperature, max_tokens) are dropped step by step if the server refuses the
    call, and left out from then on.

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
        self._dropped = 0
        """How many steps of `_bodies` the server has refused."""

    def __repr__(self) -> str:
        return f"OpenAIChat({self.url!r}, {self._model!r})"

    def send(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        system: str,
        reply_schema: Mapping[str, Any] | None = None,
    ) -> str:
        """Ask. See `ChatModel`.

        Raises:
            ChatError: If the server cannot be reached, refuses, or answers without a text.
        """
        said: list[Mapping[str, str]] = [{"role": "system", "content": system}, *messages]
        try:
            return self._answered(said, reply_schema)
        except EncoderError as e:
            raise ChatError(str(e)) from e

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()

    def _answered(
        self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any] | None
    ) -> str:
        bodies = list(self._bodies(schema))
        step = min(self._dropped, len(bodies) - 1)
        while True:
            body = {"model": self._model, "messages": messages, **bodies[step]}
            try:
                content = self._transport.post(
                    json.dumps(body).encode(), most_bytes=_MOST_ANSWER_BYTES, stop=Event()
                )
            except RefusedError as e:
                if e.status not in _ABOUT_FIELDS or step + 1 == len(bodies):
                    raise
                step += 1
                continue
            self._dropped = step
            try:
                return reply_text(content)
            except ChatError as e:
                raise ChatError(self._transport.error(str(e))) from e

    def _bodies(self, schema: Mapping[str, Any] | None) -> Iterator[dict[str, Any]]:
        """Fields beside model and messages, each time fewer."""
        form = {"name": "reply", "strict": True, "schema": schema}
        held = {"response_format": {"type": "json_schema", "json_schema": form}} if schema else {}
        yield {**_DEFAULTS, **_NO_THINKING, **held, **self._parameters}
        yield {**_DEFAULTS, **held, **self._parameters}
        yield {**_DEFAULTS, **self._parameters}
        yield self._parameters


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
