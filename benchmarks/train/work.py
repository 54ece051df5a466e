"""One training loop, timed, on pairs of random vectors with a planted turn.

Every system gets the same vectors, batch and threads. Systems are functions of a `Task` that return
seconds per epoch; the command at the end runs one of them in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from benchmarks.ancestor.exchange import Pairs, write_json

from toolheads.evaluation.ranked import Relevant
from toolheads_train.data.corpus import Source, TrainingCorpus, build_corpus
from toolheads_train.data.modules import TensorData
from toolheads_train.data.sampling import BatchSampler, SamplingSettings
from toolheads_train.data.validation_set import ValidationSet
from toolheads_train.loop.building import build_heads
from toolheads_train.loop.module import HeadsModule
from toolheads_train.loop.validation import validate
from toolheads_train.settings import HeadSettings, LossSettings, OptimizerSettings
from toolheads_train.sweep.grid import Member
from toolheads_train.sweep.training import Plan, StackTraining


@dataclass(frozen=True)
class Task:
    """What is trained."""

    width: int
    hidden: tuple[int, ...]
    batch: int
    pairs: int
    """Of one epoch, a multiple of the batch."""
    epochs: int = 3
    """The first is a warm-up."""
    bf16: bool = False
    both: bool = False
    """Both directions of the loss."""
    mask: bool = True
    """Leave out negatives above the positive's frozen cosine."""
    device: str = "cpu"
    capture: str = "auto"
    seed: int = 0

    @property
    def steps(self) -> int:
        """Of an epoch."""
        return self.pairs // self.batch

    @property
    def head(self) -> HeadSettings:
        """Shape of a head; two hidden layers have the ancestor's norm."""
        return HeadSettings(hidden=self.hidden, hidden_norm=len(self.hidden) > 1)

    @property
    def loss(self) -> LossSettings:
        """What is minimised."""
        return LossSettings(both_directions=self.both, mask_margin=0.0 if self.mask else None)


def planted_pairs(count: int, width: int, seed: int) -> Pairs:
    """As many tools as queries; a query is its tool, turned the same way for all, plus noise."""
    rng = np.random.default_rng(seed)
    tools = rng.standard_normal((count, width), dtype=np.float32)
    tools /= np.linalg.norm(tools, axis=1, keepdims=True)
    swapped = np.roll(tools, 1, axis=1)
    noise = rng.standard_normal((count, width), dtype=np.float32) / np.sqrt(np.float32(width))
    queries = tools + np.float32(0.5) * swapped + np.float32(0.7) * noise
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    return Pairs(queries, tools, [{row: 1} for row in range(count)])


def corpus_of(pairs: Pairs) -> TrainingCorpus:
    """The pairs as our corpus."""
    names = [str(row) for row in range(len(pairs.tools))]
    return build_corpus([Source("pairs", pairs.queries, pairs.tools, names, pairs.positives)])


# -- systems --------------------------------------------------------------------------------------


def ours(task: Task, pairs: Pairs) -> dict[str, Any]:
    """Our trainer, through the Trainer, as `toolheads train fit` runs it; no validation."""
    sampling = SamplingSettings(batch_size=task.batch, power=1.0)
    pl.seed_everything(task.seed, verbose=False)
    clock = _Clock(task.device)
    trainer = pl.Trainer(
        accelerator="gpu" if task.device == "cuda" else "cpu",
        devices=1,
        max_epochs=task.epochs,
        precision="bf16-mixed" if task.bf16 else "32-true",
        limit_val_batches=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[clock],
    )
    module = HeadsModule(
        task.head,
        task.loss,
        OptimizerSettings(lr=1e-5),
        store_dtype="bfloat16" if task.bf16 else "float32",
        capture=task.capture,  # type: ignore[arg-type]
    )
    data = TensorData(corpus_of(pairs), [], sampling, seed=task.seed, chunk_steps=task.steps)
    trainer.fit(module, datamodule=data)
    return {**clock.found, "loss": float(trainer.callback_metrics["train/loss"])}


class _Clock(pl.Callback):
    def __init__(self, device: str) -> None:
        self._epochs = _Epochs(device)
        self.found: dict[str, Any] = {}

    def on_train_epoch_start(self, *_: Any) -> None:
        self._epochs.begin()

    def on_train_epoch_end(self, *_: Any) -> None:
        self._epochs.end()
        self.found = self._epochs.to_json()


class _Epochs:
    """Wall and CPU seconds of each epoch."""

    def __init__(self, device: str) -> None:
        self._device, self._rows = device, []  # type: str, list[tuple[float, float]]
        self._began = (0.0, 0.0)

    def begin(self) -> None:
        self._began = self._now()

    def end(self) -> None:
        wall, cpu = self._now()
        self._rows.append((wall - self._began[0], cpu - self._began[1]))

    def to_json(self) -> dict[str, Any]:
        return {"epoch_s": [r[0] for r in self._rows], "epoch_cpu_s": [r[1] for r in self._rows]}

    def _now(self) -> tuple[float, float]:
        if self._device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter(), time.process_time()


