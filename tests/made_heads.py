"""Heads with random weights, for tests that need some."""

from __future__ import annotations

import numpy as np

from toolheads.heads import Architecture, Head, Heads, HeadsHeader, Views
from toolheads.identity import EncoderIdentity, Fingerprint
from toolheads.texts import TextSettings

PLAIN = Architecture(8, hidden=(6,))
DEEP = Architecture(8, hidden=(6, 5), input_scaling="layernorm", hidden_norm=True)


def made_head(architecture=PLAIN, *, alpha=0.5, seed=0):
    rng = np.random.default_rng(seed)
    weights = {
        name: rng.normal(scale=0.5, size=shape).astype(np.float32)
        for name, shape in architecture.shapes.items()
    }
    return Head(architecture, alpha, weights)


def made_fingerprint(width=8, model="made"):
    return Fingerprint(EncoderIdentity(model, "", "mean", 256, width, "float32"), TextSettings())


def made_heads(
    *,
    state=None,
    action=None,
    fingerprint=None,
    probe=None,
    views=None,
    cutoff=None,
    training=None,
    widths=None,
    fusion=None,
):
    state = state or made_head(DEEP, seed=1)
    action = action or made_head(PLAIN, seed=2)
    optional = {
        name: value
        for name, value in {
            "views": views,
            "cutoff": cutoff,
            "training": training,
            "widths": widths,
        }.items()
        if value is not None
    }
    header = HeadsHeader(fingerprint or made_fingerprint(state.width), **optional)
    if probe is None:
        probe = np.eye(4, state.width, dtype=np.float32)
    return Heads(state, action, header, probe, fusion=fusion)


ALL_VIEWS = Views(
    tool={"text": 0.6, "name": 0.3, "summary": 0.1}, query={"text": 0.7, "clause": 0.3}
)
