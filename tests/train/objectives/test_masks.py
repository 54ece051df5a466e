from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from toolheads_train.objectives.masks import (  # noqa: E402
    is_known,
    known_positives,
    likely_positives,
    representatives,
)

pytestmark = pytest.mark.train


def tensor(values):
    return torch.tensor(values, dtype=torch.int64)


def test_known_positives_equal_the_definition_written_in_numpy():
    rng = np.random.default_rng(0)
    known = rng.integers(-1, 20, size=(12, 4))
    candidates = rng.integers(0, 20, size=15)  # with repeats
    want = (known[:, :, None] == candidates[None, None, :]).any(1)
    got = known_positives(torch.tensor(known), torch.tensor(candidates), groups=20)
    np.testing.assert_array_equal(got.numpy(), want)


def test_padding_is_no_positive():
    got = known_positives(tensor([[-1, -1]]), tensor([0, 4]), groups=5)
    assert got.tolist() == [[False, False]]


def test_every_copy_of_a_known_tool_is_known():
    got = known_positives(tensor([[3, -1], [1, -1]]), tensor([3, 1, 3]), groups=4)
    assert got.tolist() == [[True, False, True], [False, True, False]]


def test_candidates_of_a_row_are_compared_with_that_row_alone():
    got = is_known(tensor([[1, 2], [3, -1]]), tensor([[2, 3], [3, 2]]))
    assert got.tolist() == [[True, False], [True, False]]


def test_the_first_of_equal_candidates_stands_for_all():
    assert representatives(tensor([5, 2, 5, 2, 0]), groups=6).tolist() == [
        True, True, False, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize("margin", [0.0, 0.05])
def test_likely_positives_equal_the_definition_written_in_numpy(margin):
    cosines = np.random.default_rng(0).uniform(-1, 1, size=(6, 6)).astype(np.float32)
    want = [
        [cosines[i, j] > cosines[i, i] + np.float32(margin) for j in range(6)] for i in range(6)
    ]
    got = likely_positives(torch.tensor(cosines), torch.arange(6), margin)
    assert got.tolist() == want


def test_the_positive_itself_is_never_masked_as_likely():
    cosines = torch.tensor([[0.2, 0.9], [0.9, 0.2]])
    assert not likely_positives(cosines, torch.arange(2), 0.0).diagonal().any()
