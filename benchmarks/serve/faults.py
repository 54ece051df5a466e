"""What goes wrong around a server in a soak, each in a loop of its own."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from benchmarks.serve.load import SoakLoad
from benchmarks.serve.servers import start_embeddings

from toolheads.catalogue import change
from toolheads.domain import Tool

_AWAY_S = 6.0
_BLOCKED_S = 2.0
_ENCODER_EVERY_S = 20.0
_CRASH_EVERY_S = 7.0
_LOG_EVERY_S = 11.0
_REWRITE_EVERY_S = 1.0


class Faults:
    """Breaks things; `end` leaves all of them whole.

    Args:
        folder: The catalogue that is served.
        graves: Where usage folders go that are taken away: gone for the server, but to be counted.
        tools: Of the source that is rewritten.
        source: Its name.
        encoder_port: Of the embeddings server.
        encoder: Its process.
        load: Whose calls crash the backend.
    """

    def __init__(
        self,
        folder: Path,
        graves: Path,
        tools: Sequence[Tool],
        source: str,
        encoder_port: int,
        encoder: subprocess.Popen[str],
        load: SoakLoad,
    ) -> None:
        self._folder, self._graves = folder, graves
        self._tools, self._source = list(tools), source
        self._encoder_port, self._encoder = encoder_port, encoder
        self._load = load
        self._over = asyncio.Event()
        self.counts: Counter[str] = Counter()
        graves.mkdir()

    def jobs(self) -> list[Coroutine[Any, Any, None]]:
        return [self._encoders(), self._crashes(), self._logs(), self._rewrites()]

    async def end(self) -> None:
        self._over.set()

    def close(self) -> None:
        """End the encoder that was started last."""
        self._encoder.kill()
        self._encoder.wait()

    def logs(self) -> list[Path]:
        """All files of the usage log, those that were taken away too."""
        places = [self._folder / "usage", *sorted(self._graves.iterdir())]
        return [file for place in places for file in sorted(place.glob("usage-*.jsonl"))]

    async def _waited(self, seconds: float) -> bool:
        """Wait; False if it is all over."""
        try:
            await asyncio.wait_for(self._over.wait(), seconds)
        except TimeoutError:
            return True
        return False

    async def _encoders(self) -> None:
        while await self._waited(_ENCODER_EVERY_S - _AWAY_S):
            if self.counts["killed"] <= self.counts["hung"]:
                self._encoder.kill()
                self._encoder.wait()
                await self._waited(_AWAY_S)
                self._encoder = start_embeddings(self._encoder_port)
                assert self._encoder.stdout is not None
                await asyncio.to_thread(self._encoder.stdout.readline)
                self.counts["killed"] += 1
            else:
                self._encoder.send_signal(signal.SIGSTOP)
                await self._waited(_AWAY_S)
                self._encoder.send_signal(signal.SIGCONT)
                self.counts["hung"] += 1

    async def _crashes(self) -> None:
        while await self._waited(_CRASH_EVERY_S):
            await self._load.crash()
            self.counts["crashed"] += 1

    async def _logs(self) -> None:
        usage = self._folder / "usage"
        number = 0
        while await self._waited(_LOG_EVERY_S):
            number += 1
            usage.rename(self._graves / str(number))
            self.counts["taken"] += 1
            if number % 2:
                continue
            try:
                usage.write_text("no folder", encoding="utf-8")
            except IsADirectoryError:
                continue  # the server made it again already
            await self._waited(_BLOCKED_S)
            usage.unlink()
            self.counts["blocked"] += 1

    async def _rewrites(self) -> None:
        checks: set[asyncio.Task[None]] = set()
        number = 0
        while await self._waited(_REWRITE_EVERY_S):
            number += 1
            row = number % len(self._tools)
            changed = replace(self._tools[row], description=f"Now it does thing {number}.")
            self._tools[row] = changed
            await asyncio.to_thread(change, self._folder, self._source, self._tools, source=None)
            self.counts["rewritten"] += 1
            checks = {task for task in checks if not task.done()}
            checks.add(asyncio.create_task(self._check(changed)))
        await asyncio.gather(*checks)

    async def _check(self, changed: Tool) -> None:
        await asyncio.sleep(1.0)
        _, said = await self._load.ask("GET", f"/v1/tools/{quote(changed.id)}")
        self.counts["late"] += said["description"] != changed.description
