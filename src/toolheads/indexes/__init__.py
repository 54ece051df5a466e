"""Where rows are kept and found: adapters of the port `toolheads.ports.VectorIndex`."""

from toolheads.indexes.blas import limit_blas_threads
from toolheads.indexes.keys import row_key, space_of
from toolheads.indexes.opening import KINDS, open_index
from toolheads.indexes.precision import DTYPES

__all__ = ["DTYPES", "KINDS", "limit_blas_threads", "open_index", "row_key", "space_of"]
