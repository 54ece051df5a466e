"""Calling tools: over MCP sessions and over HTTP, with arguments checked first.

`Calls` is what the server uses; one `Caller` for each kind of source stands behind it.
"""

from toolheads.calls.caller import Caller, Sources
from toolheads.calls.dispatch import Calls, CallSettings
from toolheads.calls.result import OUTCOMES, CallResult, Outcome, failure, text_block

__all__ = [
    "OUTCOMES",
    "CallResult",
    "CallSettings",
    "Caller",
    "Calls",
    "Outcome",
    "Sources",
    "failure",
    "text_block",
]
