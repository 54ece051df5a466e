"""Names of operations that every provider takes, by a rule that never makes one of two."""

from __future__ import annotations

import base64
import hashlib
import re

MOST_LENGTH = 64

_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LOOKS_HASHED = re.compile(r"___[a-z2-7]{16}$")
_DIGEST_LENGTH = 16


def operation_name(operation_id: str | None, method: str, path: str) -> str:
    """A name: `[A-Za-z0-9_-]{1,64}`, different for different operations.

    An `operationId` that fits is the name. Anything else gets what is readable of it and 80 bits
    of its sha256.

    Args:
        operation_id: None if there is none, or if another operation has the same.
        method: In capitals.
        path: Template of the path.
    """
    if operation_id is None:
        return _hashed(f"{method.lower()} {path}", whole=f"path\0{method}\0{path}")
    if _PLAIN.fullmatch(operation_id) and not _LOOKS_HASHED.search(operation_id):
        return operation_id
    return _hashed(operation_id, whole=f"operationId\0{operation_id}")


def _hashed(readable: str, *, whole: str) -> str:
    digest = hashlib.sha256(whole.encode(errors="surrogatepass")).digest()
    suffix = f"___{base64.b32encode(digest).decode().lower()[:_DIGEST_LENGTH]}"
    slug = re.sub(r"[^A-Za-z0-9_-]+", "_", readable).strip("_")
    return (slug[: MOST_LENGTH - len(suffix)].rstrip("_") or "operation") + suffix
