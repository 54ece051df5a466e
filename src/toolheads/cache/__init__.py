"""The vector cache: vectors on the disk, addressed by encoder fingerprint and text sha256."""

from toolheads.cache.maintenance import cache_info, verify_cache
from toolheads.cache.matrix import StoredMatrix
from toolheads.cache.precision import DTYPES
from toolheads.cache.prune import prune_cache
from toolheads.cache.vectors import VectorCache

__all__ = [
    "DTYPES",
    "StoredMatrix",
    "VectorCache",
    "cache_info",
    "prune_cache",
    "verify_cache",
]
