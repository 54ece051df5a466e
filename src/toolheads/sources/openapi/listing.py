"""The operations of a description as tools; what is damaged costs the operations it stands in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolheads.catalogue.names import tool_id
from toolheads.data.jsonl import shown
from toolheads.domain import Tool
from toolheads.errors import ConfigError
from toolheads.sources.openapi.budget import DEFAULT_BYTES, LEAST_BYTES, Trimmer
from toolheads.sources.openapi.definitions import Definitions
from toolheads.sources.openapi.document import Document, OperationError
from toolheads.sources.openapi.inputs import operation_inputs
from toolheads.sources.openapi.names import operation_name
from toolheads.sources.openapi.operation import METHODS, READING, Operation
from toolheads.sources.openapi.servers import server_address

_SHARE = 4
"""How many times a tool's size its definitions may have before they are trimmed to it. A
description whose schemas all lead to each other would otherwise be copied for each operation."""

_OTHER_METHODS = ("trace", "query", "additionalOperations")


@dataclass(frozen=True)
class Skipped:
    """An operation that is no tool, and why."""

    operation: str
    """Such as `GET /pets`."""
    reason: str

    def __str__(self) -> str:
        return f"{self.operation}: {self.reason}"


@dataclass(frozen=True)
class Listing:
    """What a description offers."""

    tools: tuple[Tool, ...]
    skipped: tuple[Skipped, ...] = ()
    title: str = ""


@dataclass(frozen=True)
class ListingSettings:
    """Which operations become tools, and how large each may be."""

    base_url: str | None = None
    """Address in place of that of the description's servers."""
    configured_headers: Collection[str] = ()
    """Names of headers that are sent with every call, so that they are no arguments."""
    only: Sequence[str] = ()
    """Tags, names, or operations such as `GET /pets`; empty for all."""
    most_tool_bytes: int = DEFAULT_BYTES

    def __post_init__(self) -> None:
        if self.most_tool_bytes < LEAST_BYTES:
            msg = f"max_tool_bytes must be >= {LEAST_BYTES}, got {self.most_tool_bytes}"
            raise ConfigError(msg)


