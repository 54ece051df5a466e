"""A small real HTTP server with `/v1/embeddings`, and every fault such a server can have.

    with FakeEmbeddingsServer() as server:
        encoder = OpenAIEncoder(server.url, server.model)
        encoder.encode(["a text"])
        assert server.texts == ["a text"]
        server.breaks("nan")              # until server.recovers()
        server.breaks("status:503", 2)    # for two requests

It speaks as vLLM does, error bodies included: 400 for a text that is too long, 401 without the
key, 404 for another model or route. Vectors are a function of the text alone, and texts that
share words are near each other, so that searches over it find something.
"""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
from tests.fake_embeddings_faults import FAULTS, STATUS_BODIES, error_body

from toolheads.arrays import Floats


def fake_vector(text: str, width: int = 32) -> Floats:
    """(width,) float32 of length 1: the sum of its words' vectors, and a little of its own."""
    whole = 0.2 * _noise(f"text {text}", width)
    whole = whole + sum((_noise(f"word {w}", width) for w in text.lower().split()), start=whole * 0)
    return (whole / np.linalg.norm(whole)).astype(np.float32)


@lru_cache(maxsize=10_000)
def _noise(key: str, width: int) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little")
    vector = np.random.default_rng(seed).normal(size=width)
    return vector / np.linalg.norm(vector)


@dataclass
class Recorded:
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def texts(self) -> list[str]:
        return list(self.body.get("input", []))


