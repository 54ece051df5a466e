"""The trained scorer: two heads over frozen embeddings."""

from __future__ import annotations

from toolheads.embedder import Embedder
from toolheads.errors import BackboneMismatchError
from toolheads.heads import Heads
from toolheads.identity import check_probe
from toolheads.scorers.vectors import VectorScorer


class CLMScorer(VectorScorer):
    """Scores with trained heads. See `toolheads.ports.Scorer` and `VectorScorer`.

    Args:
        heads: The heads, with the weights of views, the fusion and the cut-off that they were
            tuned with.
        embedder: Over the backbone of the heads, with `heads.texts`.

    Raises:
        BackboneMismatchError: If the embedder's encoder or texts are not those of the heads, or
            if its probe vectors say that the weights behind the same name are others.
    """

    def __init__(self, heads: Heads, embedder: Embedder) -> None:
        owner = f"heads file {heads.name!r:.80}"
        if embedder.fingerprint != heads.fingerprint:
            difference = heads.fingerprint.difference(embedder.fingerprint)
            msg = f"{owner} must be used with the encoder they were trained on, got {difference}"
            raise BackboneMismatchError(msg)
        check_probe(heads.probe, embedder.probe(), owner=owner)
        super().__init__(
            "clm",
            embedder,
            state=heads.state,
            action=heads.action,
            views=heads.header.views,
            cutoff=heads.header.cutoff,
            fusion=heads.fusion,
        )
