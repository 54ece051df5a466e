"""Builds a structure: on the first GPU where faiss can, on the CPU otherwise, by one path.

What is built is on the CPU in the end, and searched there by machines without a GPU.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from toolheads.arrays import Floats
from toolheads.errors import ConfigError
from toolheads.indexes.faiss_index.parameters import LISTED, Parameters
from toolheads.indexes.faiss_index.structure import Structure, load_faiss

_logger = logging.getLogger(__name__)

_BLOCK_ENTRIES = 1 << 26
"""Entries of the rows that are held beside what is built; 256 MB."""

_CAGRA = "GpuIndexCagra"

Gather = Callable[[Sequence[str]], Floats]
"""(n, d) float32 rows of n keys."""


def build(
    keys: Sequence[str], gather: Gather, width: int, parameters: Parameters, *, threads: int
) -> Structure:
    """Build a structure over n rows.

    Args:
        keys: n keys, n >= 1.
        gather: Gives their rows; asked for a part at a time, but for CAGRA.
        width: d.
        parameters: What to build.
        threads: CPU threads.

    Raises:
        ConfigError: If this machine cannot build it, see `check_machine`.
    """
    faiss = load_faiss()
    faiss.omp_set_num_threads(threads)
    fitted = parameters.for_rows(len(keys), width)
    if fitted.structure == "cagra":
        index = _cagra(faiss, gather(keys), fitted)
    elif fitted.structure in LISTED and faiss.get_num_gpus():
        index = _through_gpu(faiss, keys, gather, width, fitted)
    else:
        index = _filled(_empty(faiss, width, fitted), keys, gather, width, fitted)
    return Structure(index, tuple(keys), fitted)


def check_machine(parameters: Parameters) -> None:
    """Refuse what cannot be built here.

    Raises:
        ConfigError: For CAGRA, without a GPU or with a faiss that has no CAGRA.
    """
    faiss = load_faiss()
    if parameters.structure != "cagra":
        return
    gpus, has_cagra = faiss.get_num_gpus(), hasattr(faiss, _CAGRA)
    if not gpus or not has_cagra:
        lacks = " and ".join(
            name for name, is_there in (("GPU", gpus), (_CAGRA, has_cagra)) if not is_there
        )
        msg = (
            "structure cagra must be built on a GPU with a faiss of cuVS (faiss-gpu-cuvs), got "
            f"faiss {faiss.__version__} without {lacks}; choose faiss-hnsw, or build it there and "
            "open its folder here"
        )
        raise ConfigError(msg)


def _empty(faiss: ModuleType, width: int, fitted: Parameters) -> Any:
    index = faiss.index_factory(width, fitted.recipe(width), faiss.METRIC_INNER_PRODUCT)
    if fitted.structure == "hnsw":
        index.hnsw.efConstruction = fitted.ef_construction
    return index


def _through_gpu(
    faiss: ModuleType, keys: Sequence[str], gather: Gather, width: int, fitted: Parameters
) -> Any:
    """Built by the GPU; by the CPU where the GPU lacks memory, or faiss cannot put it there."""
    empty = _empty(faiss, width, fitted)
    memory, options = faiss.StandardGpuResources(), faiss.GpuClonerOptions()
    options.useFloat16 = fitted.structure == "ivfpq"  # of its tables; with many codes they must be
    try:
        on_gpu = faiss.index_cpu_to_gpu(memory, 0, empty, options)
        return faiss.index_gpu_to_cpu(_filled(on_gpu, keys, gather, width, fitted))
    except RuntimeError as e:
        reason = " ".join(str(e).split())[:200]
        _logger.warning("the GPU cannot build %s, the CPU does: %s", fitted.recipe(width), reason)
    return _filled(_empty(faiss, width, fitted), keys, gather, width, fitted)


def _filled(index: Any, keys: Sequence[str], gather: Gather, width: int, fitted: Parameters) -> Any:
    if not index.is_trained:
        index.train(gather(_sample(keys, fitted.sample)))
    for block in _blocks(keys, width):
        index.add(gather(block))
    return index


def _cagra(faiss: ModuleType, rows: Floats, fitted: Parameters) -> Any:
    """The graph of a GPU as the lowest layer of an HNSW, and layers above it by the CPU."""
    check_machine(fitted)
    config = faiss.GpuIndexCagraConfig()
    config.graph_degree = 2 * fitted.neighbours
    config.intermediate_graph_degree = 2 * config.graph_degree
    width, metric = rows.shape[1], faiss.METRIC_INNER_PRODUCT
    on_gpu = faiss.GpuIndexCagra(faiss.StandardGpuResources(), width, metric, config)
    on_gpu.train(rows)
    index = faiss.IndexHNSWCagra(width, fitted.neighbours, metric)
    # With the lowest layer alone searches begin at random rows, each time at others.
    index.base_level_only = False
    on_gpu.copyTo(index)
    return index


def _sample(keys: Sequence[str], most: int) -> Sequence[str]:
    if len(keys) <= most:
        return keys
    picked = np.sort(np.random.default_rng(0).choice(len(keys), most, replace=False))
    return [keys[place] for place in picked]


def _blocks(keys: Sequence[str], width: int) -> Iterator[Sequence[str]]:
    step = max(1, _BLOCK_ENTRIES // width)
    for start in range(0, len(keys), step):
        yield keys[start : start + step]
