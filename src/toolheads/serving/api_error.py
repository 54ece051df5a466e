"""Errors that a client is told: a stable code, an HTTP status, and one line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

STATUS = {
    "invalid_json": 400,
    "invalid_argument": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "origin_not_allowed": 403,
    "not_found": 404,
    "unknown_tool": 404,
    "method_not_allowed": 405,
    "not_acceptable": 406,
    "body_too_large": 413,
    "url_too_long": 414,
    "unsupported_media_type": 415,
    "host_not_allowed": 421,
    "rate_limited": 429,
    "bad_request": 400,
    "internal_error": 500,
    "unavailable": 503,
    "deadline_exceeded": 504,
}
"""Every code with its status. Codes are never renamed: programs branch on them."""

_JSON_RPC = {"invalid_json": -32700, "not_found": -32601, "internal_error": -32603}
_JSON_RPC_OTHER = -32600  # the request as a whole is not one that is served


class ApiError(Exception):
    """A request that is answered with an error.

    Attributes:
        code: One of `STATUS`.
        message: One line.
        headers: Of the answer, such as `Retry-After`.
    """

    def __init__(self, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        self.code, self.message = code, " ".join(message.split())
        self.headers = dict(headers or {})
        super().__init__(self.message)

    @property
    def status(self) -> int:
        """HTTP status."""
        return STATUS[self.code]

    def to_json(self) -> dict[str, Any]:
        """The body of the answer."""
        return {"error": {"code": self.code, "message": self.message}}

    def answer(self, *, over_mcp: bool = False) -> Response:
        """The HTTP answer.

        Args:
            over_mcp: Give the error the form of JSON-RPC too, where MCP clients look for it;
                the stable code is then `error.data.code`.
        """
        body = self.to_json()
        if over_mcp:
            error = {
                "code": _JSON_RPC.get(self.code, _JSON_RPC_OTHER),
                "message": self.message,
                "data": {"code": self.code},
            }
            body = {"jsonrpc": "2.0", "id": None, "error": error}
        return json_answer(body, self.status, self.headers)


def json_answer(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer of JSON.

    Raises:
        ValueError: If a number is NaN or infinite.
    """
    text = json.dumps(
        data, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=dict
    )
    return Response(text.encode(), status, {"Content-Type": "application/json", **(headers or {})})


def code_of(status: int) -> str:
    """The code of an HTTP error that a library answered."""
    by_status = {status: code for code, status in reversed(STATUS.items())}
    by_status[400] = "bad_request"
    if status in by_status:
        return by_status[status]
    return "bad_request" if status < 500 else "internal_error"
