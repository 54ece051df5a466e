"""Names of tools in the reply of a chat model. Takes anything, raises nothing, ends in linear time.

Models answer with less than they were asked for: an array in a fence, after thoughts or prose, as
an object, cut off in the middle. So this reads brackets, braces and strings as they come, and JSON
or not, closes at the end what is open. Text outside of brackets names nothing: `I would not use
send_mail` is no choice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

_MOST_CHARS = 200_000
_MOST_DEPTH = 20

_THOUGHT = re.compile(r"<(think|thinking|thought|reasoning)>", re.IGNORECASE)
_END_OF_THOUGHT = re.compile(r"</(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*+"'  # a string
    r"|'[^'\"\n]{0,200}'"  # one of Python's
    r"|[\[\]{}:,\"]"
    r"|[^\s\[\]{}:,\"]+",  # a number, a word of prose
    re.DOTALL,
)
_OPENING = re.compile(r"[\[{]")
_OPEN, _CLOSE = frozenset("[{"), frozenset("]}")
_KEYS = (
    *("tools", "names", "tool_names", "selected", "selection", "result", "results", "ranking"),
    *("answer", "name", "tool_name", "tool", "id", "function"),
)
"""Fields of an object in which names are looked for first, in this order."""


def read_names(reply: object, names: Sequence[str]) -> list[str]:
    """The names that a reply chooses.

    Args:
        reply: What the model said; lists and objects are taken too.
        names: What it may choose from.

    Returns:
        Names of the list, in the order of the reply, each once. Case and surrounding space do not
        matter where only one name can be meant.
    """
    known = _Known(names)
    for value in _values(_as_text(reply)):
        if value == []:  # the model says: none of them
            return []
        found = [name for text in _texts(value, known) if (name := known.name(text)) is not None]
        if found:
            return list(dict.fromkeys(found))
    return []


class _Known:
    """Names, and how a reply may spell them."""

    def __init__(self, names: Sequence[str]) -> None:
        self._exact = set(names)
        self._folded: dict[str, str | None] = {}
        for name in self._exact:
            key = _key(name)
            self._folded[key] = None if key in self._folded else name

    def name(self, text: str) -> str | None:
        return text if text in self._exact else self._folded.get(_key(text))


def _key(text: str) -> str:
    return text.strip(" \t\r\n`'\"").casefold()


def _values(reply: str) -> Iterator[Any]:
    """The outermost arrays and objects of a text."""
    text = _without_thoughts(reply[:_MOST_CHARS])
    stack: list[_Container] = []
    skipped = 0  # containers that are too deep to be looked into
    for token in _tokens(text):
        if token in _OPEN:
            if len(stack) >= _MOST_DEPTH:
                skipped += 1
            else:
                stack.append(_Container(token))
        elif token in _CLOSE:
            if skipped:
                skipped -= 1
                continue
            done = stack.pop()
            if stack:
                stack[-1].add(done.value)
            else:
                yield done.value
        elif not skipped:
            stack[-1].take(token)
    while len(stack) > 1:  # cut off: what is open ends here
        done = stack.pop()
        stack[-1].add(done.value)
    if stack:
        yield stack[0].value


def _tokens(text: str) -> Iterator[str]:
    """Brackets, braces, colons, commas and strings. A quotation mark out of brackets is prose."""
    depth = position = 0
    while found := (_TOKEN if depth else _OPENING).search(text, position):
        token, position = found.group(), found.end()
        if token in _OPEN:
            depth += 1
        elif token in _CLOSE:
            depth -= 1
        elif token == '"':  # a string that does not end: the reply was cut off in it
            return
        yield token


class _Container:
    """An array or object that is being read."""

    def __init__(self, bracket: str) -> None:
        self.value: list[Any] | dict[str, Any] = [] if bracket == "[" else {}
        self._key: str | None = None
        self._text: str | None = None

    def take(self, token: str) -> None:
        """Take a string, a colon, a comma, or a word, which is no name."""
        if token == ":":
            self._key, self._text = self._text, None
        elif token == ",":
            self._flush()
        elif token[0] == token[-1] and token[0] in "\"'" and len(token) > 1:
            self._text = _unquoted(token)
            self._flush(keep=isinstance(self.value, dict) and self._key is None)
        elif isinstance(self.value, list):
            self.value.append(None)

    def add(self, value: Any) -> None:
        """Take an array or object that ended."""
        if isinstance(self.value, list):
            self.value.append(value)
        else:
            self.value.setdefault(self._key or f" {len(self.value)}", value)
        self._key = self._text = None

    def _flush(self, *, keep: bool = False) -> None:
        if keep:
            return
        if self._text is not None and isinstance(self.value, list):
            self.value.append(self._text)
        elif self._text is not None and self._key is not None and isinstance(self.value, dict):
            self.value.setdefault(self._key, self._text)
        self._key = self._text = None


def _unquoted(token: str) -> str:
    if token.startswith('"'):
        try:
            return str(json.loads(token))
        except ValueError:  # a line break or an escape that JSON has not
            pass
    return token[1:-1].replace("\\_", "_")  # as Markdown escapes it


def _without_thoughts(text: str) -> str:
    """The text after and between thoughts; a thought that does not end is all there is."""
    parts, position = [], 0
    while start := _THOUGHT.search(text, position):
        parts.append(text[position : start.start()])
        end = _END_OF_THOUGHT.search(text, start.end())
        position = end.end() if end else len(text)
    rest = "".join([*parts, text[position:]])
    # Some templates open the thought themselves, and only its end is in the reply.
    return _END_OF_THOUGHT.split(rest)[-1]


def _as_text(reply: object) -> str:
    """A reply as text; of what is no text, JSON, or "" if it is no JSON either."""
    if isinstance(reply, bytes | bytearray):
        return bytes(reply).decode(errors="replace")
    if isinstance(reply, str):
        return reply
    try:
        return json.dumps(reply)
    except (TypeError, ValueError, RecursionError):  # ValueError: it holds itself
        return ""


def _texts(value: Any, known: _Known) -> list[str]:
    """The strings of an array at any depth; of an object, those of its best field."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for inner in value for text in _texts(inner, known)]
    if not isinstance(value, dict):
        return []
    named = [key for key in _KEYS if key in value]
    others = [k for k in value if k not in named and isinstance(value[k], list | dict)]
    for key in (*named, *others):
        texts = _texts(value[key], known)
        if any(known.name(text) is not None for text in texts):
            return texts
    return []
