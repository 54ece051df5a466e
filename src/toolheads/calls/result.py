"""What came of calling a tool. Plain data; knows no protocol and no library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

Outcome = Literal["ok", "tool_error", "protocol_error", "timeout", "refused", "unknown_tool"]
"""`ok`; the tool itself says that it failed (`tool_error`); its server could not be reached or
answered what is no answer (`protocol_error`); no answer in time (`timeout`); not sent, because a
rule forbids it (`refused`); there is no such tool, or nobody who can call it (`unknown_tool`)."""

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
"""Every outcome, `ok` first."""


@dataclass(frozen=True)
class CallResult:
    """The answer of a call, whatever protocol it went over."""

    outcome: Outcome
    content: tuple[Mapping[str, Any], ...] = ()
    """Content blocks as MCP has them: `{"type": "text", "text": …}` and others."""
    structured: Any | None = None
    """The answer as JSON, where the tool gives one."""
    http_status: int | None = None
    """Status of an HTTP answer; None where no HTTP answer came."""
    error: str | None = None
    """One line that says what went wrong; None for `ok`."""
    took_ms: float = 0.0
    """From the call to the answer, waiting for a free place included."""

    @property
    def is_error(self) -> bool:
        """Whether the call did not do what it was to do."""
        return self.outcome != "ok"

    @property
    def text(self) -> str:
        """The text blocks, joined by line breaks."""
        return "\n".join(
            block["text"] for block in self.content if isinstance(block.get("text"), str)
        )


def text_block(text: str) -> dict[str, Any]:
    """A content block of text."""
    return {"type": "text", "text": text}


def failure(
    outcome: Outcome,
    error: str,
    *,
    content: Sequence[Mapping[str, Any]] = (),
    structured: Any | None = None,
    http_status: int | None = None,
) -> CallResult:
    """A result that is not `ok`.

    Args:
        outcome: What kind of failure.
        error: What went wrong; line breaks become spaces.
        content: What the backend answered; empty makes the error the one text block.
        structured: The answer as JSON, if there is one.
        http_status: Status of the HTTP answer, if one came.
    """
    line = " ".join(error.split())
    return CallResult(outcome, tuple(content) or (text_block(line),), structured, http_status, line)
