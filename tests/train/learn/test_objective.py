"""What passed-over tools add to a loss."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.train.synthetic import pairs  # noqa: E402

from toolheads.heads import Architecture  # noqa: E402
from toolheads_train.data.corpus import build_corpus  # noqa: E402
from toolheads_train.data.sampling import Batch  # noqa: E402
from toolheads_train.learn.objective import SoftNegatives  # noqa: E402
from toolheads_train.model.heads import TwoHeads  # noqa: E402
from toolheads_train.objectives.in_batch import InBatch  # noqa: E402
from toolheads_train.objectives.objective import OneDevice  # noqa: E402
from toolheads_train.settings import LossSettings  # noqa: E402

pytestmark = pytest.mark.train

ONE_VIEW = torch.ones(1)
BASE = InBatch(LossSettings(mask_margin=None), ONE_VIEW)


def corpus_of(count=6):
    return build_corpus([pairs(count)])


def batch_of(negatives, count=6):
    rows = torch.arange(count)
    return Batch(queries=rows, tools=rows, negatives=torch.tensor(negatives))


def heads():
    torch.manual_seed(0)
    return TwoHeads(Architecture(16, hidden=(8,)))


def bare(batch):
    """The batch without passed-over tools."""
    return replace(batch, negatives=batch.negatives[:, :0])


def rows_of(objective, batch):
    return objective(heads(), corpus_of(), batch, OneDevice()).rows


def test_the_loss_is_the_base_plus_the_weighted_logistic_preference():
    """Worked out in numpy from the definition; heads at the identity, temperature 0.05."""
    negatives = [[1, 2], [0, -1], [-1, -1], [3, 4], [5, 0], [1, 1]]
    batch = batch_of(negatives)
    source = pairs(6)
    expected = rows_of(BASE, bare(batch))
    extra = np.zeros(6)
    for query, listed in enumerate(negatives):
        # A query's own tool is right, wherever it is listed.
        used = [row for row in listed if row not in (-1, query)]
        ahead = [source.queries[query] @ (source.tools[r] - source.tools[query]) for r in used]
        extra[query] = np.mean(np.log1p(np.exp(20 * np.array(ahead)))) if used else 0.0
    found = rows_of(SoftNegatives(BASE, 0.3, ONE_VIEW), batch)
    np.testing.assert_allclose(
        found.detach().numpy(), expected.detach().numpy() + 0.3 * extra, atol=1e-4
    )


def test_without_weight_or_without_passed_over_tools_it_is_the_base():
    batch = batch_of([[1]] * 6)
    none = batch_of([[-1]] * 6)
    base = rows_of(BASE, bare(batch))
    assert torch.equal(rows_of(SoftNegatives(BASE, 0.0, ONE_VIEW), batch), base)
    assert torch.equal(rows_of(SoftNegatives(BASE, 0.5, ONE_VIEW), none), base)


def test_the_called_tool_rises_above_the_passed_over_one():
    trained, corpus = heads(), corpus_of()
    objective = SoftNegatives(BASE, 1.0, ONE_VIEW)
    batch = batch_of([[(row + 1) % 6] for row in range(6)])

    def lead():
        with torch.no_grad():
            q, t = trained.state(corpus.queries), trained.action(corpus.tools[:, 0])
        return (q * (t - t.roll(-1, 0))).sum(1).mean()

    before = lead()
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        objective(trained, corpus, batch, OneDevice()).rows.mean().backward()
        optimizer.step()
    assert lead() > before


def test_the_temperature_learns_from_the_base_alone():
    soft = SoftNegatives(BASE, 1.0, ONE_VIEW)
    batch = batch_of([[(row + 1) % 6] for row in range(6)])
    gradients = []
    for objective in (BASE, soft):
        trained = heads()
        given = batch if objective is soft else bare(batch)
        objective(trained, corpus_of(), given, OneDevice()).rows.mean().backward()
        gradients.append(float(trained.log_logit_scale.grad))
    assert gradients[0] == pytest.approx(gradients[1], rel=1e-5)
