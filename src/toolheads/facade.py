"""The package in a few lines: joins heads, encoder, cache and scorer in one call.

What a Python program and the command line have in common. Everything it does can be done by
hand with the parts it joins.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from toolheads.bootstrap import EncoderSettings, make_encoder, resolve_settings
from toolheads.decide import Calibration, KindsOfThresholds, load_calibration, packaged_thresholds
from toolheads.decide.calibration import subject_of_vectors
from toolheads.domain import Tool
from toolheads.embedder import Embedder, Progress
from toolheads.errors import BackboneMismatchError, CalibrationError, ConfigError
from toolheads.heads import Heads, load_heads
from toolheads.identity import Fingerprint
from toolheads.indexes import open_index, row_key, space_of
from toolheads.ports import Encoder
from toolheads.retrieval import Retriever, RetrieverSettings
from toolheads.retrieval.building import FloorOf, Scoring
from toolheads.retrieval.state import Floor
from toolheads.retrieval.workers import Workers
from toolheads.scorers.clm import CLMScorer, check_fingerprint
from toolheads.scorers.hybrid import with_words
from toolheads.scorers.indexed_corpus import check_recipe
from toolheads.scorers.rank_fusion import RankFusion
from toolheads.scorers.recipe import Recipe
from toolheads.texts import TextSettings

DEFAULT_HEADS = "minilm"
"""Packaged heads for the encoder that needs no server."""

SCORERS = ("clm", "dense", "bm25")
"""Kinds of scorers: trained heads, frozen embeddings, words."""

RETRIEVER_SCORERS = ("hybrid", "clm", "dense", "bm25")
"""What a retriever may score with: heads and words, as the heads file says, frozen embeddings,
words."""

PACKAGED = "packaged"
"""Thresholds that come with packaged heads."""

INDEX_FOLDER, CACHE_FOLDER = "index", "cache"
"""In the folder of a catalogue: rows, and vectors of tools."""

_WARM_FILE = "warm-{}.bin"

_IDENTITY_S = 1.0
"""How long an encoder may take to say what it is before a retriever starts without knowing."""


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
    return make_encoder(settings_for(heads, **settings))


def settings_for(heads: Heads, **settings: Any) -> EncoderSettings:
    """The settings of the encoder that `encoder_for` makes, which another process can make, too."""
    if settings.get("truncation") is None:
        settings["truncation"] = heads.fingerprint.encoder.truncation or None
    return resolve_settings(**settings)


def load_retriever(
    heads: Heads | str | os.PathLike[str] = DEFAULT_HEADS,
    encoder: Encoder | None = None,
    *,
    folder: str | os.PathLike[str] | None = None,
    tools: Sequence[Tool] | None = None,
    scorer: str = "hybrid",
    ranks: RankFusion | None = None,
    index: str = "numpy",
    dsn: str | None = None,
    dtype: str = "float32",
    in_memory: bool = False,
    width: int | None = None,
    thresholds: Calibration | str | os.PathLike[str] | None = PACKAGED,
    told_nothing: float | None = None,
    settings: RetrieverSettings | None = None,
    index_settings: Mapping[str, Any] | None = None,
) -> Retriever:
    """Load heads and serve a catalogue; call `search(text)` next, and `close()` at the end.

    Returns at once: the encoder is made and tools are embedded in the background, words answer
    meanwhile. `wait()` waits for the vectors.

    Args:
        heads: As for `load_scorer`; not used by the scorers `dense` and `bm25`.
        encoder: The backbone. None makes, in the background, the one that the environment names,
            else the local one.
        folder: A catalogue: it is read, and followed from then on. Rows and vectors are kept in
            `index/` and `cache/` in it.
        tools: Tools to serve in place of a folder, or until it is read.
        scorer: One of `RETRIEVER_SCORERS`. `hybrid` mixes words in as the heads file says, or with
            weight 0.5 if it says nothing; `clm` does only what the file says.
        ranks: Lets `hybrid` mix the two orders by rank.
        index: See `toolheads.indexes.open_index`.
        dsn: The database of index pgvector.
        dtype: What rows are stored in.
        in_memory: Keeps rows and vectors in memory, though there is a folder.
        width: As for `load_scorer`.
        thresholds: Say when nothing matches: `packaged` takes those that come with packaged
            heads, where some do; else a calibration of these heads, or its file; None for none.
            They count in catalogues of the kind they were fitted to, and not where the settings
            have a cut-off.
        told_nothing: Share of requests with a right tool that may be told that nothing matches;
            one that the thresholds were fitted for, None the smallest of these.
        settings: Limits and patience.
        index_settings: Settings of the kind of index.

    Raises:
        ConfigError: If a setting breaks its rule, or two tools have one id.
        BackboneMismatchError: If the heads were trained on another encoder than the one given,
            and it says so at once; else `status` does.
        CalibrationError: If thresholds that are given were fitted to other heads, or for another
            share.
        EncoderError: If scorer `dense` cannot learn what its encoder is.
        DigestError: If the heads file is not the one its digest promises.
        HeadsFormatError: If it cannot be read as heads.
        IndexStoreError: If the index cannot be opened.
        MissingExtraError: If a library that the index needs is not installed.
    """
    if scorer not in RETRIEVER_SCORERS:
        msg = f"scorer must be one of {', '.join(RETRIEVER_SCORERS)}, got {scorer!r:.80}"
        raise ConfigError(msg)
    place = Path(folder) if folder is not None else None
    home = place if place is not None and not in_memory and not _is_file(place) else None
    loaded, texts = None, TextSettings()
    recipe, space, probe, make = None, "words", None, None
    fingerprint: Fingerprint | None = None
    subject, floor_of = None, None
    if scorer in ("hybrid", "clm"):
        loaded = (heads if isinstance(heads, Heads) else load_heads(heads)).at_width(width)
        texts, recipe, probe = loaded.texts, Recipe.of_heads(loaded), loaded.probe
        fingerprint = loaded.fingerprint
        if encoder is not None:
            _refuse_other(encoder, loaded)
    elif scorer == "dense":
        encoder = encoder or make_encoder(resolve_settings())
        fingerprint = Fingerprint(encoder.identity, texts)
        recipe = Recipe.frozen(encoder.identity.width)
    rows = None
    if recipe is not None and fingerprint is not None:
        if scorer == "hybrid":
            recipe = with_words(recipe)
        sha256 = recipe.action_sha256() if loaded else None
        space = space_of(fingerprint, heads_sha256=sha256, views=recipe.tool_weights)
        check_recipe(recipe)
        own = None if home is None or index == "pgvector" else home / INDEX_FOLDER
        rows = open_index(
            index,
            space=space,
            width=recipe.width,
            folder=own,
            dsn=dsn,
            dtype=dtype,
            **(index_settings or {}),
        )
        make = _embedder_maker(encoder, loaded, texts)
        subject = subject_of_vectors(recipe, ranks, fingerprint)
        floor_of = _floor_of(thresholds, subject, told_nothing)
    retriever = Retriever(
        scorer,
        Scoring(recipe, rows, partial(row_key, space), texts, ranks, floor_of),
        make,
        probe=probe,
        space=space,
        cache=None if home is None else home / CACHE_FOLDER,
        warm_file=None if home is None else home / INDEX_FOLDER / _WARM_FILE.format(space[:16]),
        owns_index=index != "pgvector",
        subject=subject,
        settings=settings,
    )
    try:
        if tools is not None:
            retriever.update(tools)
        if place is not None:
            retriever.follow(place)
    except BaseException:
        retriever.close()
        raise
    return retriever


def _floor_of(
    thresholds: Calibration | str | os.PathLike[str] | None,
    subject: Mapping[str, Any],
    told_nothing: float | None,
) -> FloorOf | None:
    """What says when nothing matches in a catalogue; None where no thresholds are known."""
    if thresholds is None:
        return None
    if thresholds == PACKAGED:
        kinds = packaged_thresholds(subject)
        if kinds is None:
            return None
    else:
        given = thresholds if isinstance(thresholds, Calibration) else load_calibration(thresholds)
        given.check_subject(subject)
        kinds = KindsOfThresholds((given,))
        if given.floors:  # else its queries were too few
            given.match_floor(told_nothing)

    def floor_of(tools: Sequence[Tool]) -> Floor | None:
        try:
            calibration = kinds.of(tools)
            score = calibration.match_floor(told_nothing).score
        except CalibrationError:  # a catalogue of another kind
            return None
        return Floor(score, calibration.kind.fewest_tools)

    return floor_of


def _refuse_other(encoder: Encoder, heads: Heads) -> None:
    """Refuse an encoder that says in time that it is another one; a server may be down, or slow.

    Raises:
        BackboneMismatchError: If it does.
    """
    workers: Workers[None] = Workers("toolheads-encoder-identity", workers=1, waiting=1)
    future = workers.submit(
        lambda: check_fingerprint(heads, Fingerprint(encoder.identity, heads.texts))
    )
    error = None
    if future is not None:
        with suppress(TimeoutError):
            error = future.exception(timeout=_IDENTITY_S)
    workers.close()
    if isinstance(error, BackboneMismatchError):
        raise error


def _embedder_maker(
    encoder: Encoder | None, heads: Heads | None, texts: TextSettings
) -> Callable[[], Embedder]:
    """Makes the embedder of queries: without a cache, since what people type stays nowhere."""

    def made() -> Embedder:
        made_encoder = encoder
        if made_encoder is None:
            made_encoder = make_encoder(resolve_settings()) if heads is None else encoder_for(heads)
        embedder = Embedder(made_encoder, texts)
        if heads is not None:
            check_fingerprint(heads, embedder.fingerprint)
        return embedder

    return made


def _is_file(path: Path) -> bool:
    """Whether a catalogue is a tools file alone, which has no folder to keep rows in."""
    return path.is_file()
