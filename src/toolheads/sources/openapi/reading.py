"""Reading a description from a file or an address, and the tools of a configured source."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from toolheads.catalogue.environment import expand
from toolheads.errors import ConfigError, DataError, SourceError, import_extra
from toolheads.sources.openapi.budget import DEFAULT_BYTES
from toolheads.sources.openapi.document import MOST_BYTES, parse_document
from toolheads.sources.openapi.listing import Listing, ListingSettings, list_operations
from toolheads.sources.openapi.servers import checked_base_url, is_address, origin

TIMEOUT_S = 60.0
"""Longest time to fetch a description."""


def read_openapi(
    spec: str,
    *,
    name: str,
    base_url: str | None = None,
    headers: Mapping[str, str] | None = None,
    only: Sequence[str] = (),
    max_tool_bytes: int = DEFAULT_BYTES,
    timeout_s: float = TIMEOUT_S,
) -> Listing:
    """Make tools of an OpenAPI description.

    Args:
        spec: Its path or address.
        name: Name of the source; `server` of each tool.
        base_url: Address in place of that of the description's servers.
        headers: What is sent with each call, to the base address alone. To fetch the description
            they are sent if it is at that address.
        only: Tags, names, or operations such as `GET /pets`; empty for all.
        max_tool_bytes: Most bytes of a tool's description and schema.
        timeout_s: Longest time to fetch the description, in seconds.

    Raises:
        ConfigError: If a setting breaks a rule, or there are headers and no address to trust.
        DataError: If it is no OpenAPI description.
        SourceError: If it cannot be fetched.
    """
    sent = checked_headers(headers or {}, name=name)
    if base_url is not None:
        base_url = checked_base_url(base_url, name="base_url")
    trusted = origin(base_url) if base_url else origin(spec) if is_address(spec) else ""
    if sent and not trusted:
        msg = (
            f"source {name!r} must have a base_url to send headers to, got none: the addresses "
            "that a description gives are not trusted with them"
        )
        raise ConfigError(msg)
    if is_address(spec):
        content = _fetched(spec, sent if origin(spec) == trusted else {}, timeout_s)
    else:
        content = _read(Path(spec))
    settings = ListingSettings(base_url, tuple(sent), tuple(only), max_tool_bytes)
    document = parse_document(content, name=spec)
    return list_operations(document, source=name, location=spec, settings=settings)


def read_openapi_source(
    name: str, source: Mapping[str, Any], *, timeout_s: float = TIMEOUT_S
) -> Listing:
    """Make tools of a source as a catalogue has it, with the variables of the environment.

    Args:
        name: The source.
        source: `spec`, and where given `base_url`, `headers`, `only`, `max_tool_bytes`.
        timeout_s: Longest time to fetch the description, in seconds.

    Raises:
        ConfigError: As `read_openapi`; also if a variable is not set.
        DataError: As `read_openapi`.
        SourceError: As `read_openapi`.
    """
    settings = expand(dict(source), user=f"source {name!r}")
    only, max_tool_bytes = settings.get("only") or (), settings.get("max_tool_bytes")
    if not isinstance(only, list | tuple) or not all(isinstance(one, str) for one in only):
        msg = f"only of source {name!r} must be a list of strings, got {only!r:.80}"
        raise ConfigError(msg)
    if max_tool_bytes is None:
        max_tool_bytes = DEFAULT_BYTES
    if not isinstance(max_tool_bytes, int):
        msg = f"max_tool_bytes of source {name!r} must be a number, got {max_tool_bytes!r:.80}"
        raise ConfigError(msg)
    return read_openapi(
        settings["spec"],
        name=name,
        base_url=settings.get("base_url"),
        headers=settings.get("headers"),
        only=only,
        max_tool_bytes=max_tool_bytes,
        timeout_s=timeout_s,
    )


def checked_headers(headers: Mapping[str, str], *, name: str) -> dict[str, str]:
    """Headers that can be sent.

    Args:
        headers: Name → value.
        name: The source, for the error, which shows no value.

    Raises:
        ConfigError: If a name or value cannot stand in a header.
    """
    for header, value in headers.items():
        is_name = header and all("!" <= c <= "~" and c not in '"(),/:;<=>?@[\\]{}' for c in header)
        if not is_name:
            msg = f"headers of source {name!r} must have names of headers, got {header!r:.80}"
            raise ConfigError(msg)
        if not all(" " <= c <= "~" or c == "\t" for c in value) or value != value.strip():
            msg = (
                f"headers of source {name!r} must be printable ASCII, got another character in "
                f"the value of {header}"
            )
            raise ConfigError(msg)
    return dict(headers)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except OSError as e:
        msg = f"{path} must be a file that can be read, got: {e.strerror or e}"
        raise DataError(msg) from e


def _fetched(address: str, headers: Mapping[str, str], timeout_s: float) -> bytes:
    httpx = import_extra("httpx", user="sources.openapi", extra="openapi")
    end = time.monotonic() + timeout_s
    content = bytearray()
    try:
        with httpx.stream(
            "GET",
            address,
            headers={"Accept": "application/json, application/yaml, */*;q=0.5", **headers},
            timeout=timeout_s,
            follow_redirects=False,
        ) as response:
            if response.is_redirect:
                target = response.headers.get("location", "")
                msg = f"{address} must be the description itself, got a redirect to {target:.200}"
                raise SourceError(msg)
            if response.status_code != 200:
                msg = f"{address} must answer with status 200, got {response.status_code}"
                raise SourceError(msg)
            for part in response.iter_bytes():
                content += part
                if len(content) > MOST_BYTES or time.monotonic() > end:
                    msg = (
                        f"{address} must be whole within {MOST_BYTES:,} bytes and "
                        f"{timeout_s:g} s, got more"
                    )
                    raise SourceError(msg)
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as e:
        msg = f"{address} must be reachable, got: {str(e) or type(e).__name__}"
        raise SourceError(msg) from e
    return bytes(content)
