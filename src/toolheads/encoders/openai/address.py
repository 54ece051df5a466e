"""Where requests go and which key goes with them."""

from __future__ import annotations

import os
import re
from urllib.parse import SplitResult, urlsplit

from toolheads.errors import ConfigError

KEY_VARIABLE = "TOOLHEADS_API_KEY"
"""Environment variable with the key for any server."""

_OPENAI_KEY_VARIABLE = "OPENAI_API_KEY"
_OPENAI_HOST = "api.openai.com"
_VERSION = re.compile(r"v\d+\w*")


def embeddings_url(url: str) -> str:
    """The address of the embeddings route, from the address as people type it.

    `http://host:8000`, `http://host:8000/`, `…/v1`, `…/v1/` and `…/v1/embeddings` are one
    address. A path that has a version in it (`/v1beta/openai`) is kept; a path without one
    (`/gateway`) gets `/v1`. A path that ends with `/embeddings` is taken as it is.

    Raises:
        ConfigError: If it is no http(s) address, or carries a user, password, query or fragment.
    """
    return route_url(url, "embeddings")


def route_url(url: str, route: str) -> str:
    """The address of a route of a server, see `embeddings_url`.

    Args:
        url: As people type it.
        route: Such as `chat/completions`.

    Raises:
        ConfigError: If it is no http(s) address, or carries a user, password, query or fragment.
    """
    parts = _split(url)
    steps = [step for step in parts.path.split("/") if step]
    last = route.split("/")
    if steps[-len(last) :] != last:
        if not any(map(_VERSION.fullmatch, steps)):
            steps.append("v1")
        steps += last
    return f"{parts.scheme}://{parts.netloc}/{'/'.join(steps)}"


def api_key_for(url: str, given: str | None) -> str:
    """The key to send to an address; empty for none.

    Args:
        url: As `embeddings_url` returns it.
        given: What the caller passed; None looks into the environment. OpenAI's own variable is
            used for OpenAI's own host over https only, so that no other server is ever sent it.

    Raises:
        ConfigError: If the key cannot stand in a header. The message does not show the key.
    """
    source = "api_key"
    if given is None:
        source = KEY_VARIABLE
        given = os.environ.get(source, "")
        parts = urlsplit(url)
        is_openai = parts.scheme == "https" and parts.netloc in (
            _OPENAI_HOST,
            f"{_OPENAI_HOST}:443",
        )
        if not given.strip() and is_openai:
            source = _OPENAI_KEY_VARIABLE
            given = os.environ.get(source, "")
    key = given.strip()  # a key read from a file ends with a line break
    if not all("!" <= c <= "~" for c in key):
        msg = f"{source} must be printable ASCII without spaces, got another character in it"
        raise ConfigError(msg)
    return key


def _split(url: str) -> SplitResult:
    text = url.strip()
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port  # reading the port checks it
    except ValueError:
        # The parts may hold a password, so the error shows none of them.
        msg = "url must be an http or https address, got one that cannot be read"
        raise ConfigError(msg) from None
    if "@" in parts.netloc:
        msg = f"url must not carry a user or password, got one; give the key as {KEY_VARIABLE}"
        raise ConfigError(msg)
    if parts.query or parts.fragment:
        msg = "url must not have a query or fragment, got one; give the address up to /v1"
        raise ConfigError(msg)
    if parts.scheme not in ("http", "https") or not host or re.search(r"\s|[^\x21-\x7e]", text):
        hint = f"; write http://{text}" if re.match(r"[\w.-]+(:\d+)?(/|$)", text) else ""
        msg = f"url must start with http:// or https:// and a host, got {text!r:.200}{hint}"
        raise ConfigError(msg)
    return parts._replace(netloc=parts.netloc.lower())
