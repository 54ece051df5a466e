"""Where a heads file is and which sha256 it must have: packaged heads, sidecars, arguments."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from toolheads.durable import write_whole
from toolheads.errors import ConfigError, DigestError, HeadsFormatError
from toolheads.heads.container import LARGEST_FILE

INDEX_FILE = "index.json"
"""In the folder of packaged heads: file name → {"sha256": …, "description": …}, and for heads
that thresholds were fitted to, "thresholds": the sha256 of the file NAME.thresholds.json."""

THRESHOLDS_SUFFIX = ".thresholds.json"

SUFFIX = ".npz"
_SIDECAR_SUFFIX = ".sha256"
_LARGEST_TEXT = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class PackagedHeads:
    """One entry of the index of packaged heads."""

    name: str
    """What `load_heads` takes."""
    path: Path
    sha256: str
    description: str
    thresholds_sha256: str | None = None
    """Of `thresholds`; None where none come with these heads."""

    @property
    def thresholds(self) -> Path:
        """The file of the thresholds that were fitted to these heads."""
        return self.path.with_name(self.name + THRESHOLDS_SUFFIX)


def packaged_folder() -> Path:
    """The folder of packaged heads: in the installed package, or at the top of a checkout."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "packaged_heads"
    return installed if installed.is_dir() else package.parents[1] / "heads"


def packaged_heads(folder: Path | None = None) -> list[PackagedHeads]:
    """List the packaged heads by name.

    Args:
        folder: Where to look; None takes `packaged_folder()`.

    Raises:
        DigestError: If the index is there and cannot be read.
    """
    folder = packaged_folder() if folder is None else folder
    index = folder / INDEX_FILE
    if not index.is_file():
        return []
    try:
        entries = json.loads(_short_text(index))
        found = [
            PackagedHeads(
                name=file.removesuffix(SUFFIX),
                path=folder / file,
                sha256=checked_sha256(entry["sha256"], index),
                description=str(entry.get("description", "")),
                thresholds_sha256=None
                if "thresholds" not in entry
                else checked_sha256(entry["thresholds"], index),
            )
            for file, entry in entries.items()
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        if isinstance(e, DigestError):
            raise
        msg = f"{index} must map file names to sha256 and description; install the package anew"
        raise DigestError(msg) from e
    return sorted(found, key=lambda entry: entry.name)


def find_heads(name_or_path: str | os.PathLike[str]) -> tuple[Path, str | None]:
    """Find a heads file and the digest that is known of it.

    Args:
        name_or_path: Name of packaged heads, or a path. A string is a path if it ends in `.npz`
            or has a folder in it.

    Returns:
        The file, and the sha256 from the index of packaged heads or from the sidecar; None
        where neither is there.

    Raises:
        ConfigError: If no packaged heads have this name, or it can be no path.
        DigestError: If the index or the sidecar cannot be read.
    """
    is_path = not isinstance(name_or_path, str) or (
        name_or_path.endswith(SUFFIX) or "/" in name_or_path or os.sep in name_or_path
    )
    if "\0" in os.fspath(name_or_path):
        msg = f"heads must be a path without null characters, got {name_or_path!r:.80}"
        raise ConfigError(msg)
    packaged = {entry.name: entry for entry in packaged_heads()}
    if not is_path:
        name = str(name_or_path)
        if name not in packaged:
            near = get_close_matches(name, packaged, n=1)
            hint = f"did you mean {near[0]}?" if near else "a file's path must end in .npz"
            names = ", ".join(packaged) or "none in this installation"
            msg = f"heads must be one of the packaged ones ({names}), got {name!r}; {hint}"
            raise ConfigError(msg)
        return packaged[name].path, packaged[name].sha256
    path = Path(name_or_path)
    by_file = {entry.path.resolve(): entry.sha256 for entry in packaged.values()}
    return path, by_file.get(path.resolve()) or _sidecar_digest(path)


def sidecar(path: Path) -> Path:
    """Where the digest of a user's heads file is kept, in the format of `sha256sum`."""
    return path.with_name(path.name + _SIDECAR_SUFFIX)


def sha256_of(file: bytes) -> str:
    """The sha256 of a whole file in lower-case hex."""
    return hashlib.sha256(file).hexdigest()


def write_with_sidecar(path: Path, file: bytes) -> str:
    """Write a heads file and its sidecar, each whole or not at all; the sha256 of the file."""
    sha256 = sha256_of(file)
    write_whole(path, file)
    write_whole(sidecar(path), f"{sha256}  {path.name}\n".encode())
    return sha256


def check_digest(
    file: bytes, name: str, expected: str | None, *, allow_unverified: bool = False
) -> str:
    """Compare a file with the digest it must have.

    Returns:
        The sha256 of the file.

    Raises:
        DigestError: If it differs, or if none is known and `allow_unverified` is not given.
    """
    found = sha256_of(file)
    if expected is None and not allow_unverified:
        msg = (
            f"{name} must have a known sha256, got neither an argument nor a sidecar "
            f"{_SIDECAR_SUFFIX} file; give one, or say allow_unverified=True (--allow-unverified)"
        )
        raise DigestError(msg)
    if expected is not None and found != checked_sha256(expected.lower(), "the given sha256"):
        msg = (
            f"{name} must have sha256 {expected}, got {found}; it is damaged or another file, "
            "get or export it anew"
        )
        raise DigestError(msg)
    return found


def checked_sha256(digest: object, owner: object) -> str:
    """A sha256 in lower-case hex.

    Raises:
        DigestError: If it is none.
    """
    if not isinstance(digest, str) or not _SHA256.fullmatch(digest.lower()):
        msg = f"{owner} must be a sha256 of 64 hex digits, got {digest!r:.80}"
        raise DigestError(msg)
    return digest.lower()


def read_whole(path: Path) -> bytes:
    """Read a heads file, refusing one that cannot be one before a byte of it is read.

    Raises:
        HeadsFormatError: If it is no regular file, or larger than `LARGEST_FILE`.
    """
    try:
        size = path.stat().st_size
        if not path.is_file():
            msg = f"{path} must be a heads file, got a folder or device"
            raise HeadsFormatError(msg)
        if size > LARGEST_FILE:
            msg = f"{path} must have at most {LARGEST_FILE} bytes, got {size}"
            raise HeadsFormatError(msg)
        return path.read_bytes()
    except OSError as e:
        msg = f"{path} must be a heads file that can be read, got: {e.strerror}"
        raise HeadsFormatError(msg) from e


def _sidecar_digest(path: Path) -> str | None:
    beside = sidecar(path)
    if not beside.is_file():
        return None
    words = _short_text(beside).split()
    return checked_sha256(words[0] if words else "", beside)


def _short_text(path: Path) -> str:
    """A small text file; anything else is no index and no sidecar."""
    if path.stat().st_size > _LARGEST_TEXT:
        msg = f"{path} must have at most {_LARGEST_TEXT} bytes, got {path.stat().st_size}"
        raise DigestError(msg)
    return path.read_bytes().decode("utf-8", errors="replace")
