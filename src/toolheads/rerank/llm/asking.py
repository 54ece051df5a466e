"""One question to a chat model. What comes out is names of candidates, or why there are none."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread

from toolheads.domain import Tool
from toolheads.errors import ChatError
from toolheads.rerank.llm.chat import ChatModel, OpenAIChat
from toolheads.rerank.llm.prompt import (
    SYSTEM,
    candidate_line,
    labels,
    reply_schema,
    user_prompt,
)
from toolheads.rerank.llm.reply import read_names
from toolheads.rerank.llm.settings import LlmSettings
from toolheads.texts.untrusted import one_line

_SHOWN = 2000
"""Characters of a reply that are kept to be shown."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Asked:
    """What came of a question."""

    places: tuple[int, ...] = ()
    """Places of the chosen tools among the candidates, best first."""
    reply: str = ""
    """What the model said, on one line, its beginning."""
    error: str | None = None
    """Why there is no reply; None if there is one."""


def ask(
    chat: ChatModel, tools: Sequence[Tool], message: str, *, top_n: int, settings: LlmSettings
) -> Asked:
    """Ask which of some tools a message needs. Raises nothing, whatever the model does.

    Args:
        chat: The model.
        tools: Candidates, at least one.
        message: What the user wants.
        top_n: How many tools are asked for.
        settings: Deadline and limits of what is shown.
    """
    called = labels(tools)
    most = settings.description_chars
    lines = [
        candidate_line(label, tool.description, most_chars=most)
        for label, tool in zip(called, tools, strict=True)
    ]
    prompt = user_prompt(lines, message, top_n=top_n, message_chars=settings.message_chars)
    messages = [{"role": "user", "content": prompt}]

    schema = reply_schema(called, most=min(top_n, len(called)))

    def call() -> object:
        if isinstance(chat, OpenAIChat):  # or who is left behind would keep the server busy
            limit_s = settings.deadline_s
            return chat.send(messages, system=SYSTEM, reply_schema=schema, deadline_s=limit_s)
        return chat.send(messages, system=SYSTEM, reply_schema=schema)

    try:
        reply = in_time(call, settings.deadline_s)
    except Exception as e:  # a model of the caller's own raises what it likes
        error = one_line(str(e) or type(e).__name__, most_chars=_SHOWN)
        _log.warning("reranking by keyword, since the chat model failed: %s", error)
        return Asked(error=error)
    place_of = {label: place for place, label in reversed(list(enumerate(called)))}
    places = tuple(place_of[name] for name in read_names(reply, called))
    return Asked(places, one_line(_text(reply)[: 2 * _SHOWN], most_chars=_SHOWN))


def in_time(call: Callable[[], object], deadline_s: float) -> object:
    """Call in a thread of its own, which is left behind if it does not end in time.

    Limits of the call itself do not cover everything: looking up a host name can hang.

    Raises:
        ChatError: If there is no answer in time.
        BaseException: What the call raised.
    """
    done: SimpleQueue[tuple[object, BaseException | None]] = SimpleQueue()

    def work() -> None:
        try:
            done.put((call(), None))
        except BaseException as e:  # it belongs to who waits
            done.put((None, e))

    Thread(target=work, name="toolheads-rerank", daemon=True).start()
    try:
        answer, error = done.get(timeout=deadline_s)
    except Empty:
        msg = f"the chat model must answer within {deadline_s:g} s, got nothing"
        raise ChatError(msg) from None
    if isinstance(error, Exception):
        raise error
    if error is not None:
        msg = f"the chat model ended with {type(error).__name__}"
        raise ChatError(msg) from error
    return answer


def _text(reply: object) -> str:
    if isinstance(reply, str):
        return reply
    try:
        return "" if reply is None else repr(reply)
    except Exception:  # of an object of the caller's own, or one that nests too deep
        return type(reply).__name__
