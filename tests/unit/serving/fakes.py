"""A small retriever and backends for tests of the server: words shared, and faults on demand."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from dataclasses import replace

from toolheads.calls import CallResult, Calls, CallSettings, failure, text_block
from toolheads.catalogue import api_name, tool_id
from toolheads.domain import Hit, Tool
from toolheads.errors import ConfigError
from toolheads.retrieval import Answer, Mode, Status

PATIENCE_S = 10.0


def a_tool(server, name, description="", *, kind="mcp", schema=None, **extra):
    default = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    return Tool(
        tool_id(server, name),
        name,
        server,
        description,
        default if schema is None else schema,
        {"kind": kind, **extra},
    )


TOOLS = (
    a_tool("calendar", "create_event", "Create an event in a calendar."),
    a_tool("calendar", "move_event", "Move an event to another day."),
    a_tool("mail", "send_mail", "Send a mail to a person."),
    a_tool("weather", "forecast", "Weather forecast of a city.", kind="openapi"),
)


class OnItsWay:
    """What `FakeRetriever.begin` gives: done once an event is set."""

    def __init__(self, event, patience_s):
        self._event, self.left_s = event, patience_s

    def is_done(self):
        return self._event.is_set()

    def when_done(self, call):
        def wait():
            if self._event.wait(PATIENCE_S):
                call()

        threading.Thread(target=wait, daemon=True).start()


class FakeRetriever:
    """Ranks by shared words.

    Attributes:
        hang: Vectors of texts that are not cached are there once this is set.
        cached: Texts whose vectors need not be waited for.
        patience_s: The longest wait for one.
    """

    def __init__(self, tools=TOOLS):
        self.tools = tuple(sorted(tools, key=lambda tool: tool.id))
        self.hang = threading.Event()
        self.hang.set()
        self.cached = set()
        self.error = None
        self.is_light = True
        self.threads = []
        self.patience_s = PATIENCE_S
        self.searched = []
        self.changes = {}

    @property
    def catalogue_digest(self):
        return hashlib.sha256("".join(tool.id for tool in self.tools).encode()).hexdigest()

    def begin(self, text, *, scope="", deadline_s=None):
        if not text.strip():
            raise ConfigError("text must not be blank, got ''")
        return None if text in self.cached else OnItsWay(self.hang, self.patience_s)

    subject = None

    def rows(self, tools):
        return None

    def search(
        self,
        text,
        k=None,
        *,
        scope="",
        conversation=None,
        deadline_s=None,
        sources=None,
        may_be_nothing=True,
        begun=None,
    ):
        self.threads.append(threading.current_thread())
        self.searched.append(
            {"text": text, "scope": scope, "conversation": conversation, "deadline_s": deadline_s}
        )
        if not text.strip():
            raise ConfigError("text must not be blank, got ''")
        if self.error is not None:
            raise self.error
        mode: Mode = "dense"
        reason = None
        if text not in self.cached:
            may_wait = deadline_s != 0
            is_there = begun.is_done() if begun else may_wait and self.hang.wait(PATIENCE_S)
            if not is_there:
                mode, reason = "lexical", "the encoder is busy"
        seen = [tool for tool in self.tools if sources is None or tool.server in sources]
        hits = self._hits(text, seen, k)
        return Answer(hits, mode, reason, not hits, (), self.catalogue_digest, 0.1)

    def rank(self, text, tools, k=None, *, scope="", deadline_s=None):
        hits = [Hit(tool, _shared(text, tool)) for tool in tools]
        hits.sort(key=lambda hit: -hit.score)
        return Answer(tuple(hits[:k]), "dense", None, False, (), "", 0.1)

    def tool(self, name, *, sources=None):
        for tool in self.tools:
            if sources is not None and tool.server not in sources:
                continue
            if name in (tool.id, tool.name, api_name(tool.id)):
                return tool
        return None

    def status(self):
        status = Status(
            ready=bool(self.tools),
            mode="dense",
            degraded=False,
            reason=None,
            scorer="fake",
            tools=len(self.tools),
            pending=0,
            catalogue=self.catalogue_digest,
            circuit="closed",
            encoder_failures=0,
            reload_error=None,
            reload_failures=0,
            reloaded_at=time.time(),
            faults=0,
            floor=None,
            cached_queries=0,
            cached_bytes=0,
        )
        return replace(status, **self.changes)

    def _hits(self, text, tools, k):
        scored = [Hit(tool, _shared(text, tool)) for tool in tools]
        found = sorted((h for h in scored if h.score > 0), key=lambda h: (-h.score, h.tool_id))
        return tuple(found[: k or 10])


def a_retriever(tools=TOOLS):
    """A `FakeRetriever`, for whoever takes a `Retriever`."""
    return FakeRetriever(tools)


class FakeCaller:
    """Answers with the arguments, or what `answer` is set to."""

    def __init__(self):
        self.answer = None
        self.called = []

    async def call(self, tool, arguments, *, timeout_s, headers=None):
        self.called.append((tool.id, dict(arguments)))
        if self.answer is not None:
            return self.answer
        return CallResult("ok", (text_block(f"called {tool.name}"),), {"given": dict(arguments)})

    def use(self, sources):
        pass

    async def close(self):
        pass


def fake_calls(caller, *, timeout_s=5.0):
    sources = {name: {"kind": "mcp"} for name in ("calendar", "mail", "weather")}
    settings = CallSettings(timeout_s=timeout_s)
    return Calls(sources, {"mcp": caller, "openapi": caller}, settings=settings)


def tool_error(text):
    return failure("tool_error", text)


def _shared(text, tool):
    words = set(re.findall(r"\w+", text.lower()))
    theirs = set(re.findall(r"[a-z]+", f"{tool.name} {tool.description}".lower()))
    return float(len(words & theirs))
