"""The loss at several widths: what it is the mean of, and what it is worth."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tests.train.synthetic import pairs  # noqa: E402

from toolheads.heads.architecture import Architecture  # noqa: E402
from toolheads_train.data.corpus import build_corpus  # noqa: E402
from toolheads_train.data.sampling import BatchSampler, SamplingSettings  # noqa: E402
from toolheads_train.model.heads import TwoHeads, narrowed  # noqa: E402
from toolheads_train.objectives.in_batch import InBatch  # noqa: E402
from toolheads_train.objectives.matryoshka import Matryoshka  # noqa: E402
from toolheads_train.objectives.objective import OneDevice  # noqa: E402
from toolheads_train.settings import LossSettings  # noqa: E402

pytestmark = pytest.mark.train

SETTINGS = LossSettings(mask_margin=None)


def shaken():
    torch.manual_seed(0)
    heads = TwoHeads(Architecture(16, hidden=(8,)))
    for parameter in heads.parameters():
        if parameter.dim():
            torch.nn.init.normal_(parameter, std=0.3)
    return heads


def batch_of(corpus):
    return BatchSampler(corpus, SamplingSettings(batch_size=12, steps_per_epoch=1), seed=0).draw()


def in_batch():
    return InBatch(SETTINGS, torch.ones(1))


def test_the_loss_is_the_mean_over_the_widths_and_the_full_one():
    corpus, heads = build_corpus([pairs(40)]), shaken()
    batch, parts = batch_of(corpus), []
    for width in (None, 3, 7):
        with narrowed(heads, width):
            parts.append(in_batch()(heads, corpus, batch, OneDevice()).rows)
    got = Matryoshka(in_batch, [3, 7])(heads, corpus, batch, OneDevice())
    torch.testing.assert_close(got.rows, torch.stack(parts).mean(0))
    assert not torch.allclose(parts[0], parts[1])
    assert (heads.state.kept, heads.action.kept) == (None, None)


def test_a_short_projection_is_scored_as_what_is_served():
    """By hand: cosines of the leading entries, InfoNCE over the batch."""
    corpus, heads = build_corpus([pairs(40)]), shaken()
    batch = batch_of(corpus)
    with narrowed(heads, 3):
        rows = InBatch(LossSettings(mask_margin=None, both_directions=False), torch.ones(1))(
            heads, corpus, batch, OneDevice()
        ).rows
    queries, tools = heads.state(corpus.queries), heads.action(corpus.tools[:, 0])
    short = [torch.nn.functional.normalize(x[:, :3], dim=1) for x in (queries, tools)]
    logits = 20.0 * short[0][batch.queries] @ short[1][batch.tools].T
    equal = batch.tools[:, None] == batch.tools[None, :]
    first = torch.tensor(
        [row == batch.tools.tolist().index(t) for row, t in enumerate(batch.tools.tolist())]
    )
    expected = []
    for row in range(12):
        kept = first & ~equal[row]
        both = torch.cat([logits[row, row][None], logits[row][kept]])
        expected.append(both.logsumexp(0) - logits[row, row])
    torch.testing.assert_close(rows, torch.stack(expected), atol=1e-5, rtol=1e-5)


def test_an_objective_with_a_state_has_one_for_each_width():
    class Counting:
        def __init__(self):
            self.steps = 0

        def __call__(self, heads, corpus, batch, gather):
            self.steps += 1
            return in_batch()(heads, corpus, batch, gather)

        def state_dict(self):
            return {"steps": self.steps}

        def load_state_dict(self, state):
            self.steps = state["steps"]

    corpus = build_corpus([pairs(40)])
    one, two = Matryoshka(Counting, [3]), Matryoshka(Counting, [3])
    one(shaken(), corpus, batch_of(corpus), OneDevice())
    assert one.state_dict() == {"None": {"steps": 1}, "3": {"steps": 1}}
    two.load_state_dict(one.state_dict())
    assert two.state_dict() == one.state_dict()
