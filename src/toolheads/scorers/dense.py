"""The baseline of the frozen encoder: the same scan with heads that change nothing."""

from __future__ import annotations

from toolheads.cutoff import CutoffSettings
from toolheads.embedder import Embedder
from toolheads.heads import Fusion, Head, Views
from toolheads.scorers.vectors import VectorScorer


class DenseScorer(VectorScorer):
    """Scores with frozen embeddings. See `toolheads.ports.Scorer` and `VectorScorer`.

    Args:
        embedder: Gives the embeddings.
        views: Weights of the views; None is the whole text on both sides, plain cosine.
        cutoff: How many hits `search` keeps; None takes the defaults.
        fusion: What is mixed into the cosines, such as shared words; None is plain cosine.
    """

    def __init__(
        self,
        embedder: Embedder,
        views: Views | None = None,
        cutoff: CutoffSettings | None = None,
        fusion: Fusion | None = None,
    ) -> None:
        identity = Head.identity(embedder.fingerprint.encoder.width)
        super().__init__(
            "dense",
            embedder,
            state=identity,
            action=identity,
            views=views or Views(),
            cutoff=cutoff or CutoffSettings(),
            fusion=fusion,
        )
