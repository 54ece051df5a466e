"""Ray for the time of a job: found or started, quiet, and ended if it was started here."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from toolheads.errors import ConfigError, EngineError, import_extra
from toolheads.jobs.cluster import Cluster
from toolheads.jobs.distributed.carrying import unpacked

_QUIET = {
    # Nothing is sent to Ray's makers.
    "RAY_USAGE_STATS_ENABLED": "0",
    # What its own processes say is in its log folder.
    "RAY_BACKEND_LOG_LEVEL": "fatal",
}


@dataclass(frozen=True)
class Session:
    """Ray, ready for the stages of a job."""

    cluster: Cluster
    cpus: float
    gpus: float
    is_ours: bool
    """Whether it was started for this job, on this machine alone."""

    def workers(self, gpus: float) -> int:
        """How many processes embed, each with so many GPUs.

        Raises:
            ConfigError: If there are not enough of them.
        """
        given = self.cluster.workers
        if gpus and self.gpus < gpus * (given or 1) and (self.is_ours or given is None):
            msg = f"there must be {gpus:g} GPUs for each worker, got {self.gpus:g}"
            raise ConfigError(msg)
        if given is not None:
            return given
        if gpus:
            return int(self.gpus // gpus)
        # One is left for what is done besides.
        return max(1, int((self.cpus - 1) // self.cluster.worker_cpus))


@contextmanager
def session(cluster: Cluster) -> Iterator[Session]:
    """Have Ray for a job; one that runs in this process already is used as it is.

    Raises:
        ConfigError: If there is no such cluster.
        EngineError: If Ray fails. An error of this package in a worker is raised as it is.
        MissingExtraError: If Ray is not installed.
    """
    ray = import_extra("ray", user="engine ray", extra="ray")
    data = import_extra("ray.data", user="engine ray", extra="ray")
    with ExitStack() as stack:
        stack.enter_context(_errors(ray))
        if not ray.is_initialized():
            with _environment(_QUIET):
                _start(ray, cluster)
            stack.callback(ray.shutdown)
        size = ray.cluster_resources()
        stack.enter_context(_quiet(data))
        is_ours = cluster.address is None
        yield Session(cluster, size.get("CPU", 0.0), size.get("GPU", 0.0), is_ours)


def tables(dataset: Any) -> Any:
    """The tables of a dataset, as they come: its stages run, and no more of it is held here."""
    return dataset.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0)


def _start(ray: Any, cluster: Cluster) -> None:
    common = {"logging_level": logging.ERROR, "log_to_driver": False}
    if cluster.address is None:
        cpus = os.cpu_count() or 1
        if cluster.workers is not None:
            # What a process is counted as is no more than a count: all of them must find room.
            cpus = max(cpus, cluster.workers * cluster.worker_cpus + 1)
        try:
            ray.init(address="local", num_cpus=cpus, include_dashboard=False, **common)
        except Exception as e:  # a bare one when its processes take longer than 30 s to start
            msg = f"Ray must start on this machine, got: {' '.join(str(e).split()):.500}"
            raise EngineError(msg) from e
        return
    try:
        ray.init(address=cluster.address, **common)
    except (ConnectionError, ValueError, RuntimeError) as e:
        reason = str(e).strip().partition("\n")[0]
        msg = f"address must be that of a cluster, got {cluster.address!r}: {reason}"
        raise ConfigError(msg) from e


@contextmanager
def _quiet(data: Any) -> Iterator[None]:
    """Let the stages of this job, and no other's, run without a word: its errors are raised."""
    context = data.DataContext.get_current().copy()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.raise_original_map_exception = True
    logger = logging.getLogger("ray.data")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with data.DataContext.current(context):
            yield
    finally:
        logger.setLevel(level)


@contextmanager
def _errors(ray: Any) -> Iterator[None]:
    """Raise what a worker raised, and what Ray has to say in one line."""
    try:
        yield
    except ray.exceptions.RayError as e:
        packed = unpacked(e)
        if packed is not None:
            raise packed from None
        reason = next((line for line in reversed(str(e).splitlines()) if line.strip()), "")
        msg = f"Ray must run the job, got {type(e).__name__}: {reason.strip():.500}"
        raise EngineError(msg) from e


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set variables that are not set; the processes that are started meanwhile have them."""
    ours = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            with suppress(KeyError):
                del os.environ[name]
