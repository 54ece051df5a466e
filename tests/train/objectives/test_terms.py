"""The terms that may be added to a contrastive loss, against definitions written in numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.train.synthetic import unit  # noqa: E402

from toolheads.heads.architecture import Architecture  # noqa: E402
from toolheads_train.data.corpus import Source, build_corpus  # noqa: E402
from toolheads_train.data.sampling import Batch  # noqa: E402
from toolheads_train.model.heads import TwoHeads  # noqa: E402
from toolheads_train.objectives.in_batch import InBatch  # noqa: E402
from toolheads_train.objectives.make import make_objective  # noqa: E402
from toolheads_train.objectives.objective import OneDevice  # noqa: E402
from toolheads_train.objectives.projected import Projected  # noqa: E402
from toolheads_train.objectives.terms import distance, distillation, same_side  # noqa: E402
from toolheads_train.settings import LossSettings  # noqa: E402

pytestmark = pytest.mark.train

D = 6
POSITIVES = [[0], [1, 2], [2], [3], [0, 4]]
TEACHER_ROWS = [[0, 3, 1], [], [2], [3, 4], [0, 1, 2, 3]]
TEACHER_SCORES = [[2.0, -1.0, 0.5], [], [1.0], [0.0, 3.0], [1.0, 4.0, -2.0, 0.0]]


@pytest.fixture
def world():
    source = Source(
        "a",
        unit(5, D),
        unit(5, D, 1),
        list("abcde"),
        POSITIVES,
        teacher_rows=TEACHER_ROWS,
        teacher_scores=TEACHER_SCORES,
    )
    heads = TwoHeads(Architecture(D, hidden=(5,)), logit_scale=10.0)
    torch.manual_seed(0)
    for p in heads.parameters():
        if p.dim():
            torch.nn.init.normal_(p, std=0.5)
    queries, tools = torch.arange(5), torch.tensor([0, 1, 2, 3, 4])
    batch = Batch(queries, tools, torch.empty((5, 0), dtype=torch.int64))
    return build_corpus([source]), heads, batch


def projected(world):
    corpus, heads, batch = world
    return Projected(heads, corpus, batch, OneDevice(), torch.ones(1))


def arrays(world):
    corpus, heads, batch = world
    with torch.no_grad():
        q = heads.state(corpus.queries[batch.queries]).double().numpy()
        t = heads.action(corpus.tools[batch.tools, 0]).double().numpy()
    return q, t, math.exp(float(heads.log_logit_scale.detach()))


@pytest.mark.parametrize("margin", [None, 0.0])
@pytest.mark.parametrize("same", [None, 0.2])
def test_same_side_losses_equal_their_definition(world, margin, same):
    q, t, scale = arrays(world)
    base_q = world[0].queries.double().numpy()
    base_t = world[0].tools[:, 0].double().numpy()
    want = []
    for i in range(5):
        apart = [
            j
            for j in range(5)
            if j not in POSITIVES[i]
            and i not in POSITIVES[j]
            and (margin is None or base_q[i] @ base_t[j] <= base_q[i] @ base_t[i] + margin)
            and (same is None or base_t[i] @ base_t[j] < same)
        ]
        sides = []
        for side in (q, t):
            others = sum(math.exp(scale * side[i] @ side[j]) for j in apart)
            sides.append(math.log1p(others / math.exp(scale * q[i] @ t[i])))
        want.append(np.mean(sides))
    settings = LossSettings(mask_margin=margin, same_tool_cosine=same)
    got = same_side(projected(world), settings).detach().numpy()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


def test_the_distance_is_one_minus_the_cosine_to_the_embedding(world):
    q, t, _ = arrays(world)
    base_q = world[0].queries.double().numpy()
    base_t = world[0].tools[:, 0].double().numpy()
    want = 1 - ((q * base_q).sum(1) + (t * base_t).sum(1)) / 2
    np.testing.assert_allclose(distance(projected(world)).detach().numpy(), want, rtol=1e-5)


def test_untrained_heads_are_at_no_distance(world):
    corpus, _, batch = world
    heads = TwoHeads(Architecture(D, hidden=(5,)))
    got = distance(projected((corpus, heads, batch))).detach().numpy()
    np.testing.assert_allclose(got, 0.0, atol=1e-6)


@pytest.mark.parametrize("kind", ["kl", "margin_mse"])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_distillation_equals_its_definition(world, kind, temperature):
    q, t, scale = arrays(world)
    want = []
    for i, (rows, scores) in enumerate(zip(TEACHER_ROWS, TEACHER_SCORES, strict=True)):
        if len(rows) < 2:
            want.append(0.0)
            continue
        teacher = np.array(scores) / temperature
        student = scale * t[rows] @ q[i]
        if kind == "kl":
            p = np.exp(teacher) / np.exp(teacher).sum()
            r = np.exp(student) / np.exp(student).sum()
            want.append((p * np.log(p / r)).sum())
        else:
            best = teacher.argmax()
            gaps = (teacher[best] - teacher) - (student[best] - student)
            want.append((gaps**2).sum() / (len(rows) - 1))
    settings = LossSettings(distil=kind, teacher_temperature=temperature)
    got = distillation(projected(world), settings).detach().numpy()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


def test_scores_equal_to_the_teachers_cost_nothing(world):
    corpus = world[0]
    q, t, scale = arrays(world)
    perfect = [float(scale * q[i] @ t[j]) for i, rows in enumerate(TEACHER_ROWS) for j in rows]
    object.__setattr__(corpus, "teacher_scores", torch.tensor(perfect, dtype=torch.float32))
    for kind in ("kl", "margin_mse"):
        got = distillation(projected(world), LossSettings(distil=kind)).detach().numpy()
        np.testing.assert_allclose(got, 0.0, atol=1e-5)


def test_without_any_scores_distillation_is_zero_and_has_a_gradient_of_zero():
    corpus = build_corpus([Source("a", unit(3, D), unit(3, D, 1), list("abc"), [[0], [1], [2]])])
    heads, rows = TwoHeads(Architecture(D, hidden=(3,))), torch.arange(3)
    batch = Batch(rows, rows, torch.empty((3, 0), dtype=torch.int64))
    settings = LossSettings(distil="kl", mask_margin=None)
    losses = make_objective(settings, torch.ones(1))(heads, corpus, batch, OneDevice())
    plain = InBatch(settings, torch.ones(1))(heads, corpus, batch, OneDevice())
    assert torch.equal(losses.rows, plain.rows)


@pytest.mark.parametrize("negatives", ["in_batch", "catalogue"])
def test_terms_are_added_with_their_weights(world, negatives):
    off = LossSettings(negatives=negatives, distil_weight=3.0, teacher_temperature=0.7)
    on = LossSettings(
        negatives=negatives,
        distil_weight=3.0,
        teacher_temperature=0.7,
        same_side=0.5,
        distance_penalty=2.0,
        distil="kl",
    )
    corpus, heads, batch = world
    plain, whole = (
        make_objective(one, torch.ones(1))(heads, corpus, batch, OneDevice()) for one in (off, on)
    )
    p = projected(world)
    want = plain.rows + 0.5 * same_side(p, on) + 2 * distance(p) + 3 * distillation(p, on)
    torch.testing.assert_close(whole.rows, want)
    assert torch.equal(plain.negatives, whole.negatives)


def test_popularity_is_taken_out_of_negatives_alone(world):
    """Tool j is drawn c * Q_j times on average; its logit as a negative falls by the log of it."""
    corpus, heads, batch = world
    q, t, scale = arrays(world)
    chances = torch.tensor([0.4, 0.3, 0.1, 0.1, 0.1], dtype=torch.float64)
    settings = LossSettings(
        mask_margin=None,
        both_directions=False,
        popularity_correction=0.5,
        collapse_duplicates=False,
    )
    known = Batch(batch.queries, batch.tools, batch.negatives, chances)
    got = InBatch(settings, torch.ones(1))(heads, corpus, known, OneDevice()).rows
    want = []
    for i in range(5):
        others = [
            math.exp(scale * q[i] @ t[j] - 0.5 * math.log(5 * chances[j]))
            for j in range(5)
            if j not in POSITIVES[i]
        ]
        want.append(math.log1p(sum(others) / math.exp(scale * q[i] @ t[i])))
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-4)


def test_a_tool_that_is_near_the_positive_is_no_negative(world):
    corpus, heads, batch = world
    settings = LossSettings(mask_margin=None, both_directions=False, same_tool_cosine=1e-6)
    losses = InBatch(settings, torch.ones(1))(heads, corpus, batch, OneDevice())
    tools = corpus.tools[:, 0]
    far = (tools @ tools.T < 1e-6).sum(1)
    right = torch.tensor([len(one) for one in POSITIVES])
    assert 0 < losses.negatives.item() <= far.float().mean().item()
    assert losses.negatives.item() < (5 - right).float().mean().item()
