"""`Client` and `AsyncClient`: connections that are kept, errors of one kind."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from toolheads.client import requests
from toolheads.client.answers import (
    CallAnswer,
    Ranking,
    SearchAnswer,
    ServerHealth,
    ToolRecord,
    read,
)
from toolheads.client.requests import Prepared, Schemas
from toolheads.domain import Tool
from toolheads.errors import ClientError, ConfigError, import_extra

URL_VARIABLE = "TOOLHEADS_URL"
KEY_VARIABLE = "TOOLHEADS_SERVER_KEY"
DEFAULT_URL = "http://127.0.0.1:8765"

_Answer = TypeVar("_Answer")


class _Base:
    """What both clients have in common.

    Args:
        url: Of the server; None takes `$TOOLHEADS_URL`, else a server on this machine.
        key: Sent as a bearer token; None takes `$TOOLHEADS_SERVER_KEY`, if it is set.
        session: Name of what belongs together, so that calls are linked to searches; None makes
            one up.
        timeout_s: Longest wait for an answer.
        call_timeout_s: The same for the call of a tool.
        transport: An httpx transport in place of the network.

    Raises:
        MissingExtraError: If httpx is not installed.
        ConfigError: If the URL is none.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        session: str | None = None,
        timeout_s: float = 30.0,
        call_timeout_s: float = 120.0,
        transport: Any = None,
    ) -> None:
        self._httpx = import_extra("httpx", user="client", extra="client")
        url = (url or os.environ.get(URL_VARIABLE) or DEFAULT_URL).rstrip("/")
        if not url.startswith(("http://", "https://")):
            msg = f"url must begin with http:// or https://, got {url!r:.200}"
            raise ConfigError(msg)
        key = key or os.environ.get(KEY_VARIABLE, "")
        headers = {"X-Session-Id": session or secrets.token_hex(16)}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        self._call_timeout_s = call_timeout_s
        self._settings = {
            "base_url": url,
            "headers": headers,
            "timeout": timeout_s,
            "transport": transport,
        }

    def _options(self, prepared: Prepared[Any]) -> dict[str, Any]:
        options: dict[str, Any] = {"params": prepared.parameters}
        if prepared.body is not None:
            options["json"] = prepared.body
        if prepared.is_call:
            options["timeout"] = self._call_timeout_s
        return options

    def _unreachable(self, error: Exception) -> ClientError:
        reason = str(error) or type(error).__name__
        msg = f"the server at {self._settings['base_url']} must answer, got: {reason}"
        return ClientError(msg, code="unreachable")

    def _answer(self, prepared: Prepared[_Answer], response: Any) -> _Answer:
        try:
            data = response.json()
        except ValueError:
            data = None
        if response.status_code == 200:
            return read(prepared.read, data)
        error = data.get("error") if isinstance(data, dict) else None
        if isinstance(error, dict) and isinstance(error.get("code"), str):
            code, message = error["code"], str(error.get("message", ""))
        else:
            code = "bad_answer"
            message = f"the server must answer with JSON, got HTTP status {response.status_code}"
        raise ClientError(message, code=code, status=response.status_code)


