"""The job: tools, heads and a cache in, a fresh index out, in bounded memory.

What is held for each tool is a digest of its id and one of its key. Texts, vectors and rows are
held for one batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from toolheads.errors import DataError
from toolheads.heads import Heads
from toolheads.jobs.cluster import Cluster
from toolheads.jobs.inputs import input_files
from toolheads.jobs.one_process import OneProcessJob
from toolheads.jobs.parts import Parts, Reading
from toolheads.jobs.pointer import Current, write_current
from toolheads.jobs.quarantine import Quarantine
from toolheads.jobs.rows import RowMaker
from toolheads.jobs.target import Target, open_target
from toolheads.ports import Encoder

_QUARANTINE = "quarantine.jsonl"
"""Beside the index; in the working folder, with a longer name, for a database."""


@dataclass(frozen=True)
class Report:
    """What a job did."""

    seen: int
    """Lines that were read."""
    tools: int
    """Lines that are tools with a row now."""
    failed: int
    """Lines that are in the quarantine."""
    embedded: int
    """Texts that the encoder was asked for."""
    reused: int
    """Texts whose vectors were in the cache."""
    added: int
    """Rows that are new in the index."""
    removed: int
    """Rows that are not in it any more."""
    kept: int
    """Rows that were in it before, and stay."""
    resumed: int
    """Of the rows that are new, those that an earlier run had made when it ended early."""
    size_bytes: int
    """Written for new rows."""
    seconds: float
    index: str
    space: str
    width: int
    dtype: str
    place: str
    """The folder, or `database`."""
    quarantine: str | None
    """File of the lines that failed; None when there are none."""
    structure: Mapping[str, Any] | None = None
    """What faiss built, with its recall, see `FaissIndex.about`; None for other kinds."""

    @property
    def texts_per_second(self) -> float | None:
        """Texts that became part of rows, for each second; None when there were none."""
        texts = self.embedded + self.reused
        return texts / self.seconds if texts and self.seconds else None

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        return {**asdict(self), "texts_per_second": self.texts_per_second}


def reindex(
    tools: Sequence[str | Path],
    heads: Heads,
    target: Target,
    *,
    encoder: Callable[[], Encoder],
    cache: str | Path,
    cache_dtype: str = "float16",
    quarantine: str | Path | None = None,
    batch_tools: int | None = None,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
    cluster: Cluster | None = None,
) -> Report:
    """Make an index hold the rows of these tools, and no others, in one step at the end.

    A run that is killed goes on where it was when the same is run again: vectors are in the cache,
    rows beside the index. Run over the same tools again it changes nothing.

    Args:
        tools: JSONL and Parquet files, and folders of them, see `toolheads.jobs.inputs`.
        heads: Project the vectors.
        target: The index.
        encoder: Makes the encoder of the heads; called once a text is not in the cache. On a
            cluster it is sent to each process that embeds.
        cache: Folder that keeps vectors.
        cache_dtype: What it keeps them in.
        quarantine: File for lines that cannot be used; None puts it beside the index.
        batch_tools: Tools that are held at once; None fits the width.
        threads: Threads that project; on a cluster each process has one.
        progress: Told how many lines are done.
        cluster: Spreads the work over processes and machines, with Ray; None does all of it here.
            The index has the same rows.

    Raises:
        DataError: If a file cannot be read, or no line is a tool; the index stays as it is.
        EncoderError: If the encoder fails.
        BackboneMismatchError: If encoder or cache are of other weights than the heads.
        ConfigError: If a setting breaks its rule.
        CacheError: If the cache cannot be read or written.
        IndexStoreError: If the index cannot be, or another job is at work on it.
        EngineError: If the cluster fails.
        MissingExtraError: If there is to be a cluster, and Ray is not installed.
    """
    began = time.monotonic()
    files = input_files([Path(place) for place in tools])
    maker = RowMaker(heads, encoder, Path(cache), dtype=cache_dtype, threads=threads)
    try:
        writing = open_target(target, space=maker.space, width=maker.width)
        try:
            bad = Quarantine(Path(quarantine) if quarantine else _beside(target))
            parts = Parts(
                heads=heads,
                encoder=encoder,
                cache=Path(cache),
                cache_dtype=cache_dtype,
                maker=maker,
                writing=writing,
                quarantine=bad,
                target=target,
                at_once=batch_tools or maker.batch,
                progress=progress or _no_progress,
            )
            job = OneProcessJob(parts) if cluster is None else _distributed(cluster, parts)
            try:
                job.read(files)
            finally:
                bad.close()
            _refuse_none(job)
            swapped = writing.finish(job.is_wanted)
        finally:
            writing.close()
    finally:
        maker.close()
    if target.folder is not None:
        about = Current(
            target.kind,
            maker.space,
            maker.width,
            target.dtype,
            heads.name,
            job.wanted,
            dict(target.settings),
        )
        write_current(Path(target.folder), about)
    return Report(
        seen=job.seen,
        tools=job.tools,
        failed=bad.count,
        embedded=maker.counts.embedded,
        reused=maker.counts.reused,
        added=swapped.added,
        removed=swapped.removed,
        kept=job.wanted - swapped.added,
        resumed=writing.resumed + job.resumed,
        size_bytes=swapped.size_bytes,
        seconds=time.monotonic() - began,
        index=target.kind,
        space=maker.space,
        width=maker.width,
        dtype=target.dtype,
        place="database" if target.is_database else str(target.folder),
        quarantine=str(bad.path) if bad.count else None,
        structure=swapped.structure,
    )


def _distributed(cluster: Cluster, parts: Parts) -> Reading:
    # Late: it needs pyarrow.
    module = import_module("toolheads.jobs.distributed.job")
    job: Reading = module.DistributedJob(cluster, parts)
    return job


def _refuse_none(job: Reading) -> None:
    """Refuse to end with an empty index.

    Raises:
        DataError: If no line is a tool.
    """
    if not job.wanted:
        msg = (
            f"tools must hold at least one that can be used, got none in {job.seen} "
            f"line{'s'[: job.seen != 1]}; the index stays as it is"
        )
        raise DataError(msg)


def _beside(target: Target) -> Path:
    if target.folder is None:
        return Path(f"toolheads-{_QUARANTINE}")
    return Path(target.folder) / _QUARANTINE


def _no_progress(seen: int) -> None:
    """The default: say nothing."""
