from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.made_heads import DEEP, PLAIN, made_head

from toolheads.errors import ShapeError
from toolheads.heads import Architecture, Head
from toolheads.heads.gelu import AT_ONCE, gelu
from toolheads.heads.room import Room

ARCHITECTURES = {
    "plain": PLAIN,
    "deep": DEEP,
    "deep without norm": Architecture(8, hidden=(6, 5, 4), input_scaling="sqrt"),
    "low rank": Architecture(8, hidden=(2,), activation="identity"),
    "one linear map": Architecture(8, hidden=()),
}
CENTRE = np.linspace(-0.3, 0.4, 8, dtype=np.float32)
ROWS = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=1, max_dims=1, min_side=0, max_side=9).map(lambda s: (*s, 8)),
    elements=st.floats(-100, 100, width=32),
)
of_every_shape = pytest.mark.parametrize(
    "architecture", ARCHITECTURES.values(), ids=list(ARCHITECTURES)
)


def by_hand(head, x):
    """The definition, entry by entry in double precision, with math.erf."""
    a, w = head.architecture, {n: v.astype(np.float64) for n, v in head.weights.items()}

    def standard(v):
        return (v - v.mean()) / math.sqrt(v.var() + 1e-5)

    def act(v):
        if a.activation == "identity":
            return v
        return np.array([t * (1 + math.erf(t / math.sqrt(2))) / 2 for t in v])

    c = 0.0 if head.centre is None else head.centre.astype(np.float64)
    h = np.asarray(x, np.float64) - c
    h = {"none": h, "sqrt": h * math.sqrt(a.width), "layernorm": standard(h)}[a.input_scaling]
    for depth in range(len(a.hidden)):
        layer = f"hidden.{depth - 1}" if depth else "in"
        h = w[f"{layer}.weight"] @ h + w[f"{layer}.bias"]
        if depth and a.hidden_norm:
            h = standard(h) * w[f"{layer}.norm.weight"] + w[f"{layer}.norm.bias"]
        h = act(h)
    y = (x + head.alpha * (w["out.weight"] @ h + w["out.bias"] - c))[: head.kept]
    return y / np.linalg.norm(y)


@of_every_shape
def test_a_projection_is_what_the_definition_says(architecture):
    head = made_head(architecture)
    for x in np.random.default_rng(1).normal(size=(5, 8)):
        np.testing.assert_allclose(head(x)[0], by_hand(head, x), atol=2e-6)  # float32


@of_every_shape
@pytest.mark.parametrize("kept", [None, 1, 3, 8])
def test_a_centred_head_is_what_the_definition_says_at_every_width(architecture, kept):
    head = replace(made_head(architecture), centre=CENTRE, kept=kept)
    for x in np.random.default_rng(1).normal(size=(5, 8)):
        np.testing.assert_allclose(head(x)[0], by_hand(head, x), atol=2e-6)  # float32


def test_a_centred_head_that_learned_nothing_gives_the_centred_embedding():
    weights = {name: np.zeros_like(w) for name, w in made_head(PLAIN).weights.items()}
    x = np.random.default_rng(6).normal(size=(4, 8)).astype(np.float32)
    expected = (x - CENTRE) / np.linalg.norm(x - CENTRE, axis=1, keepdims=True)
    np.testing.assert_allclose(Head(PLAIN, 1.0, weights, CENTRE)(x), expected, atol=1e-6)
    np.testing.assert_array_equal(Head(PLAIN, 0.0, weights, CENTRE)(x), Head.identity(8)(x))


def test_a_centre_of_zero_changes_nothing():
    x = np.random.default_rng(7).normal(size=(4, 8))
    centred = replace(made_head(DEEP), centre=np.zeros(8, np.float32))
    np.testing.assert_array_equal(centred(x), made_head(DEEP)(x))


@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_the_full_width_is_the_head_itself(alpha):
    x = np.random.default_rng(8).normal(size=(4, 8))
    head = made_head(PLAIN, alpha=alpha)
    np.testing.assert_array_equal(head.narrowed(8)(x), head(x))
    assert (head.projection_width, head.narrowed(3).projection_width) == (8, 3)


