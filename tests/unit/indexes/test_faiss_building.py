"""Structures of faiss fit the size, are built part by part, and say what they find."""

import json

import numpy as np
import pytest
from tests.unit.indexes.clusters import PQ, WIDTH, N, filled, keys_of, made, opened, recall_of

from toolheads.errors import ConfigError

pytest.importorskip("faiss", reason="needs the extra faiss")

from toolheads.indexes.faiss_index import building
from toolheads.indexes.faiss_index import index as index_module
from toolheads.indexes.faiss_index.parameters import Parameters


@pytest.mark.parametrize(
    ("structure", "n", "width", "fitted"),
    [
        ("hnsw", 50_000, 384, {"neighbours": 32, "ef_construction": 100, "ef_search": 64}),
        ("hnsw", 10**6, 384, {"neighbours": 32, "ef_construction": 100, "ef_search": 128}),
        ("ivf", 10_000, 384, {"lists": 256, "sample": 10_000, "probes": 64}),
        ("ivf", 10**6, 384, {"lists": 4000, "sample": 256_000, "probes": 253}),
        (
            "ivfpq",
            10**6,
            384,
            {"lists": 4000, "codes": 96, "bits": 8, "sample": 256_000, "probes": 253, "refine": 10},
        ),
        (
            "ivfpq",
            100_000,
            64,
            {"lists": 1265, "codes": 16, "bits": 8, "sample": 80_960, "probes": 142, "refine": 10},
        ),
        (
            "ivfpq",
            4000,
            4096,
            {"lists": 102, "codes": 96, "bits": 6, "sample": 4000, "probes": 40, "refine": 10},
        ),
        ("cagra", 10**6, 384, {"neighbours": 32, "ef_search": 128}),
        ("flat", 10**6, 384, {}),
    ],
)
def test_parameters_fit_the_rows_and_the_width(structure, n, width, fitted):
    assert Parameters(structure, "float32").for_rows(n, width).to_json() == fitted


def test_what_is_set_is_not_fitted():
    given = {"lists": 7, "codes": 5, "bits": 6, "sample": 999, "probes": 3, "refine": 2}
    asked = Parameters("ivfpq", "float32", **given)
    assert asked.for_rows(10**6, 384).to_json() == given


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"bits": 3}, "bits must be a whole number >= 4, got 3"),
        ({"bits": 9}, "bits must be at most 8, got 9"),
        ({"codes": 33}, "codes must be at most the width 32, got 33"),
        ({"refine": -1}, "refine must be a whole number >= 0, got -1"),
        ({"sample": 0.5}, "sample must be a whole number >= 0, got 0.5"),
    ],
)
def test_a_setting_that_cannot_be_built_is_refused_at_the_door(settings, line):
    with pytest.raises(ConfigError) as caught:
        opened("faiss-ivfpq", **settings)
    assert str(caught.value) == line


def test_rows_found_by_codes_are_scored_again_with_the_stored_rows():
    queries = made(100, seed=1)
    codes_alone, refined = (
        filled("faiss-ivfpq", **PQ, probes=8, codes=4, refine=refine) for refine in (1, 20)
    )
    assert recall_of(codes_alone, queries) < 0.7
    assert recall_of(refined, queries) > 0.9


def test_with_refine_1_codes_alone_choose_and_stored_rows_give_the_scores():
    index = filled("faiss-ivfpq", **PQ, codes=4, refine=1)
    structure = index._state.structure
    for query in made(20, seed=1):
        ((keys, scores),) = index.search(query[None], 10)
        (by_codes,), (places,) = structure.search(query[None], 300, effort=1, threads=1)
        of_key = {structure.keys[p]: score for p, score in zip(places, by_codes, strict=True)}
        assert min(of_key[key] for key in keys) == by_codes[9]  # rows of equal codes tie
        sums = (index.gather(keys).astype(np.float64) * query).sum(axis=1)
        np.testing.assert_array_equal(scores, sums.astype(np.float32))
        assert (np.diff(scores) <= 0).all()


@pytest.mark.parametrize(("width", "codes"), [(13, 3), (13, 13), (50, 7)])
def test_codes_need_not_divide_the_width(width, codes):
    index = filled("faiss-ivfpq", width=width, **PQ, probes=8, codes=codes)
    assert index.about["codes"] == codes
    assert recall_of(index, made(50, width, seed=1)) > 0.9


