"""A stack trains each member as if it were alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from tests.train.synthetic import (  # noqa: E402
    HARMLESS,
    pairs,
    same,
    toy_data,
    toy_module,
    trainer,
    validation_of,
    weights_of,
)

from toolheads.errors import ConfigError  # noqa: E402
from toolheads_train.data.centres import centres_of  # noqa: E402
from toolheads_train.data.corpus import build_corpus  # noqa: E402
from toolheads_train.settings import HeadSettings, LossSettings, OptimizerSettings  # noqa: E402
from toolheads_train.sweep.grid import Member  # noqa: E402
from toolheads_train.sweep.training import (  # noqa: E402
    Plan,
    StackTraining,
    start_of,
    train_stack,
)

pytestmark = [pytest.mark.train, *(pytest.mark.filterwarnings(w) for w in HARMLESS)]

SOURCE = pairs()


def member(
    seed=0, *, lr=1e-2, decay=0.01, margin=None, alpha=1.0, temperature=0.05, clip=None, **head
):
    return Member(
        {"seed_everything": seed, "model.optimizer.lr": lr},
        seed,
        HeadSettings(hidden=(8,), alpha=alpha, **head),
        LossSettings(mask_margin=margin, temperature=temperature),
        OptimizerSettings(lr=lr, weight_decay=decay, clip=clip),
    )


def training(members, *, epochs=3, steps=10, check_every=1):
    from toolheads_train.data.sampling import BatchSampler, SamplingSettings

    corpus = build_corpus([SOURCE])
    sampler = BatchSampler(corpus, SamplingSettings(batch_size=16, steps_per_epoch=steps), seed=0)
    centres = centres_of(corpus, torch.ones(1))
    plan = Plan(epochs, steps, check_every)
    return StackTraining(members, corpus, sampler, [1.0], plan, centres)


def alone(one):
    module = toy_module(seed=one.seed)
    module.head, module.loss, module.optimizer = one.head, one.loss, one.optimizer
    trainer(None, callbacks=()).fit(module, datamodule=toy_data())
    return weights_of(module)


def test_each_member_is_what_fit_makes_of_its_settings():
    members = [
        member(0),
        member(1, lr=3e-3, decay=0.3),
        member(2, margin=0.05, alpha=0.5),
        member(0, temperature=0.1, clip=0.1),
    ]
    stack = training(members)
    stack.run(30)
    for number, one in enumerate(members):
        got = {n: v.detach() for n, v in stack.heads.draw(number).state_dict().items()}
        assert same(got, alone(one), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "head",
    [
        {"centre": "corpus"},
        {"widths": (4, 8)},
        {"feature_dropout": 0.3},
        {"feature_dropout": 0.3, "centre": "corpus", "widths": (4,)},
        {"feature_dropout": 0.3, "centre": "corpus", "widths": (4,), "freeze_action": True},
        {"feature_dropout": 0.3, "widths": (4,), "shared": True},
    ],
    ids=str,
)
def test_each_member_is_what_fit_makes_of_it_with_options_of_its_heads(head):
    """Its dropout draws what it draws alone: the state of its generator is compared as well."""
    members = [member(0, **head), member(1, lr=3e-3, margin=0.05, alpha=0.5, **head)]
    stack = training(members)
    stack.run(30)
    for number, one in enumerate(members):
        got = {n: v.detach() for n, v in stack.heads.draw(number).state_dict().items()}
        want = alone(one)
        assert same(got, want, atol=2e-5, rtol=1e-4)
        states = [name for name in want if "dropout" in name]
        assert bool(states) == ("feature_dropout" in head)
        assert all(torch.equal(got[name], want[name]) for name in states)


def test_a_validation_of_a_stack_drops_nothing():
    stack = training([member(0, feature_dropout=0.9)])
    (found,) = train_stack(stack, [validation_of(SOURCE)])
    plain = training([member(0)])
    (other,) = train_stack(plain, [validation_of(SOURCE)])
    assert found.start == other.start


def test_heads_that_want_a_centre_and_have_none_are_refused():
    with pytest.raises(ConfigError, match=r"centres must be given where model\.head\.centre is"):
        start_of(member(0, centre="corpus"), 16)


def test_the_best_validation_is_kept_and_training_that_hurts_is_not():
    good, wild = train_stack(training([member(0), member(0, lr=10.0)]), [validation_of(SOURCE)])
    assert good.score > good.start[""]["ndcg@10"]
    assert good.step > 0
    assert wild.step == 0
    assert not wild.heads.state.out.weight.any()
    assert wild.score == wild.start[""]["ndcg@10"]


def test_a_member_that_diverges_stops_alone():
    stack = training([member(0), member(1)])
    real = stack.run

    def run(steps):
        finite = real(steps)
        with torch.no_grad():
            stack.heads.state.weights[-1][1] = torch.nan
        return finite

    stack.run = run
    one, two = train_stack(stack, [validation_of(SOURCE)])
    assert not one.error
    assert one.step > 0
    assert "must be finite" in two.error
    assert two.step == 0


def test_steps_bound_epochs():
    assert Plan(5, 10, 1, max_steps=12).total == 12
    assert Plan(5, 10, 1).total == 50


def test_validations_can_be_rarer_than_epochs():
    rare = train_stack(training([member(0)], check_every=3), [validation_of(SOURCE)])
    assert rare[0].step in (0, 30)


def test_members_of_one_seed_and_one_rate_are_equal():
    stack = training([member(3), member(3), member(4)])
    stack.run(10)
    one, two, other = (weights(stack, i) for i in range(3))
    assert same(one, two)
    assert not same(one, other)


def weights(stack, number):
    return dict(stack.heads.draw(number).state_dict())


def test_the_same_members_in_another_order_are_the_same():
    first, second = training([member(0), member(1)]), training([member(1), member(0)])
    first.run(5)
    second.run(5)
    assert same(weights(first, 0), weights(second, 1))
    assert same(weights(first, 1), weights(second, 0))


def test_bf16_trains_too():
    stack = training([member(0), member(1)])
    stack.plan = replace(stack.plan, autocast=True)
    found = train_stack(stack, [validation_of(SOURCE)])
    assert all(one.score > one.start[""]["ndcg@10"] for one in found)
