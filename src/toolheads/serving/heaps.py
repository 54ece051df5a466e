"""Memory that is free and still held: after a change of the catalogue it goes back to the system.

A new state is made beside the old one, in many arrays of all sizes. What they leave free lies
between what stays, so that glibc keeps it (measured, docs/benchmarks.md).
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable

_LOOK_S = 5.0
"""How often it is looked whether the catalogue is another: to give back takes some milliseconds."""


def give_back() -> bool:
    """Give free memory of the heaps back to the system; False where there is nothing to ask."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError, TypeError):  # not glibc, which has a heap of this kind
        return False
    return True


async def give_back_after_changes(
    state: Callable[[], object],
    *,
    look_s: float = _LOOK_S,
    give: Callable[[], bool] = give_back,
) -> None:
    """Give free memory back whenever there was a change, until cancelled.

    Args:
        state: What is served; any value that is another after a change.
        look_s: How often to look.
        give: Gives memory back; False ends this.
    """
    seen: object = None
    while True:
        await asyncio.sleep(look_s)
        now = state()
        if now == seen:
            continue
        seen = now
        if not await asyncio.to_thread(give):
            return
