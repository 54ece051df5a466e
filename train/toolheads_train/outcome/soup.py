"""One heads file out of several of one backbone: the mean of their weights, or all side by side.

- `mean` is a soup, Wortsman et al. (2022), https://arxiv.org/abs/2203.05482: each weight is the
  mean of that weight over the files. It makes sense for heads that grew from one start: one
  `seed_everything`, other data seeds, learning rates or data sets. Hidden layers of other starts
  have their units in another order; these are refused.
- `join` puts the hidden units of all files into one layer, so that a head moves a vector by the
  mean of what they move it by, exactly. It takes any starts, and files with one hidden layer.

Either is one pair of heads: an index and a scan cost what they cost with a single file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from toolheads.arrays import Floats
from toolheads.errors import ConfigError
from toolheads.heads import Architecture, Head, Heads, HeadsHeader, load_heads, save_heads
from toolheads.heads.architecture import LARGEST_SIDE
from toolheads.heads.files import WeightDtype

How = Literal["mean", "join"]

LEAST_LIKENESS = 0.5
"""Cosine of two files' hidden weights below which they did not grow from one start. Two random
starts have about 0; training moves a weight by far less than its size."""

_MEASURED = ("share", "adaptive", "metrics", "best_step")
"""What the header of a file says of its own weights alone."""


def soup(files: Sequence[Heads], how: How = "mean", *, name: str = "soup") -> Heads:
    """Make one pair of heads of several.

    Args:
        files: At least two, of one backbone and architecture; views, cut-off and fusion are those
            of the first.
        how: See the module.
        name: Of the result.

    Returns:
        Heads whose header names the sha256 of each file under `soup`.

    Raises:
        ConfigError: If they do not fit each other.
    """
    if len(files) < 2:
        msg = f"soup must be made of at least two heads files, got {len(files)}"
        raise ConfigError(msg)
    first = files[0]
    for other in files[1:]:
        _check_pair(first, other)
    blend = _mean if how == "mean" else _join
    about = {n: v for n, v in first.header.training.items() if n not in _MEASURED}
    about |= {
        "name": name,
        "soup": {"how": how, "files": [{"name": h.name, "sha256": h.sha256} for h in files]},
    }
    header = first.header
    return Heads(
        blend("state", [h.state for h in files]),
        blend("action", [h.action for h in files]),
        HeadsHeader(header.fingerprint, header.views, header.cutoff, about, header.widths),
        first.probe,
        fusion=first.fusion,
    )


def main(words: Sequence[str]) -> int:
    """`toolheads train soup`: make one heads file of several."""
    parser = argparse.ArgumentParser(
        prog="toolheads train soup",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("heads", nargs="+", metavar="A.npz", help="heads files, at least two")
    parser.add_argument("--out", type=Path, required=True, help="heads file, ends in .npz")
    parser.add_argument("--how", choices=get_args(How), default="mean", help="default: mean")
    parser.add_argument("--name", help="name of the heads (default: that of the file)")
    parser.add_argument(
        "--dtype", choices=get_args(WeightDtype), default="float16", help="default: float16"
    )
    parser.add_argument(
        "--allow-unverified",
        action="store_true",
        help="take heads files of which no digest is known",
    )
    args = parser.parse_args(list(words))
    files = [load_heads(one, allow_unverified=args.allow_unverified) for one in args.heads]
    made = soup(files, args.how, name=args.name or args.out.stem)
    sha256 = save_heads(args.out, made, dtype=args.dtype)
    sys.stdout.write(f"{args.out}\nsha256 {sha256}\n")
    return 0


def _check_pair(first: Heads, other: Heads) -> None:
    """Two files are for one backbone and serve the same widths."""
    names = f"{first.name!r:.80} and {other.name!r:.80}"
    if first.fingerprint != other.fingerprint:
        difference = first.fingerprint.difference(other.fingerprint)
        msg = f"heads of a soup must have one backbone, got {difference} in {names}"
        raise ConfigError(msg)
    if first.header.widths != other.header.widths:
        widths = f"{list(first.header.widths)} and {list(other.header.widths)}"
        msg = f"heads of a soup must serve the same widths, got {widths} in {names}"
        raise ConfigError(msg)
    for side in ("state", "action"):
        one, two = getattr(first, side), getattr(other, side)
        if one.architecture != two.architecture:
            msg = (
                f"{side} heads of a soup must have one architecture, got "
                f"{one.architecture.to_json()} and {two.architecture.to_json()} in {names}"
            )
            raise ConfigError(msg)
        if (one.centre is None) != (two.centre is None):
            msg = f"{side} heads of a soup must all be centred or none, got one of each in {names}"
            raise ConfigError(msg)


def _mean(side: str, heads: Sequence[Head]) -> Head:
    """The mean of each weight; the last layer counts with the strength of its file."""
    for one, two in pairwise(heads):
        likeness = _likeness(one, two)
        if likeness < LEAST_LIKENESS:
            msg = (
                f"{side} heads of a soup must have grown from one start, got hidden layers with a "
                f"cosine of {likeness:.2f}; train them with one seed_everything and other data "
                "seeds, or use how = join"
            )
            raise ConfigError(msg)
    alpha, shares = _strengths(heads)
    weights: dict[str, Floats] = {}
    for name in heads[0].weights:
        scale = shares if name.startswith("out.") else np.ones(len(heads))
        weights[name] = _averaged([h.weights[name] for h in heads], scale)
    centre = None
    if heads[0].centre is not None:
        centre = _averaged([h.centre for h in heads if h.centre is not None], np.ones(len(heads)))
    return Head(heads[0].architecture, alpha, weights, centre)


def _join(side: str, heads: Sequence[Head]) -> Head:
    """All hidden units in one layer."""
    one = heads[0].architecture
    width = sum(sum(h.architecture.hidden) for h in heads)
    if len(one.hidden) != 1 or width > LARGEST_SIDE:
        msg = (
            f"{side} heads to be joined must have one hidden layer, of at most {LARGEST_SIDE} "
            f"units together, got {list(one.hidden)} in {len(heads)} files"
        )
        raise ConfigError(msg)
    centre = heads[0].centre
    if centre is not None and not all(np.array_equal(centre, _of(h)) for h in heads):
        msg = f"{side} heads to be joined must have one centre, got others; train on one corpus"
        raise ConfigError(msg)
    alpha, shares = _strengths(heads)
    scaled = [np.float32(share) / len(heads) for share in shares]
    pairs = list(zip(scaled, heads, strict=True))
    bias = np.sum([share * h.weights["out.bias"] for share, h in pairs], axis=0)
    weights: Mapping[str, Any] = {
        "in.weight": np.concatenate([h.weights["in.weight"] for h in heads]),
        "in.bias": np.concatenate([h.weights["in.bias"] for h in heads]),
        "out.weight": np.concatenate([s * h.weights["out.weight"] for s, h in pairs], axis=1),
        "out.bias": bias.astype(np.float32),
    }
    joined = Architecture(
        one.width, (width,), one.activation, one.input_scaling, hidden_norm=one.hidden_norm
    )
    return Head(joined, alpha, weights, centre)


def _strengths(heads: Sequence[Head]) -> tuple[float, Floats]:
    """The mean alpha, and how often it goes into that of each head; 1 where all are 0.

    What a head adds to a vector is alpha times its last layer. With these factors in the last
    layers, heads of several strengths are averaged by what they add.
    """
    alphas = np.array([h.alpha for h in heads], np.float64)
    alpha = float(alphas.mean())
    shares = alphas / alpha if alpha else np.ones(len(heads))
    return alpha, shares.astype(np.float32)


def _averaged(arrays: Sequence[Floats], scale: Any) -> Floats:
    stacked = np.stack([np.float64(s) * a for s, a in zip(scale, arrays, strict=True)])
    mean: Floats = stacked.mean(axis=0).astype(np.float32)
    return mean


def _likeness(one: Head, two: Head) -> float:
    """Smallest cosine of the matrices before the last one; 1 where there are none."""
    names = [n for n, w in one.weights.items() if w.ndim == 2 and not n.startswith("out.")]
    cosines = [1.0]
    for name in names:
        a, b = (h.weights[name].astype(np.float64).ravel() for h in (one, two))
        lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
        cosines.append(float(a @ b) / lengths if lengths else 1.0)
    return min(cosines)


def _of(head: Head) -> Floats:
    return np.zeros(head.width, np.float32) if head.centre is None else head.centre
