"""Errors of this package on their way out of a worker."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager

from toolheads.errors import ToolheadsError


class CarriedError(Exception):
    """Holds an error of this package, pickled: Ray adds sentences to the text of any other."""


@contextmanager
def carried() -> Iterator[None]:
    """Pack an error of this package, in a worker."""
    try:
        yield
    except ToolheadsError as e:
        raise CarriedError(pickle.dumps(e)) from None


def unpacked(error: BaseException | None) -> ToolheadsError | None:
    """The error that a worker packed, if it was one, out of what Ray made of it."""
    cause = getattr(error, "cause", error)
    if isinstance(cause, CarriedError):
        packed = pickle.loads(cause.args[0])
        assert isinstance(packed, ToolheadsError)
        return packed
    return None
