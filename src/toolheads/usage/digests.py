"""Keyed digests: equal for equal texts, and of no use to who does not have the key.

A plain sha256 of a query can be found by guessing the query. With the key, which stays beside the
log and only its owner can read, the log can be given away without the texts.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import secrets
import time
from pathlib import Path

from toolheads.errors import ConfigError

KEY_FILE = ".key"
KEY_BYTES = 32

_PRIVATE = 0o600
_READS = 20
_PAUSE_S = 0.05

logger = logging.getLogger(__name__)


class KeyedDigests:
    """HMAC-SHA-256 under the key of a log's folder.

    Args:
        folder: Of the log. The key is made if it is not there; where it cannot be written it is
            kept in memory, and written as soon as `keep` can.

    Raises:
        ConfigError: If there is a key file that holds no key.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._path = Path(folder) / KEY_FILE
        self._key = secrets.token_bytes(KEY_BYTES)
        try:
            self.keep()
        except OSError as e:
            logger.warning("%s cannot be used, digests will change: %s", self._path, e.strerror)

    def of(self, kind: str, text: str) -> str:
        """64 hex digits for a text.

        Args:
            kind: What it is, such as `query`: equal texts of two kinds have two digests.
            text: Any string; lone surrogates are allowed.
        """
        data = kind.encode() + b"\0" + text.encode("utf-8", "surrogatepass")
        return hmac.new(self._key, data, hashlib.sha256).hexdigest()

    def keep(self) -> None:
        """Write the key where there is none; take over one that another process wrote.

        Raises:
            OSError: If neither is possible.
            ConfigError: If the file holds no key.
        """
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            descriptor = os.open(self._path, flags, _PRIVATE)
        except FileExistsError:
            self._key = self._read()
            return
        try:
            os.write(descriptor, self._key)
        finally:
            os.close(descriptor)

    @property
    def is_kept(self) -> bool:
        """Whether the key is on the disk."""
        return self._path.exists()

    def _read(self) -> bytes:
        key = b""
        for _ in range(_READS):
            key = self._path.read_bytes()
            if len(key) >= KEY_BYTES:  # else another process is about to write it
                break
            time.sleep(_PAUSE_S)
        if len(key) != KEY_BYTES:
            msg = (
                f"{self._path} must be a key of {KEY_BYTES} bytes, got {len(key)}; remove it to "
                "start with a new one"
            )
            raise ConfigError(msg)
        return key
