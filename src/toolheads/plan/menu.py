"""The menu of a two-stage disclosure: a line for each tool, which no description can forge."""

from __future__ import annotations

from toolheads.plan.settings import DEFAULT_SETTINGS
from toolheads.texts.untrusted import one_line, without_markers


def menu_line(
    name: str,
    description: str = "",
    *,
    most_chars: int = DEFAULT_SETTINGS.menu_description_chars,
) -> str:
    """`- name`, or `- name: d` where d is the start of the description.

    That is what stands before its first full stop and space, without dots at its end, on one
    line: line breaks, control characters and characters that nobody sees become spaces, and
    markers of chat templates are taken apart.

    Args:
        name: As the model is to repeat it.
        description: The description, or nothing.
        most_chars: Most characters of d, at least 1.
    """
    start = description.strip().split(". ")[0].strip().rstrip(".")
    first = one_line(without_markers(start), most_chars=most_chars)
    label = one_line(name)
    return f"- {label}: {first}" if first else f"- {label}"
