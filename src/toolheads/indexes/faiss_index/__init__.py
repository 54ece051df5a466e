"""Search through faiss: structures over the rows of a store. Needs the extra `faiss`."""

from toolheads.indexes.faiss_index.index import FaissIndex

__all__ = ["FaissIndex"]
