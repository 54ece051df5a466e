"""What is known of a public release: where it is, under which licence, how it is converted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from toolheads.domain import Query, Tool


@dataclass(frozen=True)
class Hub:
    """One repository of data sets on the Hugging Face Hub."""

    repo: str
    """`owner/name`."""
    revision: str
    """Commit, 40 hex digits. A branch is looked up and the commit it names written down."""
    patterns: tuple[str, ...]
    """Globs of the files that are needed."""

    @property
    def folder(self) -> str:
        """Name of the folder the files lie in for a release of several repositories."""
        return self.repo.rsplit("/", 1)[-1]


@dataclass
class Converted:
    """A release as tools and queries, with what was left out on the way."""

    tools: list[Tool]
    queries: list[Query]
    """Empty for a catalogue."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Reason → how many; a reason with 0 is not there."""


@dataclass(frozen=True)
class Release:
    """A public release and its converter."""

    name: str
    """As the command line has it."""
    about: str
    """One sentence."""
    licence: str
    """What its authors say; "none stated" where they say nothing."""
    convert: Callable[[Path], Converted]
    """Reads the files of a folder; looks at nothing else."""
    hubs: tuple[Hub, ...] = ()
    """Empty where the files cannot be fetched by a program."""
    by_hand: str = ""
    """Where people get the files then."""
    version: int = 1
    """Raised when the converter would write other files of the same release."""
