"""A structure of faiss beside the rows: exact scores, nothing lost, rebuilt when it is time."""

import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.indexes.samples import FIRST, SPACE, WIDTH, found, rows

from toolheads.errors import ConfigError, IndexStoreError
from toolheads.indexes import open_index

faiss = pytest.importorskip("faiss", reason="needs the extra faiss")

from toolheads.indexes.faiss_index import index as index_module  # noqa: E402

KINDS = ("faiss-flat", "faiss-hnsw", "faiss-ivf", "faiss-ivfpq")
OF_EACH = pytest.mark.parametrize("kind", KINDS)


def open_faiss(kind, folder=None, **settings):
    few = {"bits": 4} if kind == "faiss-ivfpq" else {}  # codes that few rows are enough for
    settings = {"build_from": 1, "build_threads": 1} | few | settings
    return open_index(kind, space=SPACE, width=WIDTH, folder=folder, **settings)


def keys_of(n, start=0):
    return [f"k{i:04}" for i in range(start, start + n)]


def structure_of(index):
    return index._state.structure


@pytest.fixture
def never_absorb(monkeypatch):
    """Rows that come later stay beside the structure, rows that go stay in it."""
    monkeypatch.setattr(index_module, "_LEAST_BESIDE", 10**9)
    monkeypatch.setattr(index_module, "_SHARE_GONE", 2)


@OF_EACH
def test_rows_that_came_later_are_found_beside_the_structure(kind, never_absorb):
    index = open_faiss(kind)
    index.apply(keys_of(50), rows(*range(50)))
    before = structure_of(index)
    index.apply(keys_of(5, 50), rows(*range(50, 55)), removed=["k0049"])
    assert structure_of(index) is before
    assert found(index, 7) == ["k0054", "k0053", "k0052", "k0051", "k0050", "k0048", "k0047"]


@OF_EACH
def test_rows_that_are_gone_take_no_place_among_the_hits(kind, never_absorb):
    index = open_faiss(kind)
    index.apply(keys_of(400), rows(*range(400)))
    index.apply([], rows(), removed=keys_of(390, 10))  # all of the best
    assert len(structure_of(index)) == 400
    assert found(index, 5) == ["k0009", "k0008", "k0007", "k0006", "k0005"]


@OF_EACH
def test_much_that_is_new_goes_into_the_structure(kind, monkeypatch):
    monkeypatch.setattr(index_module, "_LEAST_BESIDE", 10)
    index = open_faiss(kind)
    index.apply(keys_of(100), rows(*range(100)))
    index.apply(keys_of(20, 100), rows(*range(100, 120)))
    assert len(structure_of(index)) == 120
    assert found(index, 2) == ["k0119", "k0118"]


@OF_EACH
def test_a_structure_of_which_much_is_gone_is_built_anew(kind):
    index = open_faiss(kind)
    index.apply(keys_of(100), rows(*range(100)))
    index.apply([], rows(), removed=keys_of(20))
    assert len(structure_of(index)) == 100
    index.apply([], rows(), removed=keys_of(20, 20))
    assert structure_of(index).keys == tuple(keys_of(60, 40))


def test_few_rows_are_scanned(monkeypatch):
    index = open_faiss("faiss-hnsw", build_from=100)
    index.apply(keys_of(99), rows(*range(99)))
    assert structure_of(index) is None
    assert found(index, 1) == ["k0098"]
    index.apply(["one more"], rows(99))
    assert structure_of(index) is not None


def test_very_many_new_rows_are_scanned_with_all_others(monkeypatch, never_absorb):
    monkeypatch.setattr(index_module, "_MOST_BESIDE", 10)
    index = open_faiss("faiss-hnsw")
    index.apply(keys_of(50), rows(*range(50)))
    index.apply(keys_of(20, 50), rows(*range(50, 70)))
    assert index._state.beside is None
    assert found(index, 2) == ["k0069", "k0068"]


