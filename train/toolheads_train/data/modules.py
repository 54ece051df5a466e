"""Lightning data modules: from data folders, or tensors at hand, to corpus and validation sets.

There is no DataLoader and no worker: what a "loader" yields is the number of optimiser steps of
the next chunk; the batches themselves are drawn on the device (see `sampling`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import lightning.pytorch as pl

from toolheads.bootstrap import EncoderSettings
from toolheads.errors import ConfigError
from toolheads.texts import TextSettings
from toolheads_train.data.corpus import TrainingCorpus
from toolheads_train.data.folders import FolderSettings, LoadedFolders, load_folders
from toolheads_train.data.pairs import PairKind
from toolheads_train.data.sampling import BatchSampler, SamplingSettings, steps_of_epoch
from toolheads_train.data.selection import ValidationSettings
from toolheads_train.data.validation_set import ValidationSet

logger = logging.getLogger(__name__)

_ENCODER, _TEXTS = EncoderSettings(), TextSettings()
_VALIDATION, _SAMPLING = ValidationSettings(), SamplingSettings()


class Chunks:
    """The chunks of one epoch, each as its number of optimiser steps."""

    def __init__(self, steps: int, chunk: int) -> None:
        self._steps, self._chunk = steps, chunk

    def __len__(self) -> int:
        return -(-self._steps // self._chunk)

    def __iter__(self) -> Iterator[int]:
        for start in range(0, self._steps, self._chunk):
            yield min(self._chunk, self._steps - start)


class TensorData(pl.LightningDataModule):
    """A corpus and validation sets that are there already.

    Attributes:
        corpus: All training data, on the CPU.
        validation_sets: What chooses the checkpoint.
        view_weights: Weight of each view of a tool, in the order of the corpus.
        sampling: How batches are drawn.
    """

    def __init__(
        self,
        corpus: TrainingCorpus | None,
        validation_sets: Sequence[ValidationSet],
        sampling: SamplingSettings,
        *,
        seed: int = 0,
        chunk_steps: int = 20,
        view_weights: Sequence[float] = (1.0,),
    ) -> None:
        super().__init__()
        if chunk_steps < 1:
            msg = f"data.chunk_steps must be >= 1, got {chunk_steps}"
            raise ConfigError(msg)
        self._corpus = corpus
        self.validation_sets = list(validation_sets)
        self.sampling = sampling
        self.view_weights = [float(weight) for weight in view_weights]
        self._seed, self._chunk_steps = seed, chunk_steps

    @property
    def corpus(self) -> TrainingCorpus:
        """All training data, on the CPU.

        Raises:
            ConfigError: If it has not been read yet.
        """
        if self._corpus is None:
            msg = "data must be set up before the corpus is used, got nothing read yet"
            raise ConfigError(msg)
        return self._corpus

    @property
    def width(self) -> int:
        """D, entries of an embedding."""
        return self.corpus.width

    @property
    def seed(self) -> int:
        """Of splits and batches."""
        return self._seed

    def sampler(self, corpus: TrainingCorpus) -> BatchSampler:
        """A sampler at its start, for the corpus as it is on a device."""
        return BatchSampler(
            corpus, self.sampling, seed=self._seed, total_steps=self._planned_steps()
        )

    def train_dataloader(self) -> Chunks:
        """The chunks of an epoch."""
        return Chunks(steps_of_epoch(self.corpus, self.sampling), self._chunk_steps)

    def val_dataloader(self) -> Chunks:
        """One step is the whole validation."""
        return Chunks(1, 1)

    def _planned_steps(self) -> int | None:
        """Optimiser steps of the whole training; None where there is no Trainer, or no end."""
        if self.trainer is None:
            return None
        plans = [self.trainer.max_steps] if self.trainer.max_steps >= 0 else []
        epochs = self.trainer.max_epochs
        if epochs is not None and epochs >= 0:
            plans.append(epochs * steps_of_epoch(self.corpus, self.sampling))
        return min(plans, default=None)


class FolderData(TensorData):
    """Data folders, embedded through the cache.

    Attributes:
        loaded: What was read, with its counts and digests; None before `setup`.
    """

    def __init__(
        self,
        root: list[str] | str,
        cache: str | None = ".cache/toolheads",
        encoder: EncoderSettings = _ENCODER,
        texts: TextSettings = _TEXTS,
        tool_views: dict[str, float] | None = None,
        validation_views: list[str] | None = None,
        train: list[str] | None = None,
        exclude: list[str] | None = None,
        label_free: list[str] | None = None,
        label_free_kinds: list[PairKind] | None = None,
        composed_share: float = 0.0,
        teacher: str | None = None,
        mined: str | None = None,
        overlap: str | None = None,
        validation: ValidationSettings = _VALIDATION,
        min_jaccard: float = 0.8,
        min_cosine: float | None = None,
        max_queries: int | None = None,
        skip_bad: bool = False,
        sampling: SamplingSettings = _SAMPLING,
        seed: int = 0,
        chunk_steps: int = 20,
    ) -> None:
        """Take settings; nothing is read yet.

        Args:
            root: Data sets (folders with tools.jsonl and queries.jsonl), or folders of data sets;
                `sample` is the sample catalogue of the package.
            cache: Where vectors are kept; null embeds everything anew.
            encoder: The frozen encoder.
            texts: How tools and queries are written for it.
            tool_views: Views of a tool and their weights in its vector; the text alone by default.
            validation_views: Views that validation data has besides, for calibration to weigh:
                name, summary, clause. The command sets it to what the calibration tries.
            train: Names of the data sets to train on; null takes all with training queries.
            exclude: Names of data sets to leave out of training and validation. Their test
                queries are still guarded.
            label_free: Names of catalogues for label-free pairs; null takes those without queries.
            label_free_kinds: What of a tool becomes the query of a label-free pair: summary (the
                first sentence of its description; the default), name, parameters.
            composed_share: For each training query, how many are added that are two or three of
                one data set in one text, with the tools of all of them.
            teacher: File of a teacher's scores, as `toolheads train teach` writes it; null takes
                those of the queries themselves.
            mined: File of hard negatives, as `toolheads train mine` writes it; null takes those
                of the queries themselves. data.sampling.hard_negatives draws them.
            overlap: File of tools that are another test set's; null looks for overlap.json in the
                roots.
            validation: Which queries choose the checkpoint.
            min_jaccard: Shared words over all words from which a training query is too near a
                held-out one.
            min_cosine: Cosine of the frozen vectors from which a training query is too near a
                held-out one; null compares words alone. The test queries are embedded for it.
            max_queries: Most training queries of one data set; null takes all.
            skip_bad: Leave out lines that cannot be read instead of refusing the file.
            sampling: How batches are drawn.
            seed: Of splits and batches, apart from the seed of the weights.
            chunk_steps: Optimiser steps between two looks at the device.
        """
        self.folders = FolderSettings(
            root=(root,) if isinstance(root, str) else tuple(root),
            cache=cache,
            encoder=encoder,
            texts=texts,
            tool_views=tool_views or {"text": 1.0},
            validation_views=tuple(validation_views or ()),
            train=None if train is None else tuple(train),
            exclude=tuple(exclude or ()),
            label_free=None if label_free is None else tuple(label_free),
            label_free_kinds=("summary",) if label_free_kinds is None else tuple(label_free_kinds),
            composed_share=composed_share,
            teacher=teacher,
            mined=mined,
            overlap=overlap,
            validation=validation,
            min_jaccard=min_jaccard,
            min_cosine=min_cosine,
            max_queries=max_queries,
            skip_bad=skip_bad,
        )
        super().__init__(
            None,
            [],
            sampling,
            seed=seed,
            chunk_steps=chunk_steps,
            view_weights=list(self.folders.tool_views.values()),
        )
        self.loaded: LoadedFolders | None = None

    def prepare_data(self) -> None:
        """Read and embed, on one process of a machine; the others find the cache filled."""
        self._load()

    def setup(self, stage: str) -> None:
        """Read, unless `prepare_data` has done so in this process."""
        self._load()

    def _load(self) -> None:
        if self.loaded is not None:
            return
        needs_pairs = self.sampling.needs_label_free
        self.loaded = load_folders(self.folders, seed=self._seed, label_free=needs_pairs)
        for line in self.loaded.summary():
            logger.info(line)
        self._corpus = self.loaded.corpus
        self.validation_sets = list(self.loaded.validation_sets)

    def state_dict(self) -> dict[str, Any]:
        """Digests of the data, so that a resumed run can be told from one on other data."""
        return {"digests": self.loaded.digests} if self.loaded else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Refuse to resume on other data.

        Raises:
            ConfigError: If a file has changed.
        """
        mine = self.loaded.digests if self.loaded else {}
        theirs = state_dict.get("digests", mine)
        changed = sorted(
            name for name in mine.keys() | theirs if mine.get(name) != theirs.get(name)
        )
        if changed:
            msg = f"a run must be resumed on its own data, got other files in {', '.join(changed)}"
            raise ConfigError(msg)
