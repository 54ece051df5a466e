"""All that uses the encoder: its watch, the vectors of queries, rows of tools, given tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from toolheads.arrays import Floats
from toolheads.embedder import Embedder
from toolheads.identity import check_probe
from toolheads.retrieval.builder import Builder
from toolheads.retrieval.building import Scoring
from toolheads.retrieval.encoder_watch import EncoderWatch
from toolheads.retrieval.filler import Filler
from toolheads.retrieval.given import GivenTools
from toolheads.retrieval.query_vectors import QueryVectors
from toolheads.retrieval.settings import RetrieverSettings
from toolheads.scorers.recipe import Recipe


class Encoding:
    """The parts of a retriever that stand still when its encoder does.

    Args:
        name: Of the scorer, for errors.
        scoring: How tools are scored.
        recipe: Its recipe.
        make_embedder: Gives the embedder for queries, in a background thread.
        probe: (p, d) float32, what the probe texts must look like; None takes what an earlier
            run saw, or else the first answer.
        cache: Folder that keeps vectors of tools.
        builder: Makes states.
        settings: Limits and patience.
    """

    def __init__(
        self,
        name: str,
        scoring: Scoring,
        recipe: Recipe,
        make_embedder: Callable[[], Embedder],
        *,
        probe: Floats | None,
        cache: Path | None,
        builder: Builder,
        settings: RetrieverSettings,
    ) -> None:
        self._name, self._probe, self._builder = name, probe, builder
        self.watch = EncoderWatch(
            make_embedder,
            self._check_probe,
            settings,
            on_ready=self._is_ready,
            on_other_weights=self._forget,
        )
        self.vectors = QueryVectors(recipe, self.watch, settings)
        self.given = GivenTools(
            scoring, recipe, self.watch, lambda: builder.state.snapshot.embedded
        )
        self.filler = Filler(
            scoring,
            self.watch,
            settings,
            state=lambda: builder.state,
            cache=cache,
            write=builder.write,
            on_rows=builder.refresh,
        )

    @property
    def trouble(self) -> str | None:
        """What is wrong; None while all is well, or the encoder has not been tried yet."""
        breaker, filler = self.watch.breaker, self.filler
        if breaker.total and not breaker.is_closed:
            return breaker.reason
        refused = filler.refused
        if refused and (count := sum(key in refused for key in self._builder.state.snapshot.keys)):
            return f"{count} of {len(self._builder.state.tools)} tools cannot be embedded"
        return filler.error

    @property
    def is_filled(self) -> bool:
        """Whether every tool that can be is embedded."""
        return not self.filler.missing(self._builder.state)

    def start(self) -> None:
        """Start all threads."""
        self.filler.start()
        self.watch.start()

    def close(self) -> None:
        """Stop all threads; calls of the encoder that hang are left to end with the process."""
        self.watch.close()
        self.filler.close()
        self.vectors.close()
        self.given.close()

    def close_encoder(self) -> None:
        """Release the encoder, if it was ever made."""
        if self.watch.embedder is not None:
            self.watch.embedder.encoder.close()

    def _is_ready(self) -> None:
        """The encoder can be used, for the first time or again."""
        if self.watch.breaker.total:
            self.vectors.renew()
        self.filler.wake()

    def _forget(self) -> None:
        self.vectors.forget()
        self.given.forget()

    def _check_probe(self, fresh: Floats) -> None:
        known = self._builder.probe if self._probe is None else self._probe
        if known is not None:
            check_probe(known, fresh, owner=f"the index of scorer {self._name}")
        if self._builder.probe is None:
            self._builder.probe = fresh
