"""Heads files, format 2: the only writer and reader. See docs/heads-format.md."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args

import numpy as np

from toolheads.arrays import Floats
from toolheads.cutoff import CutoffSettings
from toolheads.errors import ConfigError, HeadsFormatError, ShapeError
from toolheads.heads.architecture import Architecture
from toolheads.heads.bundle import Heads, HeadsHeader, Views
from toolheads.heads.container import Container, to_bytes
from toolheads.heads.digests import check_digest, find_heads, read_whole, write_with_sidecar
from toolheads.heads.fusion import Fusion
from toolheads.heads.head import Head
from toolheads.identity import Fingerprint

FORMAT = 2
"""Version of the layout that is written. Raise it when an array or a header field is added or
changes its meaning."""

READABLE = (1, 2)
"""Versions that are read. Format 1 is format 2 without its optional fields."""

WeightDtype = Literal["float16", "float32"]

_SIDES = ("state", "action")
_FIELDS = frozenset(
    {"format", "architecture", "alpha", "fingerprint", "views", "cutoff", "training"}
)
_OPTIONAL: Mapping[int, frozenset[str]] = {
    1: frozenset(),
    2: frozenset({"widths", "centre", "fusion"}),
}
"""Fields that a format may have besides. What is not there is not used, and is never written empty,
so that equal heads have one form."""
_LARGEST_HEADER = 1 << 20
_LARGEST_FLOAT16 = 65_504.0


def save_heads(
    path: str | os.PathLike[str], heads: Heads, *, dtype: WeightDtype = "float16"
) -> str:
    """Write a heads file and, beside it, its sidecar with the sha256.

    Equal heads give equal bytes. Both files appear whole or not at all.

    Args:
        path: Where to; must end in `.npz`. A file that is there is replaced.
        heads: What to write.
        dtype: Precision of the weights in the file; float16 halves it.

    Returns:
        The sha256 of the file.

    Raises:
        ConfigError: If the dtype is unknown, the header holds more than JSON, or the heads are a
            narrowed view of wider ones.
        ShapeError: If a weight does not fit into float16.
    """
    target = Path(path)
    if target.suffix != ".npz":
        msg = f"path must end in .npz, got {str(target)!r}"
        raise ConfigError(msg)
    return write_with_sidecar(target, heads_to_bytes(heads, dtype=dtype))


def load_heads(
    name_or_path: str | os.PathLike[str],
    *,
    sha256: str | None = None,
    allow_unverified: bool = False,
) -> Heads:
    """Load packaged heads by name, or a heads file by path; its sha256 is checked every time.

    Args:
        name_or_path: Such as `minilm`, or a path that ends in `.npz`.
        sha256: Digest it must have; by default the one in the index of packaged heads or in the
            sidecar `<file>.sha256`.
        allow_unverified: Load a file of which no digest is known. One that is known is checked
            all the same.

    Raises:
        ConfigError: If no packaged heads have this name.
        DigestError: If the digest differs or none is known.
        HeadsFormatError: If the file cannot be read as heads.
    """
    path, known = find_heads(name_or_path)
    file = read_whole(path)
    expected = known if sha256 is None else sha256
    digest = check_digest(file, str(path), expected, allow_unverified=allow_unverified)
    return dataclasses.replace(heads_from_bytes(file, str(path)), sha256=digest)


def heads_to_bytes(heads: Heads, *, dtype: WeightDtype = "float16") -> bytes:
    """The content of a heads file. See `save_heads`."""
    if dtype not in get_args(WeightDtype):
        msg = f"dtype must be one of {', '.join(get_args(WeightDtype))}, got {dtype!r}"
        raise ConfigError(msg)
    if heads.state.kept is not None or heads.action.kept is not None:
        msg = (
            f"heads must have their full width {heads.state.width} to be saved, got heads that "
            f"keep {heads.state.projection_width} and {heads.action.projection_width} entries"
        )
        raise ConfigError(msg)
    arrays: dict[str, np.ndarray[Any, Any]] = {
        "header": np.frombuffer(_header_bytes(heads), np.uint8),
        "probe": heads.probe,
    }
    if heads.fusion is not None:
        arrays |= {f"fusion/{name}": array for name, array in heads.fusion.arrays.items()}
    for side, head in (("state", heads.state), ("action", heads.action)):
        if head.centre is not None:
            arrays[f"centre/{side}"] = head.centre
        for name, weight in head.weights.items():
            if dtype == "float16" and np.abs(weight).max(initial=0.0) > _LARGEST_FLOAT16:
                msg = (
                    f"{side}/{name} must be within {_LARGEST_FLOAT16:g} for float16, got "
                    f"{np.abs(weight).max():g}; use dtype float32"
                )
                raise ShapeError(msg)
            arrays[f"{side}/{name}"] = weight.astype(dtype)
    return to_bytes(arrays)


def heads_from_bytes(file: bytes, name: str) -> Heads:
    """Read the content of a heads file whose digest was checked.

    Args:
        file: The whole file.
        name: The file as the caller knows it; used in errors.

    Raises:
        HeadsFormatError: If it cannot be read as heads.
    """
    container = Container(file, name)
    for needed in ("header", "probe"):
        if needed not in container.names:
            _refuse(name, f"array {needed!r} is missing")
    raw = container.read("header", ("|u1",), (None,)).tobytes()
    header = _header_fields(raw, name)
    try:
        fingerprint = Fingerprint.from_json(header["fingerprint"])
        views = Views.from_json(header["views"])
        cutoff = CutoffSettings.from_json(header["cutoff"])
        training = _mapping(header["training"], "training")
        said = _sides(header["architecture"], "architecture")
        alphas = _sides(header["alpha"], "alpha")
        architectures = {side: Architecture.from_json(said[side]) for side in _SIDES}
        widths = _widths(header)
        centred = _centred(header)
        fused = Fusion.shapes(header["fusion"]) if "fusion" in header else {}
    except ConfigError as e:
        _refuse(name, f"in its header {e}", e)
    d = fingerprint.encoder.width
    shapes = {f"{s}/{w}": shape for s in _SIDES for w, shape in architectures[s].shapes.items()}
    floats: dict[str, tuple[int | None, ...]] = {f"centre/{side}": (d,) for side in centred}
    floats |= {f"fusion/{array}": shape for array, shape in fused.items()} | {"probe": (None, d)}
    names = {*shapes, *floats, "header"}
    if container.names != names:
        missing, extra = sorted(names - container.names), sorted(container.names - names)
        _refuse(name, f"it lacks {_listed(missing)} and has too much: {_listed(extra)}")
    arrays = {
        array: container.read(array, ("<f2", "<f4"), shape).astype(np.float32)
        for array, shape in shapes.items()
    }
    arrays |= {array: container.read(array, ("<f4",), shape) for array, shape in floats.items()}
    heads = {}
    try:
        for side in _SIDES:
            own = {w: arrays[f"{side}/{w}"] for w in architectures[side].shapes}
            alpha = _alpha(alphas[side], side)
            centre = arrays.get(f"centre/{side}")
            heads[side] = _head(side, architectures[side], alpha, own, centre)
        about = HeadsHeader(fingerprint, views, cutoff, training, widths)
        fusion = None
        if "fusion" in header:
            own = {array: arrays[f"fusion/{array}"] for array in fused}
            fusion = Fusion.from_json(header["fusion"], own)
        return Heads(heads["state"], heads["action"], about, arrays["probe"], fusion=fusion)
    except (ShapeError, ConfigError) as e:
        _refuse(name, str(e), e)


def header_json(heads: Heads) -> dict[str, Any]:
    """The header of a heads file, JSON types only."""
    header = {
        "format": FORMAT,
        "architecture": {
            "state": heads.state.architecture.to_json(),
            "action": heads.action.architecture.to_json(),
        },
        "alpha": {"state": heads.state.alpha, "action": heads.action.alpha},
        "fingerprint": heads.fingerprint.to_json(),
        "views": heads.header.views.to_json(),
        "cutoff": heads.header.cutoff.to_json(),
        "training": dict(heads.header.training),
    }
    centred = [s for s in _SIDES if getattr(heads, s).centre is not None]
    optional = {
        "widths": [*heads.header.widths] or None,
        "centre": centred or None,
        "fusion": None if heads.fusion is None else heads.fusion.to_json(),
    }
    return header | {field: value for field, value in optional.items() if value is not None}


def _header_bytes(heads: Heads) -> bytes:
    header = header_json(heads)
    try:
        text = json.dumps(
            header, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        )
        return text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as e:
        msg = f"training must hold JSON types without NaN and inf, got: {e}"
        raise ConfigError(msg) from e


def _header_fields(raw: bytes, name: str) -> dict[str, Any]:
    if len(raw) > _LARGEST_HEADER:
        _refuse(name, f"its header has {len(raw)} bytes, more than {_LARGEST_HEADER}")
    try:
        header = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as e:
        _refuse(name, "its header is no JSON in UTF-8", e)
    if not isinstance(header, dict) or "format" not in header:
        _refuse(name, "its header names no format")
    if type(header["format"]) is not int or header["format"] not in READABLE:
        readable = " and ".join(map(str, READABLE))
        msg = (
            f"{name} has heads format {header['format']!r:.80}, this version reads {readable}; "
            "export it anew or install another version of toolheads"
        )
        raise HeadsFormatError(msg)
    fields = set(header) - _OPTIONAL[header["format"]]
    if fields != _FIELDS:
        missing, extra = sorted(_FIELDS - fields), sorted(fields - _FIELDS)
        _refuse(name, f"its header lacks {_listed(missing)} and has too much: {_listed(extra)}")
    return header


def _sides(value: object, field: str) -> Mapping[str, Any]:
    if not isinstance(value, dict) or set(value) != set(_SIDES):
        msg = f"{field} must have the fields state, action, got {value!r:.200}"
        raise ConfigError(msg)
    return value


def _widths(header: Mapping[str, Any]) -> tuple[int, ...]:
    value = header.get("widths", ())
    if "widths" in header and not (isinstance(value, list) and value):
        msg = f"widths must be a list of whole numbers or left out, got {value!r:.200}"
        raise ConfigError(msg)
    return tuple(value)


def _centred(header: Mapping[str, Any]) -> tuple[str, ...]:
    """Sides whose embeddings are centred."""
    value = header.get("centre", [])
    sides = [side for side in _SIDES if isinstance(value, list) and side in value]
    if value != sides or ("centre" in header and not sides):
        msg = f"centre must list state, action or both in this order, got {value!r:.200}"
        raise ConfigError(msg)
    return tuple(sides)


def _mapping(value: object, field: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        msg = f"{field} must be an object, got {value!r:.200}"
        raise ConfigError(msg)
    return value


def _head(
    side: str,
    architecture: Architecture,
    alpha: float,
    weights: Mapping[str, Floats],
    centre: Floats | None,
) -> Head:
    try:
        return Head(architecture, alpha, weights, centre)
    except ShapeError as e:
        msg = f"in the {side} head {e}"
        raise ShapeError(msg) from e


def _alpha(value: object, side: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        msg = f"alpha of {side} must be a number, got {value!r:.80}"
        raise ConfigError(msg)
    try:
        return float(value)
    except OverflowError as e:
        msg = f"alpha of {side} must be finite, got a number of {len(str(value))} digits"
        raise ConfigError(msg) from e


def _no_constant(word: str) -> NoReturn:
    msg = f"{word} is no JSON"
    raise ValueError(msg)


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name)[:80] for name in names[:5]) or "nothing"
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown


def _refuse(name: str, reason: str, cause: Exception | None = None) -> NoReturn:
    msg = f"{name} must be a heads file, but {reason}; get or export it anew"
    raise HeadsFormatError(msg) from cause
