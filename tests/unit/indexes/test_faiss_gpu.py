"""What a GPU builds, with a stand-in for it; what is searched without one; what is refused."""

import logging
import sys

import pytest
from tests.unit.indexes.clusters import PQ, N, filled, keys_of, made, opened, recall_of

from toolheads.errors import ConfigError

faiss = pytest.importorskip("faiss", reason="needs the extra faiss")

from tests.gpu_faiss import GpuFaiss  # noqa: E402

from toolheads.indexes.faiss_index import index as index_module  # noqa: E402


@pytest.fixture
def machine(monkeypatch):
    """Puts a GPU into the machine, and takes it out again."""

    def at(**what):
        gpu = GpuFaiss(**what)
        monkeypatch.setitem(sys.modules, "faiss", gpu)
        return gpu

    yield at
    monkeypatch.undo()


@pytest.mark.parametrize(
    ("kind", "settings", "halves"),
    [("faiss-ivf", {"lists": 8}, False), ("faiss-ivfpq", {**PQ, "sample": 900}, True)],
)
def test_a_gpu_builds_and_the_cpu_keeps_it(machine, tmp_path, kind, settings, halves):
    gpu = machine()
    index = filled(kind, tmp_path, **settings)
    sample = index.about["sample"]
    assert gpu.calls[:4] == [("put", 0), ("train", sample), ("add", N), ("take", 0)]
    assert gpu.options[0].useFloat16 is halves
    assert isinstance(index._state.structure.index, faiss.Index)
    sys.modules["faiss"] = faiss  # the same folder, on a machine without a GPU
    again = opened(kind, tmp_path, **settings)
    assert again.about == index.about
    assert recall_of(again, made(50, seed=1)) > 0.8


@pytest.mark.parametrize("step", ["put", "train"])
def test_what_a_gpu_cannot_build_the_cpu_does(machine, step, caplog):
    machine(fails_at=step)
    with caplog.at_level(logging.WARNING):
        index = filled("faiss-ivfpq", **PQ)
    assert index.about["rows"] == N
    assert recall_of(index, made(50, seed=1)) > 0.8
    (record,) = caplog.records
    assert record.getMessage().startswith("the GPU cannot build RR32,IVF8,PQ8x4np, the CPU does:")
    assert "\n" not in record.getMessage()


def test_hnsw_and_flat_are_built_without_the_gpu(machine):
    gpu = machine()
    filled("faiss-hnsw")
    assert gpu.calls == []


def test_cagra_becomes_a_graph_for_the_cpu(machine, tmp_path):
    gpu = machine()
    index = filled("faiss-cagra", tmp_path, neighbours=16)
    assert gpu.calls == [("cagra", N)]
    assert type(index._state.structure.index) is faiss.IndexHNSWCagra
    assert recall_of(index, made(50, seed=1)) > 0.9
    assert index.about["recall"] > 0.9


def test_cagra_is_told_how_many_links_a_row_has(machine):
    gpu = machine()
    configs = []
    cagra = gpu.GpuIndexCagra

    def noted(*args):
        configs.append(args[-1])
        return cagra(*args)

    gpu.GpuIndexCagra = noted
    filled("faiss-cagra", neighbours=16)
    (config,) = configs
    assert (config.graph_degree, config.intermediate_graph_degree) == (32, 64)


def test_cagra_needs_more_rows_than_links(machine):
    machine()
    index = filled("faiss-cagra", n=64, neighbours=16)
    assert index.about == {}
    assert len(index.search(made(1), 70)[0][0]) == 64
    index.apply(["one more"], made(1, seed=2))
    assert index.about["rows"] == 65


@pytest.mark.parametrize(
    ("gpu", "lacks"),
    [(None, "GPU and GpuIndexCagra"), ({"has_cagra": False}, "GpuIndexCagra")],
)
def test_cagra_that_cannot_be_built_here_is_one_clear_line(machine, gpu, lacks):
    if gpu is not None:
        machine(**gpu)
    with pytest.raises(ConfigError) as caught:
        opened("faiss-cagra")
    line = str(caught.value)
    assert line.startswith("structure cagra must be built on a GPU with a faiss of cuVS")
    assert f"without {lacks}; choose faiss-hnsw" in line
    assert "\n" not in line


def test_a_cagra_of_a_gpu_machine_is_searched_and_added_to_without_one(
    machine, tmp_path, monkeypatch, caplog
):
    machine()
    before = filled("faiss-cagra", tmp_path, neighbours=16).about
    sys.modules["faiss"] = faiss
    monkeypatch.setattr(index_module, "_LEAST_BESIDE", 1)
    index = opened("faiss-cagra", tmp_path, neighbours=16)
    assert index.about == before
    queries = made(50, seed=1)
    assert recall_of(index, queries) > 0.9
    index.apply([f"new {i}" for i in range(100)], -made(100, seed=3))
    assert index.about["rows"] == N + 100
    with caplog.at_level(logging.WARNING):  # now it should be built anew
        index.apply([], made(0), removed=keys_of(600))
    assert "structure cagra must be built on a GPU" in caplog.text
    (found,) = index.search(made(1), 2000)
    assert len(found[0]) == N + 100 - 600


def test_a_damaged_cagra_is_scanned_where_it_cannot_be_built(machine, tmp_path):
    machine()
    filled("faiss-cagra", tmp_path, neighbours=16)
    (path,) = tmp_path.rglob("faiss-*.index")
    path.write_bytes(path.read_bytes()[:-9])
    sys.modules["faiss"] = faiss
    index = opened("faiss-cagra", tmp_path, neighbours=16)
    assert len(index.faults) == 1
    assert recall_of(index, made(50, seed=1)) == 1
    index.apply(["new"], made(1, seed=3))
    assert len(index.keys()) == N + 1
