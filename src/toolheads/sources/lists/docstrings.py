"""What a docstring says of a function and of each parameter. Google, NumPy and Sphinx styles."""

from __future__ import annotations

import inspect
import re

_SECTIONS = (
    "args|arguments|parameters|params|other parameters|keyword args|keyword arguments|"
    "returns?|yields?|raises|attributes|examples?|notes?|see also|references|warnings?|warns|todo"
)
_GOOGLE = re.compile(rf"({_SECTIONS}):\s*", re.IGNORECASE)
_NUMPY = re.compile(rf"({_SECTIONS})\s*", re.IGNORECASE)
_PARAMETERS = re.compile(r"(args|arguments|parameters|params|other parameters|keyword .*)", re.I)
_FIELD = re.compile(
    r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:(.*)"
)
_ANY_FIELD = re.compile(r":[a-z]+(\s[^:]*)?:")
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:(.*)")
_NUMPY_ENTRY = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?")


def split_docstring(docstring: str) -> tuple[str, dict[str, str]]:
    """(what comes before the sections, parameter → description)."""
    lines = inspect.cleandoc(docstring).splitlines()
    parameters: dict[str, str] = {}
    head: list[str] = []
    position = 0
    in_head = True
    while position < len(lines):
        line = lines[position]
        under = lines[position + 1].strip() if position + 1 < len(lines) else ""
        google = _GOOGLE.fullmatch(line)
        numpy = _NUMPY.fullmatch(line) if under and set(under) == {"-"} else None
        if google or numpy:
            in_head = False
            start = position + (1 if google else 2)
            block, position = _block(lines, start, is_numpy=google is None)
            name = (google or numpy or [""])[1]
            if _PARAMETERS.fullmatch(name):
                parameters |= _google(block) if google else _numpy(block)
        elif found := _FIELD.fullmatch(line):
            in_head = False
            block, position = _block(lines, position + 1, is_numpy=False)
            parameters[found[1]] = _line([found[2], *block])
        else:
            in_head = in_head and not _ANY_FIELD.match(line)
            if in_head:
                head.append(line)
            position += 1
    return "\n".join(head).strip(), {name: text for name, text in parameters.items() if text}


def _block(lines: list[str], start: int, *, is_numpy: bool) -> tuple[list[str], int]:
    """Lines of a section, and the number of the first line after it."""
    end = start
    while end < len(lines):
        line = lines[end]
        under = lines[end + 1].strip() if end + 1 < len(lines) else ""
        is_next = line and not line.startswith((" ", "\t"))
        if is_next and (not is_numpy or (_NUMPY.fullmatch(line) and set(under) == {"-"})):
            break
        end += 1
    return lines[start:end], end


def _google(block: list[str]) -> dict[str, str]:
    """Entries `name (type): text`, their other lines indented further."""
    entries: dict[str, list[str]] = {}
    indent = min((_indent(line) for line in block if line.strip()), default=0)
    name = ""
    for line in block:
        entry = _GOOGLE_ENTRY.fullmatch(line.strip())
        if entry and _indent(line) == indent:
            name = entry[1]
            entries[name] = [entry[2]]
        elif name:
            entries[name].append(line)
    return {name: _line(texts) for name, texts in entries.items()}


def _numpy(block: list[str]) -> dict[str, str]:
    """Entries `name : type` with the text indented below."""
    entries: dict[str, list[str]] = {}
    names: list[str] = []
    for line in block:
        entry = _NUMPY_ENTRY.fullmatch(line) if line and not line.startswith(" ") else None
        if entry:
            names = [name.strip(" *") for name in entry[1].split(",")]
            entries |= {name: [] for name in names}
        else:
            for name in names:
                entries[name].append(line)
    return {name: _line(texts) for name, texts in entries.items()}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _line(texts: list[str]) -> str:
    return " ".join(" ".join(texts).split())
