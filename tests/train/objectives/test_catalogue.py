"""The whole-catalogue loss against a slow one written in numpy from the same ids."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.train.synthetic import unit  # noqa: E402

from toolheads.errors import ConfigError  # noqa: E402
from toolheads.heads.architecture import Architecture  # noqa: E402
from toolheads_train.data.corpus import Source, build_corpus  # noqa: E402
from toolheads_train.data.sampling import Batch, BatchSampler, SamplingSettings  # noqa: E402
from toolheads_train.model.heads import TwoHeads  # noqa: E402
from toolheads_train.objectives.catalogue import Catalogue  # noqa: E402
from toolheads_train.objectives.objective import OneDevice  # noqa: E402
from toolheads_train.settings import LossSettings  # noqa: E402

pytestmark = pytest.mark.train

D = 6
SIZES = {"a": (10, 9), "b": (7, 5), "c": (6, 1)}
"""Queries and tools of three data sets."""


def sources():
    rng = np.random.default_rng(3)
    found = []
    for seed, (name, (q, n)) in enumerate(SIZES.items()):
        positives = [
            sorted(rng.choice(n, size=min(n, int(rng.integers(1, 4))), replace=False).tolist())
            for _ in range(q)
        ]
        negatives = [rng.choice(n, size=min(n, 2), replace=False).tolist() for _ in range(q)]
        # One text twice in a catalogue, and one text in two catalogues.
        groups = [f"{name}{i}" for i in range(n)]
        groups[: min(n, 2)] = ["same"] * min(n, 2) if name == "a" else ["shared", *groups[1:2]]
        if name == "a":
            groups[4] = "shared"
        found.append(
            Source(
                name, unit(q, D, seed), unit(n, D, seed + 9), groups, positives, negatives=negatives
            )
        )
    return found


def random_heads(seed=0):
    heads = TwoHeads(Architecture(D, hidden=(5,)), logit_scale=10.0)
    torch.manual_seed(seed)
    for p in heads.parameters():
        if p.dim():
            torch.nn.init.normal_(p, std=0.5)
    return heads


@pytest.fixture
def world():
    corpus = build_corpus(sources())
    sampler = BatchSampler(corpus, SamplingSettings(batch_size=16, hard_negatives=3), seed=0)
    return corpus, random_heads(), sampler.draw()


def definition(world, settings, *, old=None):
    """Losses from the definition; `old` is the tool head that the bank was made with."""
    corpus, heads, batch = world
    with torch.no_grad():
        q = heads.state(corpus.queries).double().numpy()
        t = heads.action(corpus.tools[:, 0]).double().numpy()
        others = t if old is None else old.action(corpus.tools[:, 0]).double().numpy()
    base_q, base_t = corpus.queries.double().numpy(), corpus.tools[:, 0].double().numpy()
    scale = math.exp(float(heads.log_logit_scale.detach()))
    group = corpus.groups.tolist()
    drawn, tools = batch.queries.tolist(), batch.tools.tolist()
    hard = [j for row in batch.negatives.tolist() for j in row if j >= 0]
    source = np.digitize(np.arange(len(corpus.queries)), corpus.source_offsets[1:-1])
    of_tool = np.digitize(np.arange(len(corpus.tools)), corpus.tool_offsets[1:-1])
    is_own = settings.catalogue == "own"

    def softplus_loss(own, negatives):
        return -own + math.log(sum(map(math.exp, [own, *negatives])))

    values = []
    for i, own in zip(drawn, tools, strict=True):
        right = {g for g in corpus.known.padded(torch.tensor([i]))[0].tolist() if g >= 0}
        seen, negatives = set(), []
        in_batch = [*tools, *hard]
        for j in [*in_batch, *range(len(group))]:
            catalogue = of_tool[j] if is_own else 0
            copy = (catalogue, group[j]) in seen
            seen.add((catalogue, group[j]))
            base = base_q[i] @ base_t[j]
            if copy or group[j] in right or (is_own and of_tool[j] != source[i]):
                continue
            margin, same = settings.mask_margin, settings.same_tool_cosine
            if margin is not None and base > base_q[i] @ base_t[own] + margin:
                continue
            if same is not None and base_t[own] @ base_t[j] >= same:
                continue
            negatives.append(scale * q[i] @ (t[j] if j in in_batch else others[j]))
        chosen = [own]
        if settings.other_positives == "count":
            chosen = list({group[j]: j for j in reversed(tools) if group[j] in right}.values())
        value = np.mean([softplus_loss(scale * q[i] @ t[j], negatives) for j in chosen])
        if settings.both_directions:
            back = []
            for k in drawn:
                known = corpus.known.padded(torch.tensor([k]))[0].tolist()
                likely = settings.mask_margin is not None and (
                    base_q[k] @ base_t[own] > base_q[i] @ base_t[own] + settings.mask_margin
                )
                if group[own] not in known and not likely:
                    back.append(scale * q[k] @ t[own])
            value = (value + softplus_loss(scale * q[i] @ t[own], back)) / 2
        values.append(value)
    return values


def run(world, settings, **cut):
    corpus, heads, batch = world
    return Catalogue(settings, torch.ones(1), **cut)(heads, corpus, batch, OneDevice())


@pytest.mark.parametrize("catalogue", ["own", "all"])
@pytest.mark.parametrize("refresh_steps", [0, 3])
@pytest.mark.parametrize(
    "masks",
    [
        {"mask_margin": None},
        {"mask_margin": 0.0, "both_directions": False},
        {"mask_margin": 0.05, "same_tool_cosine": 0.3},
        {"mask_margin": None, "same_tool_cosine": 0.2, "other_positives": "count"},
    ],
)
@pytest.mark.parametrize("cut", [{"by_source": True}, {"by_source": False, "tile": 4}, {}])
def test_the_loss_equals_its_definition(world, catalogue, refresh_steps, masks, cut):
    settings = LossSettings(
        negatives="catalogue", catalogue=catalogue, refresh_steps=refresh_steps, **masks
    )
    got = run(world, settings, **cut).rows.detach().numpy()
    np.testing.assert_allclose(got, definition(world, settings), rtol=1e-4, atol=1e-5)


def test_a_kept_projection_is_old_and_the_batch_is_not(world):
    corpus, heads, batch = world
    settings = LossSettings(negatives="catalogue", refresh_steps=3, mask_margin=None)
    objective = Catalogue(settings, torch.ones(1))
    objective(heads, corpus, batch, OneDevice())
    newer = random_heads(seed=1)
    for _ in range(2):
        got = objective(newer, corpus, batch, OneDevice()).rows.detach().numpy()
        want = definition((corpus, newer, batch), settings, old=heads)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    got = objective(newer, corpus, batch, OneDevice()).rows.detach().numpy()
    np.testing.assert_allclose(
        got, definition((corpus, newer, batch), settings), rtol=1e-4, atol=1e-5
    )


def gradients(heads, rows):
    heads.zero_grad(set_to_none=True)
    rows.mean().backward()
    return {name: p.grad.clone() for name, p in heads.named_parameters()}


def slow(world, settings, old=None):
    """The loss of all tools at once through autograd alone, without masks of any kind."""
    corpus, heads, batch = world
    q, t = heads.state(corpus.queries[batch.queries]), heads.action(corpus.tools[:, 0])
    if old is not None:
        kept = old.action(corpus.tools[:, 0]).detach()
        is_fresh = torch.isin(torch.arange(len(t)), batch.tools)[:, None]
        t = torch.where(is_fresh, t, kept)
    logits = heads.log_logit_scale.exp() * q @ t.T
    return torch.nn.functional.cross_entropy(logits, batch.tools, reduction="none")


@pytest.mark.parametrize("refresh_steps", [0, 5])
@pytest.mark.parametrize("tile", [4, 100])
def test_gradients_equal_those_of_the_whole_table(refresh_steps, tile):
    source = Source("a", unit(8, D), unit(11, D, 1), list("abcdefghijk"), [[i] for i in range(8)])
    corpus, heads = build_corpus([source]), random_heads()
    rows = torch.tensor([1, 4, 6])
    batch = Batch(rows, rows, torch.empty((3, 0), dtype=torch.int64))
    settings = LossSettings(
        negatives="catalogue",
        refresh_steps=refresh_steps,
        mask_margin=None,
        both_directions=False,
    )
    old = random_heads(seed=1) if refresh_steps else None
    objective = Catalogue(settings, torch.ones(1), tile=tile)
    if old is not None:
        objective(old, corpus, batch, OneDevice())
    got = gradients(heads, objective(heads, corpus, batch, OneDevice()).rows)
    want = gradients(heads, slow((corpus, heads, batch), settings, old))
    for name, value in want.items():
        torch.testing.assert_close(got[name], value, rtol=1e-4, atol=1e-6)


def test_a_catalogue_of_one_tool_has_no_negatives_and_no_nan():
    source = Source("a", unit(2, D), unit(1, D, 1), ["x"], [[0], [0]])
    corpus, heads = build_corpus([source]), random_heads()
    batch = Batch(
        torch.tensor([0, 1]), torch.tensor([0, 0]), torch.empty((2, 0), dtype=torch.int64)
    )
    losses = run((corpus, heads, batch), LossSettings(negatives="catalogue", both_directions=False))
    assert losses.rows.tolist() == [0.0, 0.0]
    assert losses.negatives.item() == 0
    for gradient in gradients(heads, losses.rows).values():
        assert torch.equal(gradient, torch.zeros_like(gradient))


def test_a_sample_as_large_as_the_catalogues_is_all_of_them(world):
    whole = LossSettings(negatives="catalogue", refresh_steps=2)
    a = run(world, whole).rows
    b = run(world, replace(whole, catalogue_sample=9)).rows
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("refresh_steps", [0, 1])
def test_the_sum_over_a_sample_is_right_on_average(refresh_steps):
    source = Source("a", unit(1, D), unit(40, D, 1), [str(i) for i in range(40)], [[0]])
    corpus, heads = build_corpus([source]), random_heads()
    batch = Batch(torch.tensor([0]), torch.tensor([0]), torch.empty((1, 0), dtype=torch.int64))
    settings = LossSettings(
        negatives="catalogue",
        refresh_steps=refresh_steps,
        mask_margin=None,
        both_directions=False,
    )
    whole = run((corpus, heads, batch), settings).rows.exp().item() - 1
    objective = Catalogue(replace(settings, catalogue_sample=8), torch.ones(1))
    sums = [objective(heads, corpus, batch, OneDevice()).rows.exp().item() - 1 for _ in range(100)]
    assert np.mean(sums) == pytest.approx(whole, rel=4 * np.std(sums) / 10 / whole)
    assert np.std(sums) > 0


@pytest.mark.parametrize("sample", [None, 4])
@pytest.mark.parametrize("done", [2, 3])
def test_an_objective_that_goes_on_is_the_one_that_was_not_stopped(world, sample, done):
    corpus, heads, batch = world
    settings = LossSettings(negatives="catalogue", refresh_steps=3, catalogue_sample=sample)
    whole = Catalogue(settings, torch.ones(1))
    versions = [heads, *map(random_heads, range(1, 7))]
    for number in range(done):
        whole(versions[number], corpus, batch, OneDevice())
    resumed = Catalogue(settings, torch.ones(1))
    resumed.load_state_dict(whole.state_dict())
    for number in range(done, 7):
        a, b = (one(versions[number], corpus, batch, OneDevice()).rows for one in (whole, resumed))
        assert torch.equal(a, b)


def test_a_state_of_another_objective_is_refused():
    objective = Catalogue(LossSettings(negatives="catalogue"), torch.ones(1))
    with pytest.raises(ConfigError, match=r"must be of this config's model\.loss\.negatives"):
        objective.load_state_dict({})


def test_views_of_a_tool_are_one_weighted_vector():
    tools = np.stack([unit(4, D, seed=1), unit(4, D, seed=2)], axis=1)  # (4, 2, D)
    source = Source("a", unit(4, D), tools, list("wxyz"), [[i] for i in range(4)])
    heads = TwoHeads(Architecture(D, hidden=(3,)), logit_scale=10.0)
    rows = torch.tensor([0, 2])
    batch = Batch(rows, rows, torch.empty((2, 0), dtype=torch.int64))
    settings = LossSettings(
        negatives="catalogue", refresh_steps=4, mask_margin=None, both_directions=False
    )
    objective = Catalogue(settings, torch.tensor([0.7, 0.3]))
    got = objective(heads, build_corpus([source]), batch, OneDevice()).rows.detach().numpy()
    logits = 10.0 * source.queries @ (0.7 * tools[:, 0] + 0.3 * tools[:, 1]).T
    want = -np.diag(logits) + np.log(np.exp(logits).sum(1))
    np.testing.assert_allclose(got, want[[0, 2]], rtol=1e-5)
