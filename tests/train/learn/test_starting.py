"""From a heads file to torch and back."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.made_heads import ALL_VIEWS, DEEP, PLAIN, made_head, made_heads  # noqa: E402
from tests.train.synthetic import unit  # noqa: E402

from toolheads.cutoff import CutoffSettings  # noqa: E402
from toolheads.errors import ConfigError, HeadsFormatError  # noqa: E402
from toolheads.heads import Head  # noqa: E402
from toolheads_train.learn.starting import from_heads, to_heads  # noqa: E402
from toolheads_train.settings import LossSettings  # noqa: E402

pytestmark = pytest.mark.train

LOSS = LossSettings()
ROWS = unit(20, 8, seed=3)


def projected(module):
    with torch.no_grad():
        return module(torch.from_numpy(ROWS)).numpy()


@pytest.mark.parametrize("side", ["state", "action"])
def test_torch_projects_as_the_heads_it_was_started_from(side):
    given = made_heads()  # two heads of different shapes
    heads = from_heads(given, LOSS)
    np.testing.assert_allclose(
        projected(getattr(heads, side)), getattr(given, side)(ROWS), atol=1e-6
    )


def test_a_centred_head_starts_centred():
    centre = unit(1, 8, seed=9)[0]
    given = made_heads(state=dataclasses.replace(made_head(PLAIN), centre=centre))
    np.testing.assert_allclose(
        projected(from_heads(given, LOSS).state), given.state(ROWS), atol=1e-6
    )


def test_untrained_weights_come_back_as_they_were_with_everything_else():
    given = made_heads(views=ALL_VIEWS, cutoff=CutoffSettings(margin=0.3))
    back = to_heads(from_heads(given, LOSS), given, "float32", ROWS)
    for side in ("state", "action"):
        np.testing.assert_array_equal(getattr(back, side)(ROWS), getattr(given, side)(ROWS))
    assert back.header == given.header
    np.testing.assert_array_equal(back.probe, given.probe)


def test_weights_are_those_of_the_file_that_will_be_written():
    given = made_heads()
    back = to_heads(from_heads(given, LOSS), given, "float16", ROWS)
    weight = back.state.weights["out.weight"]
    np.testing.assert_array_equal(weight, weight.astype(np.float16))


def test_weights_that_are_not_finite_become_no_heads():
    given = made_heads()
    heads = from_heads(given, LOSS)
    with torch.no_grad():
        heads.action.out.weight[0, 0] = torch.nan
    with pytest.raises((HeadsFormatError, ValueError), match=r"finite|project as"):
        to_heads(heads, given, "float32", ROWS)


def test_a_head_without_a_trained_part_stays_as_it_is():
    given = made_heads(action=Head.identity(8), state=made_head(DEEP))
    heads = from_heads(given, LOSS)
    assert not any(p.requires_grad for p in heads.action.parameters())
    assert all(p.requires_grad for p in heads.state.parameters())


def test_heads_without_any_trained_part_cannot_be_trained_on():
    given = made_heads(state=Head.identity(8), action=Head.identity(8))
    with pytest.raises(ConfigError, match="heads must have an alpha that is not 0"):
        from_heads(given, LOSS)