def plain(task: Task, pairs: Pairs) -> dict[str, Any]:
    """What one writes first: a DataLoader of rows, AdamW, cross entropy, a look at each loss."""
    torch.manual_seed(task.seed)
    heads = _plain_heads(task)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(
            torch.from_numpy(pairs.queries), torch.from_numpy(pairs.tools)
        ),
        batch_size=task.batch,
        shuffle=True,
        drop_last=True,
    )
    optimizer = torch.optim.AdamW(heads.parameters(), lr=1e-5)
    device = torch.device(task.device)
    epochs, total = _Epochs(task.device), 0.0
    for _ in range(task.epochs):
        epochs.begin()
        total = 0.0
        for queries, tools in loader:
            q, t = queries.to(device), tools.to(device)
            with torch.autocast(device.type, torch.bfloat16, enabled=task.bf16):
                logits = 20 * heads.state(q) @ heads.action(t).T
                own = torch.arange(len(q), device=device)
                loss = F.cross_entropy(logits.float(), own)
                if task.both:
                    loss = (loss + F.cross_entropy(logits.T.float(), own)) / 2
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += loss.item()
        epochs.end()
    return {**epochs.to_json(), "loss": total / task.steps}


def sentence_transformers(task: Task, pairs: Pairs) -> dict[str, Any]:
    """`MultipleNegativesRankingLoss` over the same heads, fed with vectors in place of texts."""
    from sentence_transformers import SentenceTransformer, losses  # type: ignore[attr-defined]

    torch.manual_seed(task.seed)
    heads = _plain_heads(task)

    class Sides(torch.nn.Module):
        """One module that looks at which side a batch is of."""

        def __init__(self) -> None:
            super().__init__()
            self.heads = heads

        def forward(self, features: dict[str, Any]) -> dict[str, Any]:
            head = self.heads.state if features["side"] == "query" else self.heads.action
            return {**features, "sentence_embedding": head(features["sentence_embedding"])}

        def save(self, *_: Any, **__: Any) -> None:
            """Nothing is kept."""

    model = SentenceTransformer(modules=[Sides()], device=task.device)
    loss_of = losses.MultipleNegativesRankingLoss(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    device = torch.device(task.device)
    queries, tools = (torch.from_numpy(side) for side in (pairs.queries, pairs.tools))
    generator = torch.Generator().manual_seed(task.seed)
    epochs, total = _Epochs(task.device), 0.0
    for _ in range(task.epochs):
        epochs.begin()
        total = 0.0
        order = torch.randperm(len(queries), generator=generator)
        for rows in order[: task.steps * task.batch].split(task.batch):  # type: ignore[no-untyped-call]
            features = [
                {"side": name, "sentence_embedding": side[rows].to(device)}
                for name, side in (("query", queries), ("tool", tools))
            ]
            with torch.autocast(device.type, torch.bfloat16, enabled=task.bf16):
                loss = loss_of(features, torch.empty(0))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        epochs.end()
    return {**epochs.to_json(), "loss": total / task.steps}


def _plain_heads(task: Task) -> Any:
    return build_heads(task.head.architecture(task.width), task.head, task.loss).to(task.device)


def floor(task: Task, pairs: Pairs) -> dict[str, Any]:
    """The products of a step and nothing else, each as fast as this machine makes it."""
    seconds = [products_seconds(task) for _ in range(3 * task.epochs)]
    epoch = task.steps * statistics.median(seconds)
    gigaflops = sum(2e-9 * m * k * n for m, k, n in products(task))
    found: dict[str, Any] = {"epoch_s": [task.steps * s for s in seconds], "epoch_cpu_s": []}
    return {**found, "gflops": gigaflops * task.steps / epoch, "gflop_per_step": gigaflops}


SYSTEMS: dict[str, Callable[[Task, Pairs], dict[str, Any]]] = {
    "toolheads": ours,
    "plain": plain,
    "sentence-transformers": sentence_transformers,
    "floor": floor,
}


# -- the floor ------------------------------------------------------------------------------------


def products(task: Task) -> Iterator[tuple[int, int, int]]:
    """(m, k, n) of each matrix product that a step of this recipe needs."""
    b, sizes = task.batch, (task.width, *task.hidden, task.width)
    for _ in ("state", "action"):
        for number, (inputs, outputs) in enumerate(pairwise(sizes)):
            yield b, inputs, outputs  # forward
            yield outputs, b, inputs  # gradient of the weight
            if number:
                yield b, outputs, inputs  # gradient of the input; the first input has none
    yield b, task.width, b  # logits; the other direction reads the same ones
    yield b, b, task.width  # gradient of the queries
    yield b, b, task.width  # gradient of the tools
    if task.mask:
        yield b, task.width, b  # frozen cosines


_TABLES: dict[tuple[int, int, torch.dtype, str], torch.Tensor] = {}


def products_seconds(task: Task, repeats: int = 5) -> float:
    """Seconds of all products of a step: for each shape the best of some repeats."""
    dtype = torch.bfloat16 if task.bf16 else torch.float32
    best: dict[tuple[int, int, int], float] = {}
    total = 0.0
    for shape in products(task):
        if shape not in best:
            best[shape] = product_seconds(*shape, dtype=dtype, device=task.device, repeats=repeats)
        total += best[shape]
    return total


def product_seconds(
    m: int, k: int, n: int, *, dtype: torch.dtype, device: str, repeats: int
) -> float:
    """Best time of (m, k) @ (k, n) into a place that is there already, the second one transposed
    in memory as the weight of a linear layer is."""
    a, b = _table(m, k, dtype, device), _table(n, k, dtype, device).T
    out = torch.empty((m, n), dtype=dtype, device=device)
    return best_seconds(lambda: torch.mm(a, b, out=out), device, repeats)


def best_seconds(work: Callable[[], object], device: str, repeats: int) -> float:
    """Best of some repeats after one that is not counted."""
    found = []
    for _ in range(repeats + 1):
        if device == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        found.append(time.perf_counter() - began)
    return min(found[1:])


def _table(rows: int, columns: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    key = rows, columns, dtype, device
    if key not in _TABLES:
        _TABLES[key] = torch.randn(rows, columns, device=device).to(dtype)
    return _TABLES[key]


# -- many at once, validation ---------------------------------------------------------------------


def stacked_seconds(task: Task, count: int, pairs: Pairs, repeats: int) -> float:
    """Median seconds of an epoch of `count` pairs of heads trained together."""
    device = torch.device(task.device)
    dtype = torch.bfloat16 if task.bf16 else torch.float32
    corpus = corpus_of(pairs).to(device, dtype)
    members = [
        Member({}, seed, task.head, task.loss, OptimizerSettings(lr=1e-5 * (1 + seed)))
        for seed in range(count)
    ]
    sampler = BatchSampler(corpus, SamplingSettings(batch_size=task.batch, power=1.0), seed=0)
    plan = Plan(repeats + 1, task.steps, 1, autocast=task.bf16, capture=task.capture == "auto")
    training = StackTraining(members, corpus, sampler, [1.0], plan)
    found = []
    for _ in range(repeats + 1):
        before = training.seconds
        training.run(task.steps)
        found.append(training.seconds - before)
    return statistics.median(found[1:])


def validation_seconds(
    width: int, hidden: tuple[int, ...], queries: int, tools: int, device: str, repeats: int
) -> list[float]:
    """Seconds of one validation: project a catalogue and its queries, rank, measure."""
    settings = HeadSettings(hidden=hidden)
    heads = build_heads(settings.architecture(width), settings, LossSettings()).to(device)
    pairs = planted_pairs(max(queries, tools), width, seed=1)
    rows = np.arange(queries)
    one = ValidationSet(
        "planted",
        torch.from_numpy(pairs.queries[:queries]),
        torch.from_numpy(pairs.tools[:tools])[:, None],
        Relevant(np.arange(queries + 1), rows % tools, np.ones(queries, np.int64)),
    ).to(device)
    weights = torch.ones(1, device=device)
    found = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        validate(heads, [one], weights)
        found.append(time.perf_counter() - began)
    return found[1:]


# -- the command ----------------------------------------------------------------------------------


def main() -> int:
    """Time one system; the result is a JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("system", choices=(*SYSTEMS, "stacked", "validation"))
    parser.add_argument("--width", type=int, required=True)
    parser.add_argument("--hidden", type=int, nargs="*", required=True)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--pairs", type=int, required=True)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--both", action="store_true")
    parser.add_argument("--no-mask", action="store_true")
    parser.add_argument("--heads", type=int, default=8, help="of `stacked`")
    parser.add_argument("--tools", type=int, default=10_000, help="of `validation`")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    quiet()
    task = Task(
        args.width, tuple(args.hidden), args.batch, args.pairs, args.epochs, args.bf16, args.both,
        not args.no_mask, args.device,
    )  # fmt: skip
    if args.system == "validation":
        seconds = validation_seconds(
            task.width, task.hidden, task.pairs, args.tools, task.device, task.epochs
        )
        found: dict[str, Any] = {"seconds": seconds}
    else:
        pairs = planted_pairs(task.pairs, task.width, task.seed)
        if args.system == "stacked":
            seconds_1, seconds_n = (
                stacked_seconds(task, count, pairs, task.epochs) for count in (1, args.heads)
            )
            found = {"one_s": seconds_1, "all_s": seconds_n, "heads": args.heads}
        else:
            found = SYSTEMS[args.system](task, pairs)
    write_json(args.out, {**found, "task": asdict(task), "torch": torch.__version__})
    json.dump(found, sys.stderr)
    return 0


def quiet() -> None:
    """No advice from libraries among the numbers."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")


if __name__ == "__main__":
    sys.exit(main())
