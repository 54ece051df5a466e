"""The embedded default: a BERT sentence encoder on the CPU, through onnxruntime. No torch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from toolheads.arrays import Floats
from toolheads.encoders.bert_onnx import BertShape, bert_graph
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
from toolheads.errors import ConfigError, EncoderError, import_extra
from toolheads.identity import EncoderIdentity

_Tokens = npt.NDArray[np.int32]

_USER, _EXTRA = "encoders.local", "local"
_TOKENS_PER_THREAD = 512
"""What a layer computes for them stays in the processor's cache, and little is padding. Measured
on one thread and texts of equal length: 104 texts per CPU second, against 100, 89 and 77 with
1024, 2048 and 4096."""

_TOKENIZED_AT_ONCE = 1024
"""Texts that go through the tokenizer together; only their ids are kept."""


class LocalEncoder:
    """Sentence encoder in this process. See `toolheads.ports.Encoder`.

    May be used from several threads at once. Texts of about equal length run together, so that
    little time goes into padding; the rows come back in the order of the texts.
    """

    def __init__(
        self,
        model: str | Path = DEFAULT_MODEL,
        *,
        truncation: int = 0,
        batch_tokens: int = 0,
        threads: int = 0,
    ) -> None:
        """Read the weights and build the graph, in about half a second for the default model.

        Args:
            model: `all-MiniLM-L6-v2` for the packaged model, or a sentence-transformers folder
                with a BERT, mean or cls pooling, and safetensors weights.
            truncation: Most tokens of a text; 0 takes the model's own limit.
            batch_tokens: Most tokens of one batch, padding counted; 0 takes 512 for each thread.
                A longer text runs alone.
            threads: CPU threads; 0 takes all cores.

        Raises:
            MissingExtraError: If a library or the packaged model is not installed.
            DigestError: If the packaged weights are not the published ones.
            ConfigError: If the folder holds a model that this encoder cannot run.
        """
        for setting, value in (("batch_tokens", batch_tokens), ("threads", threads)):
            if value < 0:
                msg = f"{setting} must be >= 0, got {value}"
                raise ConfigError(msg)
        # Left to itself onnxruntime pins threads to cores, which containers forbid.
        threads = threads or _usable_cores()
        name = str(model)
        packaged = isinstance(model, str) and is_default(model)
        self._name = f"local encoder {DEFAULT_MODEL if packaged else name}"
        folder = (
            read_packaged_folder(extra=_EXTRA)
            if packaged
            else read_model_folder(Path(model), extra=_EXTRA)
        ).cut(truncation=truncation)
        shape = _checked_shape(folder)
        self._identity = folder.identity
        self._batch_tokens = batch_tokens or _TOKENS_PER_THREAD * threads
        self._tokenizer = _tokenizer(folder)
        self._engine: _Engine | None = _Engine(folder, shape, threads)

    def __repr__(self) -> str:
        return f"LocalEncoder({self._identity.model!r}, truncation={self._identity.truncation})"

    @property
    def identity(self) -> EncoderIdentity:
        """See `toolheads.ports.Encoder`."""
        return self._identity

    def encode(self, texts: Sequence[str]) -> Floats:
        """Embed texts. See `toolheads.ports.Encoder`."""
        checked = checked_texts(texts, encoder=self._name)
        engine = self._engine  # held for this call, whatever another thread closes
        if engine is None:
            msg = f"{self._name} must be open, got a call after close"
            raise EncoderError(msg)
        tokens = self._tokens(checked)
        rows = np.empty((len(checked), self._identity.width), dtype=np.float32)
        for batch in length_batches([len(t) for t in tokens], self._batch_tokens):
            rows[batch] = self._run(engine, [tokens[i] for i in batch])
        return rows

    def close(self) -> None:
        """Free the weights."""
        self._engine = None

    def _tokens(self, texts: list[str]) -> list[_Tokens]:
        tokens: list[_Tokens] = []
        for start in range(0, len(texts), _TOKENIZED_AT_ONCE):
            encoded = self._tokenizer.encode_batch_fast(texts[start : start + _TOKENIZED_AT_ONCE])
            tokens += [np.array(one.ids, dtype=np.int32) for one in encoded]
        return tokens

    def _run(self, engine: _Engine, tokens: list[_Tokens]) -> Floats:
        longest = max(len(t) for t in tokens)
        ids = np.zeros((len(tokens), longest), dtype=np.int32)
        mask = np.zeros_like(ids)
        for row, some in enumerate(tokens):
            ids[row, : len(some)] = some
            mask[row, : len(some)] = 1
        try:
            pooled = engine.pooled(ids, mask)
        except Exception as e:  # onnxruntime's errors share no base class
            msg = f"{self._name} failed on {len(tokens)} texts of up to {longest} tokens: {e}"
            raise EncoderError(msg) from e
        width = self._identity.width
        return unit_rows(pooled, count=len(tokens), width=width, encoder=self._name)


def _checked_shape(folder: ModelFolder) -> BertShape:
    """The sizes, if this encoder computes what the folder describes."""
    shape = BertShape.from_config(folder.config)
    extra_modules = [m for m in folder.modules if m not in ("Transformer", "Pooling", "Normalize")]
    if extra_modules:
        found = f"the module {extra_modules[0]}"
    elif folder.identity.pooling not in ("mean", "cls"):
        found = f"pooling {folder.identity.pooling}"
    elif folder.do_lower_case:
        found = "do_lower_case"
    else:
        return shape
    msg = (
        "model must have mean or cls pooling and nothing learned after it for encoder local, "
        f"got {found}; use encoder sentence-transformers"
    )
    raise ConfigError(msg)


def _tokenizer(folder: ModelFolder) -> Any:
    tokenizers = import_extra("tokenizers", user=_USER, extra=_EXTRA)
    path = folder.transformer / "tokenizer.json"
    if not path.is_file():
        msg = f"{folder.transformer} must have tokenizer.json, got none"
        raise ConfigError(msg)
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as e:  # the library raises bare Exception
        msg = f"{path} must be a tokenizer, got what cannot be read: {e}"
        raise ConfigError(msg) from e
    # The file may carry a truncation and padding of its own, left from training.
    tokenizer.no_padding()
    tokenizer.enable_truncation(folder.identity.truncation)
    return tokenizer


class _Engine:
    """The session and the weights it reads."""

    def __init__(self, folder: ModelFolder, shape: BertShape, threads: int) -> None:
        onnxruntime = import_extra("onnxruntime", user=_USER, extra=_EXTRA)
        graph = bert_graph(_weights(folder), shape, pooling=folder.identity.pooling)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        # The session may point into these arrays, so they live as long as it does.
        self._values = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(array)
            for name, array in graph.outside.items()
        }
        options.add_external_initializers(list(self._values), list(self._values.values()))
        self._session = onnxruntime.InferenceSession(
            graph.model, options, providers=["CPUExecutionProvider"]
        )

    def pooled(self, ids: _Tokens, mask: _Tokens) -> Floats:
        """(b, s) ids and mask to (b, d) float32, not of length 1."""
        positions = np.arange(ids.shape[1], dtype=np.int32)
        inputs = {"ids": ids, "mask": mask, "positions": positions}
        rows: Floats = self._session.run(["pooled"], inputs)[0]
        return rows


def _usable_cores() -> int:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _weights(folder: ModelFolder) -> dict[str, Floats]:
    """Name → float32 array of every float weight."""
    safetensors = import_extra("safetensors.numpy", user=_USER, extra=_EXTRA)
    weights: dict[str, Floats] = {}
    for path in folder.weights:
        for name, array in safetensors.load_file(path).items():
            # position_ids and other counters are integers and not needed.
            if array.dtype.kind not in "iub":
                weights[name] = np.asarray(array, dtype=np.float32)
    return weights
