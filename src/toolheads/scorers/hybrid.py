"""Vectors and words together: normalised scores, or reciprocal ranks."""

from __future__ import annotations

from dataclasses import replace

from toolheads.embedder import Embedder
from toolheads.heads import Fusion, Heads
from toolheads.heads.fusion import LexicalPart
from toolheads.scorers.clm import check_backbone
from toolheads.scorers.rank_fusion import RankFusion
from toolheads.scorers.recipe import Recipe
from toolheads.scorers.vectors import VectorScorer

LEXICAL_PART = LexicalPart(0.5)
"""What is mixed in where no heads file says otherwise; its weight is that of the packaged heads."""


def with_words(recipe: Recipe) -> Recipe:
    """A recipe that mixes words in: this one if it does, else with `LEXICAL_PART`."""
    fusion = recipe.fusion
    if fusion is None:
        return replace(recipe, fusion=Fusion(LEXICAL_PART))
    if fusion.lexical is None:
        return replace(recipe, fusion=replace(fusion, lexical=LEXICAL_PART))
    return recipe


class HybridScorer(VectorScorer):
    """Scores with vectors and shared words. See `toolheads.ports.Scorer` and `VectorScorer`.

    Args:
        embedder: Gives the embeddings.
        heads: Project them, and say how much words count; None takes embeddings as they are.
        ranks: Mixes the two orders by their ranks; None mixes scores, see `toolheads.heads.Fusion`.

    Raises:
        BackboneMismatchError: If the heads were trained on another encoder.
    """

    def __init__(
        self, embedder: Embedder, heads: Heads | None = None, *, ranks: RankFusion | None = None
    ) -> None:
        if heads is None:
            recipe = Recipe.frozen(embedder.fingerprint.encoder.width)
        else:
            check_backbone(heads, embedder)
            recipe = Recipe.of_heads(heads)
        recipe = with_words(recipe)
        super().__init__(
            "hybrid",
            embedder,
            state=recipe.state,
            action=recipe.action,
            views=recipe.views,
            cutoff=recipe.cutoff,
            fusion=recipe.fusion,
            ranks=ranks,
        )
