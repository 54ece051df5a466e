"""Calls of any kind: arguments first, limits always, and an answer whatever happens."""

import asyncio

import pytest

from toolheads.calls import CallResult, Calls, CallSettings, failure
from toolheads.domain import Tool
from toolheads.errors import ConfigError, SourceError

pytest.importorskip("jsonschema")

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOL = Tool("one/add", "add", "one", input_schema=SCHEMA, extra={"kind": "mcp"})
SOURCES = {"one": {"kind": "mcp", "command": "x"}}


class RecordingCaller:
    """Remembers what it was given, and does what `act` does."""

    def __init__(self, act=None):
        self.act = act
        self.calls = []
        self.in_flight = self.most_in_flight = 0
        self.closed = False
        self.sources = None

    async def call(self, tool, arguments, *, timeout_s, headers=None):
        self.calls.append((tool.id, arguments, timeout_s, headers))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self.act() if self.act else CallResult("ok")
        finally:
            self.in_flight -= 1

    def use(self, sources):
        self.sources = sources

    async def close(self):
        self.closed = True


def call(caller, tool=TOOL, arguments=None, *, settings=None, **more):
    calls = Calls(SOURCES, {"mcp": caller}, settings=settings)
    return asyncio.run(calls.call(tool, {"n": 1} if arguments is None else arguments, **more))


def test_the_caller_of_the_tools_kind_gets_the_arguments_and_headers():
    caller = RecordingCaller()
    result = call(caller, headers={"Authorization": "Bearer x"})
    assert result.outcome == "ok"
    assert result.took_ms > 0
    ((tool_id, arguments, timeout_s, headers),) = caller.calls
    assert (tool_id, arguments, headers) == ("one/add", {"n": 1}, {"Authorization": "Bearer x"})
    assert 0 < timeout_s <= 60


def test_arguments_that_do_not_fit_are_refused_unsent_and_the_answer_has_the_schema():
    caller = RecordingCaller()
    result = call(caller, arguments={"n": "1"})
    assert result.outcome == "refused"
    assert result.error == 'arguments.n must be of type integer, got "1"'
    assert '"required": ["n"]' in result.content[-1]["text"]
    assert caller.calls == []


@pytest.mark.parametrize("outcome", ["tool_error", "protocol_error"])
def test_a_failing_answer_ends_with_the_schema(outcome):
    async def fail():
        return failure(outcome, "it\nfailed", structured={"code": 7})

    result = call(RecordingCaller(fail))
    assert result.error == "it failed"
    assert result.structured == {"code": 7}
    assert [block["type"] for block in result.content] == ["text", "text"]
    assert result.content[-1]["text"].startswith("Input schema of add: {")


def test_a_schema_of_a_megabyte_is_not_put_into_the_answer():
    tool = Tool(
        "one/x", "x", "one", input_schema={"description": "y" * 10**6}, extra={"kind": "mcp"}
    )

    async def fail():
        return failure("tool_error", "no")

    assert len(call(RecordingCaller(fail), tool).text) < 200


@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        (None, "name must be that of a tool, got 'nobody'"),
        (Tool("one/a", "a", "one"), "must be of kind mcp to be called, got ''"),
        (Tool("one/a", "a", "one", extra={"kind": ["mcp"]}), "must be of kind mcp"),
        (Tool("two/a", "a", "two", extra={"kind": "mcp"}), "must be of a configured source"),
    ],
)
def test_a_tool_that_nobody_can_call_is_an_unknown_tool(tool, reason):
    result = call(RecordingCaller(), tool, name="nobody")
    assert result.outcome == "unknown_tool"
    assert reason in result.error


def test_a_backend_that_hangs_is_given_up():
    async def hang():
        await asyncio.Event().wait()

    caller = RecordingCaller(hang)
    result = call(caller, timeout_s=0.02)
    assert result.outcome == "timeout"
    assert "within 0.02 s" in result.error
    assert caller.in_flight == 0


@pytest.mark.parametrize("error", [SourceError("gone"), ConnectionResetError("gone")])
def test_what_a_caller_raises_about_its_backend_is_an_outcome(error):
    async def fail():
        raise error

    result = call(RecordingCaller(fail))
    assert (result.outcome, result.error) == ("protocol_error", "gone")


def test_calls_of_one_source_wait_for_a_free_place_and_others_do_not():
    async def run():
        free = asyncio.Event()
        caller = RecordingCaller(free.wait)
        calls = Calls(SOURCES | {"two": {}}, {"mcp": caller}, settings=CallSettings(concurrency=2))
        other = Tool("two/add", "add", "two", extra={"kind": "mcp"})
        tasks = [asyncio.create_task(calls.call(TOOL, {"n": n})) for n in range(6)]
        tasks.append(asyncio.create_task(calls.call(other, {})))
        while caller.in_flight < 3:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)
        assert caller.most_in_flight == 3
        caller.act = None
        free.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        return caller

    assert len(asyncio.run(run()).calls) == 7


def test_a_call_that_waits_too_long_for_a_place_is_never_sent():
    async def run():
        caller = RecordingCaller(asyncio.Event().wait)
        calls = Calls(SOURCES, {"mcp": caller}, settings=CallSettings(concurrency=1))
        first = asyncio.create_task(calls.call(TOOL, {"n": 1}))
        while not caller.calls:
            await asyncio.sleep(0.001)
        second = await calls.call(TOOL, {"n": 2}, timeout_s=0.02)
        first.cancel()
        return second.outcome, len(caller.calls)

    assert asyncio.run(run()) == ("timeout", 1)


def test_new_sources_reach_every_caller():
    caller = RecordingCaller()
    calls = Calls({}, {"mcp": caller})
    calls.use(SOURCES)
    assert caller.sources == SOURCES
    assert asyncio.run(calls.call(TOOL, {"n": 1})).outcome == "ok"


def test_every_caller_is_closed_even_if_one_fails_to():
    class Stuck(RecordingCaller):
        async def close(self):
            raise OSError

    good = RecordingCaller()
    asyncio.run(Calls({}, {"a": Stuck(), "b": good}).close())
    assert good.closed


@pytest.mark.parametrize(
    "settings", [{"timeout_s": 0}, {"timeout_s": float("inf")}, {"concurrency": 0}]
)
def test_settings_without_a_limit_are_refused(settings):
    with pytest.raises(ConfigError, match=r"calls\.\w+ must be"):
        CallSettings(**settings)
