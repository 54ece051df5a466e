"""Work that goes on beside a server, such as following the lists of its sources."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

Companion = Callable[[], Awaitable[None]]
"""Runs until it is cancelled. One that fails is logged, and the server goes on."""

logger = logging.getLogger(__name__)


@asynccontextmanager
async def beside(companions: Sequence[Companion]) -> AsyncIterator[None]:
    """Run companions for as long as the block lasts."""
    tasks = [asyncio.create_task(_watched(companion)) for companion in companions]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _watched(companion: Companion) -> None:
    try:
        await companion()
    except Exception:
        logger.exception("a companion of the server failed")
