"""The ways to write tools into a prompt, by name.

Each is rendered, measured, and where it says all that a tool is, read back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from toolheads.domain import Tool
from toolheads.errors import ConfigError
from toolheads.plan.formats.block import Format
from toolheads.plan.formats.json_list import ANTHROPIC, OPENAI
from toolheads.plan.formats.lines import NAMES, NAMES_DESCRIPTIONS
from toolheads.plan.formats.markdown import MARKDOWN
from toolheads.plan.formats.python_stub import PYTHON
from toolheads.plan.formats.typescript import TYPESCRIPT
from toolheads.plan.formats.xml_list import XML
from toolheads.plan.formats.yaml_list import YAML
from toolheads.plan.lookup import checked_tools
from toolheads.plan.tokens import ESTIMATE, TokenCounter

_ALL = (OPENAI, ANTHROPIC, TYPESCRIPT, PYTHON, XML, YAML, MARKDOWN, NAMES, NAMES_DESCRIPTIONS)

FORMATS: Mapping[str, Format] = MappingProxyType({form.id: form for form in _ALL})
"""Every format by its name."""

_MENUS = (NAMES.id, NAMES_DESCRIPTIONS.id)


def format_named(form: str | Format, *, has_schemas: bool = False) -> Format:
    """A format by its name; one that is made is itself.

    Args:
        form: Name or format.
        has_schemas: Refuse the formats without parameters, from which nothing can be called.

    Raises:
        ConfigError: If there is no such format, or it is refused.
    """
    if isinstance(form, Format):
        return form
    known = [name for name in FORMATS if not has_schemas or name not in _MENUS]
    if form not in known:
        msg = f"format_id must be one of {', '.join(known)}, got {form!r:.80}"
        raise ConfigError(msg)
    return FORMATS[form]


def render(tools: Sequence[Tool], form: str | Format) -> str:
    """Write tools into one block.

    Raises:
        ConfigError: If there is no such format, or two tools have one id.
        DataError: If a schema is no JSON.
        MissingExtraError: If the format needs a library that is not installed.
    """
    return format_named(form).block(checked_tools(tools))


def read_block(block: str, form: str | Format) -> list[Tool]:
    """Read back what `render` wrote: names as they are shown, descriptions, schemas.

    Raises:
        ConfigError: If the format does not say all that a tool is.
        DataError: If the block is not of that format.
    """
    chosen = format_named(form)
    if chosen.read is None:
        readable = ", ".join(name for name, other in FORMATS.items() if other.read)
        msg = f"format_id must be one that can be read back ({readable}), got {chosen.id}"
        raise ConfigError(msg)
    return chosen.read(block)


def format_sizes(tools: Sequence[Tool], counter: TokenCounter = ESTIMATE) -> dict[str, int]:
    """Tokens of a catalogue in each format, 0 for no tools.

    Raises:
        DataError: If a schema is no JSON.
    """
    catalogue = checked_tools(tools)
    return {
        name: counter(form.block(catalogue)) if catalogue else 0 for name, form in FORMATS.items()
    }


__all__ = ["FORMATS", "Format", "format_named", "format_sizes", "read_block", "render"]
