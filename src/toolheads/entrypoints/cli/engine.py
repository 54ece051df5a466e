"""Options of commands that can spread their work over processes and machines."""

from __future__ import annotations

import argparse
from dataclasses import replace

from toolheads.bootstrap import EncoderSettings
from toolheads.errors import ConfigError
from toolheads.jobs import Cluster

_ENGINES = ("here", "ray")

_OPTIONS = ("workers", "address", "worker_cpus", "worker_gpus")
"""Names in the parsed arguments, and fields of `Cluster`."""


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """Add `--engine` and what goes with it; `cluster_of` reads them."""
    group = parser.add_argument_group("engine")
    group.add_argument(
        "--engine",
        choices=_ENGINES,
        default=_ENGINES[0],
        help="who does the work: this process, or processes of Ray, on many machines if there are "
        "(default: here)",
    )
    group.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="processes that embed (ray; default: all CPUs but one, or all GPUs with vllm)",
    )
    group.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="a Ray cluster, auto for the one of this machine (ray; default: start Ray here, and "
        "end it with the job)",
    )
    group.add_argument(
        "--worker-cpus", type=int, metavar="N", help="CPUs of one of them (ray; default: 1)"
    )
    group.add_argument(
        "--worker-gpus",
        type=float,
        metavar="N",
        help="GPUs of one of them (ray; default: 1 with vllm, else 0)",
    )


def cluster_of(args: argparse.Namespace, encoder: EncoderSettings) -> Cluster | None:
    """What `add_engine_options` parsed; None for this process.

    Raises:
        ConfigError: If an option breaks its rule, or belongs to another engine.
    """
    given = {name: getattr(args, name) for name in _OPTIONS if getattr(args, name) is not None}
    if args.engine != "ray":
        for name, value in given.items():
            msg = f"--{name.replace('_', '-')} must be left out without --engine ray, got {value}"
            raise ConfigError(msg)
        return None
    if encoder.kind == "vllm":
        given.setdefault("worker_gpus", 1.0)
    return Cluster(**given)


def encoder_of_worker(encoder: EncoderSettings, cluster: Cluster) -> EncoderSettings:
    """The settings for one of many processes: it has its CPUs, and not those of all."""
    if encoder.kind == "local" and not encoder.threads:
        return replace(encoder, threads=cluster.worker_cpus)
    return encoder
