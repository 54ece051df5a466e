"""S pairs of heads as one module compute what S pairs compute."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from tests.train.synthetic import unit  # noqa: E402

from toolheads.errors import ConfigError  # noqa: E402
from toolheads.heads.architecture import Architecture  # noqa: E402
from toolheads_train.model.heads import TwoHeads, narrowed  # noqa: E402
from toolheads_train.model.stacked import StackedHeads  # noqa: E402

pytestmark = pytest.mark.train

X = torch.from_numpy(unit(9))


CENTRES = (torch.from_numpy(unit(40, seed=3)).mean(0), torch.from_numpy(unit(40, seed=4)).mean(0))


def moved(
    seed, *, hidden=(8,), alpha=1.0, scale=20.0, norm=False, options=None, **more
) -> TwoHeads:
    """Heads that are no identity any more."""
    torch.manual_seed(seed)
    architecture = Architecture(16, hidden=hidden, hidden_norm=norm, **more)
    heads = TwoHeads(
        architecture, alpha=alpha, logit_scale=scale, dropout_seed=seed, **(options or {})
    )
    with torch.no_grad():
        for head in (heads.state, heads.action):
            head.out.weight.normal_(std=0.3)
            head.out.bias.normal_(std=0.1)
    return heads


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 4),
    st.sampled_from([(), (8,), (8, 6)]),
    st.sampled_from(["none", "sqrt", "layernorm"]),
    st.sampled_from(["gelu", "identity"]),
    st.booleans(),
)
def test_stacked_heads_project_as_the_single_ones(count, hidden, scaling, activation, norm):
    more = {"hidden": hidden, "input_scaling": scaling, "activation": activation}
    single = [moved(i, alpha=0.3 + i, norm=norm, **more) for i in range(count)]
    stack = StackedHeads(single)
    for number, heads in enumerate(single):
        torch.testing.assert_close(stack.state(X)[number], heads.state(X), atol=1e-6, rtol=0)
        torch.testing.assert_close(stack.tools(X)[number], heads.action(X), atol=1e-6, rtol=0)


def test_gradients_are_those_of_the_single_heads():
    single = [moved(i, alpha=0.5 + i, hidden=(8, 6), norm=True) for i in range(3)]
    stack = StackedHeads(single)
    pull = torch.randn(3, 9, 16)
    (stack.state(X) * pull).sum().backward()
    for number, heads in enumerate(single):
        (heads.state(X) * pull[number]).sum().backward()
        for name, got in zip(stack.state.names, stack.state.weights, strict=True):
            want = heads.state.get_parameter(name).grad
            torch.testing.assert_close(got.grad[number], want, atol=1e-5, rtol=1e-5)


OPTIONS = [
    {"centres": CENTRES},
    {"feature_dropout": 0.4},
    {"feature_dropout": 0.4, "centres": CENTRES, "widths": (4, 8)},
    {"feature_dropout": 0.4, "centres": (CENTRES[0], None), "freeze_action": True},
    {"feature_dropout": 0.4, "shared": True, "widths": (4,)},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("more", [{}, {"input_scaling": "sqrt"}, {"input_scaling": "layernorm"}])
def test_options_of_heads_change_projections_and_gradients_as_alone(options, more):
    """Two steps of both sides: the second draws what comes after the first."""
    single = [moved(i, alpha=0.4 + i, options=options, **more) for i in range(3)]
    if options.get("freeze_action"):
        for heads in single:
            torch.nn.init.zeros_(heads.action.out.weight)
            torch.nn.init.zeros_(heads.action.out.bias)
    stack, pull = StackedHeads(single), torch.randn(3, 9, 16)
    for _ in range(2):
        for kept in (None, *options.get("widths", ())):
            mine = (stack.state(X, kept), stack.tools(X, kept))
            for number, heads in enumerate(single):
                with narrowed(heads, kept):
                    alone = (heads.state(X), heads.action(X))
                for got, want in zip(mine, alone, strict=True):
                    want = want[:, :kept]
                    torch.testing.assert_close(got[number], want, atol=1e-6, rtol=0)
                (alone[0] * pull[number]).sum().backward()
            (mine[0] * pull[..., :kept]).sum().backward()
    for number, heads in enumerate(single):
        for name, got in zip(stack.state.names, stack.state.weights, strict=True):
            want = heads.state.get_parameter(name).grad
            torch.testing.assert_close(got.grad[number], want, atol=1e-5, rtol=1e-5)


def test_dropout_ends_where_training_does_and_members_draw_their_own():
    stack = StackedHeads([moved(i, options={"feature_dropout": 0.5}) for i in (0, 0, 1)])
    assert stack.dropout is not None
    factors = stack.dropout.factors(X)
    assert factors is not None
    assert torch.equal(factors[0], factors[1])
    assert not torch.equal(factors[0], factors[2])
    stack.eval()
    assert stack.dropout.factors(X) is None


@pytest.mark.parametrize(
    ("one", "two", "message"),
    [
        ({"centres": CENTRES}, {}, "one centre or none"),
        ({"centres": CENTRES}, {"centres": CENTRES[::-1]}, "one centre or none"),
        ({"widths": (4,)}, {"widths": (8,)}, "must agree in .*widths"),
        ({"feature_dropout": 0.1}, {}, "must agree in .*feature_dropout"),
        ({"feature_dropout": 0.1}, {"feature_dropout": 0.2}, r"one share .* got \[0.1, 0.2\]"),
    ],
)
def test_heads_of_other_options_are_refused(one, two, message):
    with pytest.raises(ConfigError, match=message):
        StackedHeads([moved(0, options=one), moved(1, options=two)])


@pytest.mark.parametrize(
    "more",
    [{}, {"shared": True}, {"freeze_action": True}, *OPTIONS],
    ids=["both", "shared", "frozen", *map(str, OPTIONS)],
)
def test_a_drawn_pair_is_the_pair_that_was_stacked(more):
    single = [TwoHeads(Architecture(16, hidden=(4,)), alpha=0.5, **more) for _ in range(2)]
    for heads in single:
        heads.state(X)  # a dropout is taken over where it is
    stack = StackedHeads(single)
    for number, heads in enumerate(single):
        drawn = stack.draw(number)
        for name, value in heads.state_dict().items():
            torch.testing.assert_close(drawn.state_dict()[name], value, atol=0, rtol=0)
        assert drawn.widths == heads.widths
        assert drawn.state_dict().keys() == heads.state_dict().keys()
        torch.testing.assert_close(drawn.state(X), heads.state(X), atol=0, rtol=0)
        assert drawn.max_log_logit_scale == heads.max_log_logit_scale
        assert [p.requires_grad for p in drawn.parameters()] == [
            p.requires_grad for p in heads.parameters()
        ]


def test_each_temperature_stays_in_the_range_of_its_own_pair():
    one, two = (TwoHeads(Architecture(16), max_logit_scale=most) for most in (30.0, 100.0))
    stack = StackedHeads([one, two])
    with torch.no_grad():
        stack.log_logit_scale.copy_(torch.tensor([9.0, -1.0]))
    stack.clamp_logit_scale()
    torch.testing.assert_close(stack.log_logit_scale.exp(), torch.tensor([30.0, 1.0]))


def test_an_optimiser_of_slices_moves_the_stack():
    stack = StackedHeads([moved(0), moved(1)])
    slices = [stack.slices(0), stack.slices(1)]
    before = [w.detach().clone() for w in stack.state.weights]
    optimizer = torch.optim.SGD([{"params": slices[0], "lr": 0.0}, {"params": slices[1], "lr": 1}])
    stack.state(X).sum().backward()
    stack.hand_out_gradients(slices)
    optimizer.step()
    for was, now in zip(before, stack.state.weights, strict=True):
        assert torch.equal(was[0], now[0])
        assert not torch.equal(was[1], now[1])


def test_heads_of_other_shapes_are_refused():
    with pytest.raises(ConfigError, match="must have one architecture, got 2"):
        StackedHeads([TwoHeads(Architecture(16, hidden=(h,))) for h in (4, 8)])
    with pytest.raises(ConfigError, match="at least one pair"):
        StackedHeads([])


def test_autocast_keeps_the_sum_and_the_length_in_float32():
    """As a single head, to the rounding of the stored projection."""
    heads = moved(0, alpha=0.01)
    with torch.autocast("cpu", torch.bfloat16):
        got, want = StackedHeads([heads]).state(X)[0], heads.state(X)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.float(), want, atol=4e-3, rtol=0)
