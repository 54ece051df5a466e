"""Fetches the files of a repository at one commit and checks them against what it says of them."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolheads.data.releases.release import Hub
from toolheads.durable import file_sha256
from toolheads.errors import DigestError, DownloadError, import_extra

_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Fetched:
    """Files of one repository at one commit, checked."""

    folder: Path
    revision: str
    """The commit, 40 hex digits."""
    licence: str
    """Of the repository's card; empty where it states none."""


def fetch(hub: Hub, *, endpoint: str | None = None) -> Fetched:
    """Download what a release needs of a repository; what was fetched before is not again.

    Files lie in the Hub client's own cache, where a download that was cut short goes on.

    Args:
        hub: Repository, revision and files.
        endpoint: Address of the Hub or a mirror; None for the client's own setting.

    Raises:
        DownloadError: If the Hub cannot be reached, or has no such repository, revision or file.
        DigestError: If a file is not the one that the commit names.
        MissingExtraError: If the Hub's client is not installed.
    """
    client = import_extra("huggingface_hub", user="data pull", extra="data")
    api = client.HfApi(endpoint=endpoint, library_name="toolheads")
    where = f"{hub.repo} at {hub.revision}"
    try:
        info = api.dataset_info(hub.repo, revision=hub.revision, files_metadata=True)
        revision = str(info.sha)
        if _COMMIT.fullmatch(hub.revision) and revision != hub.revision:
            msg = f"{where} must be that commit, got {revision}"
            raise DigestError(msg)
        folder = Path(
            api.snapshot_download(
                hub.repo,
                repo_type="dataset",
                revision=revision,
                allow_patterns=list(hub.patterns),
            )
        )
    except _client_errors(client) as e:
        if isinstance(e, DigestError):
            raise
        reason = str(e).strip().splitlines()
        msg = f"{where} must be there, got {type(e).__name__}: {reason[0] if reason else ''}"
        raise DownloadError(msg) from e
    _check_files(folder, info.siblings or [], where)
    return Fetched(folder, revision, _licence_of(info))


def _client_errors(client: Any) -> tuple[type[Exception], ...]:
    """What the client raises; its HTTP library is another from 2.0 on."""
    names = ("HTTPError", "RevisionResolutionError")
    there = [getattr(client.errors, name, None) for name in names]
    return (OSError, ValueError, *(error for error in there if error is not None))


def _check_files(folder: Path, siblings: list[Any], where: str) -> None:
    """Each file that is here must be the one that the commit names."""
    there = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    checked = 0
    for sibling in siblings:
        path = there.get(sibling.rfilename)
        if path is None or not path.is_file():
            continue
        checked += 1
        if sibling.lfs is not None:
            expected, got = sibling.lfs.sha256, file_sha256(path)
        else:
            expected, got = sibling.blob_id, _git_digest(path)
        if expected != got:
            msg = (
                f"{sibling.rfilename} of {where} must have the digest {expected}, got {got}; "
                f"remove {path.resolve()} and pull again"
            )
            raise DigestError(msg)
    if not checked:
        msg = f"{where} must have the files of this release, got none of them"
        raise DownloadError(msg)


def _git_digest(path: Path) -> str:
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _licence_of(info: Any) -> str:
    card = info.card_data
    licence = card.get("license") if card is not None else None
    return ", ".join(licence) if isinstance(licence, list) else str(licence or "")
