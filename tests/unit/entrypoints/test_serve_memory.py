"""How `toolheads serve` holds its memory; asked of glibc itself."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

_MANY_THREADS = """
import ctypes, sys, threading
from toolheads.entrypoints.cli.serve import _share_heaps

if sys.argv[1] == "shared":
    _share_heaps()
together = threading.Barrier(8)

def work():
    taken = [bytes(50_000) for _ in range(10)]
    together.wait()
    return taken

threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc = ctypes.CDLL(None)
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""


def heaps(how):
    done = subprocess.run(
        [sys.executable, "-c", _MANY_THREADS, how], capture_output=True, text=True, check=True
    )
    return done.stdout.count("<heap nr=")


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "malloc_info"), reason="needs glibc"
)
def test_threads_of_a_server_share_heaps():
    assert heaps("shared") <= 2 < heaps("apart")
