"""Shape of a head as plain data: which weights it has, and of which shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from toolheads.errors import ConfigError

Activation = Literal["gelu", "identity"]
InputScaling = Literal["none", "sqrt", "layernorm"]

LARGEST_SIDE = 65_536
"""Largest width and largest hidden width; beyond it a number in a file is a mistake."""

MOST_LAYERS = 16


@dataclass(frozen=True)
class Architecture:
    """A residual perceptron: y = normalize(x + alpha * MLP(scale(x))), width d in and out.

    `Head` adds what is no part of the shape: the mean that is taken out, the entries kept.

    The MLP is h = act(W_in s + b_in); for each further hidden layer
    h = act(LayerNorm?(W h + b)); then W_out h + b_out. `hidden=(r,)` with the identity as
    activation is a low-rank linear head; `hidden=()` is one linear map.
    """

    width: int
    """d, entries of an embedding."""
    hidden: tuple[int, ...] = (384,)
    """Widths of the hidden layers."""
    activation: Activation = "gelu"
    """`gelu` (exact, with erf) or `identity`."""
    input_scaling: InputScaling = "none"
    """`none`; `sqrt`: times the square root of d; `layernorm`: mean 0, variance 1, no weights.

    An embedding of length 1 has entries of about d ** -0.5; the other two bring them to about 1,
    which layers are usually initialised for.
    """
    hidden_norm: bool = False
    """LayerNorm with weights, before the activation of the second and later hidden layers."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))
        for name, sides in {"width": (self.width,), "hidden": self.hidden}.items():
            if not all(type(side) is int and 1 <= side <= LARGEST_SIDE for side in sides):
                msg = f"{name} must hold whole numbers in [1, {LARGEST_SIDE}], got {sides}"
                raise ConfigError(msg)
        if len(self.hidden) > MOST_LAYERS:
            msg = f"hidden must have at most {MOST_LAYERS} layers, got {len(self.hidden)}"
            raise ConfigError(msg)
        for name, choices in {"activation": Activation, "input_scaling": InputScaling}.items():
            if getattr(self, name) not in get_args(choices):
                allowed = ", ".join(get_args(choices))
                msg = f"{name} must be one of {allowed}, got {getattr(self, name)!r}"
                raise ConfigError(msg)
        if type(self.hidden_norm) is not bool:
            msg = f"hidden_norm must be true or false, got {self.hidden_norm!r}"
            raise ConfigError(msg)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name of each weight → its shape, (out, in) for matrices, in the order of use."""
        shapes: dict[str, tuple[int, ...]] = {}
        below = self.width
        for depth, above in enumerate(self.hidden):
            layer = f"hidden.{depth - 1}" if depth else "in"
            shapes |= {f"{layer}.weight": (above, below), f"{layer}.bias": (above,)}
            if depth and self.hidden_norm:
                shapes |= {f"{layer}.norm.weight": (above,), f"{layer}.norm.bias": (above,)}
            below = above
        return shapes | {"out.weight": (self.width, below), "out.bias": (self.width,)}

    def to_json(self) -> dict[str, Any]:
        """JSON types only; `from_json` reads it back."""
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"hidden": [*self.hidden]}

    @classmethod
    def from_json(cls, data: object) -> Architecture:
        """Read what `to_json` wrote.

        Raises:
            ConfigError: If a field is missing, unknown, or breaks its rule.
        """
        names = {f.name for f in fields(cls)}
        if not isinstance(data, Mapping) or set(data) != names:
            msg = f"architecture must have the fields {', '.join(sorted(names))}, got {data!r:.200}"
            raise ConfigError(msg)
        values: dict[str, Any] = dict(data)
        if not isinstance(values["hidden"], list):
            msg = f"hidden must be a list, got {values['hidden']!r:.80}"
            raise ConfigError(msg)
        return cls(**values)
