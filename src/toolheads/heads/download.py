"""Fetches a heads file; nothing is kept that is not the file its digest promises."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from toolheads.errors import ConfigError, DownloadError, import_extra
from toolheads.heads.container import LARGEST_FILE
from toolheads.heads.digests import check_digest, checked_sha256, write_with_sidecar
from toolheads.heads.files import heads_from_bytes

DEFAULT_TIMEOUT_S = 60.0
"""Seconds without a byte after which the server counts as dead."""


def download_heads(
    url: str,
    path: str | os.PathLike[str],
    *,
    sha256: str,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    largest: int = LARGEST_FILE,
) -> Path:
    """Fetch a heads file, check it, then put it and its sidecar in place.

    Args:
        url: http or https; redirects are followed.
        path: Where to; must end in `.npz`. A file that is there is replaced.
        sha256: Digest it must have, from a source that is trusted more than the server.
        timeout_s: Seconds to wait for the next byte.
        largest: Most bytes that are taken.

    Returns:
        The path.

    Raises:
        ConfigError: If the address or the path cannot be used.
        DownloadError: If the server cannot be reached, answers with an error or sends too much.
        DigestError: If what came is another file.
        HeadsFormatError: If it has the digest and is no heads file all the same.
        MissingExtraError: If httpx is not installed.
    """
    target = Path(path)
    if target.suffix != ".npz":
        msg = f"path must end in .npz, got {str(target)!r}"
        raise ConfigError(msg)
    _checked_address(url)
    digest = checked_sha256(sha256, "sha256")
    file = _fetched(url, timeout_s, largest)
    check_digest(file, url, digest)
    heads_from_bytes(file, url)
    write_with_sidecar(target, file)
    return target


def name_in(url: str) -> str:
    """The file's name in an address, without folders and query.

    Raises:
        ConfigError: If the address cannot be used.
    """
    return Path(_checked_address(url).path).name or "heads.npz"


def _checked_address(url: str) -> SplitResult:
    msg = f"url must start with https:// or http:// and name a host, got {url!r:.200}"
    try:
        parts = urlsplit(url)
    except ValueError as e:  # an open bracket, for one
        raise ConfigError(msg) from e
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(msg)
    return parts


def _fetched(url: str, timeout_s: float, largest: int) -> bytes:
    httpx = import_extra("httpx", user="heads.download", extra="openai")
    content = bytearray()
    try:
        with httpx.stream("GET", url, follow_redirects=True, timeout=timeout_s) as answer:
            if answer.status_code != httpx.codes.OK:
                msg = f"{url} must answer with the file, got status {answer.status_code}"
                raise DownloadError(msg)
            for chunk in answer.iter_bytes():
                content += chunk
                if len(content) > largest:
                    msg = f"{url} must send at most {largest} bytes, got more"
                    raise DownloadError(msg)
    except (httpx.HTTPError, httpx.InvalidURL) as e:
        msg = f"{url} must answer with the file, got {type(e).__name__}: {e}"
        raise DownloadError(msg) from e
    return bytes(content)
