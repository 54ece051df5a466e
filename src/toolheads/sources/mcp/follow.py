"""A catalogue kept as its servers list their tools, while it is served."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import suppress
from pathlib import Path

from toolheads.catalogue import change
from toolheads.errors import SourceError, ToolheadsError
from toolheads.sources.mcp.sessions import McpSessions

_log = logging.getLogger(__name__)

_SETTLE_S = 0.1
"""A server that changes several tools tells each time; one list answers all of it."""
_LOOK_S = 1.0
_LIST_AGAIN_S = 300.0
"""How often a server is asked that tells of no change: not all do, and a word can be lost."""
_MOST_AT_ONCE = 8
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0


class ListFollower:
    """Writes the tools of each server to a catalogue: at the start, and when its list changes.

    A session is kept with each server. A server that fails keeps its tools and is tried again
    after 1 s, and after twice as long each time up to 60 s. Used from one event loop.
    """

    def __init__(self, folder: str | os.PathLike[str], sessions: McpSessions) -> None:
        """Prepare; `run` follows.

        Args:
            folder: The catalogue.
            sessions: With its servers; their `on_list_changed` is taken over.
        """
        self._folder = Path(folder)
        self._sessions = sessions
        sessions.on_list_changed = self._told
        self._places = asyncio.Semaphore(_MOST_AT_ONCE)
        self._changed: dict[str, asyncio.Event] = {}
        self.problems: dict[str, str] = {}
        """Server → why its list could not be followed the last time; only those that fail."""

    async def run(self) -> None:
        """Follow until cancelled, also servers that are added or dropped meanwhile."""
        tasks: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                names = set(self._sessions.names)
                for name in names - tasks.keys():
                    self._changed[name] = asyncio.Event()
                    tasks[name] = asyncio.create_task(self._follow(name))
                for name in tasks.keys() - names:
                    tasks.pop(name).cancel()
                    self.problems.pop(name, None)
                await asyncio.sleep(_LOOK_S)
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    def _told(self, name: str) -> None:
        if name in self._changed:
            self._changed[name].set()

    async def _follow(self, name: str) -> None:
        changed = self._changed[name]
        pause_s = _FIRST_PAUSE_S
        while True:
            changed.clear()
            try:
                async with self._places:
                    await self._update(name)
            except (ToolheadsError, OSError) as e:
                if self.problems.get(name) != str(e):
                    _log.warning("the tools of %r stay as they were: %s", name, e)
                self.problems[name] = str(e)
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
                continue
            self.problems.pop(name, None)
            pause_s = _FIRST_PAUSE_S
            listed_at = time.monotonic()
            while not changed.is_set() and self._sessions.is_open(name):
                if time.monotonic() - listed_at > _LIST_AGAIN_S:
                    break
                with suppress(TimeoutError):  # look whether the session is still there
                    await asyncio.wait_for(changed.wait(), _LOOK_S)
            await asyncio.sleep(_SETTLE_S)

    async def _update(self, name: str) -> None:
        listing = await self._sessions.list(name)
        for fault in listing.dropped:
            _log.warning("left out: %s", fault)
        if listing.dropped and not listing.tools:
            msg = f"server {name!r} must list a tool that can be used, got none"
            raise SourceError(msg)
        changes = await asyncio.to_thread(change, self._folder, name, listing.tools, source=None)
        if changes:
            _log.info(
                "%s: %d added, %d changed, %d removed",
                name,
                len(changes.added),
                len(changes.changed),
                len(changes.removed),
            )
