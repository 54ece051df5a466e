"""The trained scorer: two heads over frozen embeddings."""

from __future__ import annotations

from toolheads.embedder import Embedder
from toolheads.errors import BackboneMismatchError
from toolheads.heads import Heads
from toolheads.identity import Fingerprint, check_probe
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
        check_backbone(heads, embedder)
        super().__init__(
            "clm",
            embedder,
            state=heads.state,
            action=heads.action,
            views=heads.header.views,
            cutoff=heads.header.cutoff,
            fusion=heads.fusion,
        )


def check_backbone(heads: Heads, embedder: Embedder) -> None:
    """Refuse an embedder that is not the one that heads were trained over.

    Raises:
        BackboneMismatchError: If its encoder or texts are others, or if its probe vectors say
            that the weights behind the same name are others.
    """
    check_fingerprint(heads, embedder.fingerprint)
    check_probe(heads.probe, embedder.probe(), owner=owner_of(heads))


def check_fingerprint(heads: Heads, fingerprint: Fingerprint) -> None:
    """Refuse an encoder or texts that say themselves that they are others.

    Raises:
        BackboneMismatchError: If they do.
    """
    if fingerprint != heads.fingerprint:
        difference = heads.fingerprint.difference(fingerprint)
        msg = (
            f"{owner_of(heads)} must be used with the encoder they were trained on, "
            f"got {difference}"
        )
        raise BackboneMismatchError(msg)


def owner_of(heads: Heads) -> str:
    """What errors call these heads."""
    return f"heads file {heads.name!r:.80}"
