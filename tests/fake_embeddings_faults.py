"""Every way in which the small embeddings server can answer wrongly.

A fault takes the handler of the request, the request, and the right answer.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any


def error_body(message: str, kind: str = "BadRequestError", code: int = 400) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _spoiled(spoil: Callable[[list[dict[str, Any]]], Any]) -> Callable[..., None]:
    """A fault in the vectors; `spoil` changes the items, or returns others."""

    def fault(handler: Any, request: Any, answer: dict[str, Any]) -> None:
        answer["data"] = spoil(answer["data"]) or answer["data"]
        handler.reply_json(200, handler.fake.encoded(answer, request))

    return fault


def _all_entries(value: float) -> Callable[[list[dict[str, Any]]], None]:
    def spoil(data: list[dict[str, Any]]) -> None:
        data[0]["embedding"] = [value] * len(data[0]["embedding"])

    return spoil


def _one_entry(value: float) -> Callable[[list[dict[str, Any]]], None]:
    def spoil(data: list[dict[str, Any]]) -> None:
        data[-1]["embedding"][0] = value

    return spoil


def _set(key: str, value: Any) -> Callable[[list[dict[str, Any]]], None]:
    def spoil(data: list[dict[str, Any]]) -> None:
        data[0][key] = value

    return spoil


def _wider(data: list[dict[str, Any]], which: slice) -> None:
    for item in data[which]:
        item["embedding"] = item["embedding"] + [0.1]


def _text(status: int, text: str, kind: str = "application/json", **headers: str) -> Callable:
    def fault(handler: Any, _request: Any, _answer: dict[str, Any]) -> None:
        handler.reply(status, text.encode(), kind, headers)

    return fault


def _hang(handler: Any, _request: Any, _answer: dict[str, Any]) -> None:
    handler.fake.hang()
    handler.drop()


def _drip(handler: Any, _request: Any, answer: dict[str, Any]) -> None:
    """A byte now and then: each one starts a client's read timeout anew."""
    handler.head(200, len(json.dumps(answer)), "application/json", {})
    while not handler.fake.has_stopped(0.02):
        handler.wfile.write(b" ")
        handler.wfile.flush()


def _die(handler: Any, _request: Any, answer: dict[str, Any]) -> None:
    """Half of the answer, then a closed socket."""
    whole = json.dumps(answer).encode()
    handler.head(200, len(whole), "application/json", {})
    handler.wfile.write(whole[: len(whole) // 2])
    handler.drop()


def _endless(handler: Any, _request: Any, _answer: dict[str, Any]) -> None:
    handler.head(200, 1 << 40, "application/json", {})
    while True:
        handler.wfile.write(b" " * (1 << 20))


HTML = "<html><head><title>Welcome</title></head><body>Sign in</body></html>"

FAULTS: dict[str, Callable[..., None]] = {
    "nan": _spoiled(_one_entry(float("nan"))),
    "inf": _spoiled(_one_entry(float("inf"))),
    "huge-float": _spoiled(_one_entry(1e300)),
    "zero": _spoiled(_all_entries(0.0)),
    "wrong-width": _spoiled(lambda data: _wider(data, slice(None))),
    "one-wrong-width": _spoiled(lambda data: _wider(data, slice(0, 1))),
    "empty-vector": _spoiled(_set("embedding", [])),
    "too-few": _spoiled(lambda data: data[1:] or [{}] * 2),
    "too-many": _spoiled(lambda data: [*data, dict(data[0], index=len(data))]),
    "duplicate-index": _spoiled(lambda data: [dict(item, index=0) for item in data]),
    "index-out-of-range": _spoiled(_set("index", 10_000)),
    "negative-index": _spoiled(_set("index", -1)),
    "no-index": _spoiled(_set("index", None)),
    "bool-index": _spoiled(_set("index", True)),
    "null-vector": _spoiled(_set("embedding", None)),
    "text-vector": _spoiled(_set("embedding", "not base64!")),
    "odd-base64": _spoiled(_set("embedding", base64.b64encode(b"12345").decode())),
    "strings-in-vector": _spoiled(_set("embedding", ["a", "b"])),
    "nested-vector": _spoiled(_set("embedding", [[1.0], [2.0]])),
    "ragged-vector": _spoiled(_set("embedding", [[1.0], [2.0, 3.0]])),
    "item-is-no-object": _spoiled(lambda data: [7] * len(data)),
    "no-data": _text(200, "{}"),
    "list-at-top": _text(200, "[]"),
    "null-at-top": _text(200, "null"),
    "empty-body": _text(200, ""),
    "html": _text(200, HTML, "text/html"),
    "error-with-200": _text(
        200, json.dumps(error_body("the engine is asleep", "EngineError", 500))
    ),
    "deep-json": _text(200, "[" * 100_000),
    "not-utf-8": lambda handler, _request, _answer: handler.reply(200, b"\xff\xfe{", "", {}),
    "redirect": _text(307, "", location="http://127.0.0.1:9/elsewhere"),
    "no-content": _text(204, ""),
    "hang": _hang,
    "drip": _drip,
    "die": _die,
    "drop": lambda handler, _request, _answer: handler.drop(),
    "endless": _endless,
}
"""Name → how the answer is spoiled."""

STATUS_BODIES = {
    400: json.dumps(error_body("the request cannot be understood")),
    401: json.dumps({"error": "Unauthorized"}),
    403: json.dumps({"error": "Forbidden"}),
    404: json.dumps({"detail": "Not Found"}),
    422: json.dumps({"detail": [{"loc": ["body", "input"], "msg": "field required"}]}),
    429: json.dumps(error_body("slow down", "RateLimitError", 429)),
    500: json.dumps(error_body("the engine died", "InternalServerError", 500)),
    502: "<html><body>Bad Gateway</body></html>",
    503: json.dumps({"object": "error", "message": "loading the model"}),
}
