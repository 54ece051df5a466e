"""Kinds by name, and settings that are told apart."""

import subprocess
import sys

import pytest

from toolheads.errors import ConfigError, MissingExtraError
from toolheads.indexes import KINDS, open_index
from toolheads.indexes.numpy_index import NumpyIndex


def test_a_kind_that_is_unknown_names_the_nearest():
    with pytest.raises(ConfigError, match=r"index must be one of numpy, .*; did you mean numpy"):
        open_index("numpi", space="s", width=4)


def test_a_setting_that_is_unknown_names_the_nearest():
    with pytest.raises(
        ConfigError, match=r"a setting of index numpy must be .*, got 'folders'; did you mean"
    ):
        open_index("numpy", space="s", width=4, folders="here")


def test_the_kind_decides_the_structure():
    with pytest.raises(ConfigError, match="a setting of index faiss-flat must be"):
        open_index("faiss-flat", space="s", width=4, structure="hnsw")


def test_a_folder_belongs_to_files_and_a_dsn_to_a_database():
    with pytest.raises(ConfigError, match="folder must be left out for index pgvector"):
        open_index("pgvector", space="s", width=4, folder="here", dsn="host=x")
    with pytest.raises(ConfigError, match="dsn must be given for index pgvector"):
        open_index("pgvector", space="s", width=4)


def test_a_dsn_is_never_shown():
    with pytest.raises(ConfigError) as caught:
        open_index("numpy", space="s", width=4, dsn="postgresql://me:secret@host/db")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("space", ["", "a/b", "..", "a b", "x" * 65, None, 7, "ä"])
def test_a_space_that_is_no_file_name_is_refused(space):
    with pytest.raises(ConfigError, match="space must be 1 to 64 letters"):
        open_index("numpy", space=space, width=4)


@pytest.mark.parametrize("width", [0, -1, 1.5, True, "4"])
def test_a_width_that_is_no_whole_number_is_refused(width):
    with pytest.raises(ConfigError, match="width must be a whole number >= 1"):
        open_index("numpy", space="s", width=width)


def test_a_dtype_that_is_unknown_names_the_choices():
    with pytest.raises(ConfigError, match="dtype must be one of float32, float16, int8"):
        open_index("numpy", space="s", width=4, dtype="float64")


@pytest.mark.parametrize(
    ("kind", "module", "extra"),
    [("faiss-flat", "faiss", "faiss"), ("pgvector", "psycopg", "pgvector")],
)
def test_a_missing_library_names_the_extra(monkeypatch, kind, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    place = {"dsn": "host=nowhere"} if kind == "pgvector" else {}
    with pytest.raises(MissingExtraError, match=rf"needs {module}.*toolheads\[{extra}\]"):
        open_index(kind, space="s", width=4, **place)


def test_numpy_alone_is_enough_for_the_numpy_index(tmp_path):
    code = f"""
import sys
for name in ("faiss", "psycopg", "threadpoolctl", "filelock"):
    sys.modules[name] = None
import numpy as np
from toolheads.indexes import open_index
index = open_index("numpy", space="s", width=2, folder={str(tmp_path)!r})
index.apply(["a"], np.ones((1, 2), np.float32))
print(index.search(np.ones((1, 2), np.float32), 1)[0][0])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['a']"


def test_every_kind_has_a_name():
    faiss = ("flat", "hnsw", "ivf", "ivfpq", "cagra")
    assert ("numpy", *(f"faiss-{kind}" for kind in faiss), "pgvector") == KINDS
    assert isinstance(open_index("numpy", space="s", width=4), NumpyIndex)
