"""Heads files, format 1: the only writer and reader. See docs/heads-format.md."""

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
from toolheads.heads.head import Head
from toolheads.identity import Fingerprint

FORMAT = 1
"""Version of the layout. Raise it when the meaning of an array or a header field changes."""

WeightDtype = Literal["float16", "float32"]

_SIDES = ("state", "action")
_FIELDS = frozenset(
    {"format", "architecture", "alpha", "fingerprint", "views", "cutoff", "training"}
)
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
        ConfigError: If the dtype is unknown or the header holds more than JSON.
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
    arrays: dict[str, np.ndarray[Any, Any]] = {
        "header": np.frombuffer(_header_bytes(heads), np.uint8),
        "probe": heads.probe,
    }
    for side, head in (("state", heads.state), ("action", heads.action)):
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
        architectures = _sides(header["architecture"], "architecture")
        alphas = _sides(header["alpha"], "alpha")
        shapes = {side: Architecture.from_json(architectures[side]) for side in _SIDES}
    except ConfigError as e:
        _refuse(name, f"in its header {e}", e)
    weights = {f"{side}/{w}": shape for side in _SIDES for w, shape in shapes[side].shapes.items()}
    names = frozenset(weights) | {"header", "probe"}
    if container.names != names:
        missing, extra = sorted(names - container.names), sorted(container.names - names)
        _refuse(name, f"it lacks {_listed(missing)} and has too much: {_listed(extra)}")
    dtypes = ("<f2", "<f4")
    arrays = {
        array: container.read(array, dtypes, shape).astype(np.float32)
        for array, shape in weights.items()
    }
    probe = container.read("probe", ("<f4",), (None, fingerprint.encoder.width))
    heads = {}
    try:
        for side in _SIDES:
            own = {w: arrays[f"{side}/{w}"] for w in shapes[side].shapes}
            heads[side] = _head(side, shapes[side], _alpha(alphas[side], side), own)
        about = HeadsHeader(fingerprint, views, cutoff, training)
        return Heads(heads["state"], heads["action"], about, probe)
    except (ShapeError, ConfigError) as e:
        _refuse(name, str(e), e)


def header_json(heads: Heads) -> dict[str, Any]:
    """The header of a heads file, JSON types only."""
    return {
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
    if type(header["format"]) is not int or header["format"] != FORMAT:
        msg = (
            f"{name} has heads format {header['format']!r:.80}, this version reads {FORMAT}; "
            "export it anew or install another version of toolheads"
        )
        raise HeadsFormatError(msg)
    if set(header) != _FIELDS:
        missing, extra = sorted(_FIELDS - set(header)), sorted(set(header) - _FIELDS)
        _refuse(name, f"its header lacks {_listed(missing)} and has too much: {_listed(extra)}")
    return header


def _sides(value: object, field: str) -> Mapping[str, Any]:
    if not isinstance(value, dict) or set(value) != set(_SIDES):
        msg = f"{field} must have the fields state, action, got {value!r:.200}"
        raise ConfigError(msg)
    return value


def _mapping(value: object, field: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        msg = f"{field} must be an object, got {value!r:.200}"
        raise ConfigError(msg)
    return value


def _head(
    side: str, architecture: Architecture, alpha: float, weights: Mapping[str, Floats]
) -> Head:
    try:
        return Head(architecture, alpha, weights)
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
