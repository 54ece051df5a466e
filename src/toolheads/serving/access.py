"""Who may do what: keys, read from a file or the environment, and what each one allows.

A file is JSON, a name for each key:

    {"agents": {"key": "${AGENTS_KEY}", "scopes": ["search", "call"], "sources": ["github"]},
     "prometheus": {"sha256": "9f86d0…", "scopes": ["metrics"]}}

Only digests are kept in memory.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolheads.catalogue import expand
from toolheads.data.jsonl import shown
from toolheads.errors import ConfigError
from toolheads.serving.api_error import ApiError
from toolheads.serving.strict_json import parse_json

KEY_VARIABLE = "TOOLHEADS_SERVER_KEY"
"""One key that may do everything."""

SCOPES = ("search", "call", "feedback", "metrics")
"""What a key can be allowed to do. `search` is finding and looking up tools."""

MIN_KEY_CHARS = 16
"""A shorter key could be guessed."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_FIELDS = ("key", "sha256", "scopes", "sources")


@dataclass(frozen=True)
class Access:
    """What a client may do."""

    name: str = "everyone"
    """Of its key."""
    scopes: frozenset[str] = frozenset(SCOPES)
    sources: frozenset[str] | None = None
    """Sources whose tools it may find and call; None for all. Others do not exist for it."""

    def check(self, scope: str) -> None:
        """Raise if a scope is missing.

        Raises:
            ApiError: `forbidden`.
        """
        if scope not in self.scopes:
            raise ApiError("forbidden", f"key {self.name} must have scope {scope}, got {self._has}")

    def may_use(self, source: str | None) -> bool:
        """Whether tools of a source exist for it."""
        return self.sources is None or source in self.sources

    @property
    def _has(self) -> str:
        return ", ".join(scope for scope in SCOPES if scope in self.scopes) or "none"


@dataclass(frozen=True)
class Asker:
    """One client of a request: what it may do, and what belongs together with this request."""

    access: Access
    session: str
    """A conversation or a connection, as far as the client tells."""
    via: str
    """`rest`, `mcp` or `stdio`."""


EVERYONE = Access()
"""What a client may do where there are no keys."""


@dataclass(frozen=True)
class Keys:
    """Keys of a server, by digest."""

    _digests: tuple[tuple[bytes, Access], ...] = field(repr=False, default=())

    def __len__(self) -> int:
        return len(self._digests)

    def find(self, token: str) -> Access | None:
        """What a token allows; None if it is no key.

        Takes equally long for every token of a length: it is hashed, and the digest is compared
        with all others in constant time.
        """
        presented = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        found = None
        for digest, access in self._digests:
            if hmac.compare_digest(presented, digest):
                found = access
        return found


def load_keys(
    path: str | os.PathLike[str] | None = None, *, environ: Mapping[str, str] | None = None
) -> Keys:
    """Read the keys of a file and of the environment.

    Args:
        path: JSON file; None for none.
        environ: What to read in place of `os.environ`.

    Raises:
        ConfigError: If the file is missing or breaks a rule; no key is shown.
    """
    env = os.environ if environ is None else environ
    found: dict[bytes, Access] = {}
    if given := env.get(KEY_VARIABLE, ""):
        found[_digest(KEY_VARIABLE, {"key": given}, env)] = Access("environment")
    for name, entry in _entries(path).items():
        access, digest = _access(name, entry), _digest(f"key {name}", entry, env)
        if digest in found:
            msg = f"keys must differ, got one under {found[digest].name} and {name}"
            raise ConfigError(msg)
        found[digest] = access
    return Keys(tuple(found.items()))


def _entries(path: str | os.PathLike[str] | None) -> dict[str, Mapping[str, Any]]:
    if path is None:
        return {}
    try:
        data = parse_json(Path(path).read_bytes(), max_levels=8)
    except OSError as e:
        msg = f"the keys file must be readable, got {e.strerror or e}: {path}"
        raise ConfigError(msg) from e
    except ApiError as e:
        msg = f"{path}: {e.message.replace('the body', 'the keys file')}"
        raise ConfigError(msg) from e
    if not isinstance(data, dict) or not data:
        msg = f"{path} must be a JSON object with a name for each key, got {_kind(data)}"
        raise ConfigError(msg)
    entries = {n: {"key": e} if isinstance(e, str) else e for n, e in data.items()}
    for name, entry in entries.items():
        if not _NAME.fullmatch(name):
            msg = f"the name of a key must be {_NAME.pattern}, got {shown(name)}"
            raise ConfigError(msg)
        if not isinstance(entry, dict) or not set(entry) <= set(_FIELDS):
            unknown = sorted(set(entry) - set(_FIELDS)) if isinstance(entry, dict) else _kind(entry)
            msg = f"key {name} must have fields of {', '.join(_FIELDS)}, got {unknown}"
            raise ConfigError(msg)
    return entries


def _access(name: str, entry: Mapping[str, Any]) -> Access:
    scopes = _names(name, "scopes", entry.get("scopes", list(SCOPES)))
    for scope in sorted(scopes):
        if scope not in SCOPES:
            msg = f"scopes of key {name} must be of {', '.join(SCOPES)}, got {shown(scope)}"
            raise ConfigError(msg)
    sources = entry.get("sources")
    return Access(name, scopes, None if sources is None else _names(name, "sources", sources))


def _names(name: str, kind: str, value: Any) -> frozenset[str]:
    if not isinstance(value, list) or not value or not all(isinstance(x, str) for x in value):
        msg = f"{kind} of key {name} must be a list of names, got {shown(value)}"
        raise ConfigError(msg)
    return frozenset(value)


def _digest(owner: str, entry: Mapping[str, Any], env: Mapping[str, str]) -> bytes:
    key, digest = entry.get("key"), entry.get("sha256")
    if (key is None) == (digest is None):
        msg = f"{owner} must have either key or sha256, got {'both' if key else 'neither'}"
        raise ConfigError(msg)
    if digest is not None:
        if not isinstance(digest, str) or not re.fullmatch(r"[0-9a-fA-F]{64}", digest):
            msg = f"sha256 of {owner} must be 64 hex digits, got something else"
            raise ConfigError(msg)
        return bytes.fromhex(digest)
    text = expand(key, user=owner, environment=env) if isinstance(key, str) else ""
    if len(text) < MIN_KEY_CHARS or not (text.isascii() and text.isprintable() and " " not in text):
        msg = (
            f"{owner} must be {MIN_KEY_CHARS} or more printable ASCII characters without spaces, "
            f"got {len(text)}; make one with: openssl rand -hex 24"
        )
        raise ConfigError(msg)
    return hashlib.sha256(text.encode()).digest()


def _kind(value: Any) -> str:
    return "an empty one" if value == {} else type(value).__name__
