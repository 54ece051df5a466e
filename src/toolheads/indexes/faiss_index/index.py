"""Search through faiss over the rows of a store. Knows the store and one structure at a time.

The structure is built over the rows of some moment and never changed. Rows that came later are
scanned beside it, rows that went are left out of what it finds, and what is found is scored again
with the stored rows. When much has changed, a new structure takes its place.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from toolheads.arrays import Floats
from toolheads.errors import ConfigError
from toolheads.indexes.checks import check_at_least, checked_keys, checked_queries
from toolheads.indexes.faiss_index.building import build, check_machine
from toolheads.indexes.faiss_index.file import StructureFileError, read_structure, write_structure
from toolheads.indexes.faiss_index.parameters import Parameters
from toolheads.indexes.faiss_index.recall import measured
from toolheads.indexes.faiss_index.search import search
from toolheads.indexes.faiss_index.structure import Structure, load_faiss
from toolheads.indexes.precision import StoredRows
from toolheads.indexes.scan import lengths
from toolheads.indexes.snapshot import Part, Segment, Snapshot
from toolheads.indexes.store import RowStore

_logger = logging.getLogger(__name__)

_MOST_BESIDE = 8192
"""Most rows that are scanned beside a structure; with more, all rows are scanned."""

_LEAST_BESIDE = 1024
_SHARE_BESIDE = 0.05
_SHARE_GONE = 0.3


@dataclass(frozen=True, eq=False)
class _State:
    """What one search looks at.

    Attributes:
        rows: All rows.
        structure: Built over some of them, and over rows that are gone; None before there is one.
        fresh: Keys of the rows that are not in the structure.
        beside: The fresh rows; None when they are too many, and all rows are scanned.
    """

    rows: Snapshot
    structure: Structure | None
    fresh: tuple[str, ...]
    beside: Snapshot | None

    @property
    def gone(self) -> int:
        """How many rows of the structure are not there any more."""
        return len(self.structure or ()) - (len(self.rows) - len(self.fresh))


class FaissIndex:
    """Search through faiss. See `toolheads.ports.VectorIndex`. Safe to share between threads.

    Exact with `structure="flat"` and rows in float32 or float16. A structure is saved beside the
    rows whenever one is built, and read again when the index is opened; rows last as soon as
    `apply` returns. On a machine with a GPU and faiss-gpu, `ivf`, `ivfpq` and `cagra` are built
    there, and `flat` and `ivf` search there.

    Settings of which 0 is the default fit the size then, see `Parameters.for_rows`.

    Args:
        space: See `toolheads.indexes.keys.space_of`.
        width: d.
        structure: `flat`, `hnsw`, `ivf`, `ivfpq` or `cagra`.
        folder: Where rows and the structure are kept; None keeps them in memory.
        dtype: What rows are stored in, by the store and (but for `ivfpq` and `cagra`) by faiss.
        neighbours: HNSW, CAGRA: links of a row, >= 2.
        ef_construction: HNSW: rows looked at to find the links of a new one.
        ef_search: HNSW, CAGRA: rows looked at for a query.
        lists: IVF, IVF-PQ: lists that rows are sorted into.
        probes: IVF, IVF-PQ: lists looked at for a query.
        codes: IVF-PQ: codes that stand for a row.
        bits: IVF-PQ: bits of a code, 4 to 8.
        refine: IVF-PQ: rows for each hit that are scored again; with 1 codes alone choose.
        sample: IVF, IVF-PQ: rows that centres and codes are fitted to.
        build_from: Fewer rows than this are scanned, which is as fast and exact.
        threads: Threads of one search; 0 takes all cores.
        build_threads: Threads that build a structure; 0 takes half of the cores.

    Raises:
        MissingExtraError: If faiss is not installed.
        ConfigError: If a setting breaks its rule, or the space has rows of another width; for
            `cagra` if none was built and this machine cannot.
        IndexStoreError: If the folder cannot be read.
    """

    def __init__(
        self,
        *,
        space: str,
        width: int,
        structure: str = "hnsw",
        folder: str | Path | None = None,
        dtype: str = "float32",
        neighbours: int = 0,
        ef_construction: int = 0,
        ef_search: int = 0,
        lists: int = 0,
        probes: int = 0,
        codes: int = 0,
        bits: int = 0,
        refine: int = 0,
        sample: int = 0,
        build_from: int = 2048,
        threads: int = 1,
        build_threads: int = 0,
    ) -> None:
        load_faiss()
        check_at_least(0, threads, "threads")
        check_at_least(0, build_threads, "build_threads")
        self._parameters = Parameters(
            structure,
            dtype,
            neighbours,
            ef_construction,
            ef_search,
            lists,
            probes,
            codes,
            bits,
            refine,
            sample,
        ).check(check_at_least(1, width, "width"))
        place = Path(folder) if folder is not None else None
        self._build_from = check_at_least(1, build_from, "build_from")
        self._store = RowStore(place, space=space, width=width, dtype=dtype)
        self._threads = threads
        self._build_threads = build_threads or max(1, (os.cpu_count() or 1) // 2)
        self._faults: list[str] = []
        self._writing = threading.RLock()
        built = self._read()
        if built is None and not self._faults:
            check_machine(self._parameters)
        self._state = self._state_of(self._store.snapshot, built)

    @property
    def width(self) -> int:
        """See `toolheads.ports.VectorIndex`."""
        return self._store.width

    @property
    def is_exact(self) -> bool:
        """For `flat`, with rows in float32 or float16."""
        return self._parameters.is_exact

    @property
    def is_at_hand(self) -> bool:
        """Once the rows have been read and checked."""
        return self._store.is_checked

    @property
    def about(self) -> dict[str, Any]:
        """The structure that searches use now, in JSON types; empty before there is one.

        `rows` in it, `recall` with `recall_at` and `recall_queries` if it was measured with these
        settings, and what it was built with and is searched with.
        """
        structure = self._state.structure
        if structure is None:
            return {}
        recall = structure.recall
        found = (
            {"recall": recall.value, "recall_at": recall.at, "recall_queries": recall.queries}
            if recall
            else {}
        )
        numbers = structure.parameters.to_json()
        return (
            {"structure": structure.parameters.structure, "rows": len(structure)} | found | numbers
        )

    @property
    def faults(self) -> tuple[str, ...]:
        """What was found damaged since the index was opened, and left out; one line for each."""
        return (*self._store.faults, *self._faults)

    def __len__(self) -> int:
        return len(self._store.snapshot)

    def keys(self) -> frozenset[str]:
        """See `toolheads.ports.VectorIndex`."""
        return self._store.snapshot.keys()

    def apply(self, keys: Sequence[str], rows: Floats, removed: Collection[str] = ()) -> None:
        """See `toolheads.ports.VectorIndex`. A key in both is kept.

        Searches see the change before a new structure is built, if one is due.
        """
        with self._writing:
            after = self._store.apply(keys, rows, removed)
            self._state = self._state_of(after, self._state.structure)
            self._renew()

    def search(self, queries: Floats, k: int) -> list[tuple[list[str], Floats]]:
        """See `toolheads.ports.VectorIndex`."""
        floats, count = checked_queries(queries, k, width=self.width)
        rows = self._store.checked()
        state = self._state
        # Between a change of the rows and that of the state, a scan answers as well.
        if state.structure is None or state.beside is None or state.rows is not rows:
            return rows.search(floats, count)
        return search(rows, state.structure, state.beside, floats, count, threads=self._threads)

    def gather(self, keys: Sequence[str]) -> Floats:
        """See `toolheads.ports.VectorIndex`."""
        return self._store.checked().gather(checked_keys(keys, "keys"))

    def refresh(self) -> None:
        """Take over what another process wrote.

        Raises:
            IndexStoreError: If the folder cannot be read.
        """
        with self._writing:
            self._state = self._state_of(self._store.refresh(), self._state.structure)

    def verify(self) -> tuple[str, ...]:
        """Read every row and compare it with what was written; leave out what is damaged.

        Returns:
            A line for each damaged segment.

        Raises:
            IndexStoreError: If a file cannot be read.
        """
        with self._writing:
            found = self._store.verify()
            self._state = self._state_of(self._store.snapshot, self._state.structure)
            return found

    def close(self) -> None:
        """See `toolheads.ports.VectorIndex`."""
        self._store.close()
        self._state = _State(Snapshot([], self.width), None, (), None)

    def _state_of(self, rows: Snapshot, structure: Structure | None) -> _State:
        fresh = tuple(sorted(rows.keys() - (structure.places if structure else frozenset())))
        if structure is None or len(fresh) > _MOST_BESIDE:
            return _State(rows, structure, fresh, None)
        if not fresh:
            return _State(rows, structure, fresh, Snapshot([], self.width))
        floats = rows.gather(fresh)
        beside = Part(Segment(fresh, StoredRows(floats), float(lengths(floats).max())))
        return _State(rows, structure, fresh, Snapshot([beside], self.width))

    def _renew(self) -> None:
        """Put a new structure in place of one that much has changed since."""
        state, old, threads = self._state, self._state.structure, self._build_threads
        size, asked = len(old or ()), self._parameters
        if len(state.rows) < max(self._build_from, asked.least_rows):
            return
        if old is None or state.gone > _SHARE_GONE * size or len(state.fresh) > size:
            try:
                check_machine(asked)
            except ConfigError as e:
                _logger.warning("%s; rows that are not in it are scanned", e)
                return
            every = tuple(sorted(state.rows.keys()))
            new = build(every, state.rows.gather, self.width, asked, threads=threads)
        elif len(state.fresh) > max(_LEAST_BESIDE, _SHARE_BESIDE * size):
            new = old.with_rows(state.fresh, state.rows.gather(state.fresh), threads=threads)
        else:
            return
        new = replace(new, recall=measured(state.rows, new, threads=threads))
        self._state = self._state_of(state.rows, new)
        self._write(new)

    def _path(self) -> Path | None:
        folder = self._store.path
        return folder / f"faiss-{self._parameters.structure}.index" if folder else None

    def _read(self) -> Structure | None:
        path = self._path()
        if path is None:
            return None
        try:
            read = read_structure(path, space=self._store.space)
        except (StructureFileError, OSError) as e:
            fault = f"{path} {e}"
            self._faults.append(fault)
            _logger.warning("%s; rows are scanned until it is built again", fault)
            return None
        if read is None or not self._parameters.builds_as(read.parameters):
            return None
        searched = self._parameters.searching(read.parameters).for_rows(len(read), self.width)
        recall = read.recall if searched == read.parameters else None
        return replace(read, parameters=searched, recall=recall)

    def _write(self, structure: Structure) -> None:
        path = self._path()
        if path is None:
            return
        try:
            with self._store.held():
                write_structure(path, structure, space=self._store.space)
        except OSError as e:  # it is in use all the same, and is built again after a restart
            _logger.warning("the structure %s was not saved: %s", path, e)
