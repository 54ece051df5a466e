from __future__ import annotations

import contextlib
import http.server
import threading

import pytest
from tests.made_heads import made_heads

from toolheads.errors import ConfigError, DigestError, DownloadError, HeadsFormatError
from toolheads.heads import load_heads
from toolheads.heads.digests import sha256_of
from toolheads.heads.download import download_heads
from toolheads.heads.files import heads_to_bytes

pytest.importorskip("httpx", reason="downloads need the extra [openai]")

GOOD = heads_to_bytes(made_heads(training={"name": "fetched"}))


@contextlib.contextmanager
def serving(content, *, status=200, promised=None):
    """A real server on this machine that answers every request with `content`."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path.startswith("/moved"):
                self.send_response(302)
                self.send_header("Location", "/h.npz")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(status)
            self.send_header("Content-Length", str(promised or len(content)))
            self.end_headers()
            # A client that has read enough hangs up.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.wfile.write(content)

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_fetched_file_has_its_digest_and_a_sidecar_and_loads(tmp_path):
    with serving(GOOD) as url:
        path = download_heads(f"{url}/moved", tmp_path / "h.npz", sha256=sha256_of(GOOD))
    assert path.read_bytes() == GOOD
    assert load_heads(path).name == "fetched"


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ({"content": GOOD + b"0"}, DigestError, r"h.npz must have sha256 \w{64}, got"),
        ({"content": b"<html>", "status": 404}, DownloadError, "got status 404"),
        ({"content": b"", "status": 503}, DownloadError, "got status 503"),
        ({"content": GOOD[:50], "promised": len(GOOD)}, DownloadError, "RemoteProtocolError"),
        ({"content": bytes(1 << 20)}, DownloadError, "must send at most 100000 bytes, got more"),
    ],
)
def test_a_wrong_answer_is_named_and_nothing_is_kept(tmp_path, answer, error, message):
    (tmp_path / "h.npz").write_bytes(b"old")
    with serving(**answer) as url, pytest.raises(error, match=message):
        download_heads(f"{url}/h.npz", tmp_path / "h.npz", sha256=sha256_of(GOOD), largest=100_000)
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("h.npz", b"old")]


def test_a_file_with_the_right_digest_that_is_no_heads_file_is_not_kept(tmp_path):
    with serving(b"text") as url, pytest.raises(HeadsFormatError, match=r"no .npz file"):
        download_heads(f"{url}/h.npz", tmp_path / "h.npz", sha256=sha256_of(b"text"))
    assert not list(tmp_path.iterdir())


def test_a_server_that_is_not_there_is_named(tmp_path):
    with serving(GOOD) as url:
        pass
    with pytest.raises(DownloadError, match=r"/h.npz must answer with the file, got ConnectError"):
        download_heads(f"{url}/h.npz", tmp_path / "h.npz", sha256=sha256_of(GOOD))


@pytest.mark.parametrize(
    ("url", "name", "sha256", "error", "message"),
    [
        ("file:///etc/passwd", "h.npz", "0" * 64, ConfigError, "url must start with https://"),
        ("h.npz", "h.npz", "0" * 64, ConfigError, "url must start with https://"),
        ("https:///h.npz", "h.npz", "0" * 64, ConfigError, "and name a host"),
        ("http://[/h.npz", "h.npz", "0" * 64, ConfigError, "url must"),
        ("https://example.org/h", "h.zip", "0" * 64, ConfigError, "path must end in .npz"),
        ("https://example.org/h", "h.npz", "12", DigestError, "sha256 must be a sha256 of 64"),
    ],
)
def test_what_cannot_work_is_refused_before_any_request(
    tmp_path, url, name, sha256, error, message
):
    with pytest.raises(error, match=message):
        download_heads(url, tmp_path / name, sha256=sha256)
