"""The package in a few lines: joins heads, encoder, cache and scorer in one call.

What a Python program and the command line have in common. Everything it does can be done by
hand with the parts it joins.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from toolheads.bootstrap import make_encoder, resolve_settings
from toolheads.embedder import Embedder, Progress
from toolheads.heads import Heads, load_heads
from toolheads.ports import Encoder
from toolheads.scorers.clm import CLMScorer

DEFAULT_HEADS = "minilm"
"""Packaged heads for the encoder that needs no server."""

SCORERS = ("clm", "dense", "bm25")
"""Kinds of scorers: trained heads, frozen embeddings, words."""


def load_scorer(
    heads: Heads | str | os.PathLike[str] = DEFAULT_HEADS,
    encoder: Encoder | None = None,
    *,
    cache: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    width: int | None = None,
) -> CLMScorer:
    """Load heads and the encoder they need; call `index(tools)` and `search(text)` next.

    Args:
        heads: Name of packaged heads, path of a heads file, or heads that are loaded.
        encoder: The backbone of the heads. None makes the one that the environment names, else
            the local one.
        cache: Folder that keeps the vectors of tools; None embeds them at every start.
        progress: Told how many texts of a call are embedded.
        width: Leading entries of a projection to keep, one of the widths that the heads were
            trained for: the index is smaller by that, and scanned faster. None keeps all.

    Raises:
        ConfigError: If there are no such heads, or they were not trained for the width.
        DigestError: If the file is not the one its digest promises.
        HeadsFormatError: If the file cannot be read as heads.
        BackboneMismatchError: If the heads were trained on another encoder.
        MissingExtraError: If a library that the encoder needs is not installed.
    """
    loaded = (heads if isinstance(heads, Heads) else load_heads(heads)).at_width(width)
    folder = None if cache is None else Path(cache)
    embedder = Embedder(encoder or encoder_for(loaded), loaded.texts, folder, progress=progress)
    return CLMScorer(loaded, embedder)


def encoder_for(heads: Heads, **settings: Any) -> Encoder:
    """Make the encoder that the environment names, cut to the length the heads were trained with.

    Args:
        heads: The heads that it is for.
        settings: Fields of `EncoderSettings` that win over both; None is not given.
    """
    if settings.get("truncation") is None:
        settings["truncation"] = heads.fingerprint.encoder.truncation or None
    return make_encoder(resolve_settings(**settings))
