"""A small HTTP API on a free port of this machine, which remembers what it was sent."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class ApiServer:
    """Answers each path in its own way; see `_Handler.answer`. Used as a context manager."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        """Method, target, headers (lower-case names) and body of each HTTP request."""
        self.released = threading.Event()
        """Ends the answers of `/hang`."""
        handler = type("Handler", (_Handler,), {"api": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> ApiServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    api: ApiServer
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        seen = {
            "method": self.command,
            "target": self.path,
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "body": body.decode(),
        }
        self.api.seen.append(seen)
        path = self.path.partition("?")[0]
        if path == "/redirect":
            self.reply(302, b"", location="http://169.254.169.254/latest")
        elif path == "/cookie":
            self.reply(200, b"{}", set_cookie="session=secret; Path=/")
        elif path == "/hang":
            self.api.released.wait(20)
        elif path == "/drip":
            self.drip()
        elif path == "/big":
            self.reply(200, b'{"text": "' + b"x" * 300_000 + b'"}')
        elif path == "/broken":
            self.wfile.write(b"this is no HTTP\r\n\r\n")
            self.close_connection = True
        elif path == "/image":
            self.reply(200, b"\x89PNG\x00", content_type="image/png")
        elif path == "/pdf":
            self.reply(200, b"%PDF\x00\xff", content_type="application/pdf")
        elif path == "/empty":
            self.reply(204, b"")
        elif path.startswith("/status/"):
            error = json.dumps({"detail": "no such item"}).encode()
            self.reply(int(path.rpartition("/")[2]), error)
        else:
            self.reply(200, json.dumps(seen).encode())

    def reply(
        self,
        status: int,
        body: bytes,
        *,
        content_type: str = "application/json",
        **headers: str,
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-").title(), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def drip(self) -> None:
        """A byte every now and then, without an end."""
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        try:
            while not self.api.released.is_set():
                self.wfile.write(b".")
                self.wfile.flush()
                time.sleep(0.02)
        except OSError:
            pass
        self.close_connection = True

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Say nothing."""
