"""The sessions that are kept open while tools are served: one for each server."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import mcp_types as types

from toolheads.catalogue import Source
from toolheads.data.jsonl import shown
from toolheads.errors import ConfigError
from toolheads.sources.mcp.lists import Listing
from toolheads.sources.mcp.servers import McpServer, McpSettings, to_server
from toolheads.sources.mcp.session import McpError, Session

_log = logging.getLogger(__name__)

_LONGEST_PAUSE_S = 30.0
_MOST_SESSIONS = 64
"""Sessions of one server that differ by the headers of those who call; the oldest goes first."""

_Headers = tuple[tuple[str, str], ...]


class McpSessions:
    """Sessions with servers, opened when first needed and again after they ended.

    A server that fails is left alone for a while that doubles with each failure, 1 to 30 s; who
    calls meanwhile is told at once. The first call after a crash opens a session at once. Used
    from one event loop, from any of its tasks.
    """

    def __init__(
        self,
        sources: Mapping[str, Source],
        *,
        settings: McpSettings | None = None,
        on_list_changed: Callable[[str], None] | None = None,
    ) -> None:
        """Prepare; nothing is opened.

        Args:
            sources: Entries of `sources.json`; those of other kinds are left alone.
            settings: Limits.
            on_list_changed: Called with the name of a server whose list of tools is another.
                Must return at once.
        """
        self._sources = _of_mcp(sources)
        self._settings = settings or McpSettings()
        self.on_list_changed = on_list_changed
        self._open: dict[str, dict[_Headers, _Place]] = {}
        self._retired: list[_Place] = []

    @property
    def names(self) -> tuple[str, ...]:
        """The servers."""
        return tuple(self._sources)

    def use(self, sources: Mapping[str, Source]) -> None:
        """Take over other sources. Sessions of those that changed end after their calls."""
        before, self._sources = self._sources, _of_mcp(sources)
        for name in [name for name in self._open if before.get(name) != self._sources.get(name)]:
            for place in self._open.pop(name).values():
                self._retire(place)

    async def call(
        self,
        name: str,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
    ) -> types.CallToolResult:
        """Call a tool; sent at most once.

        Args:
            name: The server.
            tool: Name of the tool on it.
            arguments: JSON values.
            headers: Sent over those of the source, in a session that only those who send the
                same headers share; nothing for a command.

        Raises:
            ConfigError: If there is no such server, or its source cannot be used.
            McpError: If the server cannot be reached, ended, or gave no result.
        """
        place = self._place(name, headers)
        session = await place.session()
        result = await session.call(tool, arguments)
        place.succeeded()
        return result

    async def list(self, name: str) -> Listing:
        """The tools of a server, through its session.

        Raises:
            ConfigError: As `call`.
            McpError: As `call`, or if it lists none in time.
        """
        place = self._place(name, None)
        opened_before = place.is_open
        session = await place.session()
        listing = await session.list() if opened_before else await session.open()
        place.succeeded()
        return listing

    def is_open(self, name: str) -> bool:
        """Whether there is a session with a server now."""
        return any(place.is_open for place in self._open.get(name, {}).values())

    async def close(self) -> None:
        """End all sessions, those with calls in flight too."""
        places = [place for by_headers in self._open.values() for place in by_headers.values()]
        places += self._retired
        self._sources, self._open = {}, {}
        await asyncio.gather(*(place.close() for place in places))

    def _place(self, name: str, headers: Mapping[str, str] | None) -> _Place:
        source = self._sources.get(name)
        if source is None:
            known = ", ".join(map(shown, self._sources)) or "none"
            msg = f"server must be one of {known}, got {shown(name)}"
            raise ConfigError(msg)
        given = headers if source.get("url") is not None else None
        key = tuple(sorted((k.lower(), v) for k, v in (given or {}).items()))
        places = self._open.setdefault(name, {})
        place = places.pop(key, None)
        if place is None:
            server = to_server(name, source, headers=dict(key))
            place = _Place(server, self._settings, None if key else self._tell_change)
        places[key] = place  # last in, last to go
        if len(places) > _MOST_SESSIONS:
            oldest = next(old for old in places if old)
            self._retire(places.pop(oldest))
        return place

    def _retire(self, place: _Place) -> None:
        place.retire()
        self._retired = [old for old in self._retired if not old.is_gone] + [place]

    def _tell_change(self, name: str) -> None:
        if self.on_list_changed:
            self.on_list_changed(name)


class _Place:
    """Where the session with one server stands, or is to stand."""

    def __init__(
        self,
        server: McpServer,
        settings: McpSettings,
        on_list_changed: Callable[[str], None] | None,
    ) -> None:
        self._server, self._settings = server, settings
        self._on_list_changed = on_list_changed
        self._session: Session | None = None
        self._ended: list[Session] = []
        self._n_failures = 0
        self._not_before = 0.0
        self._reason = ""
        self._http_status: int | None = None

    @property
    def is_open(self) -> bool:
        return self._session is not None and self._session.is_open

    @property
    def is_gone(self) -> bool:
        return self._session is None or self._session.is_gone

    async def session(self) -> Session:
        """The open session, after opening one if need be. Who comes meanwhile waits for it."""
        current = self._session
        if current is not None and current.is_over:
            self._failed(current)
            current = None
        if current is None:
            if (left_s := self._not_before - time.monotonic()) > 0:
                msg = f"{self._reason}; the next try is in {math.ceil(left_s)} s"
                raise McpError(msg, http_status=self._http_status)
            on_change = self._on_list_changed
            name = self._server.name
            current = self._session = Session(
                self._server,
                self._settings,
                on_list_changed=(lambda: on_change(name)) if on_change else None,
            )
        await current.open()
        return current

    def succeeded(self) -> None:
        self._n_failures = 0

    def retire(self) -> None:
        if self._session is not None:
            self._session.retire()

    async def close(self) -> None:
        sessions = [*self._ended, *([self._session] if self._session else [])]
        await asyncio.gather(*(session.close() for session in sessions))

    def _failed(self, session: Session) -> None:
        """A session is over: note when the next may be opened."""
        self._session = None
        self._ended = [s for s in self._ended if not s.is_gone] + [session]
        self._reason, self._http_status = session.failure, session.http_status
        pause_s = min(_LONGEST_PAUSE_S, 2.0**self._n_failures)
        if session.was_open and self._n_failures == 0:
            pause_s = 0.0
        self._n_failures += 1
        self._not_before = session.over_at + pause_s
        _log.info("%s", self._reason)


def _of_mcp(sources: Mapping[str, Source]) -> dict[str, Source]:
    return {name: source for name, source in sources.items() if source.get("kind") == "mcp"}
