"""The thresholds of decisions: immutable, checked, JSON in and out. Knows no tool and no score."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from typing import Any, NoReturn

from toolheads.errors import ConfigError

_LONGEST_JSON = 1 << 20


class SettingError(ConfigError):
    """A setting of decisions breaks its rule.

    Attributes:
        field: The setting; None when the settings as a whole are meant.
    """

    def __init__(self, message: str, field: str | None = None) -> None:
        self.field = field
        super().__init__(message)


@dataclass(frozen=True)
class PickerSettings:
    """When a need names one tool, when several, when none.

    The defaults are the published ones for `bge-small-en-v1.5` over the text format
    `tool-sentence/v1`. They fit no other encoder and no heads: take those of a `Calibration`.
    Every comparison is in 32-bit floats and every boundary is inclusive.
    """

    similarity_floor: float = 0.825
    """Least score of a leader, in [0, 1]."""
    margin: float = 0.05
    """A tool whose score is less than this below the leader's is as likely, in [0, 1]. A gap of
    exactly the margin separates; margin 0 separates even equal scores."""
    duplicate_threshold: float = 0.98
    """Least similarity of the leader to a tool of the same server that is its duplicate, in
    [0, 1]. Of tool to tool, not to the need."""
    solo_floor: float = 1.0
    """Least score, in [0, 1], of a leader under the floor that is bound all the same since no
    other tool reaches this score. From `similarity_floor` on the rule is off."""
    top_k: int = 3
    """Tools that an ambiguous or duplicate answer names, >= 1; two are always named."""
    score_unit: float = 1.0
    """Scores are divided by this before they are compared, so that thresholds in [0, 1] fit
    scores that are no cosines. Finite, > 0."""

    def __post_init__(self) -> None:
        for name in ("similarity_floor", "margin", "duplicate_threshold", "solo_floor"):
            value = getattr(self, name)
            if not _is_number(value) or not 0 <= value <= 1:
                msg = f"{name} must be a number in [0, 1], got {value!r:.80}"
                raise SettingError(msg, name)
            object.__setattr__(self, name, float(value))
        if type(self.top_k) is not int or self.top_k < 1:
            msg = f"top_k must be a whole number >= 1, got {self.top_k!r:.80}"
            raise SettingError(msg, "top_k")
        if not _is_number(self.score_unit) or not self.score_unit > 0:
            msg = f"score_unit must be a finite number > 0, got {self.score_unit!r:.80}"
            raise SettingError(msg, "score_unit")
        object.__setattr__(self, "score_unit", float(self.score_unit))

    @property
    def named(self) -> int:
        """Most tools that an answer names."""
        return max(self.top_k, 2)

    def changed(self, **values: Any) -> PickerSettings:
        """The same settings with some values changed.

        Raises:
            SettingError: If a name is unknown or a value breaks its rule.
        """
        _refuse_unknown(values)
        return replace(self, **values)

    def to_json(self) -> dict[str, Any]:
        """JSON types only; `from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: object) -> PickerSettings:
        """Read settings; what is not there takes its default.

        Args:
            data: A JSON text, or the object it holds.

        Raises:
            SettingError: If it is no JSON object, a key is unknown, or a value breaks its rule.
        """
        if isinstance(data, str):
            data = _parsed(data)
        if not isinstance(data, Mapping):
            msg = f"settings must be a JSON object, got {data!r:.80}"
            raise SettingError(msg)
        _refuse_unknown(data)
        return cls(**data)


def _parsed(text: str) -> object:
    if len(text) > _LONGEST_JSON:
        msg = f"settings must have at most {_LONGEST_JSON} characters, got {len(text)}"
        raise SettingError(msg)
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as e:
        msg = f"settings must be JSON, got {text!r:.80}: {e}"
        raise SettingError(msg) from e


def _no_constant(name: str) -> NoReturn:
    msg = f"{name} is no JSON number"
    raise ValueError(msg)


def _refuse_unknown(data: Mapping[Any, Any]) -> None:
    known = [field.name for field in fields(PickerSettings)]
    for name in data:
        if name not in known:
            near = get_close_matches(str(name), known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            msg = f"a setting must be one of {', '.join(known)}, got {name!r:.80}{hint}"
            raise SettingError(msg, str(name))


def _is_number(value: object) -> bool:
    is_real = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_real and math.isfinite(value)  # type: ignore[arg-type]  # a number, as checked
