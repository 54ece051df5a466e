"""The outermost layer: whatever goes wrong below becomes JSON, and no traceback leaves."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolheads.serving.api_error import ApiError, code_of

logger = logging.getLogger(__name__)

Observe = Callable[[str, str, int, float], None]
"""Told of each answer: method, path, status, seconds."""

_WORDS = {
    404: "there must be something at the path, got nothing at {path}",
    405: "the method must be one that {path} takes, got {method}",
    406: "Accept must allow application/json, got another type",
}


class Failures:
    """Answers exceptions, and errors that libraries write as text, with JSON.

    A client that hung up is not answered, and nothing is logged about it.
    """

    def __init__(self, app: ASGIApp, *, mcp_path: str, observe: Observe | None = None) -> None:
        self.app, self.mcp_path, self.observe = app, mcp_path, observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] == "websocket":  # nothing here speaks it
            await send({"type": "websocket.close", "code": 1000})
            return
        start = time.perf_counter()
        answer = _Answer(send)
        try:
            await self.app(scope, receive, answer.send)
        except ApiError as e:
            await self._answer(e, scope, receive, answer)
        except ClientDisconnect:
            answer.status = answer.status or 499  # as nginx counts those who hung up
        except Exception:
            if not answer.is_client_gone:
                logger.exception("%s %s failed", scope["method"], scope["path"])
            error = ApiError("internal_error", "the server failed; its log says why")
            await self._answer(error, scope, receive, answer)
        else:
            if answer.replaced:
                await self._answer(_error_of(answer, scope), scope, receive, answer)
        if self.observe is not None:
            self.observe(scope["method"], scope["path"], answer.status, time.perf_counter() - start)

    async def _answer(
        self, error: ApiError, scope: Scope, receive: Receive, answer: _Answer
    ) -> None:
        if answer.is_started:  # too late to say anything: the body ends where it is
            return
        answer.replaced = 0
        over_mcp = scope["path"] == self.mcp_path
        await error.answer(over_mcp=over_mcp)(scope, receive, answer.send)


class _Answer:
    """What has been sent. An error that is not JSON is held back, to be replaced."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.is_started = False
        self.is_client_gone = False
        self.status = 0
        self.replaced = 0
        """Status of an error that was held back; 0 for none."""
        self.headers: dict[str, str] = {}
        """Of the error that was held back."""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and not self.is_started:
            headers = {
                name.decode("latin-1").lower(): value.decode("latin-1")
                for name, value in message.get("headers", ())
            }
            if message["status"] >= 400 and "json" not in headers.get("content-type", ""):
                self.replaced, self.headers = message["status"], headers
                return
            self.status, self.is_started = message["status"], True
        elif self.replaced:
            return
        try:
            await self._send(message)
        except OSError:
            self.is_client_gone = True
            raise ClientDisconnect from None


def _error_of(answer: _Answer, scope: Scope) -> ApiError:
    status = answer.replaced
    path, method = scope["path"][:200], scope["method"]
    words = _WORDS.get(status, "the request must be one that is served, got HTTP status {status}")
    message = words.format(path=repr(path), method=method, status=status)
    kept = {n.title(): v for n, v in answer.headers.items() if n in ("allow", "retry-after")}
    return ApiError(code_of(status), message, kept)
