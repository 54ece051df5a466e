"""Every error this package raises on purpose.

* ToolheadsError
  + DataError             (ValueError)    a tools or queries file has faults; `.faults` lists them
  + ShapeError            (ValueError)    an array has the wrong shape, dtype or content
  + ConfigError           (ValueError)    a setting breaks its rule
  + HeadsFormatError      (ValueError)    a heads file cannot be read as heads
  + DigestError           (ValueError)    a sha256 is not the expected one, or none is known
  + BackboneMismatchError (ValueError)    vectors come from another encoder
  + CalibrationError      (ValueError)    thresholds cannot be fitted, read, or used for this scorer
  + CacheError            (OSError)       the vector cache cannot be read or written
  + DownloadError         (OSError)       a file could not be fetched
  + IndexStoreError       (OSError)       a vector index cannot be read or written
  + EngineError           (RuntimeError)  the engine of a job over many processes failed
  + EncoderError          (RuntimeError)  an encoder failed or gave an unusable answer
  + ChatError             (RuntimeError)  a chat model failed or gave an answer without a text
  + SourceError           (RuntimeError)  a source of tools failed or listed unusable tools
  + ClientError           (RuntimeError)  a toolheads server refused or failed; `.code`, `.status`
  + MissingExtraError     (ImportError)   an optional library is not installed

Each class also has the builtin parent in brackets, which a stranger would catch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType


class ToolheadsError(Exception):
    """Base of every deliberate error, so that a caller can catch one type."""


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with one line of a file."""

    path: str
    line: int
    """Line number, from 1; 0 when the file as a whole is meant."""
    reason: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.reason}"


class DataError(ToolheadsError, ValueError):
    """A tools or queries file has faults.

    Attributes:
        faults: Every fault that was found, in file order.
    """

    shown = 20
    """How many faults the message lists."""

    def __init__(self, message: str, faults: Sequence[Fault] = ()) -> None:
        self.faults = tuple(faults)
        lines = [message, *(f"  {fault}" for fault in self.faults[: self.shown])]
        if len(self.faults) > self.shown:
            lines.append(f"  and {len(self.faults) - self.shown} more")
        super().__init__("\n".join(lines))


class ShapeError(ToolheadsError, ValueError):
    """An array has the wrong shape, dtype or content."""


class ConfigError(ToolheadsError, ValueError):
    """A setting breaks its rule."""


class HeadsFormatError(ToolheadsError, ValueError):
    """A heads file is damaged, incomplete, or was written by another format version."""


class DigestError(ToolheadsError, ValueError):
    """A file's sha256 is not the expected one, or no expected one is known."""


class BackboneMismatchError(ToolheadsError, ValueError):
    """Vectors come from another encoder than the heads, the cache or the index."""


class CalibrationError(ToolheadsError, ValueError):
    """Thresholds cannot be fitted to the queries, cannot be read, or are for something else."""


class CacheError(ToolheadsError, OSError):
    """The vector cache cannot be read or written."""


class DownloadError(ToolheadsError, OSError):
    """A file could not be fetched."""


class IndexStoreError(ToolheadsError, OSError):
    """A vector index cannot be read or written."""


class EngineError(ToolheadsError, RuntimeError):
    """The engine that runs a job over many processes failed."""


class EncoderError(ToolheadsError, RuntimeError):
    """An encoder failed, or gave an answer that cannot be used."""


class ChatError(ToolheadsError, RuntimeError):
    """A chat model failed, or gave an answer without a text."""


class SourceError(ToolheadsError, RuntimeError):
    """A source of tools failed, or what it listed cannot be used."""


class ClientError(ToolheadsError, RuntimeError):
    """A toolheads server refused a request or failed at it.

    Attributes:
        code: The stable code of the error, such as `unauthorized`; `unreachable` without an answer.
        status: HTTP status; None without an answer.
    """

    def __init__(self, message: str, *, code: str, status: int | None = None) -> None:
        self.code, self.status = code, status
        super().__init__(message)


class MissingExtraError(ToolheadsError, ImportError):
    """An optional library is not installed."""


def import_extra(module: str, *, user: str, extra: str) -> ModuleType:
    """Import an optional library late, or say how to install it.

    Args:
        module: What to import, such as "httpx".
        user: The part that needs it, as the caller knows it, such as "encoders.openai".
        extra: The extra of this package that installs it.

    Raises:
        MissingExtraError: If the library is not installed.
    """
    try:
        return import_module(module)
    except ImportError as e:
        msg = f"{user} needs {module}; install it with: pip install 'toolheads[{extra}]'"
        raise MissingExtraError(msg) from e


def need_extra(module: str, *, user: str, extra: str) -> None:
    """Say how to install an optional library that is not there, without importing it.

    Args:
        module: See `import_extra`.
        user: See `import_extra`.
        extra: See `import_extra`.

    Raises:
        MissingExtraError: If the library is not installed.
    """
    if find_spec(module) is None:
        msg = f"{user} needs {module}; install it with: pip install 'toolheads[{extra}]'"
        raise MissingExtraError(msg)