def test_fewer_rows_than_there_are_codes_are_scanned():
    index = filled("faiss-ivfpq", n=63, bits=6)
    assert index.about == {}
    index.apply(["one more"], made(1, seed=2))
    assert index.about["rows"] == 64


@pytest.mark.parametrize(("n", "bits"), [(100, 4), (1247, 4), (1248, 5), (9983, 7), (9984, 8)])
def test_a_code_has_as_many_bits_as_there_are_rows_to_fit_it_to(n, bits):
    assert Parameters("ivfpq", "float32").for_rows(n, 64).bits == bits


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("faiss-ivf", {"lists": 30, "probes": 1}),
        ("faiss-ivfpq", {**PQ, "probes": 8, "codes": 2, "refine": 1}),
        ("faiss-hnsw", {"neighbours": 2, "ef_construction": 1, "ef_search": 1}),
    ],
)
def test_recall_is_measured_as_a_test_would(kind, settings, dtype):
    index = filled(kind, dtype=dtype, **settings)
    noise = np.random.default_rng(5).normal(size=(400, WIDTH))
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    queries = (made()[-400:] + noise).astype(np.float32)
    assert index.about["recall_queries"] == 200
    assert index.about["recall_at"] == 10
    assert index.about["recall"] < 0.97
    assert index.about["recall"] == pytest.approx(recall_of(index, queries), abs=0.06)


def test_an_exact_structure_finds_all_by_its_nature():
    about = filled("faiss-flat").about
    assert about == {
        "structure": "flat",
        "rows": N,
        "recall": 1.0,
        "recall_at": 10,
        "recall_queries": 0,
    }


def header_of(folder):
    (path,) = folder.rglob("faiss-*.index")
    return json.loads(path.read_bytes().partition(b"\n")[0])


def test_recall_is_in_the_header_of_the_file(tmp_path):
    index = filled("faiss-ivf", tmp_path, lists=30, probes=1)
    header = header_of(tmp_path)
    assert header["recall"] == {"value": index.about["recall"], "queries": 200, "at": 10}
    assert header["parameters"]["lists"] == 30
    assert header["parameters"]["probes"] == 1


def test_recall_holds_for_the_settings_it_was_measured_with(tmp_path):
    index = filled("faiss-ivf", tmp_path, lists=30, probes=1)
    assert opened("faiss-ivf", tmp_path, lists=30, probes=1).about == index.about
    other = opened("faiss-ivf", tmp_path, lists=30, probes=2).about
    assert other["probes"] == 2
    assert "recall" not in other


def test_recall_is_measured_again_when_rows_go_into_the_structure(tmp_path, monkeypatch):
    monkeypatch.setattr(index_module, "_LEAST_BESIDE", 1)
    index = filled("faiss-ivf", tmp_path, lists=30, probes=1)
    before = index.about["recall"]
    index.apply([f"new {i}" for i in range(200)], made(200, seed=7), removed=keys_of(300))
    assert index.about["rows"] == N + 200
    assert index.about["recall_queries"] == 200
    assert index.about["recall"] != before
    assert header_of(tmp_path)["recall"]["value"] == index.about["recall"]


def test_a_structure_of_an_older_header_is_read(tmp_path):
    filled("faiss-hnsw", tmp_path)
    (path,) = tmp_path.rglob("faiss-*.index")
    line, _, payload = path.read_bytes().partition(b"\n")
    header = json.loads(line)
    del header["recall"]
    old = ("structure", "dtype", "neighbours", "ef_construction", "ef_search", "lists", "probes")
    header["parameters"] = {name: header["parameters"][name] for name in old}
    path.write_bytes(json.dumps(header).encode() + b"\n" + payload)
    index = opened("faiss-hnsw", tmp_path)
    assert index.faults == ()
    assert index.about["rows"] == N
    assert "recall" not in index.about
    assert recall_of(index, made(50, seed=1)) > 0.9


def test_rows_are_gathered_a_part_at_a_time(monkeypatch):
    monkeypatch.setattr(building, "_BLOCK_ENTRIES", 100 * WIDTH)
    asked = []
    rows = dict(zip(keys_of(N), made(), strict=True))

    def gather(keys):
        asked.append(len(keys))
        return np.array([rows[key] for key in keys])

    parameters = Parameters("ivfpq", "float32", lists=8, bits=4, sample=300)
    structure = building.build(keys_of(N), gather, WIDTH, parameters, threads=1)
    assert asked == [300] + [100] * (N // 100)
    assert structure.index.ntotal == N
