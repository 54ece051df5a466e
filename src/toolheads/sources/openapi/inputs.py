"""The arguments of one operation: a schema for the model, and where each argument goes."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolheads.data.jsonl import shown
from toolheads.sources.openapi.definitions import Definitions
from toolheads.sources.openapi.document import Document, OperationError
from toolheads.sources.openapi.operation import (
    FORM_MEDIA_TYPE,
    JSON_MEDIA_TYPE,
    STYLES,
    Body,
    Parameter,
)

_ARGUMENT = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_TEMPLATE = re.compile(r"\{([^{}]*)\}")

_SET_BY_CLIENT = frozenset({"accept", "content-type", "authorization"})
"""Headers that a description cannot ask for: OpenAPI says to ignore them as parameters."""

_NEVER_SENT = frozenset(
    {
        "host",
        "cookie",
        "connection",
        "content-length",
        "content-encoding",
        "transfer-encoding",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "keep-alive",
        "via",
        "forwarded",
    }
)
_NEVER_PREFIXES = ("proxy-", "sec-", "x-forwarded-")

_FLAT_KEYWORDS = frozenset(
    {"type", "properties", "required", "title", "description", "examples", "additionalProperties"}
)
"""What a body's schema may have if its properties become arguments."""


@dataclass
class Inputs:
    """What one operation takes."""

    schema: dict[str, Any]
    parameters: tuple[Parameter, ...]
    body: Body | None
    is_cut: bool = False
    """Whether definitions that lie deepest take anything, since there are too many."""


@dataclass
class _Draft:
    properties: dict[str, Any] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    needs: dict[str, None] = field(default_factory=dict)

    def add(self, argument: str, schema: Any, *, required: bool) -> None:
        self.properties[argument] = schema
        if required:
            self.required.append(argument)

    def free_name(self, wanted: str, location: str) -> str:
        """An argument's name that is free and that providers take."""
        plain = wanted if _ARGUMENT.fullmatch(wanted) else _slug(wanted)
        choices = [plain, f"{plain[:55]}_{location}"]
        choices += [f"{plain[:55]}_{n}" for n in range(2, len(self.properties) + 4)]
        return next(choice for choice in choices if choice not in self.properties)


def operation_inputs(
    document: Document,
    definitions: Definitions,
    operation: Mapping[str, Any],
    path_item: Mapping[str, Any],
    *,
    path: str,
    configured_headers: Collection[str] = (),
    most_characters: float = math.inf,
) -> Inputs:
    """Read parameters and body.

    Args:
        document: The description.
        definitions: Its schemas.
        operation: The operation.
        path_item: What it stands in; its parameters count for all operations of the path.
        path: Template of the path.
        configured_headers: Names of headers that the source sends, whatever the arguments; they
            are no arguments.
        most_characters: Most of all definitions together.

    Raises:
        OperationError: If a parameter or the body is damaged, or must be sent and cannot be.
    """
    draft = _Draft()
    bound: list[Parameter] = []
    sent_anyway = {name.lower() for name in configured_headers}
    in_path = check_path(path)
    for (name, location), parameter in _parameters(document, operation, path_item).items():
        lower = name.lower()
        if location == "header" and (lower in _SET_BY_CLIENT or lower in sent_anyway):
            continue
        if location == "path" and name not in in_path:
            continue
        required = parameter.get("required") is True or location == "path"
        if problem := _unsendable(location, lower):
            if required:
                msg = f"parameter {shown(name)} {problem}"
                raise OperationError(msg)
            continue
        argument = draft.free_name(name, location)
        bound.append(_bound(parameter, name, location, argument, required))
        schema = _parameter_schema(document, definitions, parameter, name, draft.needs)
        draft.add(argument, schema, required=required)
    if missing := in_path - {p.name for p in bound if p.location == "path"}:
        msg = f"path must have a parameter for each of its braces, got none for {min(missing)!r}"
        raise OperationError(msg)
    body = _body(document, definitions, operation, draft)
    schema = {"type": "object", "properties": draft.properties}
    if draft.required:
        schema["required"] = draft.required
    schema["additionalProperties"] = False
    found, is_cut = definitions.closure(draft.needs, most_characters=most_characters)
    if found:
        schema["$defs"] = found
    return Inputs(schema, tuple(bound), body, is_cut)


def check_path(path: str) -> set[str]:
    """Names in the braces of a path.

    Raises:
        OperationError: If the path could lead elsewhere than below the base address.
    """
    outside = _TEMPLATE.sub("x", path)
    if not path.startswith("/") or re.search(r"[{}?#\\\s]|[^\x21-\x7e]", outside):
        msg = f"path must start with / and hold neither query nor spaces, got {shown(path)}"
        raise OperationError(msg)
    if any(step in (".", "..") for step in re.sub(r"%2[eE]", ".", outside).split("/")):
        msg = f"path must have no dot segments, got {shown(path)}"
        raise OperationError(msg)
    return set(_TEMPLATE.findall(path))


def _parameters(
    document: Document, operation: Mapping[str, Any], path_item: Mapping[str, Any]
) -> dict[tuple[str, str], Mapping[str, Any]]:
    """(name, location) → parameter; those of the operation replace those of its path."""
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    for holder in (path_item, operation):
        listed = holder.get("parameters", [])
        if not isinstance(listed, list):
            msg = f"parameters must be a list, got {shown(listed)}"
            raise OperationError(msg)
        for entry in listed:
            parameter = document.followed(entry, what="a parameter")
            name, location = parameter.get("name"), parameter.get("in")
            if not (isinstance(name, str) and name) or not isinstance(location, str):
                msg = f"a parameter must have a name and a place, got {shown(dict(parameter))}"
                raise OperationError(msg)
            found[name, location] = parameter
    return found


