"""One optimiser step as a recording that the device replays, without Python between its kernels.

On CUDA a step of small heads takes the host longer to launch than the device to compute. A CUDA
graph is launched at once: https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs. What
a step reads has to stand in fixed places then: the batch is copied into buffers, the learning rate
and the number of the step are tensors.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields
from typing import Any, Protocol

import torch
from torch import Tensor

from toolheads_train.data.sampling import Batch

logger = logging.getLogger(__name__)

WARM_UP = 3
"""Steps before the recording: the optimiser's state and the libraries' workspaces have to be there
already. They are steps of the training like any other."""


class Recorder(Protocol):
    """Where a step is recorded and replayed."""

    def aside(self) -> AbstractContextManager[None]:
        """Where the steps before the recording run."""
        ...

    def record(self, step: Callable[[], None]) -> Callable[[], None]:
        """Record a step without running it; returns what runs it."""
        ...


class CudaGraphs:
    """A recorder of CUDA graphs."""

    def aside(self) -> AbstractContextManager[None]:
        """A stream of its own, as recording wants it."""
        return _on_side_stream()

    def record(self, step: Callable[[], None]) -> Callable[[], None]:
        """Capture one graph."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        return graph.replay


class CapturedStep:
    """Runs steps: the first few as they are, the others as replays of one recording."""

    def __init__(self, step: Callable[[Batch], None], recorder: Recorder) -> None:
        """Take a step that reads nothing of the host but its batch."""
        self._step, self._recorder = step, recorder
        self._seen, self._is_plain = 0, False
        self._batch: Batch | None = None
        self._replay: Callable[[], None] | None = None

    def __call__(self, batch: Batch) -> None:
        """Run one step; one that cannot be recorded runs as it is, now and from then on."""
        if self._seen < WARM_UP:
            self._seen += 1
            with self._recorder.aside():
                self._step(batch)
            return
        if self._replay is None and not self._is_plain:
            self._record(batch)
        if self._replay is None or self._batch is None:
            self._step(batch)
            return
        _copy_into(self._batch, batch)
        self._replay()

    def _record(self, batch: Batch) -> None:
        self._batch = static = _copied(batch)
        try:
            self._replay = self._recorder.record(lambda: self._step(static))
        except RuntimeError as e:
            self._is_plain = True
            reason = " ".join(str(e).split())[:200]
            logger.info("steps are not captured as a CUDA graph: %s", reason)


@contextmanager
def _on_side_stream() -> Iterator[None]:
    side: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    main = torch.cuda.current_stream()
    side.wait_stream(main)
    with torch.cuda.stream(side):
        yield
    main.wait_stream(side)


def follow_capture(optimizer: torch.optim.Optimizer) -> None:
    """Tell an optimiser whether this step is being recorded; call before each of its steps.

    Its flag and the stream have to agree: it refuses one way, and warns the other.
    """
    is_recorded = torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
    for group in optimizer.param_groups:
        group["capturable"] = is_recorded


def _tensors(batch: Batch) -> dict[str, Tensor]:
    found = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return {name: value for name, value in found.items() if isinstance(value, Tensor)}


def _copied(batch: Batch) -> Batch:
    return Batch(**{name: value.clone() for name, value in _tensors(batch).items()})


def _copy_into(static: Batch, batch: Batch) -> None:
    new = _tensors(batch)
    for name, place in _tensors(static).items():
        if place.shape != new[name].shape:
            msg = (
                f"a batch must have the shapes of the recorded one, got {name} of shape "
                f"{tuple(new[name].shape)} after {tuple(place.shape)}"
            )
            raise RuntimeError(msg)
        place.copy_(new[name], non_blocking=True)
