"""Both servers as processes of their own: started, watched from outside, ended."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.serve.clients import Connection
from benchmarks.serve.embeddings import MODEL

ROOT = Path(__file__).resolve().parents[2]
SYSTEMS = ("callbus", "toolheads")
_TICKS = os.sysconf("SC_CLK_TCK")
_PATIENCE_S = 600.0


class ServerFailedError(RuntimeError):
    """A server ended, or is not ready after a long time."""


@dataclass
class Process:
    """A running process, and what the system says of it."""

    popen: subprocess.Popen[str]
    port: int
    began: float
    log: Path

    def memory_mb(self, name: str = "VmRSS") -> float:
        """`VmRSS` (resident now), `VmHWM` (its peak), `RssAnon` (of it what is no file)."""
        for line in Path(f"/proc/{self.popen.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024 / 1e6
        return 0.0

    def cpu_s(self) -> float:
        """User and system time of all its threads, since it started."""
        fields = Path(f"/proc/{self.popen.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def check(self) -> None:
        if self.popen.poll() is not None:
            end = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
            msg = f"the server ended with {self.popen.returncode}:\n{end}"
            raise ServerFailedError(msg)

    def stop(self, sign: int = signal.SIGTERM) -> None:
        if self.popen.poll() is None:
            self.popen.send_signal(sign)
        try:
            self.popen.wait(60)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait(60)


def command(system: str, folder: Path, *, embeddings: int, callbus: Path, port: int) -> list[str]:
    """How a server is started: frozen vectors alone on both sides, all else as it comes."""
    url = f"http://127.0.0.1:{embeddings}/v1"
    if system == "callbus":
        return [
            *(str(callbus), "serve", "--data", str(folder), "--port", str(port)),
            *("--emb-url", url, "--emb-model", MODEL, "--clm-ckpt", "none"),
            *("--tool-format", "documentation", "--query-format", "plain"),
        ]
    return [
        *(sys.executable, "-m", "toolheads.entrypoints.cli", "serve", str(folder)),
        *("--port", str(port), "--scorer", "dense"),
        *("--encoder", "openai", "--url", url, "--model", MODEL),
    ]


@contextmanager
def started(
    words: Sequence[str], port: int, log: Path, environ: Mapping[str, str] | None = None
) -> Iterator[Process]:
    """A process; its output goes to a log file."""
    with log.open("a", encoding="utf-8") as file:
        began = time.perf_counter()
        popen = subprocess.Popen(
            list(words),
            stdout=file,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **(environ or {})},
        )
    process = Process(popen, port, began, log)
    try:
        yield process
    finally:
        process.stop()


@contextmanager
def embeddings_server(port: int = 0) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """The instant embeddings server: its port, and its process, which may be killed."""
    popen = start_embeddings(port)
    try:
        assert popen.stdout is not None
        yield int(popen.stdout.readline()), popen
    finally:
        popen.kill()
        popen.wait()
        if popen.stdout is not None:
            popen.stdout.close()


def start_embeddings(port: int) -> subprocess.Popen[str]:
    """It prints its port once it answers."""
    words = [sys.executable, "-m", "benchmarks.serve.embeddings", "--port", str(port)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environ)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@dataclass(frozen=True)
class Start:
    """Seconds from the start of the process."""

    answer_s: float
    """To the first search that is answered, by words or vectors."""
    ready_s: float
    """Until all tools are found by their vectors."""
    cpu_s: float
    """CPU time of the process until then."""
    rss_mb: float
    peak_mb: float


async def ready(process: Process, system: str) -> Start:
    """Wait until a server has answered a search, and until it has all vectors.

    Raises:
        ServerFailedError: If it ends before, or takes too long.
    """
    connection = Connection(process.port)
    answer_s = None
    try:
        while time.perf_counter() - process.began < _PATIENCE_S:
            process.check()
            try:
                if answer_s is None:
                    body = {"query": "find a tool", "k": 10}
                    status, _ = await connection.ask("POST", "/v1/search", body)
                    if status == 200:
                        answer_s = time.perf_counter() - process.began
                else:
                    _, raw = await connection.ask("GET", "/healthz")
                    if _has_all_vectors(system, json.loads(raw)):
                        return Start(
                            answer_s,
                            time.perf_counter() - process.began,
                            process.cpu_s(),
                            process.memory_mb(),
                            process.memory_mb("VmHWM"),
                        )
            except OSError:
                pass  # it does not listen yet
            await asyncio.sleep(0.02)
    finally:
        connection.close()
    msg = f"{system} must be ready within {_PATIENCE_S:.0f} s; log {process.log}"
    raise ServerFailedError(msg)


def _has_all_vectors(system: str, health: Mapping[str, object]) -> bool:
    if system == "callbus":
        return bool(health["ready"]) and health["mode"] == "semantic"
    return bool(health["ready"]) and health["mode"] == "dense" and health["pending"] == 0
