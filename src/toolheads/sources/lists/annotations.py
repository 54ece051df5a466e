"""Python types as JSON Schema, without pydantic; its models are asked for their own."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import inspect
import json
import pathlib
import types
import typing
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Union, get_args, get_origin

from toolheads.sources.schemas import with_children

_SIMPLE: dict[Any, dict[str, Any]] = {
    Any: {},
    object: {},
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    None: {"type": "null"},
    type(None): {"type": "null"},
    decimal.Decimal: {"type": "number"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
    datetime.timedelta: {"type": "string", "format": "duration"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    pathlib.Path: {"type": "string"},
    list: {"type": "array"},
    tuple: {"type": "array"},
    set: {"type": "array", "uniqueItems": True},
    frozenset: {"type": "array", "uniqueItems": True},
    dict: {"type": "object"},
}
_SETS = (set, frozenset)
_QUALIFIERS = (typing.Required, typing.NotRequired)


class TypeProblem(ValueError):  # noqa: N818 - a predicate such as "bytes"
    """A type that has no JSON form, as it is written."""


class Types:
    """Describes types; those that have a name become definitions, so they may refer to themselves.

    Attributes:
        definitions: Name → schema.
    """

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}
        self._names: dict[Any, str] = {}

    def schema(self, annotation: Any) -> dict[str, Any]:
        """The schema of a type.

        Raises:
            TypeProblem: If JSON has no form for it.
        """
        try:
            simple = _SIMPLE.get(annotation)
        except TypeError:  # a type that cannot be hashed, such as Literal[[]]
            simple = None
        if simple is not None:
            return dict(simple)
        origin, parts = get_origin(annotation), get_args(annotation)
        if origin is typing.Annotated:
            return _described(self.schema(parts[0]), parts[1:])
        if origin in _QUALIFIERS:
            return self.schema(parts[0])
        if origin is typing.Literal:
            return _choices(parts, annotation)
        if origin in (Union, types.UnionType):
            return self._union(parts)
        if isinstance(annotation, typing.TypeVar):
            return self.schema(annotation.__bound__ or Any)
        if isinstance(annotation, typing.NewType):
            return self.schema(annotation.__supertype__)
        if (value := getattr(annotation, "__value__", None)) is not None:  # type X = …
            return self.schema(value)
        if inspect.isclass(origin):
            return self._generic(origin, parts, annotation)
        if inspect.isclass(annotation):
            return self._class(annotation)
        raise TypeProblem(_shown(annotation))

    def _union(self, parts: Sequence[Any]) -> dict[str, Any]:
        schemas: list[dict[str, Any]] = []
        for part in parts:
            if (schema := self.schema(part)) not in schemas:
                schemas.append(schema)
        if len(schemas) == 1:
            return schemas[0]
        if all(schema.keys() == {"type"} for schema in schemas):
            return {"type": [schema["type"] for schema in schemas]}
        return {"anyOf": schemas}

    def _generic(self, origin: type, parts: Sequence[Any], annotation: Any) -> dict[str, Any]:
        if issubclass(origin, Mapping):
            if parts and _SIMPLE.get(parts[0], {}).get("type") not in ("string", None):
                raise TypeProblem(_shown(annotation))  # keys of an object are strings
            values = self.schema(parts[1]) if len(parts) == 2 else {}
            return (
                {"type": "object", "additionalProperties": values} if values else {"type": "object"}
            )
        if issubclass(origin, tuple) and parts and parts[-1] is not ...:
            if parts == ((),):
                parts = ()
            return {
                "type": "array",
                "prefixItems": [self.schema(part) for part in parts],
                "minItems": len(parts),
                "maxItems": len(parts),
            }
        if issubclass(origin, Iterable) and origin not in (str, bytes):
            schema: dict[str, Any] = {"type": "array"}
            if items := self.schema(parts[0]) if parts else {}:
                schema["items"] = items
            if origin in _SETS or origin.__name__ in ("Set", "MutableSet"):
                schema["uniqueItems"] = True
            return schema
        raise TypeProblem(_shown(annotation))

    def _class(self, annotation: type) -> dict[str, Any]:
        if issubclass(annotation, enum.Enum):
            return _choices([member.value for member in annotation], annotation)
        if callable(model_schema := getattr(annotation, "model_json_schema", None)):
            return self._named(annotation, lambda: self._model(model_schema()))
        if dataclasses.is_dataclass(annotation):
            return self._named(annotation, lambda: self._dataclass(annotation))
        if typing.is_typeddict(annotation):
            return self._named(annotation, lambda: self._typed_dict(annotation))
        if issubclass(annotation, str | pathlib.PurePath):
            return {"type": "string"}
        if annotation not in (bytes, bytearray) and issubclass(annotation, Mapping):
            return {"type": "object"}
        raise TypeProblem(_shown(annotation))

    def _named(self, annotation: type, describe: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if annotation not in self._names:
            name, number = annotation.__name__, 2
            while name in self.definitions:
                name, number = f"{annotation.__name__}_{number}", number + 1
            self._names[annotation] = name
            self.definitions[name] = {}  # so that it may refer to itself
            self.definitions[name] = describe()
        return {"$ref": f"#/$defs/{self._names[annotation]}"}

    def _dataclass(self, annotation: Any) -> dict[str, Any]:
        hints = type_hints(annotation)
        properties: dict[str, Any] = {}
        required: list[str] = []
        for one in dataclasses.fields(annotation):
            if not one.init:
                continue
            properties[one.name] = self.schema(hints[one.name])
            if one.default is not dataclasses.MISSING:
                properties[one.name] |= default_of(one.default)
            elif one.default_factory is dataclasses.MISSING:
                required.append(one.name)
        return _object(annotation, properties, required)

    def _typed_dict(self, annotation: Any) -> dict[str, Any]:
        hints = type_hints(annotation)
        properties = {name: self.schema(hint) for name, hint in hints.items()}
        required = [name for name in properties if name in annotation.__required_keys__]
        return _object(annotation, properties, required)

    def _model(self, schema: dict[str, Any]) -> dict[str, Any]:
        """A pydantic model's schema, its definitions put among those here."""
        inner = schema.pop("$defs", {})
        renamed: dict[str, str] = {}
        for name in inner:
            new, number = name, 2
            while new in self.definitions or new in renamed.values():
                new, number = f"{name}_{number}", number + 1
            renamed[name] = new

        def moved(part: Mapping[str, Any]) -> dict[str, Any]:
            copy = with_children(part, moved)
            reference = copy.get("$ref")
            if isinstance(reference, str):
                name = reference.removeprefix("#/$defs/")
                copy["$ref"] = f"#/$defs/{renamed.get(name, name)}"
            return copy

        for name, part in inner.items():
            self.definitions[renamed[name]] = moved(part)
        return moved(schema)


