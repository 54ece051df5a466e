"""One session with one server, from its start to its end, held by a task of its own.

The SDK's sessions must be entered and left by one task; calls may come from any task of the loop.
A session that has ended is not opened again: `sessions` opens another.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import httpx2
import mcp_types as types
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from toolheads.data.jsonl import shown
from toolheads.errors import SourceError
from toolheads.sources.mcp.lists import Listing, follow_list, read_list
from toolheads.sources.mcp.servers import McpServer, McpSettings
from toolheads.sources.mcp.transport import Watch, watched_transport

_LAST_WORDS_S = 0.5
"""How long the end of a process's standard error is waited for."""
_WORK = {"start": "start", "list": "list its tools"}
_FAILURES = (
    OSError,
    RuntimeError,  # the SDK's, and the end of a subscription
    ValueError,  # pydantic's, and a command with a NUL
    MCPError,
    httpx2.HTTPError,
    httpx2.InvalidURL,
    anyio.ClosedResourceError,
    anyio.BrokenResourceError,
    anyio.EndOfStream,
)
"""What a server, or the way to it, can make the SDK raise."""

_ANSWERS: TypeAdapter[Any] = TypeAdapter(types.CallToolResult | types.InputRequiredResult)


class McpError(SourceError):
    """A server could not be reached, ended, or gave an answer that cannot be used.

    Attributes:
        http_status: Status of the HTTP answer; None where there was none.
    """

    def __init__(self, message: str, *, http_status: int | None = None) -> None:
        self.http_status = http_status
        super().__init__(message)