def _unsendable(location: str, name: str) -> str:
    """Why a parameter is not sent; empty if it is."""
    if location not in STYLES:
        return f"must be in path, query or header to be sent, got {location!r:.40}"
    if location != "header":
        return ""
    if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9a-z-]+", name):
        return "must have the name of a header, got another"
    if name in _NEVER_SENT or name.startswith(_NEVER_PREFIXES):
        return "must be a header that a client may set, got one that it may not"
    return ""


def _bound(
    parameter: Mapping[str, Any], name: str, location: str, argument: str, required: bool
) -> Parameter:
    styles = STYLES[location]
    style = parameter.get("style", styles[0])
    is_json = "content" in parameter
    if not is_json and style not in styles:
        msg = f"style of {shown(name)} must be one of {', '.join(styles)}, got {shown(style)}"
        raise OperationError(msg)
    style = styles[0] if is_json else style
    explode = parameter.get("explode", style == "form")
    return Parameter(
        name,
        location,
        argument,
        required,
        style,
        explode is True,
        keeps_reserved=location == "query" and parameter.get("allowReserved") is True,
        is_json=is_json,
    )


def _parameter_schema(
    document: Document,
    definitions: Definitions,
    parameter: Mapping[str, Any],
    name: str,
    needs: dict[str, None],
) -> Any:
    schema: Any = parameter.get("schema", {})
    if "content" in parameter:
        media = _media_types(document, parameter, f"content of {shown(name)}")
        (media_type, entry), *others = media.items() or [("", {})]
        if others or not _is_json(media_type):
            msg = f"content of {shown(name)} must be JSON alone, got {shown(list(media))}"
            raise OperationError(msg)
        schema = entry.get("schema", {})
    converted = definitions.converted(schema, needs)
    if isinstance(converted, bool):
        converted = {} if converted else {"not": {}}
    if isinstance(text := parameter.get("description"), str) and text.strip():
        converted["description"] = text
    if parameter.get("deprecated") is True:
        converted["deprecated"] = True
    if "example" in parameter and "examples" not in converted:
        converted["examples"] = [parameter["example"]]
    return converted


def _media_types(
    document: Document, holder: Mapping[str, Any], what: str
) -> dict[str, Mapping[str, Any]]:
    content = holder.get("content", {})
    if not isinstance(content, Mapping):
        msg = f"{what} must map media types, got {shown(content)}"
        raise OperationError(msg)
    return {
        str(name): document.followed(entry, what=f"{what}, {shown(name)}")
        for name, entry in content.items()
    }


def _body(
    document: Document, definitions: Definitions, operation: Mapping[str, Any], draft: _Draft
) -> Body | None:
    if operation.get("requestBody") is None:
        return None
    described = document.followed(operation["requestBody"], what="requestBody")
    media = _media_types(document, described, "requestBody")
    required = described.get("required") is True
    chosen = _choice(media)
    if chosen is None:
        if required:
            got = ", ".join(media)[:120] or "none"
            msg = f"requestBody must be JSON, a URL-encoded form or plain text, got {got}"
            raise OperationError(msg)
        return None
    schema = media[chosen].get("schema", {})
    media_type = chosen.partition(";")[0].strip().lower()
    if media_type in ("*/*", "application/*"):
        media_type = JSON_MEDIA_TYPE
    is_text = media_type.startswith("text/")
    needs: dict[str, None] = {}
    flat = None if is_text else _flat(definitions, schema, needs, required, draft)
    if flat is not None:
        draft.needs |= needs
        for name, inner in flat["properties"].items():
            draft.add(name, inner, required=name in flat.get("required", ()))
        return Body(media_type, None, required)
    converted = definitions.converted({"type": "string"} if is_text else schema, draft.needs)
    if isinstance(converted, bool):
        converted = {} if converted else {"not": {}}
    if isinstance(text := described.get("description"), str) and text.strip():
        converted.setdefault("description", text)
    argument = draft.free_name("body", "content")
    draft.add(argument, converted, required=required)
    return Body(media_type, argument, required)


def _choice(media: Collection[str]) -> str | None:
    """The media type to send: JSON before forms before text."""
    tests = (
        _is_json,
        lambda name: _bare(name) == FORM_MEDIA_TYPE,
        lambda name: _bare(name) in ("*/*", "application/*"),
        lambda name: _bare(name).startswith("text/") and _bare(name) != "text/*",
    )
    return next((name for test in tests for name in media if test(name)), None)


def _bare(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()


def _is_json(media_type: str) -> bool:
    bare = _bare(media_type)
    return bare == JSON_MEDIA_TYPE or (bare.startswith("application/") and bare.endswith("+json"))


def _flat(
    definitions: Definitions,
    schema: Any,
    needs: dict[str, None],
    required: bool,
    draft: _Draft,
) -> dict[str, Any] | None:
    """A body's schema if its properties can be arguments of their own; None if they cannot.

    They can if the body is a plain object: with nothing said about it as a whole, names that
    providers take, none of them a parameter's, and no way to tell an empty body from none.
    """
    if not definitions.is_plain_reference(schema):
        return None
    converted = definitions.converted(definitions.target(schema), needs)
    if (
        not isinstance(converted, dict)
        or converted.get("type", "object") != "object"
        or not converted.get("properties")
        or converted.keys() - _FLAT_KEYWORDS
        or converted.get("additionalProperties", False) is not False
    ):
        return None
    names = converted["properties"].keys()
    inner_required = set(converted.get("required", ()))
    if (
        (inner_required and not required)
        or not inner_required <= names
        or not all(map(_ARGUMENT.fullmatch, names))
        or names & draft.properties.keys()
    ):
        return None
    return converted


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_")[:64] or "argument"
