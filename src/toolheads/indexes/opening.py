"""Opens an index by the name of its kind. Libraries are imported when one is opened."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

from toolheads.errors import ConfigError
from toolheads.indexes.checks import check_choice
from toolheads.ports import VectorIndex

_KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "numpy": ("toolheads.indexes.numpy_index", "NumpyIndex", {}),
    "faiss-flat": ("toolheads.indexes.faiss_index", "FaissIndex", {"structure": "flat"}),
    "faiss-hnsw": ("toolheads.indexes.faiss_index", "FaissIndex", {"structure": "hnsw"}),
    "faiss-ivf": ("toolheads.indexes.faiss_index", "FaissIndex", {"structure": "ivf"}),
    "faiss-ivfpq": ("toolheads.indexes.faiss_index", "FaissIndex", {"structure": "ivfpq"}),
    "faiss-cagra": ("toolheads.indexes.faiss_index", "FaissIndex", {"structure": "cagra"}),
    "pgvector": ("toolheads.indexes.pgvector_index", "PgvectorIndex", {}),
}

KINDS = tuple(_KINDS)
"""What `kind` may be."""


def open_index(
    kind: str,
    *,
    space: str,
    width: int,
    folder: str | Path | None = None,
    dsn: str | None = None,
    dtype: str = "float32",
    **settings: Any,
) -> VectorIndex:
    """Open the rows of one space.

    Args:
        kind: One of `KINDS`.
        space: See `toolheads.indexes.keys.space_of`; rows of another are never seen.
        width: d, entries of a row.
        folder: Where numpy and faiss keep rows; None keeps them in memory.
        dsn: The database of pgvector.
        dtype: What rows are stored in: `float32`, `float16` or `int8`; pgvector has no int8.
        settings: Settings of the kind, see its class.

    Raises:
        ConfigError: If a setting is unknown or breaks its rule.
        MissingExtraError: If the kind's library is not installed.
        IndexStoreError: If what is stored cannot be reached.
    """
    module, name, fixed = _KINDS[check_choice(kind, KINDS, "index")]
    place = {"folder": folder, "dsn": dsn}
    wanted = "dsn" if kind == "pgvector" else "folder"
    unwanted = "folder" if kind == "pgvector" else "dsn"
    if place[unwanted] is not None:
        msg = f"{unwanted} must be left out for index {kind}, got {place[unwanted]!r:.80}"
        # A dsn may hold a password.
        raise ConfigError(msg if unwanted == "folder" else msg.rpartition(", got")[0])
    if kind == "pgvector" and not dsn:
        msg = "dsn must be given for index pgvector, got nothing; such as postgresql://host/name"
        raise ConfigError(msg)
    factory = getattr(import_module(module), name)
    known = [n for n in inspect.signature(factory).parameters if n not in fixed]
    for setting in settings:
        check_choice(setting, known, f"a setting of index {kind}")
    index: VectorIndex = factory(
        space=space, width=width, dtype=dtype, **{wanted: place[wanted]}, **fixed, **settings
    )
    return index