@dataclass(frozen=True)
class _Found:
    method: str
    path: str
    operation: Any
    path_item: Mapping[str, Any]

    @property
    def label(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def operation_id(self) -> str | None:
        value = self.operation.get("operationId") if isinstance(self.operation, Mapping) else None
        return value if isinstance(value, str) and value.strip() else None


def list_operations(
    document: Document, *, source: str, location: str, settings: ListingSettings | None = None
) -> Listing:
    """Make tools of the operations of a description.

    Args:
        document: The description.
        source: Name of the source; `server` of each tool.
        location: Where the description was read, which addresses may be relative to.
        settings: Which operations, and how large.

    Raises:
        ConfigError: If `only` names what is not there, or an operation has no address.
    """
    chosen = settings or ListingSettings()
    skipped: list[Skipped] = []
    found = list(_operations(document, skipped))
    ids = Counter(one.operation_id for one in found)
    maker = _Maker(document, source, location, chosen)
    tools: dict[str, Tool] = {}
    unmatched = set(chosen.only)
    for one in found:
        own_id = one.operation_id if ids[one.operation_id] == 1 else None
        name = operation_name(own_id, one.method, one.path)
        matched = {one.label, name, one.operation_id, *_tags(one.operation)} & set(chosen.only)
        unmatched -= matched
        if chosen.only and not matched:
            continue
        try:
            tools[name] = maker.tool(one, name)
        except OperationError as e:
            skipped.append(Skipped(one.label, str(e)))
    if unmatched:
        msg = f"only must name a tag or an operation of the description, got {min(unmatched)!r}"
        raise ConfigError(msg)
    info = document.root.get("info")
    title = info.get("title") if isinstance(info, Mapping) else None
    return Listing(tuple(tools.values()), tuple(skipped), title if isinstance(title, str) else "")


class _Maker:
    def __init__(
        self, document: Document, source: str, location: str, settings: ListingSettings
    ) -> None:
        self.document, self.source, self.location = document, source, location
        self.settings = settings
        self.definitions = Definitions(document)
        self.trimmer = Trimmer(settings.most_tool_bytes)

    def tool(self, one: _Found, name: str) -> Tool:
        if not isinstance(one.operation, Mapping):
            msg = f"an operation must be an object, got {shown(one.operation)}"
            raise OperationError(msg)
        inputs = operation_inputs(
            self.document,
            self.definitions,
            one.operation,
            one.path_item,
            path=one.path,
            configured_headers=self.settings.configured_headers,
            most_characters=_SHARE * self.settings.most_tool_bytes,
        )
        address, is_own = self._address(one)
        call = Operation(
            one.method, one.path, address, is_own, parameters=inputs.parameters, body=inputs.body
        )
        fit = self.trimmer.fitted(_description(one), inputs.schema)
        extra: dict[str, Any] = {"kind": "openapi", "http": call.to_extra()}
        extra["annotations"] = _annotations(one)
        if tags := _tags(one.operation):
            extra["tags"] = tags
        if one.operation.get("deprecated") is True:
            extra["deprecated"] = True
        trimmed = (*fit.trimmed, *(["definitions"] if inputs.is_cut else []))
        if trimmed:
            extra["trimmed"] = list(dict.fromkeys(trimmed))
        return Tool(
            tool_id(self.source, name), name, self.source, fit.description, fit.schema, extra
        )

    def _address(self, one: _Found) -> tuple[str | None, bool]:
        """(address, whether it is the operation's own)."""
        for holder in (one.operation, one.path_item):
            if own := server_address(holder.get("servers"), location=self.location):
                return own, True
        if self.settings.base_url is not None:
            return None, False
        servers = self.document.root.get("servers") or [{"url": "/"}]
        address = server_address(servers, location=self.location)
        if address is None:
            raise OperationError("the description must name an http(s) server, or base_url must")
        return address, False


def _operations(document: Document, skipped: list[Skipped]) -> Iterator[_Found]:
    for path, item in document.root.get("paths", {}).items():
        if path.startswith("x-"):
            continue
        try:
            path_item = document.followed(item, what=f"path {shown(path)}")
        except OperationError as e:
            skipped.append(Skipped(path, str(e)))
            continue
        for method in METHODS:
            if method in path_item:
                yield _Found(method.upper(), path, path_item[method], path_item)
        skipped += [
            Skipped(f"{method.upper()} {path}", f"the method must be one of {', '.join(METHODS)}")
            for method in _OTHER_METHODS
            if method in path_item
        ]


def _tags(operation: Any) -> list[str]:
    tags = operation.get("tags") if isinstance(operation, Mapping) else None
    return [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []


def _description(one: _Found) -> str:
    """Summary and description, each once; the operation itself where there is neither."""
    texts = [one.operation.get(name) for name in ("summary", "description")]
    texts = [text.strip() for text in texts if isinstance(text, str) and text.strip()]
    if len(texts) == 2 and texts[1].startswith(texts[0].rstrip(".")):
        texts = texts[1:]
    if one.operation.get("deprecated") is True:
        texts.append("Deprecated.")
    return "\n".join(texts or [one.label])


def _annotations(one: _Found) -> dict[str, Any]:
    """Hints as MCP has them."""
    annotations: dict[str, Any] = {"readOnlyHint": one.method in READING, "openWorldHint": True}
    if one.method == "DELETE":
        annotations["destructiveHint"] = True
    if one.method in ("PUT", "DELETE"):
        annotations["idempotentHint"] = True
    summary = one.operation.get("summary")
    if isinstance(summary, str) and summary.strip():
        annotations["title"] = summary.strip()
    return annotations
