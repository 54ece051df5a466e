"""The job over many processes: outline, settle, make, quarantine, write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from toolheads.arrays import Ids
from toolheads.cache.keys import Keys
from toolheads.data.jsonl import shown
from toolheads.errors import EngineError
from toolheads.jobs.cluster import Cluster
from toolheads.jobs.distributed.outline import Outline
from toolheads.jobs.distributed.reading import (
    CacheFolder,
    OutlineColumns,
    TextColumns,
    numbers_by_piece,
    position,
    read_dataset,
)
from toolheads.jobs.distributed.session import Session, session, tables
from toolheads.jobs.distributed.shards import Shards
from toolheads.jobs.distributed.stages import Making, made_dataset, no_encoder
from toolheads.jobs.inputs import Piece, PieceLines, pieces_of
from toolheads.jobs.parts import Parts
from toolheads.scorers.recipe import Recipe

_PIECES_OF_A_WORKER = 4
"""At least, where files are large enough: so that none waits long for the last one."""

_LEAST_PIECE_BYTES = 1 << 16


_SHARDS = "reindex.shards"


class DistributedJob:
    """Does what `toolheads.jobs.one_process` does. See `toolheads.jobs.parts.Reading`.

    Args:
        cluster: Where it runs.
        parts: What it is made of.
    """

    def __init__(self, cluster: Cluster, parts: Parts) -> None:
        self._cluster, self._parts = cluster, parts
        self._cache = parts.cache.resolve()
        self._shards = _shards_folder(parts)
        self._keys: set[bytes] = set()
        self.seen = self.tools = self.resumed = 0

    @property
    def wanted(self) -> int:
        """See `toolheads.jobs.parts.Reading`."""
        return len(self._keys)

    def is_wanted(self, key: str) -> bool:
        """See `toolheads.jobs.parts.Reading`."""
        return bytes.fromhex(key) in self._keys

    def read(self, files: Sequence[Path]) -> None:
        """See `toolheads.jobs.parts.Reading`."""
        parts = self._parts
        named = pieces_of(files, self._piece_bytes(files))
        if not named:
            return
        # Workers have a working folder of their own.
        pieces = [replace(piece, path=piece.path.resolve()) for piece in named]
        shards = Shards(self._shards, width=parts.maker.width)
        shards.take_up()
        with session(self._cluster) as ray:
            outline = self._outlined(pieces)
            fresh = self._fresh(outline)
            left = fresh[shards.have(outline.keys[fresh]) < 0]
            self.resumed = len(fresh) - len(left)
            refused = self._make(pieces, outline, left, shards, ray) if len(left) else {}
        reasons = _drop(outline, refused)
        self._put_away(named, outline, reasons)
        self.tools = len(outline.tools)
        self._keys = {key.tobytes() for key in outline.keys[outline.first]}
        self._write(outline, shards)
        shards.remove()

    def _piece_bytes(self, files: Sequence[Path]) -> int:
        size = sum(path.stat().st_size for path in files)
        wanted = size // (_PIECES_OF_A_WORKER * (self._cluster.workers or 1)) + 1
        return min(self._cluster.piece_bytes, max(_LEAST_PIECE_BYTES, wanted))

    def _outlined(self, pieces: Sequence[Piece]) -> Outline:
        parts = self._parts
        outline = Outline(len(pieces))
        cache = None
        if self._cluster.worker_gpus:  # they need not be waited for if nothing is to be embedded
            cache = CacheFolder(parts.heads, self._cache, parts.cache_dtype)
        columns = OutlineColumns(parts.maker.wording, cache)
        for table in tables(read_dataset(pieces, columns)):
            outline.add(table)
        outline.settle()
        self.seen = outline.seen
        return outline

    def _fresh(self, outline: Outline) -> Ids:
        """Which tools are the first of a key whose row is not there."""
        is_there = self._parts.writing.is_there
        there = [is_there(key.tobytes().hex()) for key in outline.keys[outline.first]]
        return outline.first[~np.array(there, np.bool_)]

    def _make(
        self,
        pieces: Sequence[Piece],
        outline: Outline,
        left: Ids,
        shards: Shards,
        ray: Session,
    ) -> dict[bytes, str]:
        """Have shards made of some tools; keys of those that the encoder refuses, and why."""
        parts, cluster = self._parts, self._cluster
        recipe = Recipe.of_heads(parts.heads)
        needs_encoder = not cluster.worker_gpus or bool(outline.missing[left].any())
        making = Making(
            heads=parts.heads,
            encoder=parts.encoder if needs_encoder else no_encoder,
            cache=self._cache,
            cache_dtype=parts.cache_dtype,
            weights=recipe.tool_weights,
            action=recipe.action,
            shards=self._shards,
            at_once=parts.at_once,
        )
        texts = read_dataset(
            pieces, TextColumns(parts.maker.wording), numbers_by_piece(outline.tools[left])
        )
        gpus = cluster.worker_gpus if needs_encoder else 0.0
        workers = ray.workers(gpus)
        made = made_dataset(texts, making, workers=workers, cpus=cluster.worker_cpus, gpus=gpus)
        refused: dict[bytes, str] = {}
        to_go = len(left)
        for table in tables(made):
            for record in table.to_pylist():
                if record["key"] is not None:
                    refused[bytes.fromhex(record["key"])] = record["reason"]
                    to_go -= 1
                    continue
                to_go -= record["rows"]
                parts.maker.counts.reused += record["reused"]
                parts.maker.counts.embedded += record["embedded"]
                if record["shard"] is not None:
                    shards.add(record["shard"])
            parts.progress(outline.seen - to_go)
        return refused

    def _put_away(self, pieces: Sequence[Piece], outline: Outline, reasons: dict[int, str]) -> None:
        """Write the quarantine, in the order of the input: these lines are read once more, here."""
        before = outline.lines_before(pieces)
        for number, lines in numbers_by_piece(outline.bad).items():
            for line in PieceLines(pieces[number], lines.tolist()):
                reason = reasons.get(position(number, line.number)) or line.reason
                if not reason and line.tool is not None:
                    reason = f"duplicate id {shown(line.tool.id)}"
                of_file = replace(line, number=before[number] + line.number)
                self._parts.quarantine.add(of_file, reason)

    def _write(self, outline: Outline, shards: Shards) -> None:
        """Hand the rows of shards to the index, in the order of the input."""
        fresh = self._fresh(outline)
        rows = shards.have(outline.keys[fresh])
        if (rows < 0).any():
            missing = int((rows < 0).sum())
            msg = f"every row must be made, got {missing} of {len(rows)} missing; run it again"
            raise EngineError(msg)
        for keys, made in shards.batches(rows, self._parts.at_once):
            self._parts.writing.add(keys, made)


def _shards_folder(parts: Parts) -> Path:
    """Beside the rows, or beside the vectors if rows go to a database."""
    target, space = parts.target, parts.maker.space
    if target.folder is None:
        return (parts.cache / _SHARDS / space).resolve()
    return (Path(target.folder) / space / target.dtype / _SHARDS).resolve()


def _drop(outline: Outline, refused: dict[bytes, str]) -> dict[int, str]:
    """Leave tools out whose key is refused; position of each line → why."""
    if not refused:
        return {}
    keys: Keys = np.frombuffer(b"".join(refused), np.uint8).reshape(-1, 32)
    tools = outline.of_keys(keys)
    reasons = {
        int(outline.tools[tool]): refused[outline.keys[tool].tobytes()] for tool in tools.tolist()
    }
    outline.drop(tools)
    return reasons
