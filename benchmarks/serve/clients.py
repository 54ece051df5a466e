"""HTTP clients that keep their connection, and loads made of them."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


class Connection:
    """One kept connection to a server on this machine; opened again after it was dropped."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Status and body of an answer.

        Raises:
            OSError: If the server is not there, or drops the connection.
        """
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24)
        reader, writer = self._streams
        raw = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(raw)}\r\n\r\n"
        )
        try:
            writer.write(head.encode() + raw)
            await writer.drain()
            first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {
                name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)
            }
            found = await reader.readexactly(int(headers.get("content-length", "0")))
        except (asyncio.IncompleteReadError, OSError) as e:
            self.close()
            msg = f"the connection was dropped: {e}"
            raise ConnectionResetError(msg) from e
        if headers.get("connection", "").lower() == "close":
            self.close()
        return int(first.split()[1]), found

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


@dataclass
class Load:
    """What the clients of one load saw."""

    seconds: list[float] = field(default_factory=list)
    took_s: float = 0.0
    by_words: int = 0
    failures: list[str] = field(default_factory=list)
    answer_bytes: int = 0

    @property
    def per_second(self) -> float:
        return len(self.seconds) / self.took_s if self.took_s else 0.0

    def ms(self, share: float) -> float:
        """Nearest-rank quantile, in milliseconds."""
        return 1e3 * quantile(self.seconds, share)


def quantile(values: Sequence[float], share: float) -> float:
    """The value that at least this share of all values does not exceed; NaN of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan


async def search_load(port: int, clients: int, seconds: float, text: Callable[[], str]) -> Load:
    """Searches one after the other from each of so many clients, for so long."""
    load = Load()
    began = time.perf_counter()

    async def client() -> None:
        connection = Connection(port)
        try:
            while time.perf_counter() - began < seconds:
                start = time.perf_counter()
                try:
                    status, raw = await connection.ask(
                        "POST", "/v1/search", {"query": text(), "k": 10}
                    )
                except OSError as e:
                    load.failures.append(str(e))
                    continue
                load.seconds.append(time.perf_counter() - start)
                load.answer_bytes += len(raw)
                if status != 200:
                    load.failures.append(f"{status} {raw[:200].decode(errors='replace')}")
                    continue
                said = json.loads(raw)
                load.by_words += said["mode"] == "lexical"
                if not said["tools"]:
                    load.failures.append("no tools")
        finally:
            connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    load.took_s = time.perf_counter() - began
    return load
