"""A release made a data set: fetched or at hand, converted, written as a whole."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from toolheads.data.datasets import QUERIES_FILE, TOOLS_FILE
from toolheads.data.files import write_queries, write_tools
from toolheads.data.releases.fetch import Fetched, fetch
from toolheads.data.releases.release import Converted, Release
from toolheads.data.releases.rows import SUFFIXES
from toolheads.durable import TEMPORARY, file_sha256, write_whole
from toolheads.errors import ConfigError, DataError

SOURCE_FILE = "SOURCE.md"
"""Says where a data set is from; also how a pull knows that it is done already."""
_OURS = {TOOLS_FILE, QUERIES_FILE, SOURCE_FILE}
_STAMP = re.compile(r"^- Pulled as: `(.*)`$", re.MULTILINE)
_WRITTEN = re.compile(r"^- Written: `(.*)` sha256 `([0-9a-f]{64})`$", re.MULTILINE)


@dataclass(frozen=True)
class Pulled:
    """What a pull gave."""

    out: Path
    licence: str
    source: str
    """Text of `SOURCE.md`."""
    unchanged: bool
    """Whether the data set was there already, made from the same files in the same way."""


def pull(
    release: Release,
    out: Path,
    *,
    source: Path | None = None,
    replace: bool = False,
    endpoint: str | None = None,
) -> Pulled:
    """Make a data set of a release.

    Args:
        release: Which.
        out: Folder of the data set. It appears whole or not at all.
        source: Folder with the release's files; None to fetch them.
        replace: Whether another data set that is in `out` may go.
        endpoint: Address of the Hub or a mirror; None for the client's own setting.

    Returns:
        What was written; nothing is, if the same is there already.

    Raises:
        ConfigError: If `out` holds something else, or the files cannot be fetched by a program.
        DataError: If the files are not the release's.
        DownloadError: If they cannot be fetched.
        DigestError: If a fetched file is not the one that its commit names.
        MissingExtraError: If the extra `[data]` is needed and not installed.
    """
    if source is None and not release.hubs:
        msg = f"{release.name} must be given as a folder (--from), got none; get {release.by_hand}"
        raise ConfigError(msg)
    if source is not None and not source.is_dir():
        msg = f"--from must be a folder, got {str(source)!r}"
        raise ConfigError(msg)
    pinned = [hub.revision for hub in release.hubs]
    if source is None and (done := _done(out, _stamp(release, pinned))):
        return done
    with _Temporary(out) as work:
        folder, origin, stamp, licence = _at_hand(release, source, endpoint, work)
        if done := _done(out, stamp):
            return done
        _check_place(out, replace=replace)
        converted = release.convert(folder)
        made = work / "made"
        write_tools(made / TOOLS_FILE, converted.tools)
        if converted.queries:
            write_queries(made / QUERIES_FILE, converted.queries)
        text = _source_text(release, licence, origin, stamp, converted, made)
        write_whole(made / SOURCE_FILE, text.encode())
        _put(made, out, work)
    return Pulled(out, licence, text, unchanged=False)


class _Temporary:
    """A folder beside another, gone at the end."""

    def __init__(self, beside: Path) -> None:
        self._path = beside.resolve().parent / f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}"

    def __enter__(self) -> Path:
        self._path.mkdir(parents=True)
        return self._path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)


def _at_hand(
    release: Release, source: Path | None, endpoint: str | None, work: Path
) -> tuple[Path, list[str], str, str]:
    """Folder to convert, lines on where it is from, stamp and licence."""
    if source is not None:
        inputs = sorted(path for path in source.rglob("*") if path.suffix in SUFFIXES)
        digests = {path.relative_to(source).as_posix(): file_sha256(path) for path in inputs}
        listed = [f"- File at hand: `{name}` sha256 `{digest}`" for name, digest in digests.items()]
        whole = hashlib.sha256("\n".join(listed).encode()).hexdigest()
        return source, listed, _stamp(release, [whole]), release.licence or "none stated"
    fetched = [fetch(hub, endpoint=endpoint) for hub in release.hubs]
    origin = [
        f"- From: `{hub.repo}` (Hugging Face Hub, data set) at commit `{one.revision}`"
        for hub, one in zip(release.hubs, fetched, strict=True)
    ]
    licence = release.licence or next((one.licence for one in fetched if one.licence), "")
    stamp = _stamp(release, [one.revision for one in fetched])
    return _joined(release, fetched, work), origin, stamp, licence or "none stated"


def _joined(release: Release, fetched: list[Fetched], work: Path) -> Path:
    """One folder: that of the only repository, or one with a folder for each."""
    if len(fetched) == 1:
        return fetched[0].folder
    joined = work / "files"
    joined.mkdir()
    for hub, one in zip(release.hubs, fetched, strict=True):
        shutil.copytree(one.folder, joined / hub.folder, copy_function=_link)
    return joined


def _link(source: str, target: str) -> None:
    Path(target).symlink_to(Path(source).resolve())


def _stamp(release: Release, revisions: list[str]) -> str:
    return f"{release.name} {' '.join(revisions)} converter {release.version}"


def _done(out: Path, stamp: str) -> Pulled | None:
    """The data set, if it is there, of this stamp and as it was written."""
    path = out / SOURCE_FILE
    if not path.is_file():
        return None
    text = path.read_text("utf-8", errors="replace")
    written = dict(_WRITTEN.findall(text))
    whole = TOOLS_FILE in written and all(
        (out / name).is_file() and file_sha256(out / name) == digest
        for name, digest in written.items()
    )
    if _STAMP.findall(text) != [stamp] or not whole:
        return None
    licence = re.search(r"^- Licence: (.*)$", text, re.MULTILINE)
    return Pulled(out, licence[1] if licence else "none stated", text, unchanged=True)


def _check_place(out: Path, *, replace: bool) -> None:
    if not out.exists():
        return
    there = {path.name for path in out.iterdir()} if out.is_dir() else {out.name}
    if odd := sorted(there - _OURS):
        msg = f"--out must be a new folder or a data set that was pulled, got one with {odd[0]!r}"
        raise ConfigError(msg)
    if there and not replace:
        msg = f"--out must be a new folder, got another data set in {out}; add --replace to lose it"
        raise ConfigError(msg)


def _put(made: Path, out: Path, work: Path) -> None:
    """A folder takes the place of another; a kill leaves the old one, the new one or none."""
    target = out.resolve()
    if target.exists():
        target.rename(work / "old")
    made.rename(target)


def _source_text(
    release: Release,
    licence: str,
    origin: list[str],
    stamp: str,
    converted: Converted,
    made: Path,
) -> str:
    """`SOURCE.md`; the same files in give the same text."""
    schemas = sum(tool.input_schema is not None for tool in converted.tools)
    servers = len({tool.server for tool in converted.tools} - {None})
    written = [name for name in (TOOLS_FILE, QUERIES_FILE) if (made / name).exists()]
    if not converted.tools:
        msg = f"{release.name} must have tools, got none"
        raise DataError(msg)
    lines = [
        f"# {release.name}",
        "",
        release.about,
        "",
        *origin,
        f"- Licence: {licence}",
        f"- Pulled as: `{stamp}`",
        *(f"- Written: `{name}` sha256 `{file_sha256(made / name)}`" for name in written),
        "",
        "## Counts",
        "",
        f"- tools: {len(converted.tools)}, with input schema: {schemas}, servers: {servers}",
        f"- queries: {len(converted.queries)}",
        *(f"- left out, {reason}: {n}" for reason, n in sorted(converted.left_out.items())),
    ]
    return "\n".join(lines) + "\n"
