"""The clients of a soak: searches over REST and MCP, calls, and what became of each."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Coroutine, Iterator
from typing import Any

from benchmarks.serve.clients import Connection
from mcp import Client

_PAUSE_S = 0.01
_CALL_PAUSE_S = 0.05
_CACHED = 50
_CLIENTS = 4


class SoakLoad:
    """Counts answers; nothing that a server answers wrongly ends it.

    Args:
        port: Of the server.
        queries: New ones, without an end.
        peer: The MCP source whose tools `echo` and `crash` are called.
    """

    def __init__(self, port: int, queries: Iterator[str], peer: str) -> None:
        self.port, self.peer = port, peer
        self._queries = queries
        self._known = [next(queries) for _ in range(_CACHED)]
        self._is_over = False
        self.searches: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.over_mcp = 0
        self.ids: set[str] = set()
        self.seconds: list[float] = []
        self.failures: list[str] = []

    def jobs(self) -> list[Coroutine[Any, Any, None]]:
        return [*(self._searching() for _ in range(_CLIENTS)), self._over_mcp(), self._calling()]

    async def end(self) -> None:
        self._is_over = True

    async def crash(self) -> None:
        """Let the backend end in the middle of a call."""
        connection = Connection(self.port)
        await self._call(connection, {"name": f"{self.peer}/crash"})
        connection.close()

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = Connection(self.port)
        try:
            status, raw = await connection.ask(method, path, body)
            return status, json.loads(raw)
        finally:
            connection.close()

    async def health_once_dense(self, patience_s: float = 60.0) -> dict[str, Any]:
        """How the server is, once it is well or patience ends."""
        until = time.monotonic() + patience_s
        while True:
            _, health = await self.ask("GET", "/healthz")
            is_well = health["mode"] == "dense" and not health["degraded"]
            if is_well or time.monotonic() > until:
                return dict(health)
            await asyncio.sleep(0.2)

    def lost_events(self, logged: tuple[set[str], int]) -> list[str]:
        """What was answered and is in no log."""
        searches, calls = logged
        lost = [f"search {search_id}" for search_id in self.ids - searches]
        return lost + ["a call"] * max(0, sum(self.calls.values()) - calls)

    async def _searching(self) -> None:
        connection, number = Connection(self.port), 0
        while not self._is_over:
            number += 1
            is_new = number % 2
            text = next(self._queries) if is_new else self._known[number // 2 % _CACHED]
            start = time.perf_counter()
            try:
                status, raw = await connection.ask("POST", "/v1/search", {"query": text, "k": 5})
            except OSError as e:
                self.failures.append(f"REST: {e}")
                await asyncio.sleep(_PAUSE_S)
                continue
            self.seconds.append(time.perf_counter() - start)
            if status == 200:
                self._searched(json.loads(raw))
            else:
                self.failures.append(f"REST: {status} {raw[:200]!r}")
            await asyncio.sleep(_PAUSE_S)
        connection.close()

    async def _over_mcp(self) -> None:
        async with Client(f"http://127.0.0.1:{self.port}/mcp") as client:
            while not self._is_over:
                start = time.perf_counter()
                answer = await client.call_tool("search_tools", {"query": next(self._queries)})
                self.seconds.append(time.perf_counter() - start)
                if answer.is_error or not answer.structured_content:
                    self.failures.append(f"MCP: {answer.content!r:.200}")
                else:
                    self.over_mcp += 1
                    self._searched(answer.structured_content)
                await asyncio.sleep(_CALL_PAUSE_S)

    def _searched(self, said: dict[str, Any]) -> None:
        self.searches[said["mode"]] += 1
        self.ids.add(said["search_id"])
        if not said["tools"] and said["mode"] == "dense":
            self.failures.append(f"no tools: {said!r:.200}")

    async def _calling(self) -> None:
        connection, number = Connection(self.port), 0
        while not self._is_over:
            number += 1
            body = {"name": f"{self.peer}/echo", "arguments": {"number": number}}
            await self._call(connection, body)
            await asyncio.sleep(_CALL_PAUSE_S)
        connection.close()

    async def _call(self, connection: Connection, body: dict[str, Any]) -> None:
        try:
            status, raw = await connection.ask("POST", "/v1/call", body)
        except OSError as e:
            self.failures.append(f"call: {e}")
            return
        if status != 200:
            self.failures.append(f"call: {status} {raw[:200]!r}")
            return
        self.calls[json.loads(raw)["outcome"]] += 1
