"""Which candidates of a batch are no negatives: known positives, equal tools, likely positives.

All is computed on the device from ids, without a loop over rows and without a synchronisation.
"""

from __future__ import annotations

import torch
from torch import Tensor


def representatives(candidates: Tensor, *, groups: int) -> Tensor:
    """True for one candidate of each text group, so that copies can be counted once.

    Args:
        candidates: (c,) int64, text group of each candidate.
        groups: Number of text groups.

    Returns:
        (c,) bool; the first candidate of its group.
    """
    at = torch.arange(len(candidates), device=candidates.device)
    first = candidates.new_full((groups,), len(candidates))
    first.scatter_reduce_(0, candidates, at, "amin")
    return first[candidates] == at


def known_positives(known: Tensor, candidates: Tensor, *, groups: int) -> Tensor:
    """True where a candidate is known to be right for the query of the row.

    Two tools of one text group are one tool here, so a row's own positive and its copies are True.

    Args:
        known: (b, p) int64, text groups of all positives of each query, padded with -1.
        candidates: (c,) int64, text group of each candidate.
        groups: Number of text groups.

    Returns:
        (b, c) bool.
    """
    b, c = len(known), len(candidates)
    # One column stands for each group in the batch. Which of several equal ones is written last
    # does not matter: all of them are looked up through it.
    column = candidates.new_full((groups + 1,), c)  # the last entry answers to the padding -1
    column[candidates] = torch.arange(c, device=candidates.device)
    hit = torch.zeros((b, c + 1), dtype=torch.bool, device=known.device)
    hit.scatter_(1, column[known], value=True)  # column c collects what is not in the batch
    return hit[:, column[candidates]]


def is_known(known: Tensor, candidates: Tensor) -> Tensor:
    """As `known_positives`, for candidates that differ from row to row.

    Args:
        known: (b, p) int64, text groups, padded with -1.
        candidates: (b, m) int64, text groups.

    Returns:
        (b, m) bool.
    """
    return (candidates[:, :, None] == known[:, None, :]).any(2)


def likely_positives(cosines: Tensor, own: Tensor, margin: float) -> Tensor:
    """True where the frozen encoder ranks a candidate above the positive by more than `margin`.

    Such a candidate is more often an unlabelled positive than a mistake of the encoder; pushing
    it away teaches the labels' gaps.

    Args:
        cosines: (b, c) float, frozen cosine of each query to each candidate.
        own: (b,) int64, column of each row's positive.
        margin: Cosine by which a candidate may exceed the positive and still be a negative.

    Returns:
        (b, c) bool.
    """
    return cosines > cosines.gather(1, own[:, None]) + margin