@dataclass
class FakeEmbeddingsServer:
    """Context manager; `url` is good inside it. Attributes may be changed while it runs."""

    model: str = "fake-model"
    width: int = 32
    api_key: str = ""
    """Key that is asked for; empty for none."""
    most_words: int = 512
    """Longest text in words; the fake's tokens."""
    most_texts: int = 10_000
    """Most texts of one request."""
    matryoshka: bool = False
    ignores_base64: bool = False
    ignores_truncation: bool = False
    shuffles: bool = True
    """Answer the rows in reversed order, each with its index."""
    scale: float = 1.0
    """Length of the vectors."""
    delay_s: float = 0.0
    refused_word: str = ""
    """A text with this word is refused with 400, whatever its length."""
    requests: list[Recorded] = field(default_factory=list)
    connections: int = 0
    most_in_flight: int = 0
    own_errors: list[Exception] = field(default_factory=list)
    _fault: str = ""
    _fault_left: int | None = None

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._in_flight = 0
        self._port = 0
        self._released = threading.Event()
        self._http: _Server | None = None

    def __enter__(self) -> FakeEmbeddingsServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """`http://127.0.0.1:PORT`; the port stays the same over stop and start."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        return f"{self.address}/v1"

    @property
    def texts(self) -> list[str]:
        """All texts that were asked for, in the order of the requests."""
        return [text for request in self.requests for text in request.texts]

    def start(self) -> None:
        """Serve; after `stop`, at the same port."""
        self._released.clear()
        self._http = _Server(self._port, self)
        self._port = self._http.server_address[1]
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Die: no port, no connection is left."""
        if self._http is None:
            return
        self._released.set()
        self._http.shutdown()
        self._http.drop_connections()
        self._http.server_close()
        self._http = None
        if self.own_errors:
            raise ExceptionGroup("the fake server is at fault", self.own_errors)

    def breaks(self, fault: str, times: int | None = None) -> None:
        """Answer the next `times` requests with a fault; None until `recovers`.

        Args:
            fault: A name in `FAULTS`, or `status:CODE`, or `retry-after:SECONDS` for a 429.
            times: How many requests.
        """
        if fault not in FAULTS and not fault.startswith(("status:", "retry-after:")):
            raise KeyError(fault)
        self._fault, self._fault_left = fault, times

    def recovers(self) -> None:
        self._fault = ""

    def next_fault(self) -> str:
        with self._lock:
            fault = self._fault
            if self._fault_left is not None:
                self._fault_left -= 1
                if self._fault_left <= 0:
                    self._fault, self._fault_left = "", None
            return fault

    def enter_request(self, request: Recorded) -> None:
        with self._lock:
            self.requests.append(request)
            self._in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self._in_flight)

    def leave_request(self) -> None:
        with self._lock:
            self._in_flight -= 1

    def hang(self) -> None:
        """Until the server stops."""
        self._released.wait()

    def has_stopped(self, wait_s: float) -> bool:
        """Whether the server stops within so many seconds."""
        return self._released.wait(wait_s)

    def connected(self) -> None:
        with self._lock:
            self.connections += 1

    def refusal(self, request: Recorded) -> tuple[int, Any] | None:
        """Status and body where vLLM would refuse; None where it would embed."""
        authorization = request.headers.get("authorization")
        if self.api_key and authorization != f"Bearer {self.api_key}":
            return 401, {"error": "Unauthorized"}
        if request.path != "/v1/embeddings":
            return 404, {"detail": "Not Found"}
        if request.body.get("model") != self.model:
            name = request.body.get("model")
            return 404, error_body(f"The model `{name}` does not exist.", "NotFoundError", 404)
        if not request.texts:
            return 400, error_body("You must pass at least one prompt")
        if len(request.texts) > self.most_texts:
            said = f"batch size {len(request.texts)} > maximum allowed batch size {self.most_texts}"
            return 413, {"error": said, "error_type": "Validation"}
        if "dimensions" in request.body and not self.matryoshka:
            return 400, error_body(f"Model '{self.model}' does not support Matryoshka embeddings")
        for text in request.texts:
            if self.refused_word and self.refused_word in text.split():
                return 400, error_body(f"no {self.refused_word} here")
            cut = request.body.get("truncate_prompt_tokens")
            if len(text.split()) > self.most_words and (not cut or self.ignores_truncation):
                return 400, error_body(
                    f"This model's maximum context length is {self.most_words} tokens."
                )
        return None

    def answer(self, request: Recorded) -> dict[str, Any]:
        """The body of a right answer."""
        cut = None if self.ignores_truncation else request.body.get("truncate_prompt_tokens")
        width = request.body.get("dimensions", self.width)
        data: list[dict[str, Any]] = []
        tokens = 0
        for i, text in enumerate(request.texts):
            words = text.split()[:cut]
            tokens += len(words)
            whole = fake_vector(" ".join(words) if cut else text, self.width)[:width]
            vector = whole / np.linalg.norm(whole) * self.scale
            data.append({"object": "embedding", "index": i, "embedding": vector.tolist()})
        if self.shuffles:
            data.reverse()
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "model": self.model, "data": data, "usage": usage}

    def encoded(self, answer: dict[str, Any], request: Recorded) -> dict[str, Any]:
        """Vectors as base64 where the request asks for it."""
        if request.body.get("encoding_format") == "base64" and not self.ignores_base64:
            for item in answer["data"]:
                vector = item.get("embedding") if isinstance(item, dict) else None
                if isinstance(vector, list) and all(isinstance(x, float) for x in vector):
                    with np.errstate(over="ignore"):
                        raw = np.asarray(vector, dtype="<f4").tobytes()
                    item["embedding"] = base64.b64encode(raw).decode()
        return answer


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, fake: FakeEmbeddingsServer) -> None:
        self.fake = fake
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            self._open.add(request)
        self.fake.connected()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._open.discard(request)
        super().shutdown_request(request)

    def drop_connections(self) -> None:
        with self._guard:
            left = list(self._open)
        for connection in left:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # it is gone already

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is part of the tests; anything else is a fault of the fake."""
        e = sys.exception()
        if isinstance(e, Exception) and not isinstance(e, ConnectionError):
            self.fake.own_errors.append(e)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    @property
    def fake(self) -> FakeEmbeddingsServer:
        return self.server.fake

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            about = {
                "id": self.fake.model,
                "object": "model",
                "max_model_len": self.fake.most_words,
            }
            self.reply_json(200, {"object": "list", "data": [about]})
        else:
            self.reply_json(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        raw = self.rfile.read(length)
        if len(raw) < length:  # the client went away while it asked
            self.close_connection = True
            return
        body = json.loads(raw)
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Recorded(self.path, headers, body)
        self.fake.enter_request(request)
        try:
            time.sleep(self.fake.delay_s)
            self._respond(request)
        finally:
            self.fake.leave_request()

    def _respond(self, request: Recorded) -> None:
        fault = self.fake.next_fault()
        refusal = self.fake.refusal(request)
        if fault.startswith("status:"):
            status = int(fault.removeprefix("status:"))
            self.reply(status, STATUS_BODIES[status].encode(), "application/json", {})
        elif fault.startswith("retry-after:"):
            after = {"Retry-After": fault.removeprefix("retry-after:")}
            self.reply(429, STATUS_BODIES[429].encode(), "application/json", after)
        elif refusal:
            self.reply_json(*refusal)
        elif fault:
            FAULTS[fault](self, request, self.fake.answer(request))
        else:
            self.reply_json(200, self.fake.encoded(self.fake.answer(request), request))

    def head(self, status: int, length: int, kind: str, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(length), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.flush()

    def reply(self, status: int, body: bytes, kind: str, headers: dict[str, str]) -> None:
        self.head(status, len(body), kind, headers)
        self.wfile.write(body)

    def reply_json(self, status: int, answer: Any) -> None:
        self.reply(status, json.dumps(answer).encode(), "application/json", {})

    def drop(self) -> None:
        """Close the connection without a word."""
        self.close_connection = True
        self.wfile.flush()
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the client was first

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on stderr."""
