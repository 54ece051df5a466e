"""Embedding that is killed, at any moment, goes on where it was and loses nothing."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.hash_encoder import HashEncoder

from toolheads.cache import prune_cache, verify_cache
from toolheads.embedder import Embedder
from toolheads.identity import PROBE_TEXTS

TEXTS = [f"request number {i} of the run" for i in range(1500)]
CHUNK = 100

CHILD = """
import sys
from tests.e2e.test_embed_killed import embed
embed(*sys.argv[1:])
"""


class LoggingEncoder(HashEncoder):
    """Writes a byte to a file for each text it is asked for; slow enough to be killed."""

    def __init__(self, log: Path) -> None:
        super().__init__(seconds_per_text=0.0004)
        self._log = log

    def encode(self, texts):
        if tuple(texts) != PROBE_TEXTS:
            with self._log.open("ab") as file:
                file.write(b"." * len(texts))
        return super().encode(texts)


def embed(cache: str, log: str, kill_at: str = "") -> None:
    """Embed everything; `kill_at` names a step of the fifth shard to be killed at."""
    if kill_at:
        _kill_self_at(kill_at)
    Embedder(LoggingEncoder(Path(log)), cache=cache, chunk_texts=CHUNK).fill(TEXTS)


def _kill_self_at(step: str) -> None:
    """Replace one of the calls that write a file by one that ends the process."""
    from toolheads.cache import disk

    seen = -1  # the first file is the probe
    write_file, write, fsync = disk.write_atomically, os.write, os.fsync
    replace = Path.replace

    def counted(*args, **kwargs):
        nonlocal seen
        seen += 1
        return write_file(*args, **kwargs)

    def die(*args):
        os.kill(os.getpid(), signal.SIGKILL)

    def half_written(descriptor, data):
        if seen == 5 and len(data) > 500:
            write(descriptor, data[:500])
            die()
        return write(descriptor, data)

    def renamed(path, target):
        if seen == 5 and step == "before its name":
            die()
        result = replace(path, target)
        if seen == 5:
            die()
        return result

    disk.write_atomically = counted
    if step == "half written":
        os.write = half_written
    elif step == "before it is synced":
        os.fsync = lambda fd: die() if seen == 5 else fsync(fd)
    else:
        Path.replace = renamed  # type: ignore[method-assign]


def start(*args: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", CHILD, *map(str, args)])


def assert_complete(cache: Path) -> None:
    """Everything is there, as if nobody had been killed, and nothing else."""
    encoder = HashEncoder()
    vectors = Embedder(encoder, cache=cache).embed(TEXTS)
    assert encoder.count == len(PROBE_TEXTS)
    np.testing.assert_allclose(vectors, HashEncoder().encode(TEXTS), atol=1e-3)  # float16
    assert verify_cache(cache).damages == ()
    prune_cache(cache)
    assert not list(cache.rglob(".tmp-*"))
    np.testing.assert_array_equal(Embedder(HashEncoder(), cache=cache).embed(TEXTS), vectors)


def test_a_run_that_is_killed_again_and_again_ends_as_if_it_had_not_been(tmp_path):
    cache, log = tmp_path / "cache", tmp_path / "log"
    log.touch()
    rng = np.random.default_rng(0)
    kills = 0
    for enough in np.sort(rng.integers(50, 900, 4)):
        child = start(cache, log)
        while child.poll() is None and log.stat().st_size < enough + kills * CHUNK:
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.05))  # anywhere within a call or a write
        child.kill()
        kills += child.wait() == -signal.SIGKILL
    assert kills, "no run was under way when it was to be killed"
    assert start(cache, log).wait(300) == 0
    sent = log.stat().st_size
    assert len(TEXTS) <= sent <= len(TEXTS) + kills * CHUNK
    assert_complete(cache)


@pytest.mark.parametrize(
    "step", ["half written", "before it is synced", "before its name", "after its name"]
)
def test_a_run_that_is_killed_while_it_writes_a_shard_loses_at_most_that_shard(tmp_path, step):
    cache, log = tmp_path / "cache", tmp_path / "log"
    assert start(cache, log, step).wait(300) == -signal.SIGKILL
    kept = 400 if step != "after its name" else 500
    assert verify_cache(cache).rows == kept
    assert start(cache, log).wait(300) == 0
    assert log.stat().st_size == 500 + len(TEXTS) - kept
    assert_complete(cache)