class Session:
    """One session. Used from one event loop, from any of its tasks."""

    def __init__(
        self,
        server: McpServer,
        settings: McpSettings,
        *,
        on_list_changed: Callable[[], None] | None = None,
    ) -> None:
        """Prepare a session; `open` begins it.

        Args:
            server: Which server.
            settings: Limits.
            on_list_changed: Called when the server says that its list is another. Must return
                at once.
        """
        self.server = server
        self._settings = settings
        self._on_list_changed = on_list_changed
        self._watch = Watch(on_end=self._ended, on_lost=self.retire)
        self._scope = anyio.CancelScope()
        self._done = asyncio.Event()
        self._ready: asyncio.Future[Listing] | None = None
        self._task: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self._phase = ""
        self._failure = ""
        self.http_status: int | None = None
        """Status of the HTTP answer that ended it, if one did."""
        self.was_open = False
        """Whether the server had started and listed its tools."""
        self.over_at = math.inf
        """When it was over, on the clock of `time.monotonic`."""
        self._has_ended = self._is_closing = False
        self._n_calls = 0
        self._retired = False
        self._listing = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        """Whether a call can be sent."""
        return self._client is not None and not self._done.is_set()

    @property
    def is_over(self) -> bool:
        """Whether no call should be sent any more; those in flight may still end."""
        return self._retired or self._done.is_set()

    @property
    def is_gone(self) -> bool:
        """Whether nothing is left of it, its process included."""
        return self._task is not None and self._task.done()

    @property
    def failure(self) -> str:
        """Why it is over, a sentence."""
        return self._failure or self._said("has ended")

    async def open(self) -> Listing:
        """Start or reach the server and list its tools. Who waits may be cancelled; it goes on.

        Raises:
            McpError: If that fails or takes too long; says what the server wrote last.
        """
        if self._ready is None:
            loop = asyncio.get_running_loop()
            self._ready = loop.create_future()
            # What a caller keeps in context variables is nothing to a task that outlives it.
            self._task = loop.create_task(self._own(self._ready), context=contextvars.Context())
        return await asyncio.shield(self._ready)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Call a tool; sent once, whatever happens.

        Raises:
            McpError: If the server ended or gave no result.
        """
        client = self._opened()
        request = types.CallToolRequest(
            params=types.CallToolRequestParams(name=name, arguments=dict(arguments))
        )
        self._n_calls += 1
        try:
            answer: (
                types.CallToolResult | types.InputRequiredResult
            ) = await client.session.send_request(request, _ANSWERS)
        except _FAILURES as e:
            raise await self._told(e, "the call") from e
        finally:
            self._n_calls -= 1
            if self._retired and not self._n_calls:
                self._over()
        if isinstance(answer, types.InputRequiredResult):
            msg = f"tool {shown(name)} must answer without asking back, got a request for input"
            raise McpError(msg)
        return answer

    async def list(self) -> Listing:
        """List the tools again.

        Raises:
            McpError: If the server ended, gave no list, or took too long.
        """
        client = self._opened()
        limit_s = self._settings.list_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                return await self._list(client)
        except TimeoutError as e:
            raise McpError(self._said(f"must list its tools within {limit_s:g} s")) from e
        except _FAILURES as e:
            raise await self._told(e, "its list") from e

    def retire(self) -> None:
        """End the session once no call is in flight, as when the server has forgotten it."""
        self._retired = True
        self.over_at = min(self.over_at, time.monotonic())
        if not self._n_calls:
            self._over()

    async def close(self) -> None:
        """End the session and wait for it; a process gets a few seconds to end by itself."""
        self._is_closing = True
        self._over()
        if self._client is None:
            self._scope.cancel()
        if self._task is not None:
            await asyncio.wait([self._task])

    def _opened(self) -> Client:
        if self._client is None or self._done.is_set():
            raise McpError(self.failure)
        return self._client

    def _over(self) -> None:
        """From now on no call is sent: the server ended the session, or this side does."""
        if not self._done.is_set():
            self._done.set()
            self.over_at = min(self.over_at, time.monotonic())

    def _ended(self) -> None:
        """The server ended the connection; before the session is open the SDK raises for that."""
        self._has_ended = True
        if self._phase == "run":
            self._over()

    async def _own(self, ready: asyncio.Future[Listing]) -> None:
        """The task: all of the session between its first and its last line."""
        try:
            with self._scope:
                self._limit("start", self._settings.start_timeout_s)
                try:
                    await self._run(ready, "auto")
                except (MCPError, BaseExceptionGroup) as e:
                    if not self._may_be_strict(e):
                        raise
                    self._watch, self._has_ended = (
                        Watch(on_end=self._ended, on_lost=self.retire),
                        False,
                    )
                    await self._run(ready, "legacy")
            await self._last_words()
            if self._scope.cancelled_caught and self._phase in _WORK:
                limit_s = getattr(self._settings, f"{self._phase}_timeout_s")
                rule = f"must {_WORK[self._phase]} within {limit_s:g} s, got no answer"
                self._failure = self._said("was closed" if self._is_closing else rule)
        except _FAILURES as e:
            await self._last_words()
            self._note(e)
        except BaseExceptionGroup as group:
            failures, others = group.split(_FAILURES)
            if failures is None or others is not None:
                raise
            await self._last_words()
            self._note(_first(failures))
        finally:
            self._client = None
            self._over()
            self._failure = self._failure or self._said("has ended")
            if not ready.done():
                ready.set_exception(McpError(self._failure, http_status=self.http_status))
                ready.exception()  # nobody may be waiting any more

    def _may_be_strict(self, error: BaseException) -> bool:
        """Whether a command ended at the first message, as some do that only know a handshake."""
        return self.server.url is None and self._phase == "start" and _is_end(_first(error))

    async def _run(self, ready: asyncio.Future[Listing], mode: str) -> None:
        transport = watched_transport(self.server, self._watch)
        async with Client(
            transport,
            message_handler=self._on_message,
            client_info=types.Implementation(name="toolheads", version=_version()),
            cache=None,
            mode=mode,
        ) as client:
            self._limit("list", self._settings.list_timeout_s)
            listing = await self._list(client)
            self._scope.deadline = math.inf
            self._client, self._phase, self.was_open = client, "run", True
            if self._has_ended:
                self._over()
            if not ready.done():
                ready.set_result(listing)
            async with anyio.create_task_group() as tasks:
                if self._on_list_changed and client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                    tasks.start_soon(follow_list, client, self._tell_change)
                await self._done.wait()
                tasks.cancel_scope.cancel()
            self._client = None

    def _limit(self, phase: str, limit_s: float) -> None:
        self._phase = phase
        self._scope.deadline = anyio.current_time() + limit_s

    async def _list(self, client: Client) -> Listing:
        async with self._listing:  # what is left out is noted for one list at a time
            most = self._settings.most_tools
            return await read_list(client, self.server.name, self._watch.reasons, most=most)

    async def _on_message(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._tell_change()

    def _tell_change(self) -> None:
        if self._on_list_changed and not self._done.is_set():
            self._on_list_changed()

    async def _told(self, error: Exception, during: str) -> McpError:
        """The error of a request as a caller is told it."""
        # Over HTTP the end of one answer has this code, too; the session goes on.
        ends_all = self.server.url is None and _is_end(error)
        if isinstance(error, MCPError) and not ends_all:
            status = error.data.get("http_status") if isinstance(error.data, dict) else None
            message = f"server {shown(self.server.name)}: {' '.join(error.message.split())}"
            return McpError(message, http_status=status)
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(step) for step in first["loc"])
            got = f"{place}: {first['msg']}" if place else first["msg"]
            return McpError(
                f"server {shown(self.server.name)} must answer {during} as the protocol says, "
                f"got {got}"
            )
        self._over()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_LAST_WORDS_S)
        return McpError(self._said(f"must be there until the end of {during}, got its end"))

    async def _last_words(self) -> None:
        """Wait a moment for the end of standard error; what outlives the server may hold it."""
        stderr = self._watch.stderr
        with anyio.move_on_after(_LAST_WORDS_S):
            while stderr is not None and not stderr.is_complete:
                await anyio.sleep(0.01)

    def _note(self, error: BaseException) -> None:
        if isinstance(error, MCPError) and isinstance(error.data, dict):
            self.http_status = error.data.get("http_status")
        if _is_end(error):
            reason = "its end"
        elif isinstance(error, OSError) and error.strerror:
            reason = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
        else:
            reason = " ".join(str(error).split()) or type(error).__name__
        work = _WORK.get(self._phase, "go on")
        self._failure = self._said(f"({self.server.address}) must {work}, got: {reason}")

    def _said(self, rule: str) -> str:
        """A sentence about the server, with the last it wrote to standard error, if anything."""
        sentence = f"server {shown(self.server.name)} {rule}"
        if self._watch.junk:
            sentence += f"; it sent what is no message: {self._watch.junk}"
        stderr = self._watch.stderr
        if stderr is not None and (said := stderr.text()):
            sentence += f"; it last wrote: {said}"
        return sentence


def _is_end(error: BaseException) -> bool:
    return isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _version() -> str:
    from importlib.metadata import version

    return version("toolheads")
