"""What a team would try first with labelled requests: a logistic regression, nearest requests.

Both know the tools that training requests name and nothing else; of any other tool they can only
say what the frozen vectors say. Vectors in, scores out: this module knows no data set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from toolheads.arrays import Floats, Ids

STRENGTHS = (1e-3, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6)
"""L2 strengths that are tried, from the strongest, each from where the one before ended."""

MANY_CLASSES = 2000
"""From this many seen tools on every other strength is tried, with fewer steps: a step takes a
second or more there."""

NEIGHBOURS = (1, 3, 5, 10, 20, 50)
"""Numbers of nearest training requests that are tried."""

_BELOW = 4.0
"""Cosines are within 2 of each other; less this much they are below every score of a seen tool."""


@dataclass(frozen=True)
class Labelled:
    """Training requests with their tools."""

    queries: Floats
    """(q, d) float32, rows of length 1."""
    offsets: Ids
    """(q + 1,) int64; request i has the tools rows[offsets[i]:offsets[i + 1]], at least one."""
    rows: Ids
    """(m,) int64 rows in the table of tools."""

    @property
    def seen(self) -> Ids:
        """Rows of the tools that some request names, rising."""
        return np.unique(self.rows)

    @property
    def owners(self) -> Ids:
        """(m,) int64, the request of each entry of `rows`."""
        return np.repeat(np.arange(len(self.queries)), np.diff(self.offsets))


@dataclass(frozen=True)
class Chosen:
    """The scores of the setting that validates best, and which one that is."""

    scores: Floats
    """(t, n) float32 of the requests that were asked for."""
    setting: float
    validation: float
    """Its metric on the validation requests."""


def choose_probe(
    labelled: Labelled,
    tools: Floats,
    validation: Floats,
    metric: Callable[[Floats], float],
    asked: Floats,
    *,
    strengths: Sequence[float] = STRENGTHS,
) -> Chosen:
    """Fit a probe for each strength, take the best on validation, and score with it.

    Args:
        labelled: What it is fitted to.
        tools: (n, d) float32 frozen vectors of all tools.
        validation: (v, d) float32 vectors of the validation requests.
        metric: Of (v, n) scores.
        asked: (t, d) float32 vectors of the requests to score.
        strengths: Falling.
    """
    best: Chosen | None = None
    weights: Tensor | None = None
    has_many = len(labelled.seen) >= MANY_CLASSES
    for strength in strengths[1::2] if has_many else strengths:
        iterations = 40 if has_many else 100
        weights = fit_probe(labelled, strength, start=weights, iterations=iterations)
        value = metric(probe_scores(weights, labelled.seen, tools, validation))
        if best is None or value > best.validation:
            best = Chosen(probe_scores(weights, labelled.seen, tools, asked), strength, value)
    if best is None:
        msg = "strengths must be at least one, got none"
        raise ValueError(msg)
    return best


def fit_probe(
    labelled: Labelled, strength: float, *, start: Tensor | None = None, iterations: int = 100
) -> Tensor:
    """Multinomial logistic regression on frozen vectors, one class for each tool that was seen.

    Minimises the mean over requests of the cross-entropy between the softmax and the tools of the
    request, each with an equal share, plus strength / 2 times the squared weights (not the
    biases). With one tool a request this is scikit-learn's LogisticRegression with
    C = 1 / (strength * requests).

    Args:
        labelled: Requests with their tools.
        strength: Of the L2 penalty, > 0.
        start: Weights to start from; None starts from zero.
        iterations: Most steps of L-BFGS.

    Returns:
        (classes, d + 1) float32, the bias last; classes in the order of `labelled.seen`.
    """
    x = torch.from_numpy(labelled.queries)  # (q, d)
    classes = torch.from_numpy(np.searchsorted(labelled.seen, labelled.rows))
    owners = torch.from_numpy(labelled.owners)
    shares = 1 / torch.from_numpy(np.diff(labelled.offsets)).float()
    wanted = torch.zeros(len(x), len(labelled.seen))  # (q, classes)
    wanted[owners, classes] = shares[owners]
    shape = (wanted.shape[1], x.shape[1] + 1)
    weights = (torch.zeros(shape) if start is None else start.clone()).requires_grad_()
    optimizer = torch.optim.LBFGS(
        [weights],
        max_iter=iterations,
        tolerance_grad=1e-6,
        tolerance_change=1e-9,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        logits = x @ weights[:, :-1].T + weights[:, -1]
        losses = logits.logsumexp(1) - (wanted * logits).sum(1)
        loss = losses.mean() + strength / 2 * weights[:, :-1].square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return weights.detach()


def probe_scores(weights: Tensor, seen: Ids, tools: Floats, queries: Floats) -> Floats:
    """(t, n) scores: log-probabilities of the seen tools, frozen cosines below all of them."""
    x = torch.from_numpy(queries)
    of_seen = (x @ weights[:, :-1].T + weights[:, -1]).log_softmax(1).numpy()
    return _above_cosines(of_seen, seen, tools, queries)


def choose_neighbours(
    labelled: Labelled,
    tools: Floats,
    validation: Floats,
    metric: Callable[[Floats], float],
    asked: Floats,
    *,
    counts: Sequence[int] = NEIGHBOURS,
) -> Chosen:
    """Take the number of neighbours that is best on validation, and score with it."""
    values = {
        k: metric(neighbour_scores(labelled, k, tools, validation))
        for k in counts
        if k <= max(counts[0], len(labelled.queries))
    }
    best = max(values, key=lambda k: (values[k], -k))
    return Chosen(neighbour_scores(labelled, best, tools, asked), best, values[best])


def neighbour_scores(labelled: Labelled, k: int, tools: Floats, queries: Floats) -> Floats:
    """(t, n) scores of tools: the summed cosines of the k nearest training requests that name it.

    Tools that none of them names have their frozen cosine, below all others.
    """
    cosines = queries @ labelled.queries.T  # (t, q)
    near = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
    kept = np.zeros_like(cosines)
    np.put_along_axis(kept, near, np.take_along_axis(cosines, near, 1).clip(min=1e-6), 1)
    named = np.zeros((len(labelled.queries), len(labelled.seen)), dtype=np.float32)
    named[labelled.owners, np.searchsorted(labelled.seen, labelled.rows)] = 1.0
    votes = kept @ named  # (t, seen)
    scores = queries @ tools.T - _BELOW
    scores[:, labelled.seen] = np.where(votes > 0, votes, scores[:, labelled.seen])
    return scores


def _above_cosines(of_seen: Floats, seen: Ids, tools: Floats, queries: Floats) -> Floats:
    cosines: Floats = queries @ tools.T  # (t, n)
    scores = cosines - _BELOW + of_seen.min(axis=1, keepdims=True)
    scores[:, seen] = of_seen
    return np.asarray(scores, dtype=np.float32)