class Client(_Base):
    """Searches and calls tools over REST; close it, or use it in a `with` block."""

    def __init__(self, url: str | None = None, key: str | None = None, **settings: Any) -> None:
        super().__init__(url, key, **settings)
        self._client = self._httpx.Client(**self._settings)

    def search(
        self,
        query: str,
        k: int | None = None,
        *,
        schemas: Schemas = "short",
        conversation: str | None = None,
    ) -> SearchAnswer:
        """Find the tools for a query.

        Args:
            query: What is to be done, in plain words.
            k: How many; None takes as many as fit.
            schemas: How input schemas are given: long ones cut, `full`, or `none`.
            conversation: Keeps the set and order of tools stable over its searches.

        Raises:
            ClientError: If the server refuses or fails.
        """
        return self._send(requests.search(query, k, schemas, conversation))

    def rank(
        self, query: str, tools: Sequence[Tool | Mapping[str, Any] | str], k: int | None = None
    ) -> Ranking:
        """Rank tools of your own, as MCP, OpenAI or Anthropic write them, or ids of the server's.

        Raises:
            ClientError: If the server refuses or fails.
        """
        return self._send(requests.rank(query, tools, k))

    def rerank(
        self,
        message: str | Sequence[Mapping[str, Any]],
        method: str | None = None,
        *,
        top_n: int | None = None,
        pinned: Sequence[str] | None = None,
    ) -> Mapping[str, Any]:
        """Choose the tools for one turn: `tools` in order, and a `report`.

        Args:
            message: What the user said, or the conversation as chat messages.
            method: `keyword`, `heads` or `llm`; None is `keyword`.
            top_n: How many are chosen beside those that are named or pinned.
            pinned: Tools that are listed in any case.

        Raises:
            ClientError: If the server refuses or fails.
        """
        return self._send(requests.rerank(message, method, top_n, pinned))

    def plan(self, **wanted: Any) -> Mapping[str, Any]:
        """Plan how the catalogue is shown.

        Args:
            wanted: `context_tokens`, `budget_tokens`, `query`, `k`, `keep`, `format`.

        Raises:
            ClientError: If the server refuses or fails.
        """
        return self._send(requests.plan(wanted))

    def decide(
        self,
        need: str,
        settings: Mapping[str, Any] | None = None,
        *,
        shortlist: int | None = None,
    ) -> Mapping[str, Any]:
        """Decide which one tool a need names: `outcome` and `tools`.

        Args:
            need: What is needed, in words.
            settings: Thresholds, as `toolheads calibrate` finds them; None takes the server's.
            shortlist: Most tools of a list of those that are worth a look.

        Raises:
            ClientError: If the server refuses or fails.
        """
        return self._send(requests.decide(need, settings, shortlist))

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        search_id: str | None = None,
    ) -> CallAnswer:
        """Call a tool. One that fails is an answer with `is_error`, not an exception.

        Raises:
            ClientError: If the server refuses or fails.
        """
        return self._send(requests.call(name, arguments, search_id))

    def feedback(
        self,
        name: str,
        *,
        ok: bool,
        search_id: str | None = None,
        error: str | None = None,
        took_ms: float | None = None,
    ) -> str:
        """Tell the server of a call that you made yourself; gives its id.

        Raises:
            ClientError: If the server refuses or fails.
        """
        return self._send(requests.feedback(name, ok, search_id, error, took_ms))

    def tools(
        self, *, server: str | None = None, full: bool = False, page_size: int | None = None
    ) -> Iterator[ToolRecord]:
        """All tools, by id, fetched as they are needed.

        Raises:
            ClientError: If the server refuses or fails.
        """
        cursor = None
        while True:
            page = self._send(requests.page(server, is_full=full, limit=page_size, cursor=cursor))
            yield from page.tools
            cursor = page.next_cursor
            if cursor is None:
                return

    def tool(self, name: str) -> ToolRecord:
        """Everything about one tool.

        Raises:
            ClientError: `unknown_tool` if there is none, or if the server refuses or fails.
        """
        return self._send(requests.tool(name))

    def health(self) -> ServerHealth:
        """How the server is.

        Raises:
            ClientError: If it does not answer.
        """
        return self._send(requests.health())

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _send(self, prepared: Prepared[_Answer]) -> _Answer:
        try:
            response = self._client.request(
                prepared.method, prepared.path, **self._options(prepared)
            )
        except self._httpx.HTTPError as e:
            raise self._unreachable(e) from e
        return self._answer(prepared, response)


class AsyncClient(_Base):
    """`Client` with methods to await; close it, or use it in an `async with` block."""

    def __init__(self, url: str | None = None, key: str | None = None, **settings: Any) -> None:
        super().__init__(url, key, **settings)
        self._client = self._httpx.AsyncClient(**self._settings)

    async def search(
        self,
        query: str,
        k: int | None = None,
        *,
        schemas: Schemas = "short",
        conversation: str | None = None,
    ) -> SearchAnswer:
        """See `Client.search`."""
        return await self._send(requests.search(query, k, schemas, conversation))

    async def rank(
        self, query: str, tools: Sequence[Tool | Mapping[str, Any] | str], k: int | None = None
    ) -> Ranking:
        """See `Client.rank`."""
        return await self._send(requests.rank(query, tools, k))

    async def rerank(
        self,
        message: str | Sequence[Mapping[str, Any]],
        method: str | None = None,
        *,
        top_n: int | None = None,
        pinned: Sequence[str] | None = None,
    ) -> Mapping[str, Any]:
        """See `Client.rerank`."""
        return await self._send(requests.rerank(message, method, top_n, pinned))

    async def plan(self, **wanted: Any) -> Mapping[str, Any]:
        """See `Client.plan`."""
        return await self._send(requests.plan(wanted))

    async def decide(
        self,
        need: str,
        settings: Mapping[str, Any] | None = None,
        *,
        shortlist: int | None = None,
    ) -> Mapping[str, Any]:
        """See `Client.decide`."""
        return await self._send(requests.decide(need, settings, shortlist))

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        search_id: str | None = None,
    ) -> CallAnswer:
        """See `Client.call`."""
        return await self._send(requests.call(name, arguments, search_id))

    async def feedback(
        self,
        name: str,
        *,
        ok: bool,
        search_id: str | None = None,
        error: str | None = None,
        took_ms: float | None = None,
    ) -> str:
        """See `Client.feedback`."""
        return await self._send(requests.feedback(name, ok, search_id, error, took_ms))

    async def tools(
        self, *, server: str | None = None, full: bool = False, page_size: int | None = None
    ) -> AsyncIterator[ToolRecord]:
        """See `Client.tools`."""
        cursor = None
        while True:
            page = await self._send(
                requests.page(server, is_full=full, limit=page_size, cursor=cursor)
            )
            for tool in page.tools:
                yield tool
            cursor = page.next_cursor
            if cursor is None:
                return

    async def tool(self, name: str) -> ToolRecord:
        """See `Client.tool`."""
        return await self._send(requests.tool(name))

    async def health(self) -> ServerHealth:
        """See `Client.health`."""
        return await self._send(requests.health())

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _send(self, prepared: Prepared[_Answer]) -> _Answer:
        try:
            response = await self._client.request(
                prepared.method, prepared.path, **self._options(prepared)
            )
        except self._httpx.HTTPError as e:
            raise self._unreachable(e) from e
        return self._answer(prepared, response)
