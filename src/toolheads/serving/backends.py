"""The backends of a catalogue: who calls its tools, and what follows their lists meanwhile."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from toolheads.calls import Caller, Calls, CallSettings
from toolheads.calls.openapi import HttpSettings, OpenApiCaller
from toolheads.catalogue import SOURCES_FILE, Source, change, read_sources
from toolheads.errors import ToolheadsError
from toolheads.serving.companions import Companion
from toolheads.serving.late_mcp import LateMcpCaller

_LOOK_S = 1.0

logger = logging.getLogger(__name__)


def calls_of(
    folder: Path,
    *,
    timeout_s: float = CallSettings.timeout_s,
    allow_write: bool = False,
    follow: bool = True,
) -> tuple[Calls, tuple[Companion, ...]]:
    """Who calls the tools of a catalogue, and what is to run beside the server.

    Args:
        folder: The catalogue; a tools file alone has no sources, so that none of it is called.
        timeout_s: Longest time for one call.
        allow_write: Whether OpenAPI operations other than GET and HEAD are called.
        follow: Whether the lists of MCP servers are taken over as they change.

    A `sources.json` that cannot be read is told, and costs the calls until it is mended.
    """
    sources: Mapping[str, Source] = {}
    try:
        sources = read_sources(folder) if folder.is_dir() else {}
    except ToolheadsError as e:
        logger.warning("no tool can be called until this is mended: %s", e)
    mcp = LateMcpCaller(sources)
    callers: dict[str, Caller] = {
        "mcp": mcp,
        "openapi": OpenApiCaller(sources, settings=HttpSettings(allow_write=allow_write)),
    }
    calls = Calls(sources, callers, settings=CallSettings(timeout_s=timeout_s))
    if not folder.is_dir():
        return calls, ()
    watcher = SourcesWatcher(folder, calls)
    follower = (lambda: mcp.follow(folder),) if follow else ()
    return calls, (watcher.run, *follower)


async def list_into(
    folder: Path, sources: Mapping[str, Source], *, timeout_s: float | None = None
) -> None:
    """Write MCP servers and their tools to a catalogue.

    A server that fails is kept without tools, or with those it had: it is tried again while the
    catalogue is served.
    """
    from toolheads.sources.mcp import McpSettings, list_servers

    most_s = McpSettings.start_timeout_s if timeout_s is None else timeout_s
    settings = McpSettings(start_timeout_s=most_s, list_timeout_s=most_s)
    for name, listing in (await list_servers(sources, settings=settings)).items():
        if isinstance(listing, ToolheadsError):
            logger.warning("the tools of %r are missing: %s", name, listing)
            if name not in (read_sources(folder) if folder.is_dir() else {}):
                change(folder, name, (), source=sources[name])
            continue
        for fault in listing.dropped:
            logger.warning("left out: %s", fault)
        change(folder, name, listing.tools, source=sources[name])


class SourcesWatcher:
    """Takes over changes of `sources.json`; a file that cannot be read leaves what was.

    Args:
        folder: The catalogue.
        calls: Told of the sources.
        look_s: How often to look.
    """

    def __init__(
        self, folder: str | os.PathLike[str], calls: Calls, *, look_s: float = _LOOK_S
    ) -> None:
        self._folder, self._calls, self._look_s = Path(folder), calls, look_s
        self._seen = self._stamp()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(self._look_s)
            stamp = self._stamp()
            if stamp == self._seen:
                continue
            self._seen = stamp
            try:
                self._calls.use(await asyncio.to_thread(read_sources, self._folder))
            except ToolheadsError as e:
                logger.warning("the sources stay as they were: %s", e)

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = (self._folder / SOURCES_FILE).stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino
