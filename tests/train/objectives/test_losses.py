from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from toolheads_train.objectives.losses import info_nce, multi_positive_info_nce  # noqa: E402

pytestmark = pytest.mark.train


def table(b, c, seed=0):
    return torch.tensor(np.random.default_rng(seed).normal(size=(b, c)) * 5, dtype=torch.float32)


def off_diagonal(b):
    return ~torch.eye(b, dtype=torch.bool)


def test_info_nce_equals_its_definition_written_in_numpy():
    logits = table(5, 5)
    rows = logits.numpy().astype(np.float64)
    want = [np.log(np.exp(row).sum()) - row[i] for i, row in enumerate(rows)]
    got = info_nce(logits, torch.arange(5), off_diagonal(5))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5)


def test_equal_scores_mean_guessing_among_the_batch():
    got = info_nce(torch.zeros(8, 8), torch.arange(8), off_diagonal(8))
    np.testing.assert_allclose(got.numpy(), math.log(8), rtol=1e-6)


def test_a_column_that_is_no_negative_has_no_part():
    logits, negatives = table(3, 4), torch.ones(3, 4, dtype=torch.bool)
    negatives[:, [0, 3]] = False
    far = logits.clone()
    far[:, 3] = 1e4
    own = torch.zeros(3, dtype=torch.int64)
    assert torch.equal(info_nce(logits, own, negatives), info_nce(far, own, negatives))


def test_a_row_without_negatives_costs_nothing_and_has_a_finite_gradient():
    logits = table(2, 2).requires_grad_()
    loss = info_nce(logits, torch.arange(2), torch.zeros(2, 2, dtype=torch.bool))
    loss.sum().backward()
    assert loss.tolist() == [0.0, 0.0]
    assert torch.equal(logits.grad, torch.zeros(2, 2))


def test_large_logits_stay_finite():
    logits = torch.tensor([[-100.0, 100.0], [100.0, -100.0]], requires_grad=True)
    loss = info_nce(logits, torch.arange(2), off_diagonal(2))
    loss.sum().backward()
    np.testing.assert_allclose(loss.detach().numpy(), 200.0)
    assert torch.isfinite(logits.grad).all()


def test_several_positives_are_the_mean_of_their_losses_each_without_the_others():
    logits = table(1, 5)
    positives = torch.tensor([[True, True, False, False, False]])
    negatives = torch.tensor([[False, False, True, True, False]])
    x = logits.numpy().astype(np.float64)[0]
    each = [-x[p] + np.log(np.exp(x[[p, 2, 3]]).sum()) for p in (0, 1)]
    got = multi_positive_info_nce(logits, positives, negatives)
    assert got.item() == pytest.approx(np.mean(each), rel=1e-5)


def test_one_positive_makes_both_losses_equal():
    logits, negatives = table(4, 4), off_diagonal(4)
    one = info_nce(logits, torch.arange(4), negatives)
    many = multi_positive_info_nce(logits, ~negatives, negatives)
    torch.testing.assert_close(one, many)


def test_bfloat16_logits_are_summed_in_float32():
    logits = table(4, 64).to(torch.bfloat16)
    negatives = torch.ones(4, 64, dtype=torch.bool)
    negatives[:, 0] = False
    own = torch.zeros(4, dtype=torch.int64)
    got = info_nce(logits, own, negatives)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, info_nce(logits.float(), own, negatives))
