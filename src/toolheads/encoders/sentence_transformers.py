"""Encoder through sentence-transformers: any transformer with a pooling, CPU or GPU, torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from toolheads.arrays import Floats
from toolheads.encoders.inputs import checked_texts
from toolheads.encoders.length_batches import length_batches
from toolheads.encoders.model_folder import (
    DEFAULT_MODEL,
    ModelFolder,
    is_default,
    read_model_folder,
    read_packaged_folder,
)
from toolheads.encoders.outputs import unit_rows
from toolheads.errors import ConfigError, EncoderError, MissingExtraError, import_extra
from toolheads.identity import PROBE_TEXTS, EncoderIdentity

COMPUTE_DTYPES = ("float32", "bfloat16")
"""float16 is left out: on CPUs it is hundreds of times slower, on GPUs bfloat16 does as well."""

MIN_AGREEMENT = 0.999
"""Smallest cosine between bfloat16 and float32 vectors of the probe texts."""

_USER, _EXTRA = "encoders.sentence_transformers", "sentence-transformers"

_CPU_BATCH_TOKENS, _BATCH_TOKENS = 2048, 16_384

_BYTES_PER_TOKEN = 3
"""Of UTF-8, for batching alone: rather too many tokens than too few."""

_HUB_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]
"""What is fetched from a hub: no code, no weights in other formats."""


class SentenceTransformersEncoder:
    """Encoder in this process through torch. See `toolheads.ports.Encoder`.

    The identity describes the files: its dtype is that of the weights on disk. The type that is
    computed in is a matter of speed; bfloat16 has to agree with float32 on the probe texts when
    the model is loaded, so that vectors of both may share a cache. Calls from several threads
    are for the caller to take in turn.
    """

    def __init__(
        self,
        model: str | Path = DEFAULT_MODEL,
        *,
        revision: str = "",
        truncation: int = 0,
        dimensions: int | None = None,
        batch_tokens: int = 0,
        compute_dtype: str = "float32",
        device: str = "",
    ) -> None:
        """Load the model.

        Args:
            model: `all-MiniLM-L6-v2` for the packaged model, a sentence-transformers folder, or
                a name on the Hugging Face hub.
            revision: Commit or tag on the hub; empty takes its main branch. The identity has
                the digest of the weights in any case.
            truncation: Most tokens of a text; 0 takes the model's own limit.
            dimensions: Leading entries of a vector to keep, then scaled to length 1.
            batch_tokens: Most tokens of one batch, estimated from the length of the texts; 0
                takes 2048 on a CPU, where its cache is the limit, and 16384 elsewhere.
            compute_dtype: `float32` or `bfloat16`.
            device: Such as `cpu` or `cuda:0`; empty takes the best there is.

        Raises:
            MissingExtraError: If the library is not installed.
            ConfigError: If the model cannot be found or loaded, or a setting breaks its rule.
            EncoderError: If bfloat16 does not agree with float32.
        """
        if compute_dtype not in COMPUTE_DTYPES:
            known = ", ".join(COMPUTE_DTYPES)
            msg = f"compute_dtype must be one of {known}, got {compute_dtype!r}"
            raise ConfigError(msg)
        if batch_tokens < 0:
            msg = f"batch_tokens must be >= 0, got {batch_tokens}"
            raise ConfigError(msg)
        self._name = f"sentence-transformers encoder {model or DEFAULT_MODEL}"
        library = import_extra("sentence_transformers", user=_USER, extra=_EXTRA)
        folder = _find(model, revision).cut(truncation=truncation, dimensions=dimensions)
        self._identity = folder.identity
        self._model: Any = _load(library, folder.root, device)
        on_cpu = str(self._model.device) == "cpu"
        self._batch_tokens = batch_tokens or (_CPU_BATCH_TOKENS if on_cpu else _BATCH_TOKENS)
        self._model.max_seq_length = self._identity.truncation
        # A prompt that the model would add by itself is a matter of the text format here.
        self._model.default_prompt_name = None
        if compute_dtype == "float32":
            self._model.float()
        elif self._identity.dtype == "bfloat16":
            self._model.bfloat16()
        else:
            self._check_bfloat16()

    def __repr__(self) -> str:
        model, truncation = self._identity.model, self._identity.truncation
        return f"SentenceTransformersEncoder({model!r}, truncation={truncation})"

    @property
    def identity(self) -> EncoderIdentity:
        """See `toolheads.ports.Encoder`."""
        return self._identity

    def encode(self, texts: Sequence[str]) -> Floats:
        """Embed texts. See `toolheads.ports.Encoder`."""
        checked = checked_texts(texts, encoder=self._name)
        if self._model is None:
            msg = f"{self._name} must be open, got a call after close"
            raise EncoderError(msg)
        cut = self._identity.truncation
        lengths = [min(cut, len(text.encode()) // _BYTES_PER_TOKEN + 2) for text in checked]
        rows = np.empty((len(checked), self._identity.width), dtype=np.float32)
        for batch in length_batches(lengths, self._batch_tokens):
            rows[batch] = self._run([checked[i] for i in batch])
        return rows

    def close(self) -> None:
        """Free the weights."""
        self._model = None

    def _run(self, texts: list[str]) -> Floats:
        try:
            answer = self._model.encode(texts, batch_size=len(texts), show_progress_bar=False)
            kept = answer[:, : self._identity.width]
        except Exception as e:  # torch and tokenizers raise what they like
            msg = f"{self._name} failed on {len(texts)} texts: {' '.join(str(e).split()):.300}"
            raise EncoderError(msg) from e
        # The library could scale, but lengths in bfloat16 are off by some thousandths.
        width = self._identity.width
        return unit_rows(kept, count=len(texts), width=width, encoder=self._name)

    def _check_bfloat16(self) -> None:
        """Go over to bfloat16, if the vectors stay those of the weights on disk."""
        self._model.float()
        before = self.encode(PROBE_TEXTS)
        self._model.bfloat16()
        agreement = float(np.einsum("pd,pd->p", before, self.encode(PROBE_TEXTS)).min())
        if agreement < MIN_AGREEMENT:
            msg = (
                f"{self._name} in bfloat16 must agree with float32 to a cosine of "
                f"{MIN_AGREEMENT}, got {agreement:.4f}; use compute_dtype float32"
            )
            raise EncoderError(msg)


def _find(model: str | Path, revision: str) -> ModelFolder:
    """The facts of a model, packaged, in a folder or on the hub."""
    if isinstance(model, str) and is_default(model):
        try:
            return read_packaged_folder(extra=_EXTRA)
        except MissingExtraError:
            model = f"sentence-transformers/{DEFAULT_MODEL}"
    root = Path(model)
    if not root.is_dir():
        root = _fetch(str(model), revision)
    elif revision:
        msg = f"revision must be left out for a folder, got {revision!r}"
        raise ConfigError(msg)
    return read_model_folder(root, extra=_EXTRA)


def _fetch(name: str, revision: str) -> Path:
    """The folder of a hub's model, from its local copy or the network."""
    hub = import_extra("huggingface_hub", user=_USER, extra=_EXTRA)
    try:
        return Path(
            hub.snapshot_download(name, revision=revision or None, allow_patterns=_HUB_FILES)
        )
    except (OSError, ValueError, RuntimeError) as e:  # the base classes of the hub's errors
        reason = " ".join(str(e).split())
        msg = f"model must be a folder or a name on the hub, got {name!r}: {reason:.300}"
        raise ConfigError(msg) from e


def _load(library: Any, root: Path, device: str) -> Any:
    try:
        with _without_progress_bars():
            return library.SentenceTransformer(
                str(root), device=device or None, local_files_only=True
            )
    except Exception as e:  # transformers, torch and tokenizers raise what they like
        reason = " ".join(str(e).split())
        msg = f"{root} must be a model that sentence-transformers can load, got: {reason:.300}"
        raise ConfigError(msg) from e


@contextmanager
def _without_progress_bars() -> Iterator[None]:
    """Keep the library's bar over its weight files off the terminal."""
    logging = import_extra("transformers.utils.logging", user=_USER, extra=_EXTRA)
    was_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            logging.enable_progress_bar()