def nearly_equal_rows(n, generator):
    """256-wide rows, equal but for the last bits of some entries, exact in float16; and queries.

    Their products with a query lie within a few steps of float32, less than what a sum in
    float32 is off by, which depends on the order it adds in.
    """
    row = generator.normal(size=256).astype(np.float16)
    row[::16] = 0.01
    queries = np.tile(row.astype(np.float32), (20, 1))
    queries[:, ::16] = generator.choice([-1, 1], size=(20, 16))
    steps = generator.integers(-1, 2, size=(n, 16)) * np.spacing(row[0]).astype(np.float32)
    near = np.tile(row.astype(np.float32), (n, 1))
    near[:, ::16] += steps
    return near, queries


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_flat_finds_ties_and_last_bits_as_a_scan_does(dtype, never_absorb):
    generator = np.random.default_rng(0)
    near, queries = nearly_equal_rows(600, generator)
    # In an order of their own: faiss takes the first of equal rows.
    names = [f"k{i:04}" for i in generator.permutation(600)]
    flat = open_index("faiss-flat", space=SPACE, width=256, dtype=dtype, build_from=1)
    plain = open_index("numpy", space=SPACE, width=256, dtype=dtype)
    for index in (flat, plain):
        index.apply(names, near)
        index.apply([], near[:0], removed=names[:100])
    exact = near[100:].astype(np.float64) @ queries[0]
    assert len(np.unique(exact)) > len(np.unique(exact.astype(np.float32))) > 3
    for k in (1, 10, 200):
        for query in queries:
            (one,), (two,) = flat.search(query[None], k), plain.search(query[None], k)
            assert one[0] == two[0]
            np.testing.assert_array_equal(one[1], two[1])


