"""The text of a conversation that tools are ranked for: what its user said last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from toolheads.errors import ConfigError

Message = Mapping[str, Any]
"""`role` and `content`, as the chat APIs have them: a string, or a list of blocks."""

Conversation = str | Sequence[Message] | None
"""One message of the user, or the messages of a conversation, oldest first."""

_NOTE = "[System] "
"""Start of a message that a program put in the user's mouth."""


def latest_user_text(messages: Sequence[Message]) -> str:
    """The newest text of the user; "" if there is none.

    Programs' notes, which start with `[System] `, and messages without text are passed over. A
    message that is an empty string is an answer: "".
    """
    return next(user_texts(messages), "")


def user_texts(conversation: Conversation) -> Iterator[str]:
    """The texts of the user, newest first.

    Raises:
        ConfigError: If it is neither a string nor a list of messages.
    """
    if conversation is None:
        return
    if isinstance(conversation, str):
        yield conversation
        return
    for place, message in reversed(list(enumerate(checked(conversation)))):
        if not isinstance(message, Mapping):
            msg = f"messages[{place}] must be an object, got {type(message).__name__}"
            raise ConfigError(msg)
        if message.get("role") == "user":
            text = _text(message.get("content"))
            if text is not None:
                yield text


def checked(conversation: Any) -> Sequence[Any]:
    """The messages of a conversation that is no string.

    Raises:
        ConfigError: If it is no list.
    """
    if isinstance(conversation, bytes | Mapping) or not isinstance(conversation, Sequence):
        kind = type(conversation).__name__
        msg = f"message must be a string or a list of messages, got {kind}"
        raise ConfigError(msg)
    return conversation


def _text(content: Any) -> str | None:
    """The text of one message; None if it has none that counts."""
    if isinstance(content, str):
        return None if content.startswith(_NOTE) else content
    if not isinstance(content, Sequence) or isinstance(content, bytes):
        return None
    blocks = [block for block in content if isinstance(block, Mapping)]
    texts = [block.get("text") for block in blocks if block.get("type") == "text"]
    text = "\n".join(text for text in texts if isinstance(text, str)).strip()
    return text if text and not text.startswith(_NOTE) else None
