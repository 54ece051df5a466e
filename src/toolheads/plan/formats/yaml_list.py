"""Tools as YAML, written and read by PyYAML."""

from __future__ import annotations

from functools import cache
from typing import Any

from toolheads.domain import Tool
from toolheads.errors import DataError, import_extra
from toolheads.plan.formats.block import Format
from toolheads.sources.lists import from_openai
from toolheads.sources.lists.naming import object_schema

_USER, _EXTRA = "plan format yaml", "openapi"
_NO_LIMIT = 2**31 - 1


def _write(name: str, tool: Tool) -> str:
    entry: dict[str, Any] = {"name": name}
    if tool.description:
        entry["description"] = tool.description
    entry["parameters"] = object_schema(tool)
    yaml = import_extra("yaml", user=_USER, extra=_EXTRA)
    text: str = yaml.dump(
        [entry], Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=_NO_LIMIT
    )
    return text.removesuffix("\n")


def _read(block: str) -> list[Tool]:
    yaml = import_extra("yaml", user=_USER, extra=_EXTRA)
    try:
        listed = yaml.load(block, Loader=_loader())  # a safe loader
    except (yaml.YAMLError, RecursionError, ValueError) as e:
        msg = f"a block must be YAML, got: {str(e).splitlines()[0]:.200}"
        raise DataError(msg) from e
    return from_openai(listed)


@cache
def _dumper() -> Any:
    """The C library where PyYAML was built with it; each value is written out, without anchors."""
    yaml = import_extra("yaml", user=_USER, extra=_EXTRA)

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return Dumper


@cache
def _loader() -> Any:
    yaml = import_extra("yaml", user=_USER, extra=_EXTRA)
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


YAML = Format("yaml", _write, empty="[]", read=_read)
