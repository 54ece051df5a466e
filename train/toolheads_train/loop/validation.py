"""Validation on the device: project, rank by an exact tiled top-k, count by `ranked_metrics`.

The ranking never goes through numpy; only the k best rows of each query do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from toolheads.errors import ConfigError
from toolheads.evaluation.metrics import Metric
from toolheads.evaluation.ranked import ranked_metrics
from toolheads_train.data.validation_set import ValidationSet
from toolheads_train.errors import NotFiniteError
from toolheads_train.model.heads import TwoHeads, fold_views

DEFAULT_METRICS = ("ndcg@10", "recall@5", "recall@10", "completeness@10", "mrr@10")
"""What is logged after each epoch; `ndcg@10` chooses the checkpoint."""

QUERY_TILE = 512
TOOL_TILE = 16_384
"""Scores that exist at once: 32 MB in float32."""


def top_k(queries: Tensor, tools: Tensor, k: int) -> Tensor:
    """Rows of the k tools with the highest score, exactly; equal scores by row number.

    Args:
        queries: (q, d) float32.
        tools: (n, d) float32.
        k: How many, cut to n.

    Returns:
        (q, min(k, n)) int64, best first.
    """
    blocks = [_top_k_of_block(block, tools, k) for block in torch.split(queries, QUERY_TILE)]
    return (
        torch.cat(blocks)
        if blocks
        else queries.new_empty((0, min(k, len(tools))), dtype=torch.int64)
    )


def best_rows(scores_of: Callable[[slice], Tensor], count: int, k: int) -> Tensor:
    """Rows of the k best of `count` tools for a block of queries, without all scores at once.

    Args:
        scores_of: Rows of tools → (b, t) float32 scores of these tools.
        count: Number of tools, >= 1.
        k: How many, cut to count.

    Returns:
        (b, min(k, count)) int64, best first, equal scores by row number.
    """
    best: Tensor | None = None
    for start in range(0, count, TOOL_TILE):
        keys = _order_keys(scores_of(slice(start, min(start + TOOL_TILE, count))), start)
        keys = keys.topk(min(k, keys.shape[1]), dim=1).values
        both = keys if best is None else torch.cat([best, keys], dim=1)
        best = both.topk(min(k, both.shape[1]), dim=1).values
    if best is None:
        msg = "count must be >= 1, got 0"
        raise ConfigError(msg)
    return _ROW_MASK - (best & _ROW_MASK)


@torch.no_grad()
def validate(
    heads: TwoHeads,
    sets: Sequence[ValidationSet],
    view_weights: Tensor,
    metrics: Sequence[str] = DEFAULT_METRICS,
) -> dict[str, dict[str, float]]:
    """Metrics of each set, and their unweighted mean over the sets under the name "".

    Args:
        heads: On the device of the sets.
        sets: At least one.
        view_weights: (v,) float32.
        metrics: Names such as `ndcg@10`.

    Returns:
        Name of the set → metric → mean over its queries, in [0, 1].

    Raises:
        NotFiniteError: If a projection is not finite.
        ConfigError: If there is no set.
    """
    if not sets:
        msg = "validation must have at least one set, got none"
        raise ConfigError(msg)
    depth = max(Metric.parse(name).cutoff for name in metrics)
    found: dict[str, dict[str, float]] = {}
    for one in sets:
        tools = torch.cat(
            [
                fold_views(heads.action(tile.float()), view_weights)
                for tile in torch.split(one.tools, TOOL_TILE)
            ]
        )
        queries = heads.state(one.queries.float())
        for name, rows in (("queries", queries), ("tools", tools)):
            bad = torch.nonzero(~torch.isfinite(rows).all(1)).flatten().tolist()
            if bad:
                msg = (
                    f"projections of {name} in validation set {one.name} must be finite, got NaN "
                    f"or inf in {len(bad)} rows, first row {bad[0]}"
                )
                raise NotFiniteError(msg, step=-1, rows=tuple(bad))
        ranked = top_k(queries, tools, depth).cpu().numpy()
        values = ranked_metrics(ranked, one.relevant, metrics)
        found[one.name] = {name: float(np.mean(values[name])) for name in metrics}
    found[""] = _macro(found, metrics)
    return found


def _macro(found: Mapping[str, Mapping[str, float]], metrics: Sequence[str]) -> dict[str, float]:
    return {name: float(np.mean([one[name] for one in found.values()])) for name in metrics}


def _top_k_of_block(queries: Tensor, tools: Tensor, k: int) -> Tensor:
    """(b, d), (n, d) → (b, min(k, n)) rows."""
    return best_rows(lambda rows: queries @ tools[rows].T, len(tools), k)


_ROW_MASK = 0xFFFFFFFF


def _order_keys(scores: Tensor, first_row: int) -> Tensor:
    """int64 that order as (score falling, row rising): topk promises nothing about equal values.

    The bits of a float32 order like its value once negative ones are mirrored; the row, counted
    down, fills the lower half.
    """
    bits = (scores.float() + 0.0).view(torch.int32).long()  # + 0.0 makes -0 and 0 one value
    ordered = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    rows = torch.arange(first_row, first_row + scores.shape[1], device=scores.device)
    return (ordered << 32) + (_ROW_MASK - rows)
