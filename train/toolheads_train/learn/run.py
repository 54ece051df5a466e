"""The use case: a log, tools and heads in; better heads and a report out, or a report alone."""

from __future__ import annotations

import dataclasses
import json
import math
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
from lightning.pytorch.callbacks import Callback, EarlyStopping

from toolheads.arrays import Floats
from toolheads.data import Dataset
from toolheads.domain import Query, Tool
from toolheads.embedder import Embedder, Progress
from toolheads.facade import load_scorer
from toolheads.heads import Heads
from toolheads.ports import Encoder
from toolheads.scorers.vectors import VectorScorer
from toolheads.usage import JudgedRequest, Parts, UsageLog, link, split_by_time
from toolheads.usage.parts import PARTS
from toolheads_train.data.corpus import build_corpus
from toolheads_train.data.modules import TensorData
from toolheads_train.data.sampling import SamplingSettings
from toolheads_train.learn.decision import SHOWN, agreement, compare, measured
from toolheads_train.learn.margin import same_length
from toolheads_train.learn.material import Catalogue, log_source, replay_sources
from toolheads_train.learn.module import LearnModule, best_heads, quiet_trainer
from toolheads_train.learn.refusals import NO_TEXTS, NotKeptError, check_log, check_sizes, verdict
from toolheads_train.learn.remembered import RememberingEncoder
from toolheads_train.learn.report import LearnReport
from toolheads_train.learn.settings import LearnSettings
from toolheads_train.learn.starting import to_heads
from toolheads_train.loop.callbacks import StartingHeadsCompete, best_checkpoint
from toolheads_train.loop.module import MONITOR
from toolheads_train.model.heads import TwoHeads
from toolheads_train.outcome.export import package_versions

CHUNK_STEPS = 25
"""Optimiser steps between two looks at the device."""

AGREEMENT_SEARCHES = 500
"""The latest searches that the agreement of log and heads is measured on."""

PARITY_ROWS = 128
"""Embeddings that numpy and torch are compared on."""


@dataclass(frozen=True)
class Learned:
    """The new heads, if they are better, and how it went."""

    heads: Heads | None
    report: LearnReport


