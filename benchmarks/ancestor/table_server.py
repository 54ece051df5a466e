"""A tiny OpenAI-compatible embeddings server whose vectors come from a table, at once.

    python -m benchmarks.ancestor.table_server TABLE --port-file FILE

Both sides are started against it, so that start-up is their own time and not a model's.
"""

from __future__ import annotations

import argparse
import base64
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.ancestor.exchange import VectorTable

MODEL = "table"
"""Name the server has for its model."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    table: VectorTable

    def do_GET(self) -> None:
        self._reply(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        try:
            rows = self.table.rows(texts)
        except KeyError as e:
            message = f"no vector for {e.args[0]!r:.80}"
            self._reply(400, {"error": {"message": message, "type": "invalid_request_error"}})
            return
        as_base64 = body.get("encoding_format") == "base64"
        data = [
            {
                "object": "embedding",
                "index": i,
                "embedding": (
                    base64.b64encode(row.astype("<f4").tobytes()).decode()
                    if as_base64
                    else row.tolist()
                ),
            }
            for i, row in enumerate(rows)
        ]
        usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
        self._reply(200, {"object": "list", "model": MODEL, "data": data, "usage": usage})

    def _reply(self, status: int, answer: Any) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on stderr."""


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("--port-file", type=Path, required=True)
    args = parser.parse_args()
    _Handler.table = VectorTable.load(args.table)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        written = args.port_file.with_suffix(".part")
        written.write_text(str(server.server_address[1]), encoding="utf-8")
        written.replace(args.port_file)  # whoever waits for it sees a whole number
        server.serve_forever()


if __name__ == "__main__":
    main()
