"""The contract of `toolheads.calls.caller.Caller`, one function for each of its sentences.

Plain functions of a setup, so that the same functions run against every adapter and against
callers that are broken on purpose.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from toolheads.calls import OUTCOMES, CallResult
from toolheads.calls.caller import Caller
from toolheads.domain import Tool

LONG_S = 60.0
"""A time limit that no call here comes near."""


@dataclass(frozen=True)
class Setup:
    """How to come by one caller under test, and what its backend offers."""

    make: Callable[[], Caller]
    good: Tool
    """Answers at once."""
    failing: tuple[Tool, ...]
    """Each fails in a way of its own: the tool says so, the backend breaks, is not there, …"""
    hanging: Tool
    """Never answers."""
    n_received: Callable[[], int]
    """How many calls have reached the backend."""
    headers_received: Callable[[], Mapping[str, str]] | None
    """Headers of the latest call, names in small letters; None where the backend has none."""


Use = Callable[[Caller], Awaitable[Any]]


def used(setup: Setup, use: Use) -> Any:
    """What comes of using a caller, which is closed afterwards."""

    async def run() -> Any:
        caller = setup.make()
        try:
            return await asyncio.wait_for(use(caller), LONG_S)
        finally:
            await caller.close()

    return asyncio.run(run())


def call(caller: Caller, tool: Tool, **more: Any) -> Awaitable[CallResult]:
    return caller.call(tool, {}, **({"timeout_s": LONG_S} | more))


def sentence_1_every_failure_is_an_outcome(setup: Setup) -> None:
    async def use(caller: Caller) -> None:
        for tool in setup.failing:
            result = await call(caller, tool)
            assert result.outcome in OUTCOMES
            assert result.outcome != "ok"
            assert result.error
            assert "\n" not in result.error
        late = await call(caller, setup.hanging, timeout_s=0.5)
        assert late.outcome == "timeout"

    used(setup, use)


def sentence_2_a_call_is_sent_at_most_once(setup: Setup) -> None:
    async def use(caller: Caller) -> None:
        for tool in (setup.good, *setup.failing):
            before = setup.n_received()
            await call(caller, tool)
            assert setup.n_received() - before <= 1

    used(setup, use)


def sentence_3_a_cancelled_call_leaves_the_backend_usable(setup: Setup) -> None:
    async def use(caller: Caller) -> CallResult:
        assert (await call(caller, setup.good)).outcome == "ok"
        before = setup.n_received()
        task = asyncio.ensure_future(call(caller, setup.hanging))
        while setup.n_received() == before:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return await call(caller, setup.good)

    assert used(setup, use).outcome == "ok"


def sentence_4_headers_of_one_call_are_not_sent_with_another(setup: Setup) -> None:
    if setup.headers_received is None:
        pytest.skip("the backend is reached without headers")
    received = setup.headers_received

    async def use(caller: Caller) -> None:
        await call(caller, setup.good, headers={"X-Caller": "one"})
        assert received()["x-caller"] == "one"
        await call(caller, setup.good)
        assert "x-caller" not in received()
        assert "cookie" not in received()

    used(setup, use)


CONTRACT = (
    sentence_1_every_failure_is_an_outcome,
    sentence_2_a_call_is_sent_at_most_once,
    sentence_3_a_cancelled_call_leaves_the_backend_usable,
    sentence_4_headers_of_one_call_are_not_sent_with_another,
)
