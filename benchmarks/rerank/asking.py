"""A chat model as reranking and two-stage disclosure ask it, held to a schema and not."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from toolheads.encoders.openai.address import route_url
from toolheads.plan import ChatReply
from toolheads.plan.two_stage import SELECTION_MAX_TOKENS, Chat, Message
from toolheads.rerank import ChatSettings, OpenAIChat


class FreeChat(OpenAIChat):
    """One whose replies are held to no schema, as those of a server that knows none."""

    def send(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        system: str,
        reply_schema: Mapping[str, Any] | None = None,
        deadline_s: float | None = None,
    ) -> str:
        """Ask. See `OpenAIChat`."""
        return super().send(messages, system=system, deadline_s=deadline_s)


def two_stage_chat(
    settings: ChatSettings, *, most_tokens: int, names: Sequence[str] = (), timeout_s: float = 120
) -> Chat:
    """The model for `TwoStage.run`.

    Args:
        settings: Server, model and key.
        most_tokens: Longest reply, whatever is asked for.
        names: What the reply of the first stage is held to; none leaves it free.
        timeout_s: Longest wait for a reply.
    """
    form = {"name": "tool", "strict": True, "schema": {"type": "string", "enum": list(names)}}
    held = {"response_format": {"type": "json_schema", "json_schema": form}}

    def chat(messages: Sequence[Message], *, max_tokens: int, temperature: float) -> ChatReply:
        body: dict[str, Any] = {"model": settings.model, "messages": list(messages)}
        body |= {"max_tokens": min(max_tokens, most_tokens), "temperature": temperature}
        if names and max_tokens == SELECTION_MAX_TOKENS:
            body |= held
        headers = {"Content-Type": "application/json"}
        if settings.api_key:
            headers["Authorization"] = f"Bearer {settings.api_key}"
        url = route_url(settings.url, "chat/completions")
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=timeout_s) as response:
            answer = json.load(response)
        said, usage = answer["choices"][0]["message"]["content"], answer["usage"]
        return ChatReply(said, usage["prompt_tokens"], usage["completion_tokens"])

    return chat
