"""How a job is spread over processes and machines. Knows settings, no engine."""

from __future__ import annotations

import math
from dataclasses import dataclass

from toolheads.errors import ConfigError


@dataclass(frozen=True)
class Cluster:
    """Where Ray runs a job, and on how much of it. See `toolheads.jobs.distributed`."""

    workers: int | None = None
    """Processes that embed; None takes one for each `worker_gpus` GPUs, or `worker_cpus` CPUs."""
    address: str | None = None
    """A cluster that runs, such as `auto` for the one that this machine belongs to; None starts
    Ray on this machine and ends it with the job."""
    worker_cpus: int = 1
    """CPUs that one of these processes is counted as."""
    worker_gpus: float = 0.0
    """GPUs that one of them has for itself; below 1 several share one."""
    piece_bytes: int = 4 << 20
    """Most bytes of a JSONL file that are read in one go."""

    def __post_init__(self) -> None:
        least = {"worker_cpus": self.worker_cpus, "piece_bytes": self.piece_bytes}
        if self.workers is not None:
            least["workers"] = self.workers
        for name, value in least.items():
            if value < 1:
                msg = f"{name} must be >= 1, got {value}"
                raise ConfigError(msg)
        if not 0 <= self.worker_gpus < math.inf:
            msg = f"worker_gpus must be >= 0 and finite, got {self.worker_gpus}"
            raise ConfigError(msg)
        if self.address is not None and not self.address.strip():
            msg = f"address must name a cluster, such as auto, got {self.address!r}"
            raise ConfigError(msg)
