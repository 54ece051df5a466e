"""Soups: what the mean of heads is, what joining keeps, and what does not go together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

from tests.made_heads import made_fingerprint, made_head, made_heads

from toolheads.arrays import normalized
from toolheads.errors import ConfigError
from toolheads.heads import Architecture, Head, load_heads, save_heads
from toolheads_train.cli import main
from toolheads_train.outcome.soup import soup

pytestmark = pytest.mark.train

SHAPE = Architecture(8, hidden=(6,))
LINEAR = Architecture(8, hidden=())
CENTRE = np.linspace(-0.3, 0.3, 8, dtype=np.float32)


def grown(seed, architecture=SHAPE, *, alpha=0.5, centre=None, start=0, step=0.1):
    """A head that training took from one start some way of its own."""
    first, own = made_head(architecture, seed=start), made_head(architecture, seed=100 + seed)
    weights = {name: w + np.float32(step) * own.weights[name] for name, w in first.weights.items()}
    return Head(architecture, alpha, weights, centre)


def file_of(seed, *, name=None, alpha=0.5, architecture=SHAPE, start=0, centre=None, **more):
    def head(side):
        return grown(2 * seed + side, architecture, alpha=alpha, start=start + side, centre=centre)

    training: dict[str, object] = {
        "name": name or f"s{seed}",
        "seed": 0,
        "metrics": {"heads": {}},
        "share": 0.5,
    }
    return made_heads(state=head(0), action=head(1), training=training, **more)


def moved(head, x):
    """What a head adds to embeddings, before the length is brought to 1."""
    w, c = head.weights, np.zeros(8) if head.centre is None else head.centre
    h = x - c
    if head.architecture.hidden:
        from toolheads.heads.gelu import gelu

        h = gelu((h @ w["in.weight"].T + w["in.bias"]).astype(np.float32))
    return head.alpha * (h @ w["out.weight"].T + w["out.bias"] - c)


X = normalized(np.random.default_rng(0).normal(size=(7, 8)).astype(np.float32))


def test_a_soup_of_one_file_twice_is_that_file():
    one = file_of(1)
    made = soup([one, one])
    for side in ("state", "action"):
        np.testing.assert_allclose(getattr(made, side)(X), getattr(one, side)(X), atol=1e-6)


def test_each_weight_of_a_soup_is_the_mean():
    files = [file_of(seed) for seed in range(3)]
    made = soup(files)
    for name, weight in made.state.weights.items():
        expected = np.mean([h.state.weights[name] for h in files], axis=0)
        np.testing.assert_allclose(weight, expected, atol=1e-6)


@pytest.mark.parametrize("how", ["mean", "join"])
def test_files_of_several_strengths_count_by_what_they_add(how):
    """With one last layer in all, what is added is the mean of what each adds."""
    shared = grown(0)
    files = [
        made_heads(state=replace(shared, alpha=a), action=replace(shared, alpha=a))
        for a in (1.0, 0.5, 0.0)
    ]
    made = soup(files, how)
    expected = np.mean([moved(h.state, X) for h in files], axis=0)
    np.testing.assert_allclose(moved(made.state, X), expected, atol=1e-6)
    assert made.state.alpha == pytest.approx(0.5)


def test_heads_that_are_frozen_all_stay_frozen():
    made = soup([file_of(0, alpha=0.0), file_of(1, alpha=0.0)])
    np.testing.assert_array_equal(made.state(X), Head.identity(8)(X))


@given(
    alphas=st.lists(st.sampled_from([0.0, 0.2, 0.6, 1.0]), min_size=2, max_size=4),
    centred=st.booleans(),
)
def test_joined_heads_move_a_vector_by_the_mean_of_what_each_moves_it_by(alphas, centred):
    centre = CENTRE if centred else None
    files = [
        file_of(seed, alpha=alpha, start=10 * seed, centre=centre)  # each from a start of its own
        for seed, alpha in enumerate(alphas)
    ]
    made = soup(files, "join")
    for side in ("state", "action"):
        heads = [getattr(h, side) for h in files]
        expected = normalized(X + np.mean([moved(h, X) for h in heads], axis=0).astype(np.float32))
        np.testing.assert_allclose(getattr(made, side)(X), expected, atol=1e-5)
    assert made.state.architecture.hidden == (6 * len(alphas),)


def test_the_mean_of_linear_heads_of_any_starts_is_what_joining_would_be():
    files = [file_of(seed, architecture=LINEAR, start=10 * seed) for seed in range(3)]
    made = soup(files)
    expected = np.mean([moved(h.state, X) for h in files], axis=0)
    np.testing.assert_allclose(moved(made.state, X), expected, atol=1e-6)


def test_the_header_is_that_of_the_first_with_every_digest_and_without_its_measurements(tmp_path):
    files = []
    for seed in (0, 1):
        save_heads(tmp_path / f"{seed}.npz", file_of(seed, widths=(3,)))
        files.append(load_heads(tmp_path / f"{seed}.npz"))
    made = soup(files, name="both")
    assert made.header.training == {
        "name": "both",
        "seed": 0,
        "soup": {
            "how": "mean",
            "files": [{"name": f"s{i}", "sha256": h.sha256} for i, h in enumerate(files)],
        },
    }
    assert made.header.widths == (3,)
    assert made.header.cutoff == files[0].header.cutoff


@pytest.mark.parametrize(
    ("others", "how", "message"),
    [
        ([], "mean", "soup must be made of at least two heads files, got 1"),
        (
            [file_of(1, start=10)],
            "mean",
            r"grown from one start, got .* cosine of -?0\.\d\d; ",
        ),
        ([file_of(1, architecture=Architecture(8, (5,)))], "mean", "must have one architecture"),
        (
            [file_of(1, widths=(3,))],
            "mean",
            r"serve the same widths, got \[\] and \[3\] in 's",
        ),
        ([file_of(1, centre=CENTRE)], "mean", "must all be centred or none, got one of each"),
        (
            [file_of(1, fingerprint=made_fingerprint(8, "other"))],
            "mean",
            "must have one backbone, got model 'made' != 'other' in 's0' and 's1'",
        ),
    ],
)
def test_files_that_do_not_go_together_are_refused_in_one_line(others, how, message):
    with pytest.raises(ConfigError, match=message):
        soup([file_of(0), *others], how)


def test_heads_that_cannot_be_joined_are_refused():
    linear = [file_of(seed, architecture=LINEAR) for seed in (0, 1)]
    with pytest.raises(ConfigError, match=r"to be joined must have one hidden layer, of at most"):
        soup(linear, "join")
    centred = [file_of(0, centre=CENTRE), file_of(1, centre=2 * CENTRE)]
    with pytest.raises(ConfigError, match="to be joined must have one centre"):
        soup(centred, "join")


def test_the_command_writes_a_file_that_loads_and_says_its_digest(tmp_path, capsys):
    names = [str(tmp_path / f"{seed}.npz") for seed in (0, 1)]
    for seed, name in enumerate(names):
        save_heads(name, file_of(seed))
    out = tmp_path / "both.npz"
    assert main(["soup", *names, "--out", str(out), "--how", "join"]) == 0
    made = load_heads(out)
    assert f"sha256 {made.sha256}" in capsys.readouterr().out
    assert (made.name, made.state.architecture.hidden) == ("both", (12,))
    assert main(["soup", *names, "--out", str(tmp_path / "again.npz"), "--how", "join"]) == 0
    (tmp_path / "0.npz").write_bytes(b"damaged")
    assert main(["soup", *names, "--out", str(tmp_path / "no.npz")]) == 2
    assert "must have sha256" in capsys.readouterr().err
    assert not (tmp_path / "no.npz").exists()
