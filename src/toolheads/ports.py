"""The boundaries of the package: what the core needs from the outside.

Above: `embedder`, `scorers`, `evaluation` and the entry points, which know these names only.
Below: the adapters in `encoders/` and `scorers/`. Each port states its contract in numbered
sentences; `tests/contract/` turns each sentence into a test and runs it against every adapter.
"""

from __future__ import annotations

from collections.abc import Sequence
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
        """Short name for reports: `bm25`, `dense`, `clm`."""
        ...

    def index(self, tools: Sequence[Tool]) -> None:
        """Take over a corpus: embed, project, count words."""
        ...

    def rank(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """Rank the k best tools for each query."""
        ...