@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_a_narrow_projection_is_the_start_of_the_whole_one_at_length_one(alpha):
    x = np.random.default_rng(9).normal(size=(4, 8))
    head = made_head(PLAIN, alpha=alpha)
    start = head(x)[:, :3]
    expected = start / np.linalg.norm(start, axis=1, keepdims=True)
    np.testing.assert_allclose(head.narrowed(3)(x), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kept": 0}, r"kept must be in \[1, 8\], got 0"),
        ({"kept": 9}, r"kept must be in \[1, 8\], got 9"),
        ({"centre": np.zeros(7)}, r"centre must be floats of shape \(8,\), got .* \(7,\)"),
        ({"centre": np.full(8, np.nan)}, "centre must be finite"),
    ],
)
def test_a_width_or_centre_that_does_not_fit_is_refused(change, message):
    with pytest.raises(ShapeError, match=message):
        replace(made_head(PLAIN), **change)


def test_the_low_rank_head_is_two_matrices():
    head = made_head(Architecture(8, hidden=(2,), activation="identity"), alpha=1.0)
    w, x = head.weights, np.arange(8, dtype=np.float32)
    y = x + w["out.weight"] @ (w["in.weight"] @ x + w["in.bias"]) + w["out.bias"]
    np.testing.assert_allclose(head(x)[0], y / np.linalg.norm(y), atol=1e-6)


@of_every_shape
@given(x=ROWS)
def test_every_projection_has_length_one(architecture, x):
    length = np.linalg.norm(made_head(architecture)(x), axis=1)
    np.testing.assert_allclose(length, 1, atol=1e-5)


@given(ROWS, st.randoms(use_true_random=False))
def test_rows_do_not_influence_each_other(x, random):
    head, order = made_head(DEEP), list(range(len(x)))
    random.shuffle(order)
    np.testing.assert_allclose(head(x[order]), head(x)[order], atol=1e-6)


@given(ROWS)
def test_a_batch_gives_what_its_rows_give_one_by_one(x):
    head = made_head(DEEP)
    alone = np.array([head(row)[0] for row in x]).reshape(-1, 8)
    np.testing.assert_allclose(head(x), alone, atol=1e-6)


def test_each_gives_the_same_bits_alone_and_in_company():
    head = made_head(Architecture(96, hidden=(64, 48), hidden_norm=True))
    x = np.random.default_rng(2).normal(size=(70, 96)).astype(np.float32)
    together = head.each(x)
    assert all((head.each(x[i])[0] == together[i]).all() for i in range(70))
    assert (head.each(x[3:9]) == together[3:9]).all()


def test_more_rows_than_one_block_are_all_projected():
    head = made_head(PLAIN)
    x = np.random.default_rng(3).normal(size=(1100, 8)).astype(np.float32)
    np.testing.assert_allclose(head(x)[::100], head(x[::100]), atol=1e-6)


@given(ROWS)
def test_the_identity_head_gives_its_input_at_length_one(x):
    x = x[np.linalg.norm(x, axis=1) > 1e-3]
    expected = x / np.linalg.norm(x, axis=1, keepdims=True)
    np.testing.assert_allclose(Head.identity(8)(x), expected, atol=1e-6)


def test_alpha_zero_is_the_identity_whatever_the_weights():
    x = np.random.default_rng(4).normal(size=(3, 8))
    np.testing.assert_array_equal(made_head(DEEP, alpha=0.0)(x), Head.identity(8)(x))


def test_a_zero_row_stays_zero_under_the_identity():
    assert not Head.identity(8)(np.zeros(8)).any()


def test_the_callers_array_is_not_changed():
    x = np.ones((2, 8), np.float32)
    made_head(PLAIN)(x)
    assert (x == 1).all()


def test_weights_are_a_copy_that_nobody_can_change():
    weights = dict(made_head(PLAIN).weights)
    own = {name: weight.copy() for name, weight in weights.items()}
    head = Head(PLAIN, 1.0, own)
    own["in.bias"][:] = 9
    assert not (head.weights["in.bias"] == 9).any()
    with pytest.raises(ValueError, match="read-only"):
        head.weights["in.bias"][:] = 9


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((2, 7)), r"x must have shape \(n, 8\), got \(2, 7\)"),
        ([[np.nan] * 8], "x must be finite, got NaN or inf in 1 rows"),
        ([["a"] * 8], "x must hold real numbers"),
    ],
)
def test_rows_that_cannot_be_projected_are_refused(x, message):
    with pytest.raises(ShapeError, match=message):
        made_head(PLAIN)(x)


