"""How a tool's call becomes an HTTP message: what `extra["http"]` of an OpenAPI tool says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolheads.data.jsonl import shown
from toolheads.errors import DataError

METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
"""Methods that become tools, as a description spells them. TRACE never does."""

READING = ("GET", "HEAD")
"""Methods that change nothing."""

LOCATIONS = ("path", "query", "header")
STYLES = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
}
"""Location → styles of OpenAPI that can be written, the default first."""

JSON_MEDIA_TYPE = "application/json"
FORM_MEDIA_TYPE = "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class Parameter:
    """One parameter and the argument that fills it."""

    name: str
    location: str
    """`path`, `query` or `header`."""
    argument: str
    required: bool = False
    style: str = "form"
    explode: bool = True
    keeps_reserved: bool = False
    """Whether `/`, `:` and their like stay as they are in a query."""
    is_json: bool = False
    """Whether the value is written as JSON (`content` in place of `schema`)."""


@dataclass(frozen=True)
class Body:
    """What is sent, and the argument that fills it."""

    media_type: str
    argument: str | None = None
    """None: every argument that no parameter takes is a property of the body."""
    required: bool = False


@dataclass(frozen=True)
class Operation:
    """One method of one path."""

    method: str
    """In capitals."""
    path: str
    """Template, such as `/pets/{id}`."""
    base_url: str | None = None
    """Address that the description gives; that of the source, if it has one, goes before it."""
    has_own_server: bool = False
    """Whether the operation names its own server, which that of the source does not replace."""
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None

    def to_extra(self) -> dict[str, Any]:
        """JSON values that `from_extra` reads back."""
        record: dict[str, Any] = {"method": self.method, "path": self.path}
        if self.base_url is not None:
            record["base_url"] = self.base_url
        if self.has_own_server:
            record["own_server"] = True
        record["parameters"] = [_parameter_record(parameter) for parameter in self.parameters]
        if self.body:
            record["body"] = {"media_type": self.body.media_type, "required": self.body.required}
            if self.body.argument is None:
                record["body"]["flattened"] = True
            else:
                record["body"]["argument"] = self.body.argument
        return record

    @classmethod
    def from_extra(cls, record: Any) -> Operation:
        """Read what `to_extra` wrote.

        Raises:
            DataError: If a field is missing or breaks a rule.
        """
        try:
            body = record.get("body")
            operation = cls(
                method=_text(record["method"]),
                path=_text(record["path"]),
                base_url=None if record.get("base_url") is None else _text(record["base_url"]),
                has_own_server=record.get("own_server") is True,
                parameters=tuple(map(_parameter, record["parameters"])),
                body=None if body is None else _body(body),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            msg = f"http of a tool must say how it is called, got {shown(record)}: {e}"
            raise DataError(msg) from e
        if operation.method.lower() not in METHODS or not operation.path.startswith("/"):
            msg = f"http of a tool must have a method and a path, got {shown(record)}"
            raise DataError(msg)
        return operation


def _parameter_record(parameter: Parameter) -> dict[str, Any]:
    record: dict[str, Any] = {
        "name": parameter.name,
        "in": parameter.location,
        "required": parameter.required,
        "style": parameter.style,
        "explode": parameter.explode,
        "argument": parameter.argument,
    }
    if parameter.keeps_reserved:
        record["allow_reserved"] = True
    if parameter.is_json:
        record["media_type"] = JSON_MEDIA_TYPE
    return record


def _parameter(record: Mapping[str, Any]) -> Parameter:
    location = record["in"]
    if location not in LOCATIONS or record["style"] not in STYLES[location]:
        msg = f"a parameter must be in {', '.join(LOCATIONS)}, got {shown(location)}"
        raise ValueError(msg)
    return Parameter(
        name=_text(record["name"]),
        location=location,
        argument=_text(record["argument"]),
        required=record["required"] is True,
        style=record["style"],
        explode=record["explode"] is True,
        keeps_reserved=record.get("allow_reserved") is True,
        is_json="media_type" in record,
    )


def _body(record: Mapping[str, Any]) -> Body:
    argument = None if record.get("flattened") is True else _text(record["argument"])
    return Body(_text(record["media_type"]), argument, record.get("required") is True)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        msg = f"a field must be text, got {shown(value)}"
        raise TypeError(msg)
    return value
