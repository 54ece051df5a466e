"""The HTTP side of a session: one request that fails ends that request alone, with its reason.

The SDK ends a whole session when a connection fails, and hides the status of an error. Here both
become what the protocol has for it: an error answer to that one request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import httpx2

FAILED = -32010
"""Code of an error that stands for an HTTP answer or for none; of those left to implementations."""

_CONNECT_TIMEOUT_S = 10.0
_CLOSE_TIMEOUT_S = 2.0
_SESSION = "mcp-session-id"
_MOST_SHOWN = 200
_MOST_BODY_BYTES = 64 * 2**20


def http_client(
    headers: Mapping[str, str], *, on_session_lost: Callable[[], None]
) -> httpx2.AsyncClient:
    """A client for one session: no cookies, no limit on how long an answer may take.

    How long a call may take is for who calls; it closes the request when it gives up.

    Args:
        headers: Sent with every request.
        on_session_lost: Called when the server says that it does not know the session any more.
    """
    timeout = httpx2.Timeout(_CONNECT_TIMEOUT_S, read=None, write=30.0, pool=None)
    client = _Client(headers=dict(headers), timeout=timeout)
    client.on_session_lost = on_session_lost
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    return client


class _Client(httpx2.AsyncClient):
    on_session_lost: Callable[[], None]

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """See `httpx2.AsyncClient.send`; a POST that fails is answered with a JSON-RPC error."""
        if request.method == "DELETE":  # the end of a session: nobody waits for its answer
            timeout = httpx2.Timeout(_CLOSE_TIMEOUT_S)
            request.extensions = {**request.extensions, "timeout": timeout.as_dict()}
        if request.method != "POST":
            return await super().send(request, **options)
        try:
            response = await super().send(request, **options)
            is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
            if response.status_code < 300 and is_stream:
                return response
            if int(response.headers.get("content-length") or 0) > _MOST_BODY_BYTES:
                await response.aclose()
                return _failed(request, f"an answer of more than {_MOST_BODY_BYTES:,} bytes")
            body = await response.aread()
        except (httpx2.TransportError, httpx2.StreamError, httpx2.DecodingError, ValueError) as e:
            return _failed(request, str(e) or type(e).__name__)
        if _SESSION in request.headers and _is_lost(response.status_code, body):
            self.on_session_lost()
        if response.status_code < 400 or _is_error(body):
            return response
        said = " ".join(body.decode(errors="replace").split())[:_MOST_SHOWN]
        reason = f"HTTP {response.status_code} {response.reason_phrase}".strip()
        return _failed(request, f"{reason}: {said}" if said else reason, response.status_code)


def _failed(request: httpx2.Request, reason: str, status: int | None = None) -> httpx2.Response:
    error = {"code": FAILED, "message": reason, "data": {"http_status": status}}
    answer = {"jsonrpc": "2.0", "id": None, "error": error}
    return httpx2.Response(status or 503, json=answer, request=request)


def _is_lost(status: int, body: bytes) -> bool:
    """404 is the protocol's word for it; 400 that of many servers built after one example."""
    return status == 404 or (status == 400 and b"session" in body.lower())


def _is_error(body: bytes) -> bool:
    """Whether a body is an error of the protocol already."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return False
    error = answer.get("error") if isinstance(answer, dict) else None
    return answer.get("jsonrpc") == "2.0" and isinstance(error, dict) if error else False
