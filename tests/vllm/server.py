"""A real vLLM server for the tests: one that runs already, or one that is started here.

TOOLHEADS_VLLM_URL and TOOLHEADS_VLLM_MODEL name a running server (its key, if it asks for one, is
in TOOLHEADS_API_KEY). TOOLHEADS_VLLM_PYTHON names an interpreter that has vLLM; a server of the
packaged default model is then started on a free port of this machine, on one thread, and stopped
at the end. TOOLHEADS_VLLM_FOLDER is the folder of the weights, if they are not the default's.
"""

from __future__ import annotations

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

import pytest

from toolheads.encoders.openai.address import embeddings_url

START_LIMIT_S = 300


@dataclass(frozen=True)
class RunningVllm:
    url: str
    model: str
    api_key: str
    folder: Path
    """Where the same weights lie on this machine."""


@contextmanager
def running_vllm(logs: Path) -> Iterator[RunningVllm]:
    """The server, or a skip that says what to set."""
    url, model = os.environ.get("TOOLHEADS_VLLM_URL"), os.environ.get("TOOLHEADS_VLLM_MODEL")
    python = os.environ.get("TOOLHEADS_VLLM_PYTHON")
    if url and model:
        url = embeddings_url(url).removesuffix("/v1/embeddings")
        yield RunningVllm(url, model, os.environ.get("TOOLHEADS_API_KEY", ""), model_folder())
    elif python:
        yield from _started(python, model_folder(), logs / "vllm.log")
    else:
        pytest.skip(
            "no vLLM: set TOOLHEADS_VLLM_URL and TOOLHEADS_VLLM_MODEL for a running server, or "
            "TOOLHEADS_VLLM_PYTHON for an interpreter that has it"
        )


def model_folder() -> Path:
    """Folder of the served weights."""
    if os.environ.get("TOOLHEADS_VLLM_FOLDER"):
        return Path(os.environ["TOOLHEADS_VLLM_FOLDER"])
    from toolheads.encoders.model_folder import packaged_folder
    from toolheads.errors import MissingExtraError

    try:
        return packaged_folder()
    except MissingExtraError as e:
        pytest.skip(str(e))


def _started(python: str, folder: Path, log: Path) -> Iterator[RunningVllm]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    key = "key-of-the-tests"
    command = ["nice", "-n", "15", python, "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", str(folder), "--served-model-name", "minilm", "--runner", "pooling"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--api-key", key]
    command += ["--dtype", "bfloat16", "--enforce-eager"]
    environ = os.environ | {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "0",
        "OMP_NUM_THREADS": "1",
    }
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env=environ, start_new_session=True
        )
    try:
        _wait_until_healthy(process, port, log)
        yield RunningVllm(f"http://127.0.0.1:{port}", "minilm", key, folder)
    finally:
        _end(process)


def _wait_until_healthy(process: subprocess.Popen, port: int, log: Path) -> None:
    end = time.monotonic() + START_LIMIT_S
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    tail = "\n".join(log.read_text("utf-8", "replace").splitlines()[-30:])
    pytest.fail(f"vLLM was not ready within {START_LIMIT_S} s; the end of its log:\n{tail}")


def _end(process: subprocess.Popen) -> None:
    """Its workers are in its process group, and nothing else is."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)
    except ProcessLookupError:
        return
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
