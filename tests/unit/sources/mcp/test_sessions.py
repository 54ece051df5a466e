from __future__ import annotations

import asyncio
import os
import signal
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

pytest.importorskip("mcp", reason="needs the extra [mcp]")

import anyio
from tests.mcp_peer import TOOLS, command, entry

from toolheads.errors import ConfigError
from toolheads.sources.mcp import McpError, McpSessions


@asynccontextmanager
async def sessions_of(**sources):
    sessions = McpSessions(sources)
    try:
        yield sessions
    finally:
        await sessions.close()


async def said(sessions, tool, name="peer", **arguments):
    answer = await sessions.call(name, tool, arguments)
    return answer.content[0].text


def is_there(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def test_a_session_is_opened_by_the_first_call_and_stays():
    async def scenario():
        async with sessions_of(peer=command()) as sessions:
            assert not sessions.is_open("peer")
            first = await said(sessions, "pid")
            assert sessions.is_open("peer")
            assert await said(sessions, "pid") == first

    asyncio.run(scenario())


def test_calls_at_once_from_several_tasks_share_one_session():
    async def scenario():
        async with sessions_of(peer=command()) as sessions:
            pids = await asyncio.gather(*(said(sessions, "pid") for _ in range(5)))
            assert len(set(pids)) == 1

    asyncio.run(scenario())


def test_a_crash_ends_the_call_and_the_next_one_opens_a_session_at_once(tmp_path):
    async def scenario():
        async with sessions_of(peer=command(log=str(tmp_path / "log"))) as sessions:
            before = await said(sessions, "pid")
            with pytest.raises(McpError, match=r"until the end of the call.*it last wrote: out of"):
                await said(sessions, "crash")
            assert await said(sessions, "pid") != before

    asyncio.run(scenario())
    assert sum("crash" in line for line in lines(tmp_path / "log")) == 1


def test_other_calls_in_flight_at_a_crash_end_too_and_none_is_sent_again(tmp_path):
    async def scenario():
        async with sessions_of(peer=command(log=str(tmp_path / "log"))) as sessions:
            await said(sessions, "pid")
            calls = [said(sessions, "hang"), said(sessions, "hang"), said(sessions, "crash")]
            ends = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(end, McpError) for end in ends)
            await said(sessions, "echo")

    asyncio.run(scenario())
    assert len(lines(tmp_path / "log")) == 5


def test_a_server_that_died_between_two_calls_costs_neither():
    async def scenario():
        async with sessions_of(peer=command()) as sessions:
            os.kill(int(await said(sessions, "pid")), signal.SIGKILL)
            while sessions.is_open("peer"):
                await asyncio.sleep(0.01)
            assert await said(sessions, "echo", a=1) == '{"a": 1}'

    asyncio.run(scenario())


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is moved."""
    clock = SimpleNamespace(now=100.0)
    frozen = SimpleNamespace(monotonic=lambda: clock.now)
    monkeypatch.setattr("toolheads.sources.mcp.sessions.time", frozen)
    monkeypatch.setattr("toolheads.sources.mcp.session.time", frozen)
    return clock


def test_a_server_that_does_not_start_is_left_alone_for_a_while_that_doubles(clock):
    async def scenario():
        async with sessions_of(peer=command(exit=1, stderr="no key")) as sessions:
            for pause_s in (1, 2, 4, 8, 16, 30, 30):
                with pytest.raises(McpError, match=r"no key$"):
                    await said(sessions, "echo")
                clock.now += pause_s - 0.5
                with pytest.raises(McpError, match=r"no key; the next try is in 1 s"):
                    await said(sessions, "echo")
                clock.now += 0.5

    asyncio.run(scenario())


def test_a_first_crash_costs_no_pause_and_a_call_that_works_makes_the_next_one_the_first(clock):
    async def scenario():
        async with sessions_of(peer=command()) as sessions:
            for _ in range(2):
                await said(sessions, "echo")
                with pytest.raises(McpError):
                    await said(sessions, "crash")
            with pytest.raises(McpError, match="until the end of the call"):
                await said(sessions, "crash")
            with pytest.raises(McpError, match="the next try is in 2 s"):
                await said(sessions, "echo")

    asyncio.run(scenario())


def test_who_gives_up_waiting_leaves_the_session_to_the_others():
    async def scenario():
        async with sessions_of(peer=command()) as sessions:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(said(sessions, "pid"), 0.01)  # while it opens
            before = await said(sessions, "pid")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(said(sessions, "hang"), 0.05)
            assert await said(sessions, "pid") == before

    asyncio.run(scenario())


def test_a_scope_that_is_cancelled_around_a_call_ends_that_call_alone():
    """As a server's framework does when who asked has gone away."""

    async def scenario():
        async with sessions_of(peer=command()) as sessions:
            with anyio.move_on_after(0.01):
                await said(sessions, "pid")  # opens the session
            before = await said(sessions, "pid")
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(said, sessions, "hang")
                with anyio.move_on_after(0.05) as scope:
                    await said(sessions, "hang")
                assert scope.cancelled_caught
                tasks.cancel_scope.cancel()
            assert await said(sessions, "pid") == before

    asyncio.run(scenario())


