"""Small OpenAPI descriptions for tests."""

from __future__ import annotations

import json
from typing import Any

from toolheads.sources.openapi.document import Document, parse_document
from toolheads.sources.openapi.listing import Listing, ListingSettings, list_operations

TEXT = {"type": "string"}
ID = {"name": "id", "in": "path", "required": True, "schema": TEXT}
SERVER = "https://api.example.com/v1"


def description(paths: Any, *, schemas: Any = None, version: str = "3.1.0", **more: Any) -> dict:
    """A description with the given paths and component schemas."""
    root = {
        "openapi": version,
        "info": {"title": "Shop", "version": "1"},
        "servers": [{"url": SERVER}],
        "paths": paths,
        **more,
    }
    if schemas is not None:
        root["components"] = {"schemas": schemas}
    return root


def listing(paths: Any, **more: Any) -> Listing:
    """The operations of a description; `settings` and `location` go to `list_operations`."""
    settings = ListingSettings(**more.pop("settings", {}))
    location = more.pop("location", "shop.json")
    document = Document(json.loads(json.dumps(description(paths, **more))))
    return list_operations(document, source="shop", location=location, settings=settings)


def tool(operation: Any, *, path: str = "/items", method: str = "get", **more: Any) -> Any:
    """The tool of one operation, which must be there."""
    got = listing({path: {method: operation}}, **more)
    assert not got.skipped, got.skipped
    (one,) = got.tools
    return one


def body_tool(schema: Any, *, required: bool = True, **more: Any) -> Any:
    """The tool of an operation that takes a JSON body."""
    content = {"application/json": {"schema": schema}}
    return tool({"requestBody": {"required": required, "content": content}}, method="post", **more)


def parsed(text: str) -> Document:
    """A description of text."""
    return parse_document(text.encode(), name="spec")
