"""The mean embeddings of the training corpus, one for each side."""

from __future__ import annotations

import torch
from torch import Tensor

from toolheads_train.data.corpus import TrainingCorpus


def centres_of(corpus: TrainingCorpus, view_weights: Tensor) -> tuple[Tensor, Tensor]:
    """Mean embeddings of the queries and of the tools, label-free pairs among them.

    Every query and every tool counts once; the views of a tool count by their weights.

    Args:
        corpus: On any device.
        view_weights: (v,) float, none negative, one above 0.

    Returns:
        (d,) float32 for queries and (d,) for tools.
    """
    shares = view_weights.double().to(corpus.device) / view_weights.sum()
    views = torch.stack([corpus.tools[:, v].double().mean(0) for v in range(len(shares))])  # (v, d)
    return corpus.queries.double().mean(0).float(), (shares @ views).float()
