"""The boundaries of the package: what the core needs from the outside.

Above: `embedder`, `scorers`, `evaluation` and the entry points, which know these names only.
Below: the adapters in `encoders/` and `scorers/`. Each port states its contract in numbered
sentences; `tests/contract/` turns each sentence into a test and runs it against every adapter.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from toolheads.arrays import Floats
from toolheads.domain import Hit, Query, Tool
from toolheads.identity import EncoderIdentity


class Encoder(Protocol):
    """Frozen text encoder: texts in, embeddings out.

    Contract:
        1. `encode` returns one row for each text, in the order of the texts.
        2. Rows are float32, finite, of `identity.width` entries and of length 1 (to 1e-3).
        3. A text's row does not depend on its neighbours (to a cosine of 0.999).
        4. Zero texts give an array of shape (0, width).
        5. Every failure is an EncoderError that names the encoder and the reason; no row is
           made up, and no partial answer is returned.
        6. `identity` is the same for equal weights and settings, whatever address they are at.
    """

    @property
    def identity(self) -> EncoderIdentity:
        """What shapes the vectors: model, revision, pooling, truncation, width, dtype."""
        ...

    def encode(self, texts: Sequence[str]) -> Floats:
        """Embed texts.

        Args:
            texts: n texts as the text format wrote them.

        Returns:
            (n, d) float32, rows of length 1.
        """
        ...

    def close(self) -> None:
        """Release connections, threads and memory; the encoder is not used afterwards."""
        ...


class Scorer(Protocol):
    """Ranks the tools of one corpus for queries.

    Contract:
        1. `rank` returns for each query min(k, corpus) hits, best first; `bm25` leaves out
           tools that share no word with the query.
        2. Equal scores are ordered as the tools were given to `index`.
        3. No score is NaN or infinite.
        4. `rank(queries, k)` is a prefix of `rank(queries, k + 1)`, and a query's hits do not
           depend on the other queries of the call.
        5. `rank` before `index`, k < 1, or an empty corpus is a ConfigError.
        6. `index` replaces the corpus; a failed `index` leaves the old one in place.
    """

    @property
    def name(self) -> str:
        """Short name for reports: `bm25`, `dense`, `clm`, `hybrid`."""
        ...

    def index(self, tools: Sequence[Tool]) -> None:
        """Take over a corpus: embed, project, count words."""
        ...

    def rank(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """Rank the k best tools for each query."""
        ...


class VectorIndex(Protocol):
    """Rows under keys, all of one space: finds those with the largest products with a query.

    A key says what its row was made of (see `toolheads.indexes.keys`), so a row never changes
    under its key.

    Contract:
        1. `search` returns for each query min(k, len) keys and their products, best first, ties by
           key; an index that is not exact may miss some, and returns no key twice.
        2. `apply` adds rows and removes others in one step that lasts when it returns; it writes
           no other row. A key that is there already, or one to be removed that is not, is no error.
        3. `gather` returns the rows as they are stored, in the order of the keys; a key that is not
           there is a KeyError.
        4. Rows that are not (n, width), float and finite are a ShapeError; nothing is written.
        5. Reopened with the same space and settings it holds the same rows; with another space it
           holds none of them.
        6. Searches may run while `apply` does, from any thread: each sees the rows before or after.
        7. A failure of the store is an IndexStoreError; a damaged file is found, not searched.
        8. Where `is_at_hand` says so, a search opens no file and asks no other process.
    """

    @property
    def width(self) -> int:
        """d, entries of a row."""
        ...

    @property
    def is_at_hand(self) -> bool:
        """Whether `search` would wait for no other process, and read no row for the first time."""
        ...

    @property
    def is_exact(self) -> bool:
        """Whether `search` always finds the best rows (up to the rounding of the stored rows)."""
        ...

    def __len__(self) -> int: ...

    def keys(self) -> frozenset[str]:
        """Keys of all rows."""
        ...

    def apply(self, keys: Sequence[str], rows: Floats, removed: Collection[str] = ()) -> None:
        """Add rows and remove others.

        Args:
            keys: n keys.
            rows: (n, d) float32.
            removed: Keys to remove.
        """
        ...

    def search(self, queries: Floats, k: int) -> list[tuple[list[str], Floats]]:
        """Find rows.

        Args:
            queries: (q, d) float32.
            k: How many for each query, >= 1.

        Returns:
            For each query, keys and (min(k, len),) float32 products, best first.
        """
        ...

    def gather(self, keys: Sequence[str]) -> Floats:
        """(n, d) float32 rows of n keys."""
        ...

    def close(self) -> None:
        """Release files, connections and memory; the index is not used afterwards."""
        ...
