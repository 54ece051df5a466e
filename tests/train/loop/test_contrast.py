"""The fast loss is the loss of the objective that it stands for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from tests.train.model.test_stacked import moved  # noqa: E402
from tests.train.synthetic import pairs, unit  # noqa: E402

from toolheads_train.data.corpus import build_corpus  # noqa: E402
from toolheads_train.data.sampling import BatchSampler, SamplingSettings  # noqa: E402
from toolheads_train.loop.contrast import (  # noqa: E402
    FastInBatch,
    StackedInBatch,
    why_not_fast,
    why_not_stacked,
)
from toolheads_train.model import projection  # noqa: E402
from toolheads_train.model.stacked import StackedHeads  # noqa: E402
from toolheads_train.objectives.in_batch import InBatch  # noqa: E402
from toolheads_train.objectives.objective import OneDevice  # noqa: E402
from toolheads_train.settings import HeadSettings, LossSettings  # noqa: E402

pytestmark = pytest.mark.train


def corpus(views=1):
    """Copies of tools, several positives, and queries that draw one and the same tool."""
    source = pairs(40)
    tools = np.stack([source.tools, *(unit(40, seed=7 + v) for v in range(views - 1))], axis=1)
    groups = [f"g{row % 30}" for row in range(40)]
    positives = [[row % 20, (3 * row) % 40] for row in range(40)]
    return build_corpus([replace(source, tools=tools, groups=groups, positives=positives)])


def batch_of(data, size=16, seed=0):
    sampler = BatchSampler(data, SamplingSettings(batch_size=size, steps_per_epoch=5), seed=seed)
    return sampler.draw()


def both(settings, weights, heads, data, batch):
    found = []
    for objective in (InBatch(settings, torch.tensor(weights)), FastInBatch(settings, weights)):
        heads.zero_grad()
        losses = objective(heads, data, batch, OneDevice())
        losses.rows.mean().backward()
        grads = {n: p.grad.clone() for n, p in heads.named_parameters() if p.grad is not None}
        found.append((losses.rows.detach(), losses.negatives, grads))
    return found


@settings(max_examples=25, deadline=None)
@given(
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, -0.1, 0.0, 0.05]),
    st.sampled_from([(1.0,), (0.5,), (0.6, 0.4)]),
    st.integers(0, 5),
)
def test_the_fast_objective_is_in_batch(both_ways, collapse, margin, weights, seed):
    chosen = LossSettings(
        both_directions=both_ways, collapse_duplicates=collapse, mask_margin=margin
    )
    data, heads = corpus(len(weights)), moved(seed, hidden=(8,))
    want, got = both(chosen, weights, heads, data, batch_of(data, seed=seed))
    torch.testing.assert_close(got[0], want[0], atol=1e-5, rtol=1e-5)
    assert got[1] == pytest.approx(float(want[1]), abs=1e-5)
    assert got[2].keys() == want[2].keys()
    for name, gradient in want[2].items():
        torch.testing.assert_close(got[2][name], gradient, atol=1e-6, rtol=1e-4)


def test_blocks_of_one_row_change_nothing(monkeypatch):
    data, heads = corpus(), moved(0)
    batch = batch_of(data)
    chosen = LossSettings()
    whole = both(chosen, (1.0,), heads, data, batch)[1]
    monkeypatch.setattr(projection, "BLOCK_BYTES", 4)
    rows = both(chosen, (1.0,), heads, data, batch)[1]
    torch.testing.assert_close(rows[0], whole[0], atol=1e-6, rtol=0)
    for name, gradient in whole[2].items():
        torch.testing.assert_close(rows[2][name], gradient, atol=1e-6, rtol=1e-5)


def test_stacked_losses_and_gradients_are_those_of_the_single_pairs():
    data, margins = corpus(), (None, 0.0, 0.1)
    batch, chosen = batch_of(data), LossSettings()
    single = [moved(i, alpha=0.5 + i, scale=10.0 + 5 * i) for i in range(3)]
    stack = StackedHeads(single)
    means, losses, negatives = StackedInBatch(chosen, margins, (1.0,))(stack, data, batch)
    means.sum().backward()
    for number, heads in enumerate(single):
        objective = InBatch(replace(chosen, mask_margin=margins[number]), torch.ones(1))
        want = objective(heads, data, batch, OneDevice())
        want.rows.mean().backward()
        torch.testing.assert_close(losses[number], want.rows.detach(), atol=1e-5, rtol=1e-5)
        assert negatives[number] == pytest.approx(float(want.negatives), abs=1e-5)
        for side in ("state", "action"):
            mine = getattr(stack, side)
            for name, got in zip(mine.names, mine.weights, strict=True):
                gradient = getattr(heads, side).get_parameter(name).grad
                torch.testing.assert_close(got.grad[number], gradient, atol=1e-6, rtol=1e-4)
        assert stack.log_logit_scale.grad is not None
        temperature = stack.log_logit_scale.grad[number]
        torch.testing.assert_close(temperature, heads.log_logit_scale.grad, atol=1e-5, rtol=1e-4)


def test_a_frozen_action_head_gets_no_gradient():
    data, heads = corpus(), moved(0)
    heads.action.requires_grad_(requires_grad=False)
    with torch.no_grad():
        heads.action.out.weight.zero_()
        heads.action.out.bias.zero_()
    want, got = both(LossSettings(), (1.0,), heads, data, batch_of(data))
    torch.testing.assert_close(got[0], want[0], atol=1e-5, rtol=1e-5)
    assert got[2].keys() == want[2].keys()


def test_very_large_logits_do_not_overflow():
    data, heads = corpus(), moved(0, scale=100.0)
    want, got = both(LossSettings(min_temperature=0.01), (1.0,), heads, data, batch_of(data))
    torch.testing.assert_close(got[0], want[0], atol=1e-3, rtol=1e-4)


def test_what_it_cannot_do_is_named():
    head, loss, sampling = HeadSettings(), LossSettings(), SamplingSettings()
    assert why_not_fast(head, loss, sampling) is None
    counting = replace(loss, other_positives="count")
    assert why_not_fast(head, counting, sampling) == "model.loss.other_positives"
    mined = replace(sampling, hard_negatives=2)
    assert why_not_stacked(loss, mined) == "data.sampling.hard_negatives"
    nested = replace(head, widths=(4,))
    assert why_not_fast(nested, loss, sampling) == "model.head.widths"
