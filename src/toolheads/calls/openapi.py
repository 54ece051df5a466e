"""Calling the operations of an OpenAPI description over HTTP.

A description is written by somebody else, so it decides little: writing methods need leave, an
address that only the description names must be public and gets no credentials, redirects are not
followed, and no cookie is kept.
"""

from __future__ import annotations

import asyncio
import http.cookiejar
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolheads.calls.address import Resolve, is_public, look_up
from toolheads.calls.answers import result_of
from toolheads.calls.caller import Sources
from toolheads.calls.http_message import HttpMessage, RefusedError, http_message
from toolheads.calls.result import CallResult, failure
from toolheads.catalogue.environment import expand
from toolheads.domain import Tool
from toolheads.errors import ConfigError, DataError, import_extra
from toolheads.sources.openapi.operation import READING, Operation
from toolheads.sources.openapi.reading import checked_headers
from toolheads.sources.openapi.servers import checked_base_url, is_address, origin

_KEEP_ALIVE_S = 4.0
"""Shorter than servers commonly wait, so that a connection is not used as they close it."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class HttpSettings:
    """What calls over HTTP may do."""

    allow_write: bool = False
    """Whether methods other than GET and HEAD are sent. A source may allow it for itself."""
    connect_timeout_s: float = 10.0
    """Longest wait for a connection."""
    most_request_bytes: int = 2**20
    """Longest body that is sent."""
    most_response_bytes: int = 4 * 2**20
    """Most of an answer that is read."""
    most_response_characters: int = 100_000
    """Most text of an answer that is handed on; a note says that there was more."""

    def __post_init__(self) -> None:
        if not (self.connect_timeout_s > 0 and math.isfinite(self.connect_timeout_s)):
            msg = f"http.connect_timeout_s must be > 0 and finite, got {self.connect_timeout_s}"
            raise ConfigError(msg)
        for name in ("most_request_bytes", "most_response_bytes", "most_response_characters"):
            if getattr(self, name) < 1:
                msg = f"http.{name} must be >= 1, got {getattr(self, name)}"
                raise ConfigError(msg)


@dataclass(frozen=True)
class _Destination:
    base_url: str
    is_trusted: bool
    """Whether the operator named it: then it may be private and gets the credentials."""
    headers: Mapping[str, str]
    """Credentials of the source; empty unless trusted."""
    withheld: bool
    """Whether the source has credentials that this address does not get."""


class OpenApiCaller:
    """Calls tools of kind `openapi`. See `toolheads.calls.caller.Caller`. For one event loop."""

    def __init__(
        self,
        sources: Sources,
        *,
        settings: HttpSettings | None = None,
        resolve: Resolve = look_up,
    ) -> None:
        """Make a caller; nothing is connected yet.

        Args:
            sources: Entries of `sources.json`, by name.
            settings: Limits.
            resolve: Looks up a host's addresses.

        Raises:
            MissingExtraError: If httpx is not installed.
        """
        self._httpx = import_extra("httpx", user="calls", extra="openapi")
        self._sources = sources
        self._settings = settings or HttpSettings()
        self._resolve = resolve
        self._clients: dict[tuple[str, str], Any] = {}
        self._tls: Any = None

    def use(self, sources: Sources) -> None:
        """Take over other sources."""
        self._sources = sources

    async def call(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        *,
        timeout_s: float,
        headers: Mapping[str, str] | None = None,
    ) -> CallResult:
        """Send one HTTP message, at most once."""
        name = tool.server or ""
        source = self._sources.get(name)
        if source is None:
            return failure(
                "unknown_tool", f"{tool.id!r:.200} must be of a source, got {name!r:.80}"
            )
        try:
            operation = Operation.from_extra(tool.extra.get("http"))
            self._check_method(operation, source, tool)
            destination = _destination(name, source, operation)
            message = http_message(
                operation, arguments, most_bytes=self._settings.most_request_bytes
            )
            sent = _headers(message, destination, checked_headers(headers or {}, name=name))
        except (RefusedError, ConfigError, DataError) as e:
            return failure("refused", str(e))
        except UnicodeError:
            return failure("refused", "arguments must hold no lone surrogate, got one")
        try:
            async with asyncio.timeout(timeout_s):
                return await self._sent(name, destination, message, sent, timeout_s)
        except TimeoutError:
            return failure("timeout", f"{name} must answer within {timeout_s:g} s, got no answer")
        except RefusedError as e:
            return failure("refused", str(e))

    async def close(self) -> None:
        """Close all connections."""
        clients = list(self._clients.values())
        self._clients.clear()
        for client in clients:
            await client.aclose()

    def _check_method(self, operation: Operation, source: Mapping[str, Any], tool: Tool) -> None:
        if operation.method in READING or self._settings.allow_write:
            return
        if source.get("allow_write") is not True:
            msg = (
                f"{tool.id} must use {' or '.join(READING)}, got {operation.method}; allow "
                "writing for the server or for its source to call it"
            )
            raise RefusedError(msg)

    async def _sent(
        self,
        name: str,
        destination: _Destination,
        message: HttpMessage,
        headers: Mapping[str, str],
        timeout_s: float,
    ) -> CallResult:
        h = self._httpx
        try:
            url = h.URL(destination.base_url + message.target)
            if origin(str(url)) != origin(destination.base_url):
                msg = f"path must stay at {destination.base_url}, got {message.target!r:.80}"
                raise RefusedError(msg)
            client = self._client(name, origin(destination.base_url))
            addresses: list[str | None] = [None]
            if not destination.is_trusted:
                addresses = list(await self._public_addresses(url))
            connect_s = min(self._settings.connect_timeout_s, timeout_s)
            timeout = h.Timeout(timeout_s, connect=connect_s)
            for address in addresses[:-1]:
                try:
                    return await self._once(
                        client, url, address, message, headers, timeout, destination
                    )
                except (h.ConnectError, h.ConnectTimeout):  # nothing was sent
                    _log.info("%s cannot be reached at %s", name, address)
            return await self._once(
                client, url, addresses[-1], message, headers, timeout, destination
            )
        except (h.ConnectTimeout, h.PoolTimeout):
            reason = f"took no connection within {self._settings.connect_timeout_s:g} s"
            return failure("timeout", f"{destination.base_url} {reason}")
        except h.TimeoutException:
            reason = f"gave no answer within {timeout_s:g} s"
            return failure("timeout", f"{destination.base_url} {reason}")
        except (h.ConnectError, OSError) as e:
            reason = f"cannot be reached: {str(e) or type(e).__name__}"
            return failure("protocol_error", f"{destination.base_url} {reason}")
        except h.InvalidURL as e:
            return failure("refused", f"{destination.base_url} must be an address, got: {e}")
        except (h.HTTPError, h.StreamError, UnicodeError) as e:
            reason = f"gave no HTTP answer: {str(e) or type(e).__name__}"
            return failure("protocol_error", f"{destination.base_url} {reason}")

    async def _public_addresses(self, url: Any) -> list[str]:
        """Addresses of a host that only a description names; all of them are public."""
        port = url.port or {"http": 80, "https": 443}[url.scheme]
        addresses = await self._resolve(url.host, port)
        refused = [address for address in addresses if not is_public(address)]
        if refused or not addresses:
            msg = (
                f"{url.host} must have a public address, got {refused[0] if refused else 'none'}; "
                "give the source a base_url to allow it"
            )
            raise RefusedError(msg)
        return addresses

    async def _once(
        self,
        client: Any,
        url: Any,
        address: str | None,
        message: HttpMessage,
        headers: Mapping[str, str],
        timeout: Any,
        destination: _Destination,
    ) -> CallResult:
        """Send to an address that was checked, whatever the name leads to now."""
        extensions: dict[str, Any] = {}
        sent = dict(headers)
        if address is not None:
            sent["Host"] = url.netloc.decode("ascii")
            extensions["sni_hostname"] = url.host
            url = url.copy_with(host=address.partition("%")[0])
        content = bytearray()
        most = self._settings.most_response_bytes
        async with client.stream(
            message.method,
            url,
            headers=sent,
            content=message.content or None,
            timeout=timeout,
            extensions=extensions,
        ) as response:
            async for part in response.aiter_bytes():
                content += part
                if len(content) > most:
                    break
        result = result_of(
            status=response.status_code,
            content_type=response.headers.get("content-type", ""),
            content=bytes(content[:most]),
            is_cut=len(content) > most,
            most_characters=self._settings.most_response_characters,
            redirect=response.headers.get("location", "") if response.is_redirect else "",
        )
        if destination.withheld and result.http_status in (401, 403):
            note = (
                f"{result.error}; the headers of the source were not sent, since "
                f"{destination.base_url} is not below its base_url"
            )
            return failure(
                "tool_error", note, content=result.content, http_status=result.http_status
            )
        return result

    def _client(self, name: str, base: str) -> Any:
        """The connections of one source to one address; no source shares those of another."""
        key = (name, base)
        if key not in self._clients:
            h = self._httpx
            if self._tls is None:
                self._tls = h.create_ssl_context()
            no_cookies = http.cookiejar.DefaultCookiePolicy(allowed_domains=[])
            self._clients[key] = h.AsyncClient(
                verify=self._tls,
                trust_env=False,  # neither a proxy nor a .netrc knows of the rules here
                follow_redirects=False,
                cookies=http.cookiejar.CookieJar(policy=no_cookies),
                limits=h.Limits(max_connections=None, keepalive_expiry=_KEEP_ALIVE_S),
            )
        return self._clients[key]


def _destination(name: str, source: Mapping[str, Any], operation: Operation) -> _Destination:
    """Where a call goes, and whether the operator named that address.

    Raises:
        ConfigError: If there is no address, or a setting of the source breaks a rule.
    """
    used = {key: source[key] for key in ("spec", "base_url", "headers") if source.get(key)}
    settings = expand(used, user=f"source {name!r}")
    configured, spec = settings.get("base_url"), settings.get("spec", "")
    if configured is not None:
        configured = checked_base_url(configured, name=f"base_url of source {name!r}")
    base_url = configured
    if configured is None or (operation.has_own_server and operation.base_url):
        if operation.base_url is None:
            msg = f"source {name!r} must have a base_url, got none, nor has its description"
            raise ConfigError(msg)
        base_url = checked_base_url(operation.base_url, name="base_url of the tool")
    if configured is not None:
        is_trusted = f"{base_url}/".startswith(f"{configured}/")
    else:
        is_trusted = is_address(spec) and origin(spec) == origin(str(base_url))
    headers = checked_headers(settings.get("headers") or {}, name=name)
    return _Destination(
        str(base_url), is_trusted, headers if is_trusted else {}, bool(headers) and not is_trusted
    )


def _headers(
    message: HttpMessage, destination: _Destination, passed: Mapping[str, str]
) -> dict[str, str]:
    """Headers of a message; those of the operator go before those of the arguments."""
    sent = {
        "User-Agent": "toolheads",
        "Accept": "application/json, */*;q=0.5",
        "Accept-Encoding": "identity",
    }
    layers = [message.headers, destination.headers, passed if destination.is_trusted else {}]
    for layer in layers:
        for header, value in layer.items():
            sent = {n: v for n, v in sent.items() if n.lower() != header.lower()}
            sent[header] = value
    return sent
