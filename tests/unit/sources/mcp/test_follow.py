from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("mcp", reason="needs the extra [mcp]")
pytest.importorskip("filelock", reason="needs the extra [ingest]")

from tests.mcp_peer import TOOLS, command, entry

from toolheads.catalogue import change, drop, read_catalogue
from toolheads.domain import Tool
from toolheads.sources.mcp import ListFollower, McpSessions


def catalogue(folder, **sources):
    for name, source in sources.items():
        change(folder, name, [Tool(f"{name}/old", "old", name)], source=source)
    return folder


@asynccontextmanager
async def following(folder):
    sessions = McpSessions(read_catalogue(folder).sources)
    follower = ListFollower(folder, sessions)
    task = asyncio.create_task(follower.run())
    try:
        yield sessions, follower
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await sessions.close()


async def names_become(folder, names):
    async with asyncio.timeout(20):
        while {tool.name for tool in read_catalogue(folder, allow_empty=True).tools} != names:
            await asyncio.sleep(0.01)


def test_the_catalogue_has_what_the_servers_list_from_the_start(tmp_path):
    async def scenario():
        async with following(catalogue(tmp_path, a=command(pages=[[entry("new")]]))):
            await names_become(tmp_path, {"new"})

    asyncio.run(scenario())


def test_a_change_of_the_list_reaches_the_catalogue(tmp_path):
    async def scenario():
        async with following(catalogue(tmp_path, a=command())) as (sessions, _):
            await names_become(tmp_path, {tool["name"] for tool in TOOLS})
            await sessions.call("a", "set_pages", {"pages": [[entry("x")], [entry("y")]]})
            await names_become(tmp_path, {"x", "y"})

    asyncio.run(scenario())


def test_a_server_that_tells_of_no_change_is_asked_now_and_then(tmp_path, monkeypatch):
    monkeypatch.setattr("toolheads.sources.mcp.follow._LIST_AGAIN_S", 0.1)
    monkeypatch.setattr("toolheads.sources.mcp.follow._LOOK_S", 0.05)

    async def scenario():
        async with following(catalogue(tmp_path, a=command())):
            await names_become(tmp_path, {tool["name"] for tool in TOOLS})
            change(tmp_path, "a", [], source=None)
            await names_become(tmp_path, {tool["name"] for tool in TOOLS})

    asyncio.run(scenario())


def test_a_server_that_restarts_is_listed_again(tmp_path):
    async def scenario():
        source = command(pages=[[entry("pid"), entry("crash")]])
        async with following(catalogue(tmp_path, a=source)) as (sessions, _):
            await names_become(tmp_path, {"pid", "crash"})
            await sessions.call("a", "set_pages", {"pages": [[entry("x")]]})
            await names_become(tmp_path, {"x"})
            await asyncio.gather(sessions.call("a", "crash", {}), return_exceptions=True)
            await names_become(tmp_path, {"pid", "crash"})

    asyncio.run(scenario())


@pytest.mark.parametrize("behaviour", [{"exit": 1}, {"pages": [[{"name": 5}]]}])
def test_a_server_that_fails_keeps_its_tools_and_is_told(tmp_path, behaviour):
    async def scenario():
        sources = {"bad": command(**behaviour), "good": command(pages=[[entry("new")]])}
        async with following(catalogue(tmp_path, **sources)) as (_, follower):
            await names_become(tmp_path, {"old", "new"})
            async with asyncio.timeout(20):
                while "bad" not in follower.problems:
                    await asyncio.sleep(0.01)
            assert list(follower.problems) == ["bad"]

    asyncio.run(scenario())


def test_a_source_that_was_dropped_is_not_brought_back(tmp_path):
    async def scenario():
        source = command(pages=[[*TOOLS]])
        async with following(catalogue(tmp_path, a=source)) as (sessions, _):
            await names_become(tmp_path, {tool["name"] for tool in TOOLS})
            drop(tmp_path, "a")
            await sessions.call("a", "set_pages", {"pages": [[entry("x")]]})
            await asyncio.sleep(0.5)
            assert read_catalogue(tmp_path, allow_empty=True).tools == ()

    asyncio.run(scenario())


def test_a_source_that_is_added_while_serving_is_followed(tmp_path):
    async def scenario():
        async with following(catalogue(tmp_path, a=command(pages=[[entry("x")]]))) as (sessions, _):
            await names_become(tmp_path, {"x"})
            catalogue(tmp_path, b=command(pages=[[entry("y")]]))
            sessions.use(read_catalogue(tmp_path).sources)
            await names_become(tmp_path, {"x", "y"})

    asyncio.run(scenario())
