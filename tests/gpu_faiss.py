"""faiss as it is on a machine with a GPU, for tests on one without: notes what the GPU is told.

What a GPU would do is done by the CPU, with the classes that faiss-cpu has. Names and order of
arguments are those of faiss-gpu-cuvs.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import faiss


class OnGpu:
    """An index on the GPU."""

    def __init__(self, machine: GpuFaiss, index: Any) -> None:
        self.machine, self.index = machine, index

    @property
    def is_trained(self):
        return self.index.is_trained

    def train(self, rows):
        self.machine.calls.append(("train", len(rows)))
        self.machine.fail("train")
        self.index.train(rows)

    def add(self, rows):
        self.machine.calls.append(("add", len(rows)))
        self.index.add(rows)

    def search(self, queries, k, **options):
        self.machine.calls.append(("search", len(queries)))
        return self.index.search(queries, k, **options)


class Cagra:
    """A graph on the GPU, made from all rows at once."""

    def __init__(self, machine: GpuFaiss, width: int, metric: int, config: Any) -> None:
        self.machine, self.width, self.metric, self.config = machine, width, metric, config

    def train(self, rows):
        self.machine.calls.append(("cagra", len(rows)))
        assert self.config.intermediate_graph_degree < len(rows)
        self.rows = rows

    def copyTo(self, index):  # noqa: N802  # faiss's name
        assert index.metric_type == self.metric
        assert index.d == self.width
        index.add(self.rows)


class GpuFaiss:
    """Stands in for the module `faiss`; everything else is the real one's.

    Args:
        has_cagra: Whether the build has CAGRA.
        fails_at: `put` or `train`: what the GPU has no memory for.
    """

    def __init__(self, *, has_cagra: bool = True, fails_at: str = "") -> None:
        self.calls: list[tuple[str, int]] = []
        self.options: list[Any] = []
        self.fails_at = fails_at
        if has_cagra:
            self.GpuIndexCagraConfig = SimpleNamespace
            self.GpuIndexCagra = lambda memory, *rest: Cagra(self, *rest)

    def __getattr__(self, name):
        return getattr(faiss, name)

    def fail(self, step):
        if step == self.fails_at:
            msg = "Error: out of memory\nin a stack trace"
            raise RuntimeError(msg)

    def get_num_gpus(self):
        return 1

    StandardGpuResources = GpuClonerOptions = SimpleNamespace

    def index_cpu_to_gpu(self, memory, device, index, options=None):
        self.calls.append(("put", device))
        self.options.append(options)
        self.fail("put")
        return OnGpu(self, faiss.clone_index(index))

    def index_gpu_to_cpu(self, on_gpu):
        self.calls.append(("take", 0))
        return faiss.clone_index(on_gpu.index)
