"""A small Hub on this machine: what the Hub's own client asks for when it fetches a data set."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote, urlsplit


@dataclass
class HubRepo:
    """One data set: commit, files, and what it says that they are."""

    commit: str
    files: Mapping[str, bytes]
    licence: str | None = None
    large: frozenset[str] = frozenset()
    """Paths that are kept as large files, known by their sha256."""
    promised: Mapping[str, bytes] = field(default_factory=dict)
    """Path → content that its digest is taken of, where that is not the content sent."""

    def digest(self, path: str) -> str:
        content = self.promised.get(path, self.files[path])
        if path in self.large:
            return hashlib.sha256(content).hexdigest()
        return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()

    def listing(self, path: str) -> dict[str, object]:
        size = len(self.files[path])
        git = self.digest(path) if path not in self.large else "0" * 40
        entry: dict[str, object] = {"size": size, "blobId": git, "oid": git}
        if path in self.large:
            digest = self.digest(path)
            entry["lfs"] = {"size": size, "sha256": digest, "oid": digest, "pointerSize": 130}
        return entry


@contextmanager
def hub_of(repos: Mapping[str, HubRepo]) -> Iterator[tuple[str, list[str]]]:
    """Serve repositories; gives the address and the list of what was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.answer(with_body=False)

        def do_GET(self) -> None:
            self.answer(with_body=True)

        def answer(self, *, with_body: bool) -> None:
            path = unquote(urlsplit(self.path).path)
            asked.append(f"{self.command} {path}")
            for name, repo in repos.items():
                if path.startswith(f"/datasets/{name}/resolve/"):
                    file = path.split("/", 6)[-1]
                    if file in repo.files:
                        headers = {"ETag": f'"{repo.digest(file)}"', "X-Repo-Commit": repo.commit}
                        self.send(200, repo.files[file], headers, with_body=with_body)
                        return
                elif path.startswith(f"/api/datasets/{name}"):
                    revision = path.split("/")[6] if path.count("/") >= 6 else "main"
                    if revision not in ("main", repo.commit):
                        headers = {"X-Error-Code": "RevisionNotFound"}
                        self.send(404, b"{}", headers, with_body=with_body)
                        return
                    body = self.tree(repo) if "/tree/" in path else self.info(name, repo)
                    self.send(200, json.dumps(body).encode(), {}, with_body=with_body)
                    return
            self.send(404, b"{}", {"X-Error-Code": "RepoNotFound"}, with_body=with_body)

        @staticmethod
        def info(name: str, repo: HubRepo) -> dict[str, object]:
            siblings = [{"rfilename": path, **repo.listing(path)} for path in repo.files]
            card = {"license": repo.licence} if repo.licence else {}
            return {
                "id": name,
                "sha": repo.commit,
                "private": False,
                "downloads": 0,
                "likes": 0,
                "tags": [],
                "siblings": siblings,
                "cardData": card,
            }

        @staticmethod
        def tree(repo: HubRepo) -> list[dict[str, object]]:
            return [{"type": "file", "path": path, **repo.listing(path)} for path in repo.files]

        def send(
            self, status: int, body: bytes, headers: Mapping[str, str], *, with_body: bool
        ) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if with_body:
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
