"""The parts of heads that can be switched off, to see what each is worth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from toolheads.errors import ConfigError
from toolheads.heads.bundle import Heads, Views

PARTS: Mapping[str, str] = MappingProxyType(
    {
        "heads": "the trained layers: projections are the frozen embeddings",
        "views": "the views of tools: all the weight goes to the whole text",
        "clauses": "the clauses of queries: all the weight goes to the whole text",
        "lexical": "shared words",
        "hubness": "what is taken from tools that are near to everything",
    }
)
"""Part → what it is."""


def without_parts(heads: Heads, parts: Sequence[str]) -> Heads:
    """The same heads with some parts switched off; the cut-off stays, though it may not fit.

    Args:
        heads: The heads.
        parts: Names out of `PARTS`.

    Raises:
        ConfigError: If a part is not known, or these heads have it not.
    """
    there = _parts_of(heads)
    for part in parts:
        if part not in there:
            reason = "" if part not in PARTS else f"; heads {heads.name!r:.80} have no {part}"
            msg = f"without must name some of {', '.join(there) or 'nothing'}, got {part!r:.80}"
            raise ConfigError(msg + reason)
    views, fusion = heads.header.views, heads.fusion
    if "views" in parts:
        views = replace(views, tool={"text": math.fsum(views.tool.values())})
    if "clauses" in parts:
        views = replace(views, query={"text": math.fsum(views.query.values())})
        fusion = fusion and fusion.without("clause_temperature")
    for part in ("lexical", "hubness"):
        if part in parts:
            fusion = fusion and fusion.without(part)
    state, action = heads.state, heads.action
    if "heads" in parts:
        state, action = replace(state, alpha=0.0), replace(action, alpha=0.0)
    header = replace(heads.header, views=views)
    return replace(heads, state=state, action=action, header=header, fusion=fusion)


def _parts_of(heads: Heads) -> list[str]:
    """Parts that these heads have."""
    views, fusion = heads.header.views, heads.fusion
    has = {
        "heads": bool(heads.state.alpha or heads.action.alpha),
        "views": _has_more_than_text(views),
        "clauses": views.has_clauses,
        "lexical": fusion is not None and fusion.lexical is not None,
        "hubness": fusion is not None and fusion.hubness is not None,
    }
    return [part for part in PARTS if has[part]]


def _has_more_than_text(views: Views) -> bool:
    return any(weight > 0 for view, weight in views.tool.items() if view != "text")
