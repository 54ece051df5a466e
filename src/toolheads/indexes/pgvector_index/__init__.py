"""Search in PostgreSQL with the extension pgvector. Needs the extra `pgvector`."""

from toolheads.indexes.pgvector_index.index import PgvectorIndex

__all__ = ["PgvectorIndex"]
