"""What a score by vectors is made of, apart from any corpus."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from toolheads.arrays import Floats
from toolheads.cutoff import CutoffSettings
from toolheads.domain import Tool
from toolheads.embedder import Embedder
from toolheads.heads import Fusion, Head, Heads, Views
from toolheads.scorers.exact import QueryProjections
from toolheads.scorers.folding import folded_rows
from toolheads.texts import TOOL_VIEWS


@dataclass(frozen=True)
class Recipe:
    """How queries and tools become rows, and what is mixed into their products."""

    state: Head
    """Projects queries."""
    action: Head
    """Projects tools."""
    views: Views = field(default_factory=Views)
    cutoff: CutoffSettings = field(default_factory=CutoffSettings)
    """How many hits a search keeps when it is not told."""
    fusion: Fusion | None = None
    """What is mixed into the scores; None leaves them as they are."""

    @classmethod
    def of_heads(cls, heads: Heads) -> Recipe:
        """That of a heads file, its fusion included."""
        header = heads.header
        return cls(heads.state, heads.action, header.views, header.cutoff, heads.fusion)

    @classmethod
    def frozen(
        cls,
        width: int,
        views: Views | None = None,
        cutoff: CutoffSettings | None = None,
        fusion: Fusion | None = None,
    ) -> Recipe:
        """That of embeddings as the encoder gives them."""
        identity = Head.identity(width)
        return cls(identity, identity, views or Views(), cutoff or CutoffSettings(), fusion)

    @property
    def tool_weights(self) -> Mapping[str, float]:
        """View of a tool → weight, those above 0, in the order of `TOOL_VIEWS`."""
        weights = self.views.tool
        return {view: weights[view] for view in TOOL_VIEWS if weights.get(view, 0.0) > 0}

    @property
    def longest(self) -> float:
        """A bound of the length of any row: projections have length 1."""
        # A little more, since each of them is rounded.
        return 1.001 * sum(self.tool_weights.values())

    @property
    def width(self) -> int:
        """e, entries of a row."""
        return self.action.projection_width

    def rows(self, embedder: Embedder, tools: Sequence[Tool]) -> Floats:
        """(n, e) float32, the row of each tool; the same alone and in company, to the bit.

        Raises:
            EncoderError: If the encoder fails.
        """
        weights = self.tool_weights
        return folded_rows(embedder.tools(tools, views=list(weights)), weights, self.action)

    def queries(
        self, embedder: Embedder, texts: Sequence[str], *, keep: bool = False
    ) -> QueryProjections:
        """Project queries, all their views in one call of the embedder.

        Args:
            embedder: Over the backbone of the heads.
            texts: q queries.
            keep: Whether their vectors may be written to the embedder's cache.

        Raises:
            EncoderError: If the encoder fails.
        """
        views = embedder.queries(texts, with_clauses=self.views.has_clauses, keep=keep)
        projected = self.state.each(np.concatenate([views.whole, views.clauses]))
        return QueryProjections(
            whole=projected[: len(texts)],
            clauses=projected[len(texts) :],
            offsets=views.offsets,
            whole_weight=self.views.query.get("text", 0.0),
            clause_weight=self.views.query.get("clause", 0.0),
            clause_temperature=self.fusion.clause_temperature if self.fusion else 0.0,
        )

    def action_sha256(self) -> str:
        """64 hex digits over all that the action head is, for names of spaces."""
        head, digest = self.action, hashlib.sha256()
        digest.update(repr((head.architecture, head.alpha, head.kept)).encode())
        for name in sorted(head.weights):
            digest.update(
                name.encode() + b"\0" + np.ascontiguousarray(head.weights[name]).tobytes()
            )
        digest.update(b"" if head.centre is None else head.centre.tobytes())
        return digest.hexdigest()