def test_a_projection_that_overflows_is_refused_and_never_served():
    weights = dict(made_head(PLAIN).weights) | {"out.bias": np.full(8, 3e38, np.float32)}
    with pytest.raises(ShapeError, match="the head's output must be finite, got NaN or inf in 2"):
        Head(PLAIN, 9.0, weights)(np.ones((2, 8)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"in.bias": np.zeros(5)}, r"in.bias must be floats of shape \(6,\), got .* \(5,\)"),
        ({"in.bias": np.zeros(6, np.int64)}, "in.bias must be floats of shape"),
        ({"in.bias": np.full(6, np.nan)}, "in.bias must be finite, got NaN or inf in 6 entries"),
        ({"in.bias": np.full(6, 1e39)}, "in.bias must be finite"),
        ({"more": np.zeros(6)}, "got missing: none, extra: more"),
    ],
)
def test_weights_that_do_not_fit_are_named(change, message):
    with pytest.raises(ShapeError, match=message):
        Head(PLAIN, 1.0, dict(made_head(PLAIN).weights) | change)


def test_a_missing_weight_is_named():
    weights = dict(made_head(PLAIN).weights)
    del weights["out.bias"]
    with pytest.raises(ShapeError, match=r"got missing: out.bias, extra: none"):
        Head(PLAIN, 1.0, weights)


def test_an_alpha_that_is_no_number_is_refused():
    with pytest.raises(ShapeError, match="alpha must be finite in float32, got nan"):
        Head(PLAIN, math.nan, made_head(PLAIN).weights)


def test_gelu_is_exact_to_the_resolution_of_float32():
    x = np.linspace(-12, 12, 4001, dtype=np.float32)
    exact = [t * (1 + math.erf(t / math.sqrt(2))) / 2 for t in x.astype(float)]
    np.testing.assert_array_less(np.abs(gelu(x) - exact), 3e-7 * np.maximum(1, np.abs(x)))


def test_gelu_gives_an_entry_the_same_bits_wherever_it_stands():
    x = np.random.default_rng(5).normal(scale=3, size=(3, AT_ONCE + 17)).astype(np.float32)
    whole = gelu(x)
    np.testing.assert_array_equal(gelu(x[1:, 7:40]), whole[1:, 7:40])
    np.testing.assert_array_equal(gelu(x[2]), whole[2])


def test_gelu_of_the_largest_numbers_is_finite():
    x = np.array([-3e38, -100, -7, 0, 7, 100, 1.5e38], np.float32)
    np.testing.assert_allclose(gelu(x), [0, 0, 0, 0, 7, 100, 1.5e38], atol=1e-5)


def test_a_block_comes_out_in_pieces_of_whole_tools():
    head = made_head(Architecture(1000, hidden=(4,)))
    rows = np.random.default_rng(3).normal(size=(200, 1000)).astype(np.float32)
    room = Room(head.architecture, 200)
    pieces = [(p, unit.copy()) for p, unit, _ in head.in_pieces(rows, room, multiple=7)]
    assert len(pieces) > 2
    assert {(p.stop - p.start) % 7 for p, _ in pieces[:-1]} == {0}
    np.testing.assert_array_equal(np.concatenate([unit for _, unit in pieces]), head(rows))


def test_pieces_say_which_rows_are_finite():
    rows = np.zeros((5, 8), np.float32)
    rows[3, 7] = np.inf
    plain, identity = made_head(PLAIN), Head.identity(8)
    for head in (plain, plain.narrowed(3), identity, identity.narrowed(3)):
        ((_, _, is_finite),) = head.in_pieces(rows, Room(head.architecture, 5))
        assert is_finite.tolist() == [True, True, True, False, True]


class Turn:
    """Counts how often it is taken, and whether it is held."""

    def __init__(self):
        self.taken, self.is_held = 0, False

    def __enter__(self):
        assert not self.is_held
        self.taken, self.is_held = self.taken + 1, True

    def __exit__(self, *_):
        self.is_held = False


def test_the_steps_between_products_are_done_in_turn_and_products_are_not(monkeypatch):
    turn, held = Turn(), []
    multiply = np.matmul

    def watched(*args, **named):
        held.append(turn.is_held)
        return multiply(*args, **named)

    monkeypatch.setattr(np, "matmul", watched)
    rows = np.ones((5, 8), np.float32)
    held.extend(turn.is_held for _ in made_head(DEEP).in_pieces(rows, Room(DEEP, 5, turn)))
    assert held == [False] * (len(DEEP.hidden) + 1) + [True]
    assert turn.taken == len(DEEP.hidden) + 1
    assert not turn.is_held
