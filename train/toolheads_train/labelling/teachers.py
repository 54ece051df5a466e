"""Who scores tools for queries: heads files, one or an ensemble of them, or a cross-encoder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from toolheads.arrays import Floats, Ids
from toolheads.domain import Tool
from toolheads.embedder import Embedder
from toolheads.errors import ConfigError, ShapeError, import_extra
from toolheads.heads import load_heads
from toolheads.scorers.best import MeanScored, Scored
from toolheads.scorers.clm import CLMScorer
from toolheads.scorers.exact import Multiply, multiplied
from toolheads.scorers.vectors import VectorScorer
from toolheads.texts import TextSettings, format_tool


class Teacher(Protocol):
    """Scores some tools of a corpus for each query; higher is better, on any scale."""

    def index(self, tools: Sequence[Tool]) -> None:
        """Take over a corpus."""
        ...

    def scores(self, texts: Sequence[str], candidates: Sequence[Ids]) -> list[Floats]:
        """Score candidates.

        Args:
            texts: q queries as people type them.
            candidates: For each query rows of the corpus.

        Returns:
            For each query float32 scores, one for each of its candidates.
        """
        ...


class Ensemble:
    """The mean of the scores of several heads files. See `Teacher`."""

    def __init__(self, scorers: Sequence[VectorScorer], multiply: Multiply = multiplied) -> None:
        """Take scorers, at least one, and what multiplies rows."""
        if not scorers:
            msg = "an ensemble must have at least one heads file, got none"
            raise ConfigError(msg)
        self._scorers = list(scorers)
        self._multiply = multiply

    @classmethod
    def of_files(
        cls, paths: Sequence[str | Path], embedder: Embedder, multiply: Multiply = multiplied
    ) -> Ensemble:
        """Read heads files over one encoder.

        Raises:
            BackboneMismatchError: If a file is of another encoder.
            DigestError: If a file is not the one that its sidecar was written for.
        """
        return cls([CLMScorer(load_heads(Path(path)), embedder) for path in paths], multiply)

    def index(self, tools: Sequence[Tool]) -> None:
        """Take over a corpus."""
        for scorer in self._scorers:
            scorer.index(tools)

    def asked(self, texts: Sequence[str]) -> Scored:
        """The mean scores of q queries for all tools, to be searched tile by tile."""
        members = [scorer.asked(texts, self._multiply) for scorer in self._scorers]
        return members[0] if len(members) == 1 else MeanScored(members)

    def scores(self, texts: Sequence[str], candidates: Sequence[Ids]) -> list[Floats]:
        """Score candidates. See `Teacher`."""
        asked = self.asked(texts)
        return [asked.exact(at, rows).astype(np.float32) for at, rows in enumerate(candidates)]


class CrossEncoder:
    """A model that reads query and tool together. See `Teacher`.

    Its scores are logits: no sigmoid is applied.
    """

    def __init__(self, model: Any, texts: TextSettings, *, batch_size: int = 32) -> None:
        """Take a model.

        Args:
            model: Has sentence-transformers' `predict`.
            texts: How a tool is written; the query is as people type it.
            batch_size: Pairs at once.
        """
        self._model, self._texts, self._batch_size = model, texts, batch_size
        self._tools: list[str] = []

    @classmethod
    def load(cls, name: str, texts: TextSettings, *, batch_size: int = 32) -> CrossEncoder:
        """Load a model of sentence-transformers by its folder or its name.

        Raises:
            MissingExtraError: If sentence-transformers is not installed.
            ConfigError: If there is no such model.
        """
        library = import_extra(
            "sentence_transformers", user="toolheads train teach", extra="sentence-transformers"
        )
        try:
            model = library.CrossEncoder(name)
        except (OSError, ValueError) as e:
            reason = " ".join(str(e).split())
            msg = f"cross_encoder must be a model that can be loaded, got {name!r}: {reason:.200}"
            raise ConfigError(msg) from e
        return cls(model, texts, batch_size=batch_size)

    def index(self, tools: Sequence[Tool]) -> None:
        """Take over a corpus."""
        self._tools = [format_tool(tool, self._texts) for tool in tools]

    def scores(self, texts: Sequence[str], candidates: Sequence[Ids]) -> list[Floats]:
        """Score candidates. See `Teacher`.

        Raises:
            ShapeError: If the model gives no single finite number for each pair.
        """
        import torch

        pairs = [
            (text, self._tools[row])
            for text, rows in zip(texts, candidates, strict=True)
            for row in rows
        ]
        flat = np.asarray(
            self._model.predict(
                pairs,
                batch_size=self._batch_size,
                show_progress_bar=False,
                activation_fn=torch.nn.Identity(),
            ),
            np.float32,
        )
        if flat.shape != (len(pairs),) or not np.isfinite(flat).all():
            msg = (
                "scores of a cross-encoder must be one finite number for each pair, "
                f"{len(pairs)}, got shape {flat.shape}"
            )
            raise ShapeError(msg)
        ends = np.cumsum([len(rows) for rows in candidates])[:-1]
        return list(np.split(flat, ends))