def test_noise_on_both_outputs_ends_no_session():
    async def scenario():
        async with sessions_of(peer=command()) as sessions:
            before = await said(sessions, "pid")
            for _ in range(3):
                await said(sessions, "noise")
            assert await said(sessions, "pid") == before

    asyncio.run(scenario())


def test_answers_that_are_none_are_errors_of_that_call_alone():
    async def scenario():
        async with sessions_of(peer=command(pages=[[*TOOLS, entry("odd")]])) as sessions:
            before = await said(sessions, "pid")
            with pytest.raises(McpError, match="must answer the call as the protocol says"):
                await said(sessions, "odd")
            with pytest.raises(McpError, match="Unknown tool: none"):
                await said(sessions, "none")
            assert await said(sessions, "pid") == before

    asyncio.run(scenario())


def test_a_change_of_the_list_is_told_and_the_list_can_be_read_again():
    async def scenario():
        async with sessions_of(peer=command()) as sessions:
            told: asyncio.Queue[str] = asyncio.Queue()
            sessions.on_list_changed = told.put_nowait
            assert len((await sessions.list("peer")).tools) == len(TOOLS)
            await said(sessions, "set_pages", pages=[[entry("a")], [entry("b")]])
            assert await asyncio.wait_for(told.get(), 20) == "peer"
            assert [tool.name for tool in (await sessions.list("peer")).tools] == ["a", "b"]

    asyncio.run(scenario())


def test_a_source_that_changed_gets_a_new_session_and_calls_in_flight_end_as_they_began():
    async def scenario():
        async with sessions_of(peer=command(), other=command()) as sessions:
            before, other = await said(sessions, "pid"), await said(sessions, "pid", name="other")
            slow = asyncio.create_task(said(sessions, "echo", wait_s=0.3))
            await asyncio.sleep(0.1)
            sessions.use({"peer": command(stderr="new"), "other": command()})
            assert await said(sessions, "pid") != before
            assert await said(sessions, "pid", name="other") == other
            assert await slow == '{"wait_s": 0.3}'
            async with asyncio.timeout(20):
                while is_there(int(before)):  # until the old session has ended, too
                    await asyncio.sleep(0.01)

    asyncio.run(scenario())


def test_closing_ends_every_process():
    async def scenario():
        async with sessions_of(peer=command()) as sessions:
            pid = int(await said(sessions, "pid"))
            sessions.use({})
            sessions.use({"peer": command()})
            other = int(await said(sessions, "pid"))
        return pid, other

    assert not any(is_there(pid) for pid in asyncio.run(scenario()))


def test_a_server_that_is_not_there_is_told_with_those_that_are():
    async def scenario():
        api = {"kind": "openapi", "spec": "x"}
        async with sessions_of(peer=command(), api=api) as sessions:
            with pytest.raises(ConfigError, match="server must be one of 'peer', got 'api'"):
                await said(sessions, "echo", name="api")

    asyncio.run(scenario())
