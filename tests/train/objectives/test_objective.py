"""The loss of a batch against a slow one written in numpy from the same ids."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.train.synthetic import unit  # noqa: E402

from toolheads.heads.architecture import Architecture  # noqa: E402
from toolheads_train.data.corpus import Source, build_corpus  # noqa: E402
from toolheads_train.data.sampling import Batch, BatchSampler, SamplingSettings  # noqa: E402
from toolheads_train.model.heads import TwoHeads  # noqa: E402
from toolheads_train.objectives.in_batch import InBatch  # noqa: E402
from toolheads_train.objectives.objective import OneDevice  # noqa: E402
from toolheads_train.settings import LossSettings  # noqa: E402

pytestmark = pytest.mark.train

Q, N, D = 12, 9, 6


@pytest.fixture
def world():
    """12 queries of up to 3 tools among 9, of which two have one text; each with 2 negatives."""
    rng = np.random.default_rng(3)
    positives = [
        sorted(rng.choice(N, size=rng.integers(1, 4), replace=False).tolist()) for _ in range(Q)
    ]
    negatives = [rng.choice(N, size=2, replace=False).tolist() for _ in range(Q)]
    groups = ["same", "same", *map(str, range(2, N))]
    source = Source("a", unit(Q, D), unit(N, D, seed=1), groups, positives, negatives=negatives)
    corpus = build_corpus([source])
    heads = TwoHeads(Architecture(D, hidden=(5,)), logit_scale=10.0)
    torch.manual_seed(0)
    for p in heads.parameters():
        if p.dim():
            torch.nn.init.normal_(p, std=0.5)
    sampler = BatchSampler(corpus, SamplingSettings(batch_size=16, hard_negatives=3), seed=0)
    return corpus, heads, sampler.draw(), source


def definition(world, settings):
    corpus, heads, batch, source = world
    with torch.no_grad():
        q = heads.state(corpus.queries).numpy().astype(np.float64)
        t = heads.action(corpus.tools[:, 0]).numpy().astype(np.float64)
    scale = math.exp(float(heads.log_logit_scale.detach()))
    group = corpus.groups.tolist()
    rows, tools = batch.queries.tolist(), batch.tools.tolist()
    hard = batch.negatives.tolist()
    base = source.queries.astype(np.float64) @ source.tools.astype(np.float64).T
    right = [{group[p] for p in source.positives[i]} for i in range(Q)]

    def is_likely(i, j, own):
        margin = settings.mask_margin
        return margin is not None and base[i, j] > base[own] + margin

    def softplus_loss(own, others):
        return -own + math.log(sum(map(math.exp, [own, *others])))

    values = []
    for a, (i, own) in enumerate(zip(rows, tools, strict=True)):
        seen, others = set(), []
        for j in tools:
            copy = settings.collapse_duplicates and group[j] in seen
            if not copy and group[j] not in right[i] and not is_likely(i, j, (i, own)):
                others.append(scale * q[i] @ t[j])
            seen.add(group[j])
        others += [
            scale * q[i] @ t[j]
            for j in hard[a]
            if j >= 0 and group[j] not in right[i] and not is_likely(i, j, (i, own))
        ]
        chosen = [own]
        if settings.other_positives == "count":
            chosen = list({group[j]: j for j in reversed(tools) if group[j] in right[i]}.values())
        value = np.mean([softplus_loss(scale * q[i] @ t[j], others) for j in chosen])
        if settings.both_directions:
            back = [
                scale * q[k] @ t[own]
                for k in rows
                if group[own] not in right[k] and not is_likely(k, own, (i, own))
            ]
            value = (value + softplus_loss(scale * q[i] @ t[own], back)) / 2
        values.append(value)
    return values


@pytest.mark.parametrize("mask_margin", [None, 0.0, 0.05])
@pytest.mark.parametrize("both_directions", [True, False])
@pytest.mark.parametrize("collapse_duplicates", [True, False])
@pytest.mark.parametrize("other_positives", ["mask", "count"])
def test_the_loss_of_a_batch_equals_its_definition(
    world, mask_margin, both_directions, collapse_duplicates, other_positives
):
    settings = LossSettings(
        mask_margin=mask_margin,
        both_directions=both_directions,
        collapse_duplicates=collapse_duplicates,
        other_positives=other_positives,
    )
    corpus, heads, batch, _ = world
    got = InBatch(settings, torch.ones(1))(heads, corpus, batch, OneDevice()).rows
    np.testing.assert_allclose(
        got.detach().numpy(), definition(world, settings), rtol=1e-4, atol=1e-5
    )


def few(rows, tools):
    empty = torch.empty((len(rows), 0), dtype=torch.int64)
    return Batch(torch.tensor(rows), torch.tensor(tools), empty)


def test_the_same_tool_is_no_negative_of_itself():
    source = Source("a", unit(2), unit(2), ["x", "x"], [[0], [1]])  # two rows of one tool
    heads = TwoHeads(Architecture(16, hidden=(4,)))
    losses = InBatch(LossSettings(), torch.ones(1))(
        heads, build_corpus([source]), few([0, 1], [0, 1]), OneDevice()
    )
    assert losses.rows.tolist() == [0.0, 0.0]
    assert losses.negatives.item() == 0


def test_a_scale_of_zero_means_guessing_among_the_batch(world):
    _, heads, _, _ = world
    source = Source("a", unit(8, D), unit(8, D, seed=1), list("abcdefgh"), [[i] for i in range(8)])
    with torch.no_grad():
        heads.log_logit_scale.fill_(-100.0)
    settings = LossSettings(mask_margin=None)
    rows = list(range(8))
    got = InBatch(settings, torch.ones(1))(
        heads, build_corpus([source]), few(rows, rows), OneDevice()
    )
    np.testing.assert_allclose(got.rows.detach().numpy(), math.log(8), rtol=1e-6)


def test_gradient_reaches_both_heads_and_the_temperature(world):
    corpus, heads, batch, _ = world
    InBatch(LossSettings(), torch.ones(1))(heads, corpus, batch, OneDevice()).rows.mean().backward()
    for p in heads.parameters():
        assert torch.isfinite(p.grad).all()
        assert p.grad.abs().sum() > 0


def test_views_of_a_tool_are_one_weighted_vector():
    rng_tools = np.stack([unit(4, D, seed=1), unit(4, D, seed=2)], axis=1)  # (4, 2, D)
    queries, positives = unit(4, D), [[i] for i in range(4)]
    corpus = build_corpus([Source("a", queries, rng_tools, list("wxyz"), positives)])
    heads = TwoHeads(Architecture(D, hidden=(3,)), logit_scale=10.0)
    rows = list(range(4))
    settings = LossSettings(mask_margin=None, both_directions=False)
    got = InBatch(settings, torch.tensor([0.7, 0.3]))(heads, corpus, few(rows, rows), OneDevice())
    folded = 0.7 * rng_tools[:, 0] + 0.3 * rng_tools[:, 1]
    logits = 10.0 * queries @ folded.T
    want = -np.diag(logits) + np.log(np.exp(logits).sum(1))
    np.testing.assert_allclose(got.rows.detach().numpy(), want, rtol=1e-5)