def learn(
    given: Heads,
    log: UsageLog,
    tools: Sequence[Tool],
    encoder: Encoder,
    settings: LearnSettings,
    *,
    name: str,
    replay: Sequence[Dataset] = (),
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Learned:
    """Train heads on from a log, and keep them if they prove themselves on its latest requests.

    Args:
        given: The heads that are served now; their encoder, texts, views stay.
        log: What was asked for, shown and called.
        tools: The catalogue as it is now.
        encoder: The backbone of the heads.
        settings: How to train, and what has to be proved.
        name: Of the new heads.
        replay: Data sets whose training queries are mixed in.
        cache: Folder that keeps vectors; None embeds everything anew.
        progress: Told how many texts of a call are embedded.

    Raises:
        BackboneMismatchError: If the encoder is not that of the heads.
        ConfigError: If the heads cannot be trained on.
    """
    report = LearnReport(
        given={"name": given.name, "sha256": given.sha256},
        log=_about(log, given),
        settings=json.loads(json.dumps(asdict(settings))),
    )
    remembering = RememberingEncoder(encoder)
    work = _Work(given, settings, report, remembering, cache, progress)
    try:
        heads = work.learned(log, tools, replay, name)
    except NotKeptError as e:
        report.reason = str(e)
        return Learned(None, report)
    report.promoted = True
    return Learned(heads, report)


class _Work:
    """One run of `learn`; fills the report as it goes."""

    def __init__(
        self,
        given: Heads,
        settings: LearnSettings,
        report: LearnReport,
        encoder: Encoder,
        cache: Path | None,
        progress: Progress | None,
    ) -> None:
        self.given, self.settings, self.report = given, settings, report
        self._encoder, self._cache, self._progress = encoder, cache, progress
        self.embedder = Embedder(encoder, given.texts, cache, progress=progress)

    def learned(
        self, log: UsageLog, tools: Sequence[Tool], replay: Sequence[Dataset], name: str
    ) -> Heads:
        """The new heads.

        Raises:
            NotKeptError: If there are none.
        """
        settings, report = self.settings, self.report
        check_log(log, settings)
        links = link(log, [tool.id for tool in tools])
        report.counts |= links.counts
        if links.counts["searches without a text"] and not links.searches:
            raise NotKeptError(NO_TEXTS)
        parts = split_by_time(links.searches, settings.parts, self._vectors)
        report.counts |= parts.counts
        check_sizes(parts, settings)
        before = self._scorer(self.given, tools)
        self._check_agreement(before, parts, len(tools))
        trained = self._trained(parts, tools, replay, name)
        trained = self._with_margin(before, trained, parts.validation, tools)
        report.comparison = compare(
            measured(before, parts.held_out),
            measured(self._scorer(trained, tools), parts.held_out),
            alpha=settings.alpha,
            resamples=settings.resamples,
            seed=settings.seed,
        )
        report.reason = verdict(report, settings)
        about = dict(trained.header.training) | {"held_out": report.held_out_figures()}
        header = dataclasses.replace(trained.header, training=about)
        return dataclasses.replace(trained, header=header)

    def _vectors(self, texts: Sequence[str]) -> Floats:
        return self.embedder.queries(texts, with_clauses=False).whole

    def _scorer(self, heads: Heads, tools: Sequence[Tool]) -> VectorScorer:
        """As it is served."""
        scorer = load_scorer(heads, self._encoder, cache=self._cache, progress=self._progress)
        scorer.index(tools)
        return scorer

    def _check_agreement(self, scorer: VectorScorer, parts: Parts, tools: int) -> None:
        every = [one for part in PARTS for one in getattr(parts, part)]
        requests: list[JudgedRequest] = every[-AGREEMENT_SEARCHES:]
        depth = max(len(one.shown) for one in requests)
        queries = [Query(str(at), one.text) for at, one in enumerate(requests)]
        ranked = [[hit.tool_id for hit in hits] for hits in scorer.rank(queries, depth)]
        found = agreement([one.shown for one in requests], ranked, tools)
        self.report.agreement = found
        if found < self.settings.min_agreement:
            msg = (
                "the tools that the log shows must be near those that the given heads show, "
                f"agreement >= {self.settings.min_agreement:g}, got {found:.2f}; the log is of "
                "another catalogue, of other tool ids or of other texts"
            )
            raise NotKeptError(msg)

    def _trained(
        self, parts: Parts, tools: Sequence[Tool], replay: Sequence[Dataset], name: str
    ) -> Heads:
        """The best checkpoint that is not the given heads."""
        settings, report = self.settings, self.report
        catalogue = Catalogue.embedded(tools, self.given.header.views.tool, self.embedder)
        source = log_source(parts.train, catalogue, self.embedder)
        replayed, counts = replay_sources(
            catalogue,
            replay,
            self.embedder,
            held_out=[one.text for one in (*parts.validation, *parts.held_out)],
            most_queries=settings.replay_queries,
            seed=settings.seed,
        )
        report.counts |= counts
        share = settings.replay_share if replayed else 0.0
        batch = settings.batch_size
        steps = max(1, math.ceil(len(parts.train) / max(1, batch - round(share * batch))))
        corpus = build_corpus([source, *(replayed if share else [])])
        corpus.check_finite()
        data = TensorData(
            corpus,
            [],
            SamplingSettings(
                batch_size=batch,
                steps_per_epoch=steps,
                label_free_share=share,
                hard_negatives=settings.soft_negatives if any(source.negatives) else 0,
            ),
            seed=settings.seed,
            chunk_steps=CHUNK_STEPS,
            view_weights=list(catalogue.views.values()),
        )

        def measure(heads: TwoHeads) -> float:
            """As it is served: with the views, the clauses and whatever is mixed in."""
            scorer = self._scorer(self._served(heads, source.queries), tools)
            return float(np.mean(measured(scorer, parts.validation)[SHOWN]))

        module = LearnModule(self.given, settings, measure)
        trained = self._served(self._fit(module, data), source.queries)
        about = {
            "name": name,
            "learned_from": {"log": report.log["digest"], "counts": dict(report.counts)},
            "started_from": {**report.given, "training": dict(self.given.header.training)},
            "settings": report.settings,
            "packages": package_versions(),
        }
        header = dataclasses.replace(trained.header, training=about)
        return dataclasses.replace(trained, header=header)

    def _served(self, heads: TwoHeads, batch: Floats) -> Heads:
        return to_heads(heads, self.given, self.settings.dtype, batch[:PARITY_ROWS])

    def _fit(self, module: LearnModule, data: TensorData) -> TwoHeads:
        """The heads of the best epoch.

        Raises:
            NotKeptError: If these are the given ones.
        """
        settings, report = self.settings, self.report
        scores = _Validations()
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            # There is no DataLoader to give workers, and Lightning's own use of what torch
            # calls deprecated.
            warnings.filterwarnings("ignore", message=r".*does not have many workers.*")
            warnings.filterwarnings("ignore", message=r".*isinstance\(treespec, LeafSpec\).*")
            best = best_checkpoint(folder)
            patience = EarlyStopping(
                MONITOR, mode="max", patience=settings.patience, check_on_train_epoch_end=False
            )
            callbacks: list[Callback] = [StartingHeadsCompete(), scores, patience, best]
            trainer = quiet_trainer(settings.epochs, callbacks)
            trainer.fit(module, datamodule=data)
            heads, report.best_step = best_heads(module, best.best_model_path)
        report.steps = trainer.global_step
        report.validation = {"given": scores.values[0], "best": max(scores.values)}
        if report.best_step == 0:
            msg = (
                "no epoch beat the given heads on the validation part, "
                f"nDCG@10 of the shown tools {100 * scores.values[0]:.1f}, the best after training "
                f"{100 * max(scores.values[1:], default=0.0):.1f}"
            )
            raise NotKeptError(msg)
        return heads

    def _with_margin(
        self,
        before: VectorScorer,
        trained: Heads,
        requests: Sequence[JudgedRequest],
        tools: Sequence[Tool],
    ) -> Heads:
        """The cut-off that shows as many tools as before: training spreads the scores anew."""
        old = self.given.header.cutoff
        queries = [Query(str(at), one.text) for at, one in enumerate(requests)]
        scores = [
            [[hit.score for hit in hits] for hits in scorer.rank(queries, old.max_k)]
            for scorer in (before, self._scorer(trained, tools))
        ]
        length = float(np.mean([old.count(one) for one in scores[0]]))
        cutoff = same_length(old, scores[1], length)
        self.report.margin = {"before": old.margin, "after": cutoff.margin, "length": length}
        header = dataclasses.replace(trained.header, cutoff=cutoff)
        return dataclasses.replace(trained, header=header)


class _Validations(Callback):
    """Remembers the monitored metric of each validation, the given heads first."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Add the newest."""
        self.values.append(float(trainer.callback_metrics[MONITOR]))


def _about(log: UsageLog, given: Heads) -> dict[str, Any]:
    return {
        "digest": log.digest,
        "files": log.files,
        "lines": log.lines,
        "damaged": len(log.faults),
        "searches": len(log.searches),
        "calls": len(log.calls),
        "other_heads": sum(one.heads != given.sha256 for one in log.searches),
    }
