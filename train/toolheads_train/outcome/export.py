"""From torch to a heads file: write it through `toolheads.heads`, read it back, compare both.

An export that was not compared is none: a file whose heads do not project as the trained ones is
removed again.
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from toolheads.arrays import Floats, as_rows, normalized
from toolheads.cutoff import CutoffSettings
from toolheads.errors import ConfigError, HeadsFormatError
from toolheads.heads import Fusion, Head, Heads, HeadsHeader, Views, load_heads, save_heads
from toolheads.heads.convert import LEAST_COSINE, least_cosine
from toolheads.heads.digests import sidecar
from toolheads.heads.files import WeightDtype
from toolheads.identity import Fingerprint
from toolheads_train.loop.checkpoints import heads_from_checkpoint
from toolheads_train.model.heads import HeadModule, TwoHeads

BACKBONE_KEY = "toolheads_backbone"
"""Key in a checkpoint of what a heads file says beside weights: encoder, probe, views."""

PACKAGES = ("toolheads", "torch", "lightning", "numpy")
"""Packages whose versions are part of a heads file."""


@dataclass(frozen=True)
class Backbone:
    """What heads were trained on top of."""

    fingerprint: Fingerprint
    probe: Floats
    """(p, d) vectors of the probe texts."""
    tool_views: Mapping[str, float] = field(default_factory=lambda: {"text": 1.0})
    """Views of a tool and their weights in training."""

    def to_state(self) -> dict[str, Any]:
        """What goes into a checkpoint: plain types and one tensor."""
        return {
            "fingerprint": self.fingerprint.to_json(),
            "probe": torch.from_numpy(self.probe.copy()),
            "tool_views": dict(self.tool_views),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Backbone:
        """Read what `to_state` made."""
        return cls(
            Fingerprint.from_json(state["fingerprint"]),
            state["probe"].numpy(),
            state["tool_views"],
        )


@dataclass(frozen=True)
class Export:
    """A heads file that was written and compared."""

    path: Path
    sha256: str
    cosine: float
    """Smallest cosine between projections by numpy from the file and by torch with the same
    weights, over both heads."""
    weights_cosine: float
    """The same against the weights before they were rounded to the precision of the file."""


def export_heads(
    path: str | Path,
    trained: TwoHeads,
    backbone: Backbone,
    batch: Floats,
    *,
    views: Views | None = None,
    cutoff: CutoffSettings | None = None,
    training: Mapping[str, Any] | None = None,
    dtype: WeightDtype = "float16",
    fusion: Fusion | None = None,
) -> Export:
    """Write a heads file and its sidecar, and compare what comes out of it with torch.

    Args:
        path: Where to; must end in `.npz`. A file that is there is replaced.
        trained: The heads, with the alpha they are to be served with.
        backbone: Encoder, probe and views of the training.
        batch: (n, d) embeddings to compare on, n >= 1; real ones, as random ones are all alike.
        views: Weights of views in serving; None takes those of the training.
        cutoff: How many hits are shown; None takes the default.
        training: Where the heads come from, JSON types only.
        dtype: Precision of the weights in the file.
        fusion: What is mixed into the scores; None leaves them as they are.

    Returns:
        The digest and how near numpy is to torch.

    Raises:
        HeadsFormatError: If a cosine is below 0.999999; the file is removed.
    """
    rows = as_rows(batch, width=trained.state.architecture.width, name="batch")
    if not len(rows):
        msg = f"batch must have at least one row, got shape {rows.shape}"
        raise ConfigError(msg)
    header = HeadsHeader(
        backbone.fingerprint,
        views or Views(tool=dict(backbone.tool_views)),
        cutoff or CutoffSettings(),
        dict(training or {}),
        trained.widths,
    )
    state, action = to_head(trained.state), to_head(trained.action)
    heads = Heads(state, action, header, backbone.probe, fusion=fusion)
    sha256 = save_heads(path, heads, dtype=dtype)
    stored = load_heads(Path(path), sha256=sha256)
    rounded = _rounded(trained, dtype)
    cosine = _agreement(stored, rounded, rows)
    if not cosine >= LEAST_COSINE:
        for written in (Path(path), sidecar(Path(path))):
            written.unlink(missing_ok=True)
        msg = (
            f"{path} must project as the trained heads, cosine >= {LEAST_COSINE}, got "
            f"{cosine:.7f}; the file was removed"
        )
        raise HeadsFormatError(msg)
    return Export(Path(path), sha256, cosine, _agreement(stored, trained, rows))


def to_head(module: HeadModule) -> Head:
    """The numpy head with the weights and the centre of a torch head."""
    centre = None if module.centre is None else module.centre.float().cpu().numpy()
    return Head(module.architecture, float(module.alpha), module.weights(), centre)


def package_versions(names: Sequence[str] = PACKAGES) -> dict[str, str]:
    """Package → version."""
    return {name: version(name) for name in names}


def main(words: Sequence[str]) -> int:
    """`toolheads train export`: write a heads file from a checkpoint.

    The file has the alpha, the views and the cut-off of the training: calibration needs
    validation data and belongs to `fit`.
    """
    parser = argparse.ArgumentParser(prog="toolheads train export", description=main.__doc__)
    parser.add_argument("--ckpt", type=Path, required=True, help="checkpoint, such as best.ckpt")
    parser.add_argument("--out", type=Path, required=True, help="heads file, ends in .npz")
    parser.add_argument("--name", help="name of the heads (default: that of the file)")
    parser.add_argument(
        "--dtype", choices=("float16", "float32"), default="float16", help="default: float16"
    )
    args = parser.parse_args(list(words))
    export = export_checkpoint(args.ckpt, args.out, name=args.name, dtype=args.dtype)
    sys.stdout.write(
        f"{export.path}\nsha256 {export.sha256}\ncosine of numpy and torch {export.cosine:.8f}\n"
    )
    return 0


def export_checkpoint(
    checkpoint: Path, out: Path, *, name: str | None = None, dtype: WeightDtype = "float16"
) -> Export:
    """Write a heads file from a checkpoint, without calibration.

    Raises:
        ConfigError: If the file is no checkpoint, or one without its backbone.
    """
    if not checkpoint.is_file():
        msg = f"ckpt must be a checkpoint file, got no file {checkpoint}"
        raise ConfigError(msg)
    trained = heads_from_checkpoint(str(checkpoint))
    state = torch.load(checkpoint, map_location="cpu", weights_only=True).get(BACKBONE_KEY)
    if state is None:
        msg = f"{checkpoint} must name its encoder, got a checkpoint of a run without data folders"
        raise ConfigError(msg)
    backbone = Backbone.from_state(state)
    about = {"name": name or out.stem, "packages": package_versions()}
    return export_heads(
        out, trained, backbone, _probe_batch(backbone.probe), training=about, dtype=dtype
    )


def _probe_batch(probe: Floats, rows: int = 256) -> Floats:
    """(rows, d) mixtures of the probe vectors and noise: near real embeddings, without data."""
    rng = np.random.default_rng(0)
    mixed = rng.random((rows, len(probe))) @ probe
    noise = rng.normal(scale=probe.std(), size=mixed.shape)
    return normalized((mixed / len(probe) + noise).astype(np.float32))


def _rounded(trained: TwoHeads, dtype: WeightDtype) -> TwoHeads:
    """A float32 copy on the CPU whose weights went through the precision of the file.

    So the comparison is of two implementations, not of two roundings.
    """
    heads = copy.deepcopy(trained).float().cpu().eval()
    if dtype == "float16":
        with torch.no_grad():
            for parameter in heads.parameters():
                parameter.copy_(parameter.half().float())
    return heads


@torch.no_grad()
def _agreement(heads: Heads, trained: TwoHeads, rows: Floats) -> float:
    """Smallest cosine between numpy and torch over both heads; NaN if a projection is."""
    trained = copy.deepcopy(trained).float().cpu().eval()
    x = torch.from_numpy(rows)
    pairs = ((heads.state, trained.state), (heads.action, trained.action))
    cosines = [least_cosine(head(rows), module(x).numpy()) for head, module in pairs]
    return float(np.min(cosines))  # unlike min(), NaN wins
