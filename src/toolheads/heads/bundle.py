"""Both heads with what is needed to use them: backbone, views, cut-off, where they come from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from toolheads.arrays import Floats, as_rows
from toolheads.cutoff import CutoffSettings
from toolheads.errors import ConfigError, ShapeError
from toolheads.heads.fusion import Fusion
from toolheads.heads.head import Head
from toolheads.identity import Fingerprint
from toolheads.texts import QUERY_VIEWS, TOOL_VIEWS, TextSettings

LARGEST_WEIGHT = 100.0

_WHOLE: Mapping[str, float] = MappingProxyType({"text": 1.0})
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Views:
    """Weights of the views of tools and queries; a view that is not named has weight 0.

    The score of a tool is the sum over both sides' weights of products of projections, where
    the clauses of a query count with the best of them. Weights that sum to 1 on each side keep
    the score a mean of cosines, which makes a margin readable; nothing else depends on it.
    """

    tool: Mapping[str, float] = field(default_factory=lambda: _WHOLE)
    """View of a tool (`text`, `name`, `summary`) → weight."""
    query: Mapping[str, float] = field(default_factory=lambda: _WHOLE)
    """View of a query (`text`, `clause`) → weight."""

    def __post_init__(self) -> None:
        for side, known in {"tool": TOOL_VIEWS, "query": QUERY_VIEWS}.items():
            weights = _weights(getattr(self, side), side, known)
            object.__setattr__(self, side, MappingProxyType(weights))

    @property
    def has_clauses(self) -> bool:
        """Whether the clauses of a query count."""
        return self.query.get("clause", 0.0) > 0

    def to_json(self) -> dict[str, Any]:
        """JSON types only; `from_json` reads it back."""
        return {"tool": dict(self.tool), "query": dict(self.query)}

    @classmethod
    def from_json(cls, data: object) -> Views:
        """Read what `to_json` wrote.

        Raises:
            ConfigError: If a side is missing or unknown, or a weight breaks its rule.
        """
        if not isinstance(data, Mapping) or set(data) != {"tool", "query"}:
            msg = f"views must have the fields query, tool, got {data!r:.200}"
            raise ConfigError(msg)
        return cls(data["tool"], data["query"])


@dataclass(frozen=True)
class HeadsHeader:
    """What a heads file says about its heads beside their shape."""

    fingerprint: Fingerprint
    """Encoder and text settings of the vectors they were trained on."""
    views: Views = field(default_factory=Views)
    cutoff: CutoffSettings = field(default_factory=CutoffSettings)
    training: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    """Where they come from, JSON types: name, seed, config, data digests, package versions,
    metrics, licences of the data. Read by people, and by reports; no score depends on it."""
    widths: tuple[int, ...] = ()
    """Leading entries of a projection that may be served alone, rising, each below d: the heads
    were trained at these widths too. d itself is always served."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "widths", tuple(self.widths))
        d = self.fingerprint.encoder.width
        whole = all(type(width) is int and 1 <= width < d for width in self.widths)
        if not whole or list(self.widths) != sorted(set(self.widths)):
            msg = f"widths must be rising whole numbers in [1, {d}), got {self.widths!r:.200}"
            raise ConfigError(msg)


@dataclass(frozen=True, eq=False)
class Heads:
    """State head for queries, action head for tools, trained together on one backbone.

    Attributes:
        state: Projects query embeddings.
        action: Projects tool embeddings.
        header: Backbone, views, cut-off, training.
        probe: (p, d) float32, embeddings of `identity.PROBE_TEXTS` by the backbone.
        sha256: Of the file they were loaded from; empty when they come from no file.
        fusion: How their scores are mixed with others; None leaves them as they are.
    """

    state: Head
    action: Head
    header: HeadsHeader
    probe: Floats
    sha256: str = ""
    fusion: Fusion | None = None

    def __post_init__(self) -> None:
        width = self.header.fingerprint.encoder.width
        for name, head in {"state": self.state, "action": self.action}.items():
            if head.width != width:
                msg = f"the {name} head must have the backbone's width {width}, got {head.width}"
                raise ShapeError(msg)
        probe = as_rows(self.probe, width=width, name="probe").copy()
        if not len(probe):
            msg = f"probe must have at least one row, got shape {probe.shape}"
            raise ShapeError(msg)
        probe.flags.writeable = False
        object.__setattr__(self, "probe", probe)

    def at_width(self, width: int | None) -> Heads:
        """These heads with the leading entries of their projections alone, for a smaller index.

        Args:
            width: One of `header.widths`, or d; None leaves them as they are.

        Raises:
            ConfigError: If the heads were not trained for this width.
        """
        d = self.state.width
        served = (*self.header.widths, d)
        if width is None:
            return self
        if type(width) is not int or width not in served:
            msg = (
                f"width must be one of {', '.join(map(str, served))} for heads {self.name!r:.80}, "
                f"got {width!r:.80}; the setting model.head.widths of training adds widths"
            )
            raise ConfigError(msg)
        kept = None if width == d else width
        return replace(
            self, state=replace(self.state, kept=kept), action=replace(self.action, kept=kept)
        )

    @property
    def fingerprint(self) -> Fingerprint:
        """Encoder and text settings that the vectors must come from."""
        return self.header.fingerprint

    @property
    def texts(self) -> TextSettings:
        """Text settings an `Embedder` needs for these heads."""
        return self.header.fingerprint.texts

    @property
    def name(self) -> str:
        """Name as training gave it; else the start of the digest."""
        return str(self.header.training.get("name") or self.sha256[:12] or "unnamed")


def _weights(weights: object, side: str, known: tuple[str, ...]) -> dict[str, float]:
    if not isinstance(weights, Mapping) or not weights or not set(weights) <= set(known):
        msg = f"{side} views must map some of {', '.join(known)} to weights, got {weights!r:.200}"
        raise ConfigError(msg)
    for view, weight in weights.items():
        is_number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
        if not is_number or not math.isfinite(weight) or not 0 <= weight <= LARGEST_WEIGHT:
            msg = (
                f"the weight of {side} view {view!r} must be a number in "
                f"[0, {LARGEST_WEIGHT:g}], got {weight!r}"
            )
            raise ConfigError(msg)
    if not any(weights.values()):
        msg = f"{side} views must have a weight above 0, got {dict(weights)}"
        raise ConfigError(msg)
    return {view: float(weights[view]) for view in known if view in weights}