def type_hints(owner: Any) -> dict[str, Any]:
    """Annotations of a function or class, those written as text included.

    Raises:
        TypeProblem: If a name in them is not known.
    """
    try:
        return typing.get_type_hints(owner, include_extras=True)
    except (NameError, TypeError, SyntaxError, AttributeError) as e:
        raise TypeProblem(str(e)) from e


def default_of(value: Any) -> dict[str, Any]:
    """`{"default": …}`; empty if the value has no JSON form."""
    if isinstance(value, enum.Enum):
        value = value.value
    try:
        return {"default": json.loads(json.dumps(value, allow_nan=False))}
    except (TypeError, ValueError):
        return {}


def _object(annotation: type, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    text = annotation.__doc__ or ""
    if text.strip() and not text.startswith(f"{annotation.__name__}("):  # a dataclass's own
        schema["description"] = inspect.cleandoc(text)
    return schema


def _choices(values: Sequence[Any], annotation: Any) -> dict[str, Any]:
    plain = [value.value if isinstance(value, enum.Enum) else value for value in values]
    if not plain or not all(
        value is None or isinstance(value, str | int | float) for value in plain
    ):
        raise TypeProblem(_shown(annotation))
    kinds = {type(value) for value in plain}
    schema: dict[str, Any] = {"enum": plain}
    return dict(_SIMPLE[kinds.pop()]) | schema if len(kinds) == 1 else schema


def _described(schema: dict[str, Any], notes: Sequence[Any]) -> dict[str, Any]:
    """A schema with what `Annotated` says: text is the description, an object more keywords."""
    for note in notes:
        text = note if isinstance(note, str) else getattr(note, "description", None)
        if isinstance(text, str):
            schema = schema | {"description": text}
        elif isinstance(note, Mapping):
            schema = schema | dict(note)
    return schema


def _shown(annotation: Any) -> str:
    return annotation.__name__ if inspect.isclass(annotation) else str(annotation)[:100]