@settings(max_examples=25)
@given(
    steps=st.lists(
        st.tuples(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)), st.booleans()),
        max_size=6,
    )
)
def test_any_sequence_of_changes_of_flat_equals_a_dict_of_rows(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("index")
    index = open_faiss("faiss-flat", folder)
    model: set[int] = set()
    for added, removed, reopen in steps:
        index.apply([f"k{i:02}" for i in added], rows(*added), [f"k{i:02}" for i in removed])
        model = model - removed | added
        if reopen:
            index.close()
            index = open_faiss("faiss-flat", folder)
        assert found(index, 99) == [f"k{i:02}" for i in sorted(model, reverse=True)]
    index.close()


@OF_EACH
def test_a_structure_is_saved_and_not_built_again(kind, tmp_path, monkeypatch):
    open_faiss(kind, tmp_path).apply(keys_of(60), rows(*range(60)))
    monkeypatch.setattr(index_module, "build", None)
    again = open_faiss(kind, tmp_path)
    assert len(structure_of(again)) == 60
    assert found(again, 2) == ["k0059", "k0058"]
    again.apply(["new"], rows(60))
    assert found(open_faiss(kind, tmp_path), 2) == ["new", "k0059"]


@pytest.mark.parametrize("damage", [b"", b"{", b"{}\n", b"[]\n1", b"null\n", "flip", "cut"])
def test_a_damaged_structure_is_reported_and_rows_are_scanned(tmp_path, damage):
    open_faiss("faiss-hnsw", tmp_path).apply(keys_of(60), rows(*range(60)))
    (path,) = tmp_path.rglob("faiss-hnsw.index")
    raw = bytearray(path.read_bytes())
    if damage == "flip":
        raw[-100] ^= 1
    path.write_bytes(raw[:-7] if damage == "cut" else raw if damage == "flip" else damage)
    index = open_faiss("faiss-hnsw", tmp_path)
    assert structure_of(index) is None
    assert "faiss-hnsw.index must hold" in index.faults[0]
    assert found(index, 2) == ["k0059", "k0058"]
    index.apply([], rows())
    assert open_faiss("faiss-hnsw", tmp_path).faults == ()
    assert len(structure_of(open_faiss("faiss-hnsw", tmp_path))) == 60


def test_other_parameters_build_another_structure(tmp_path):
    open_faiss("faiss-hnsw", tmp_path).apply(keys_of(60), rows(*range(60)))
    assert structure_of(open_faiss("faiss-hnsw", tmp_path, neighbours=8)) is None
    searched = open_faiss("faiss-hnsw", tmp_path, ef_search=7)
    assert structure_of(searched).parameters.ef_search == 7


def test_damaged_rows_are_not_found_through_a_sound_structure(tmp_path):
    open_faiss("faiss-flat", tmp_path).apply(keys_of(60), rows(*range(60)))
    (path,) = tmp_path.rglob("*.rows")
    with path.open("r+b") as file:
        file.write(b"\1")
    index = open_faiss("faiss-flat", tmp_path)
    with pytest.raises(IndexStoreError, match="must hold the rows that were written"):
        index.search(FIRST, 1)
    assert found(index) == []


def test_a_structure_that_cannot_be_saved_is_used_all_the_same(tmp_path, monkeypatch, caplog):
    def full(*args, **settings):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(index_module, "write_structure", full)
    index = open_faiss("faiss-hnsw", tmp_path)
    with caplog.at_level(logging.WARNING):
        index.apply(keys_of(60), rows(*range(60)))
    assert "was not saved" in caplog.text
    assert found(index, 1) == ["k0059"]


def test_a_search_that_finds_too_few_asks_again_and_then_scans(monkeypatch):
    """One list looked at of many cannot hold 40 hits."""
    generator = np.random.default_rng(0)
    many = generator.normal(size=(400, WIDTH)).astype(np.float32)
    index = open_faiss("faiss-ivf", lists=40, probes=1)
    index.apply(keys_of(400), many)
    for keys, _ in index.search(many[:20], 300):
        assert len(set(keys)) == 300


def test_recall_of_the_approximate_kinds_is_high_on_clusters():
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(30, 32))
    made = centres[generator.integers(30, size=2000)] + 0.3 * generator.normal(size=(2000, 32))
    made = (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)
    plain = open_index("numpy", space=SPACE, width=32)
    plain.apply(keys_of(2000), made)
    best = [set(keys) for keys, _ in plain.search(made[:50], 10)]
    for kind in ("faiss-hnsw", "faiss-ivf", "faiss-ivfpq"):
        for dtype in ("float32", "float16", "int8"):
            index = open_index(kind, space=SPACE, width=32, dtype=dtype, build_from=1)
            index.apply(keys_of(2000), made)
            hits = [set(keys) for keys, _ in index.search(made[:50], 10)]
            recall = np.mean([len(a & b) / 10 for a, b in zip(hits, best, strict=True)])
            assert recall > 0.9, (kind, dtype)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("neighbours", 1), ("ef_search", -1), ("probes", 1.5), ("threads", True), ("build_from", 0)],
)
def test_a_setting_out_of_its_range_is_refused(setting, value):
    with pytest.raises(ConfigError, match=f"{setting} must be a whole number"):
        open_faiss("faiss-hnsw", **{setting: value})


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["faiss-flat", "faiss-ivf"])
def test_a_gpu_finds_the_same_as_the_cpu(kind):
    if not faiss.get_num_gpus():
        pytest.skip("needs faiss-gpu and a CUDA device")
    generator = np.random.default_rng(0)
    made = generator.normal(size=(5000, 64)).astype(np.float32)
    index = open_index(kind, space=SPACE, width=64, build_from=1)
    index.apply(keys_of(5000), made)
    structure = structure_of(index)
    assert structure._on_gpu is not None
    on_gpu = index.search(made[:50], 10)
    structure.__dict__["_on_gpu"] = None
    on_cpu = index.search(made[:50], 10)
    assert [keys for keys, _ in on_gpu] == [keys for keys, _ in on_cpu]
