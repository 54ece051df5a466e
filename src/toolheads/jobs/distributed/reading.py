"""The first stage: pieces of files to tables of their lines, with what the next stage needs.

A line is named by its position: the number of its piece and that of the line in the piece, in one
integer, so that positions rise as the lines of all files do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from toolheads.arrays import Ids
from toolheads.cache import VectorCache
from toolheads.cache.keys import text_keys
from toolheads.data.jsonl import whole_file_error
from toolheads.errors import DataError, import_extra
from toolheads.heads import Heads
from toolheads.jobs.distributed.carrying import carried
from toolheads.jobs.inputs import Line, Piece, PieceLines
from toolheads.jobs.rows import Wording

_LINE_BITS = 40
_LINES_AT_ONCE = 1024

READ_CPUS = 0.5
"""Reading waits for the disk half of its time. Another number than that of the next stage also
keeps Ray from reading in the processes that embed."""


def position(piece: int, number: int) -> int:
    """Position of a line of a piece; number 0 stands for the piece as a whole."""
    return piece << _LINE_BITS | number


def piece_and_number(positions: Ids) -> tuple[Ids, Ids]:
    """(n,) pieces and (n,) numbers of (n,) positions."""
    return positions >> _LINE_BITS, positions & ((1 << _LINE_BITS) - 1)


class Columns(Protocol):
    """What of lines becomes a table."""

    def schema(self) -> Any:
        """Its columns, as pyarrow has them, the position first."""
        ...

    def records(self, lines: Sequence[Line]) -> list[dict[str, Any]]:
        """A record for each line, without the position."""
        ...


@dataclass(frozen=True)
class CacheFolder:
    """A cache that a worker can open."""

    heads: Heads
    folder: Path
    dtype: str

    def opened(self) -> VectorCache:
        """The cache, opened once in a process."""
        name = (self.folder, self.heads.fingerprint.key, self.dtype)
        if name not in _caches:
            _caches[name] = VectorCache.open(
                self.folder, self.heads.fingerprint, self.heads.probe, dtype=self.dtype
            )
        return _caches[name]


_caches: dict[tuple[Path, str, str], VectorCache] = {}


@dataclass(frozen=True)
class OutlineColumns:
    """Digests of the id and of the row, null for a line that is no tool.

    Attributes:
        wording: What rows are made of.
        cache: Where to look whether all vectors are there; None does not look.
    """

    wording: Wording
    cache: CacheFolder | None = None

    def schema(self) -> Any:
        """See `Columns`. A record with `lines` says how many lines a piece has."""
        pa = _pyarrow()
        return pa.schema(
            {
                "position": pa.int64(),
                "id": pa.binary(32),
                "key": pa.binary(32),
                "is_missing": pa.bool_(),
                "lines": pa.int64(),
            }
        )

    def records(self, lines: Sequence[Line]) -> list[dict[str, Any]]:
        """See `Columns`."""
        texts = [self.wording.texts(line.tool) if line.tool else [] for line in lines]
        records: list[dict[str, Any]] = []
        for line, of_tool in zip(lines, texts, strict=True):
            if line.tool is None:
                records.append({})
                continue
            (digest,) = text_keys([line.tool.id])
            key = bytes.fromhex(self.wording.key(of_tool))
            records.append({"id": digest.tobytes(), "key": key, "is_missing": False})
        if self.cache is not None:
            there = iter(self.cache.opened().has([text for of_tool in texts for text in of_tool]))
            for record, of_tool in zip(records, texts, strict=True):
                if of_tool:
                    record["is_missing"] = not all(list(islice(there, len(of_tool))))
        return records


@dataclass(frozen=True)
class TextColumns:
    """Key and texts of tools."""

    wording: Wording

    def schema(self) -> Any:
        """See `Columns`."""
        pa = _pyarrow()
        columns = {"position": pa.int64(), "key": pa.string(), "texts": pa.list_(pa.string())}
        return pa.schema(columns)

    def records(self, lines: Sequence[Line]) -> list[dict[str, Any]]:
        """See `Columns`."""
        texts = [self.wording.texts(line.tool) for line in lines if line.tool is not None]
        if len(texts) < len(lines):
            raise changed_error(lines[0].path)
        return [{"key": self.wording.key(of_tool), "texts": of_tool} for of_tool in texts]


def changed_error(path: Path) -> DataError:
    """The error of a file that is another than a moment ago."""
    return whole_file_error(path, "the file must stay as it is while a job reads it")


def read_dataset(
    pieces: Sequence[Piece], columns: Columns, wanted: Mapping[int, Ids] | None = None
) -> Any:
    """A dataset of Ray with a record for each line.

    Args:
        pieces: What is read.
        columns: What of the lines.
        wanted: Number of a piece → numbers of its lines; None reads all lines of all pieces, and
            adds how many each has.
    """
    data = import_extra("ray.data", user="engine ray", extra="ray")
    source = import_extra("ray.data.datasource", user="engine ray", extra="ray")
    block = import_extra("ray.data.block", user="engine ray", extra="ray")
    numbers = range(len(pieces)) if wanted is None else sorted(wanted)

    class Tools(source.Datasource):  # type: ignore[misc, name-defined]
        """Files of tools, in pieces."""

        def estimate_inmemory_data_size(self) -> int | None:
            """Not known before they are read."""
            return None

        def get_read_tasks(self, *args: Any, **more: Any) -> list[Any]:
            """One for each piece."""
            about = block.BlockMetadata(
                num_rows=None, size_bytes=None, input_files=None, exec_stats=None
            )
            tasks = []
            for number in numbers:
                lines = None if wanted is None else wanted[number]
                read = partial(read_piece, pieces[number], number, columns, lines)
                tasks.append(source.ReadTask(read, about))
            return tasks

    return data.read_datasource(Tools(), override_num_blocks=len(numbers), num_cpus=READ_CPUS)


def read_piece(piece: Piece, number: int, columns: Columns, wanted: Ids | None) -> Iterator[Any]:
    """Tables of a piece, in a worker. See `read_dataset`.

    Raises:
        CarriedError: If the file cannot be read.
    """
    pa = _pyarrow()
    with carried():
        schema = columns.schema()
        of_piece = PieceLines(piece, None if wanted is None else wanted.tolist())
        lines = iter(of_piece)
        while batch := list(islice(lines, _LINES_AT_ONCE)):
            records = columns.records(batch)
            for line, record in zip(batch, records, strict=True):
                record["position"] = position(number, line.number)
            yield pa.Table.from_pylist(records, schema=schema)
        if wanted is None:
            count = {"position": position(number, 0), "lines": of_piece.count}
            yield pa.Table.from_pylist([count], schema=schema)


def numbers_by_piece(positions: Ids) -> dict[int, Ids]:
    """Number of a piece → numbers of its lines, of (n,) rising positions."""
    piece, number = piece_and_number(positions)
    cuts = np.flatnonzero(np.diff(piece)) + 1
    parts = np.split(number, cuts) if len(number) else []
    firsts = piece[np.concatenate([[0], cuts])] if len(number) else []
    return {int(one): part for one, part in zip(firsts, parts, strict=True)}


def _pyarrow() -> Any:
    return import_extra("pyarrow", user="engine ray", extra="ray")
