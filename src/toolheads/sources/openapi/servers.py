"""The address that a description's paths stand below."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

from toolheads.data.jsonl import shown
from toolheads.errors import ConfigError
from toolheads.sources.openapi.document import OperationError

_VARIABLE = re.compile(r"\{([^{}]*)\}")
_PORTS = {"http": 80, "https": 443}


def is_address(text: str) -> bool:
    """Whether a text is meant as an http(s) address rather than a path."""
    return text[:8].lower().startswith(("http://", "https://"))


def checked_base_url(url: str, *, name: str) -> str:
    """An address without a slash at its end.

    Args:
        url: Such as `https://api.example.com/v2/`.
        name: What the caller knows it as, for the error.

    Raises:
        ConfigError: If it is no http(s) address, or has a user, a query, a fragment, a dot
            segment or a character that an address cannot have.
    """
    text = url.strip()
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if "@" in parts.netloc:
        msg = f"{name} must not carry a user or password, got one; give a header instead"
        raise ConfigError(msg)
    scheme = parts.scheme.lower()
    if (
        scheme not in _PORTS
        or not host
        or re.search(r"[^\x21-\x7e]|[\\<>\"^`{|}]", text)
        or parts.query
        or parts.fragment
        or any(step in (".", "..") for step in parts.path.lower().replace("%2e", ".").split("/"))
    ):
        msg = f"{name} must be an http or https address without query, got {shown(url)}"
        raise ConfigError(msg)
    shown_host = f"[{host}]" if ":" in host else host
    suffix = "" if port in (None, _PORTS[scheme]) else f":{port}"
    return f"{scheme}://{shown_host}{suffix}{parts.path.rstrip('/')}"


def origin(url: str) -> str:
    """Scheme, host and port of an address that `checked_base_url` gave, or of a description."""
    parts = urlsplit(url.strip())
    try:
        port = parts.port or _PORTS.get(parts.scheme.lower())
    except ValueError:
        return ""
    return f"{parts.scheme.lower()}://{(parts.hostname or '').lower()}:{port}"


def server_address(servers: Any, *, location: str) -> str | None:
    """The first address of a list of servers that can be used; None if there is none.

    Args:
        servers: `servers` of a description, a path or an operation; None if it is not there.
        location: Where the description was read, which an address may be relative to.

    Raises:
        OperationError: If the list is no list of servers.
    """
    if servers is None:
        return None
    if not isinstance(servers, list):
        msg = f"servers must be a list, got {shown(servers)}"
        raise OperationError(msg)
    for server in servers:
        if not isinstance(server, Mapping) or not isinstance(server.get("url"), str):
            msg = f"a server must have a url, got {shown(server)}"
            raise OperationError(msg)
        url = _filled(server["url"], server.get("variables"))
        if is_address(location):
            url = urljoin(location, url)
        if is_address(url):
            try:
                return checked_base_url(url, name="url of a server")
            except ConfigError as e:
                raise OperationError(str(e)) from e
    return None


def _filled(url: str, variables: Any) -> str:
    """An address with the defaults of its variables."""

    def default(found: re.Match[str]) -> str:
        variable = variables.get(found[1]) if isinstance(variables, Mapping) else None
        value = variable.get("default") if isinstance(variable, Mapping) else None
        if not isinstance(value, str | int) or isinstance(value, bool):
            msg = f"variable {shown(found[1])} of a server must have a default, got none"
            raise OperationError(msg)
        return str(value)

    return _VARIABLE.sub(default, url)
