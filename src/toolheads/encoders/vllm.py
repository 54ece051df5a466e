"""Encoder in this process through vLLM, for batch embedding on a GPU machine without a server."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np

from toolheads.arrays import Floats
from toolheads.encoders.inputs import checked_texts
from toolheads.encoders.outputs import unit_rows
from toolheads.errors import ConfigError, EncoderError, import_extra
from toolheads.identity import EncoderIdentity


class VllmEncoder:
    """Encoder that loads the model into this process. See `toolheads.ports.Encoder`.

    The model is loaded at the first use. One call runs at a time: vLLM batches within a call, so
    give it many texts at once. With `dtype` left at "auto" the identity is the one that
    `OpenAIEncoder` has for a server of the same model name, so that a catalogue embedded here
    can be searched through a server; the probe tells if the weights are others.
    """

    def __init__(
        self,
        model: str,
        *,
        name: str = "",
        revision: str = "",
        truncation: int = 0,
        dimensions: int | None = None,
        dtype: str = "auto",
        engine: Mapping[str, Any] | None = None,
    ) -> None:
        """Set up, without loading the model.

        Args:
            model: Name on the hub, or a folder.
            name: What the identity calls the model; empty for `model` itself. Give a served name
                here when `model` is a folder.
            revision: Branch, tag or commit on the hub; empty for the default.
            truncation: Cut texts at this many tokens; 0 refuses a text that is too long.
            dimensions: Shorter vectors of a Matryoshka model; None for the full width.
            dtype: Precision of the weights; "auto" lets vLLM decide.
            engine: More arguments of `vllm.LLM`, such as `tensor_parallel_size`,
                `gpu_memory_utilization` or `max_model_len`.

        Raises:
            ConfigError: If a setting breaks its rule.
        """
        for setting, value, least in (("truncation", truncation, 0), ("dimensions", dimensions, 1)):
            if value is not None and value < least:
                msg = f"{setting} must be >= {least}, got {value}"
                raise ConfigError(msg)
        if not model:
            msg = f"model must be a name on the hub or a folder, got {model!r}"
            raise ConfigError(msg)
        self._engine = dict(engine or {})
        fixed = {"model", "runner", "revision", "dtype"} & set(self._engine)
        if fixed:
            msg = f"engine must not set {', '.join(sorted(fixed))}, got {self._engine!r:.200}"
            raise ConfigError(msg)
        self._model, self._identity_name, self._revision = model, name or model, revision
        self._truncation, self._dimensions, self._dtype = truncation, dimensions, dtype
        self._name = f"encoder {self._identity_name!r} in vLLM"
        self._width = dimensions
        self._llm: Any = None
        self._closed = False
        self._running = Lock()

    def __repr__(self) -> str:
        return f"VllmEncoder({self._model!r})"

    @property
    def identity(self) -> EncoderIdentity:
        """See `toolheads.ports.Encoder`. Loads the model if the width is not known yet."""
        with self._running:
            if self._width is None:
                self._embed(["hello"])
            return EncoderIdentity(
                model=self._identity_name,
                revision=self._revision,
                pooling="server",
                truncation=self._truncation,
                width=self._width or 0,
                dtype="server" if self._dtype == "auto" else self._dtype,
            )

    def encode(self, texts: Sequence[str]) -> Floats:
        """Embed texts. See `toolheads.ports.Encoder`."""
        checked = checked_texts(texts, encoder=self._name)
        if not checked:
            return np.empty((0, self.identity.width), dtype=np.float32)
        with self._running:
            return self._embed(checked)

    def close(self) -> None:
        """End the engine and its process, which frees the device's memory."""
        with self._running:
            self._closed = True
            llm, self._llm = self._llm, None
        # The library has no public way to end an engine before the interpreter ends.
        core = getattr(getattr(llm, "llm_engine", None), "engine_core", None)
        if core is not None:
            core.shutdown()

    def _embed(self, texts: list[str]) -> Floats:
        """(n, d) of length 1, checked like the answer of a stranger."""
        llm = self._loaded()
        more: dict[str, Any] = {}
        if self._truncation:
            more["tokenization_kwargs"] = {"truncate_prompt_tokens": self._truncation}
        if self._dimensions:
            more["pooling_params"] = _vllm().PoolingParams(dimensions=self._dimensions)
        try:
            outputs = llm.embed(texts, use_tqdm=False, **more)
        except Exception as e:  # vLLM raises ValueError, RuntimeError and classes of its own
            msg = f"{self._name} failed on {len(texts)} texts: {_one_line(e)}"
            raise EncoderError(msg) from e
        if len(outputs) != len(texts):
            msg = f"{self._name} must give {len(texts)} vectors, got {len(outputs)}"
            raise EncoderError(msg)
        widths = {len(output.outputs.embedding) for output in outputs}
        if widths != {self._width or next(iter(widths))}:
            wanted = "one width" if self._width is None else f"width {self._width}"
            msg = f"{self._name} must give vectors of {wanted}, got {sorted(widths)}"
            raise EncoderError(msg)
        vectors = [output.outputs.embedding for output in outputs]
        rows = unit_rows(vectors, count=len(texts), width=None, encoder=self._name)
        self._width = rows.shape[1]
        return rows

    def _loaded(self) -> Any:
        if self._closed:
            msg = f"{self._name} must be open, got a call after close"
            raise EncoderError(msg)
        if self._llm is None:
            vllm = _vllm()
            try:
                self._llm = vllm.LLM(
                    model=self._model,
                    runner="pooling",
                    revision=self._revision or None,
                    dtype=self._dtype,
                    **self._engine,
                )
            except Exception as e:  # anything from a missing file to a device without memory
                msg = f"{self._name} cannot load {self._model!r}: {_one_line(e)}"
                raise EncoderError(msg) from e
        return self._llm


def _vllm() -> Any:
    """vLLM, with its log on stderr: stdout belongs to the results of the command line."""
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    return import_extra("vllm", user="encoders.vllm", extra="vllm")


def _one_line(e: Exception) -> str:
    return " ".join(f"{type(e).__name__}: {e}".split())[:500]
