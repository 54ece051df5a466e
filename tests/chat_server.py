"""A small real HTTP server with `/v1/chat/completions` that answers what a test scripts.

    with ChatServer(said('["send_mail"]'), Status(500)) as server:
        OpenAIChat(ChatSettings(server.url, "m")).send([...], system="…")
        assert server.bodies[0]["model"] == "m"

The last answer is given again and again.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Answer:
    """One answer of the server."""

    body: bytes = b""
    status: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    hangs: bool = False
    """Whether it answers only once the server is left."""
    drops: bool = False
    """Whether the connection is closed without an answer."""


def said(content: Any, **message: Any) -> Answer:
    """An answer whose message has this content."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **message}}
    return Answer(json.dumps({"object": "chat.completion", "choices": [choice]}).encode())


def refused(message: str, status: int = 400) -> Answer:
    """What a server says of a call that it does not take."""
    return Answer(json.dumps({"error": {"message": message}}).encode(), status)


class ChatServer:
    """Serves while its block runs."""

    def __init__(self, *answers: Answer) -> None:
        self.bodies: list[dict[str, Any]] = []
        """What was asked, in order."""
        self.headers: list[dict[str, str]] = []
        self.left = threading.Event()
        self._answers = list(answers)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                outer._handle(self)

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        # The default polls twice a second, and leaving waits for it.
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> ChatServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.left.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def prompt(self) -> str:
        """The last message of the last call."""
        return str(self.bodies[-1]["messages"][-1]["content"])

    def _handle(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["Content-Length"]))
        self.bodies.append(json.loads(body))
        self.headers.append(dict(request.headers))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer.hangs:
            self.left.wait()
        if answer.hangs or answer.drops:
            request.close_connection = True
            return
        if request.path != "/v1/chat/completions":
            answer = refused("no such route", 404)
        request.send_response(answer.status)
        request.send_header("Content-Type", answer.content_type)
        for name, value in answer.headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(answer.body)))
        request.end_headers()
        request.wfile.write(answer.body)
