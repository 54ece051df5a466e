"""`toolheads serve` as its own process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

from tests import mcp_peer

from toolheads.catalogue import change, tool_id
from toolheads.domain import Tool

COMMAND = [sys.executable, "-m", "toolheads.entrypoints.cli", "serve"]
PATIENCE_S = 300.0
WORDS = ("--scorer", "bm25")
"""Needs no encoder."""


def peer_catalogue(folder, names=("echo", "hang", "fail"), **behaviour):
    """A catalogue of one MCP server whose tools echo, hang and fail."""
    pages = [[mcp_peer.entry(name, description=f"Tool that can {name}.") for name in names]]
    source = mcp_peer.command(pages=pages, **behaviour)
    tools = [
        Tool(
            tool_id("peer", entry["name"]),
            entry["name"],
            "peer",
            entry["description"],
            entry["inputSchema"],
            {"kind": "mcp"},
        )
        for entry in pages[0]
    ]
    change(folder, "peer", tools, source=source)
    return folder


class Serving:
    """A running server.

    Attributes:
        url: Its address.
        stderr: What it has said beside it.
    """

    def __init__(self, process):
        self.process = process
        self.said = process.stdout.readline()
        self.url = self.said.split()[1] if self.said.startswith("serving ") else None
        self.stderr = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def terminate(self):
        """Ask it to end.

        Returns:
            Its exit code.
        """
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self):
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def _read(self):
        for line in self.process.stderr:
            self.stderr.append(line)


def over_stdio(folder):
    """A server that speaks over its own standard input and output."""
    return subprocess.Popen(
        [*COMMAND, str(folder), *WORDS, "--stdio"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@contextmanager
def serving(*arguments, **environ):
    process = _started(arguments, environ)
    server = Serving(process)
    try:
        if server.url is None:
            process.wait(PATIENCE_S)
            raise AssertionError("".join(server.stderr) or server.said)
        yield server
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE_S)
        server._reader.join(PATIENCE_S)
        for stream in (process.stdout, process.stderr):
            stream.close()


def _started(arguments, environ):
    return subprocess.Popen(
        [*COMMAND, "--port", "0", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environ},
    )
