"""What a model meant that was asked to name one tool of a menu.

A reply counts by whole tokens. One that refuses, or names several tools, selects none: a second
question costs less than a wrong call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from toolheads.plan.lookup import squeezed

Outcome = Literal["named", "refused", "several", "nothing named", "no text"]

MOST_CHARS = 4_000
"""A longer reply, thoughts left out, is not read: it was asked for one name."""

_MOST_THOUGHTS = 1_000_000

REFUSAL = "none"
"""What a model is to say if no tool fits."""

_NO_JSON = object()

_THINKING = re.compile(r"<(think|thinking|reasoning)>.*?(</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_SPACES = re.compile(r"[^\S\n]+")
_NAME_KEYS = ("name", "tool", "tool_name", "function", "selected", "selection", "choice", "answer")
_CUT_OFF = re.compile(rf'"(?:{"|".join(_NAME_KEYS)})"\s*:\s*("(?:[^"\\]|\\.)*"|null)')
_PREFIX = re.compile(r"\b(?:functions?|tools?|default_api)[.:](?=\w)")
_MARK = re.compile(r"^\s*(?:[-*+•>]|\d{1,3}[.)])\s+")
_LEAD = re.compile(
    r"^(?:(?:i|we)\s*(?:would|will|'d|'ll)?\s*)?(?:use|choose|pick|select|call)\s+(?:the\s+)?(?:tool\s+)?"
    r"|^(?:the\s+)?(?:best|right|correct|selected|chosen)?\s*(?:tool|answer|choice|function|name)"
    r"(?:\s+(?:name|is|would\s+be)\b)?\s*[:=]?\s*",
    re.IGNORECASE,
)
_WRAPPING = " \t\"'`*.,;:!()[]“”‘’「」《》。"  # noqa: RUF001
_QUOTES = "\"'`*“”‘’「」"  # noqa: RUF001

_NONE_WORDS = (
    "none null nil nothing n/a na no no_tool no_tools notool no_suitable_tool none_of_them "
    "none_of_these not_found keine keines aucun aucune ninguno ninguna nessuno "
    "нет 无 没有 なし 없음"
)
_NONE = frozenset(_NONE_WORDS.split())
_NEGATION = re.compile(
    r"\b(?:no|not|none|nothing|neither|nor|never|cannot|unable|unfortunately|sorry|unsuitable|wrong"
    r"|nicht|kein\w*|leider|weder|aucun\w*|pas|rien|ningun\w*|ningún|tampoco|nessun\w*|non|nenhum\w*"
    r"|não|нет|не|ни|geen|niet|nie|żad\w*|inte|ingen|hiçbir|değil|لا|ليس|नहीं)\b"
    r"|n['’]t\b"  # noqa: RUF001
    r"|没有|沒有|不|无法|無法|ない|ません|없|않",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Selection:
    """What a reply selects."""

    name: str | None
    """The name as the menu has it; None where the reply abstains."""
    outcome: Outcome
    """Why."""


def read_selection(names: Sequence[str], reply: object) -> Selection:
    """Read which one of some names a reply means.

    It may stand alone, in quotes, in JSON, in code, after `tool:`, or as a word of its own in a
    sentence; spelled in another case, as `ReadFile` or as `read file` only where it stands alone.
    A name that is also a plain word (`get`) counts in a sentence only in quotes or as `get()`.

    Args:
        names: The names, each once.
        reply: What the model said.

    Returns:
        One name; or none where the reply refuses, says no to the one it names, names several
        tools or none, or is no text.
    """
    if not isinstance(reply, str) or not reply.strip():
        return Selection(None, "no text")
    text = said_text(reply)
    if not text or len(text) > MOST_CHARS:
        return Selection(None, "nothing named")
    known = _Names(names)
    if (value := _json_of(text)) is not _NO_JSON:
        found = _in_json(known, value)
        if isinstance(found, Selection):
            return found
        text = found
    return _in_lines(known, text) or _in_prose(known, text)


def said_text(reply: str) -> str:
    """A reply without thoughts and without the fence around all of it, runs of spaces as one."""
    text = _SPACES.sub(" ", _THINKING.sub("", reply[:_MOST_THOUGHTS])).strip()
    if text.startswith("```") and text.endswith("```") and len(text) > 6:
        first, _, rest = text[3:-3].partition("\n")
        is_label = first.strip().isalnum() and rest.strip()
        text = (rest if is_label or not first.strip() else f"{first}\n{rest}").strip()
    return text


class _Names:
    """Names by the ways to spell them; a spelling of two names is that of neither."""

    def __init__(self, names: Iterable[str]) -> None:
        self.exact = dict.fromkeys(names)
        self._folded = self._by(str.casefold)
        self._letters = self._by(squeezed)

    def _by(self, spell: Any) -> Mapping[str, str | None]:
        by: dict[str, str | None] = {}
        for name in self.exact:
            spelling = spell(name)
            by[spelling] = None if spelling in by else name
        by.pop("", None)
        return by

    def called(self, text: str) -> str | None:
        """The name that a text is, apart from case and separators."""
        if text in self.exact:
            return text
        return self._folded.get(text.casefold()) or self._letters.get(squeezed(text))

    def selected(self, text: str) -> Selection | None:
        """What a text says that should be a name or a refusal and nothing else."""
        bare = text.strip(_WRAPPING)
        if name := self.called(bare) or self.called(_PREFIX.sub("", bare)):
            return Selection(name, "named")
        is_none = "_".join(bare.casefold().split()) in _NONE
        return Selection(None, "refused") if is_none else None

    def folded(self) -> Mapping[str, str | None]:
        return self._folded


def _json_of(text: str) -> Any:
    if not text.startswith(("{", "[", '"', "null")):
        return _NO_JSON
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        # A reply is cut off where it is too long, mostly in the arguments after the name.
        start = _CUT_OFF.search(text)
        return {"name": json.loads(start[1], strict=False)} if start else _NO_JSON


def _in_json(known: _Names, value: Any) -> Selection | str:
    """What JSON selects, or a sentence that it holds."""
    if isinstance(value, str):
        return value
    while isinstance(value, list | dict):
        if isinstance(value, list):
            if len(value) > 1:
                return Selection(None, "several")
            value = value[0] if value else None
        elif keys := [key for key in _NAME_KEYS if key in value]:
            value = value[keys[0]]
        else:  # {"get_weather": {...}}
            value = next(iter(value)) if len(value) == 1 else ""
    if value is None:
        return Selection(None, "refused")
    named = known.selected(value) if isinstance(value, str) else None
    return named or Selection(None, "nothing named")


def _in_lines(known: _Names, text: str) -> Selection | None:
    """The one line that is a name and nothing more."""
    found: dict[str | None, Selection] = {}
    for line in text.splitlines():
        bare = _MARK.sub("", line)
        said = known.selected(bare) or known.selected(_lead_off(bare.strip(_WRAPPING)))
        if said:
            found[said.name] = said
    if not found:
        return None
    return next(iter(found.values())) if len(found) == 1 else Selection(None, "several")


def _lead_off(line: str) -> str:
    return re.sub(r"\s+tool$", "", _LEAD.sub("", line, count=1), flags=re.IGNORECASE)


def _in_prose(known: _Names, text: str) -> Selection:
    has_prefixes = any(map(_PREFIX.match, known.exact))
    folded = (text if has_prefixes else _PREFIX.sub("", text)).casefold()
    spelled = [name for name in known.folded() if name in folded]
    named: set[str | None] = set()
    rest = folded
    for spelling in sorted(spelled, key=len, reverse=True):
        pattern = re.compile(rf"(?<![\w-])(?<!\w[./]){re.escape(spelling)}(?![\w-])(?![./]\w)")
        for match in pattern.finditer(rest):
            if _is_identifier(known, spelling) or _is_marked(rest, match.start(), match.end()):
                named.add(known.folded()[spelling] or _exact(known, spelling, text))
        rest = pattern.sub(lambda found: "\0" * len(found[0]), rest)  # longer names hide shorter
    if not named:
        is_refusal = _NEGATION.search(rest)
        return Selection(None, "refused" if is_refusal else "nothing named")
    if len(named) > 1 or None in named:
        return Selection(None, "several")
    if _NEGATION.search(rest):
        return Selection(None, "refused")
    return Selection(named.pop(), "named")


def _exact(known: _Names, spelling: str, text: str) -> str | None:
    """The one of several names of one spelling that is there letter by letter."""
    there = [name for name in known.exact if name.casefold() == spelling and name in text]
    return there[0] if len(there) == 1 else None


def _is_identifier(known: _Names, spelling: str) -> bool:
    """Whether a name is no word that a sentence would hold anyway."""
    name = known.folded()[spelling] or spelling
    return not name.isalpha() or any(c.isupper() for c in name[1:])


def _is_marked(text: str, start: int, stop: int) -> bool:
    before, after = text[start - 1 : start], text[stop : stop + 1]
    return after == "(" or (bool(before) and before in _QUOTES and bool(after) and after in _QUOTES)
