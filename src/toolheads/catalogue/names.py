"""Ids of tools, and the names under which model providers accept them. Both are injective."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import lru_cache

from toolheads.data.jsonl import shown
from toolheads.errors import ConfigError

API_NAME_LENGTH = 64
"""Most characters of a name that every provider takes."""

MOST_NAME_LENGTH = 128
"""Most characters of a source's name."""

_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MARK = "___"
_DIGEST_LENGTH = 20
_LOOKS_HASHED = re.compile(_MARK + r"[a-z2-7]{20}$")
_OTHERS = re.compile(r"[^A-Za-z0-9_-]+")


def tool_id(server: str | None, name: str) -> str:
    """The id of a tool: `server/name`, with `%` and `/` of the server escaped.

    What stands before the first `/` is the server, so two pairs never make one id.

    Args:
        server: Name of the source that lists the tool; None for a tool of no source, whose id is
            its name.
        name: Name of the tool on its source.
    """
    if server is None:
        return name
    return server.replace("%", "%25").replace("/", "%2F") + "/" + name


@lru_cache(maxsize=1 << 12)  # of tools that are found again and again: a tenth of a search
def api_name(tool_id: str) -> str:
    """A name for a tool id that every provider takes: `[A-Za-z0-9_-]{1,64}`.

    `server/name` becomes `server__name`. An id that this cannot be turned back into gets what is
    readable of it and 100 bits of its sha256, so two ids never make one name.
    """
    plain = tool_id.replace("/", "__")
    if (
        _PLAIN.fullmatch(plain)
        and plain.replace("__", "/") == tool_id
        and not _LOOKS_HASHED.search(plain)
    ):
        return plain
    digest = hashlib.sha256(tool_id.encode(errors="surrogatepass")).digest()
    suffix = base64.b32encode(digest).decode().lower()[:_DIGEST_LENGTH]
    readable = _OTHERS.sub("_", plain)[: API_NAME_LENGTH - len(_MARK) - _DIGEST_LENGTH]
    return (readable.strip("_") or "tool") + _MARK + suffix


def source_name(name: str) -> str:
    """The name of a source, checked.

    Raises:
        ConfigError: If it is empty, too long, or holds what is no printable text.
    """
    if not name.strip() or len(name) > MOST_NAME_LENGTH or not name.isprintable():
        msg = (
            f"a source's name must be 1 to {MOST_NAME_LENGTH} printable characters, "
            f"got {shown(name)}"
        )
        raise ConfigError(msg)
    return name
