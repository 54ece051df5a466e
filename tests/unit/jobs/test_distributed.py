"""The parts of a distributed job that need no cluster: outlines, shards, errors, settings."""

from __future__ import annotations

import json
import os
import pickle
import sys

import numpy as np
import pytest
from tests.unit.jobs.made import Counted, heads, record, run, space, tools, write

from toolheads.errors import (
    ConfigError,
    DataError,
    EngineError,
    IndexStoreError,
    MissingExtraError,
)
from toolheads.jobs import Cluster
from toolheads.jobs.distributed.carrying import CarriedError, carried, unpacked
from toolheads.jobs.distributed.outline import Outline
from toolheads.jobs.distributed.reading import (
    CacheFolder,
    OutlineColumns,
    TextColumns,
    numbers_by_piece,
    piece_and_number,
    position,
    read_piece,
)
from toolheads.jobs.distributed.session import Session
from toolheads.jobs.distributed.shards import Shards, write_shard
from toolheads.jobs.inputs import pieces_of
from toolheads.jobs.rows import Wording
from toolheads.texts import TextSettings

WORDING = Wording(space(), ("text", "name"), TextSettings())


def outlined(files, size_bytes, *, seed=0):
    """The outline of files whose pieces come in any order, and its pieces."""
    pieces = pieces_of(files, size_bytes)
    outline = Outline(len(pieces))
    columns = OutlineColumns(WORDING)
    order = np.random.default_rng(seed).permutation(len(pieces))
    for number in order.tolist():
        for table in read_piece(pieces[number], number, columns, None):
            outline.add(table)
    outline.settle()
    return outline, pieces


def lines_of(outline, positions):
    """(number of the piece, line in it) of positions."""
    return list(zip(*(part.tolist() for part in piece_and_number(positions)), strict=True))


def test_positions_rise_as_the_lines_of_all_files_do():
    given = [(0, 1), (0, 2), (0, 2**39), (1, 1), (2**20, 7)]
    positions = np.array([position(*place) for place in given], np.int64)
    assert (np.diff(positions) > 0).all()
    assert lines_of(None, positions) == given
    by_piece = numbers_by_piece(positions)
    assert {piece: part.tolist() for piece, part in by_piece.items()} == {
        0: [1, 2, 2**39],
        1: [1],
        2**20: [7],
    }
    assert numbers_by_piece(positions[:0]) == {}


@pytest.mark.parametrize("seed", range(3))
def test_of_an_id_and_of_a_row_the_first_line_of_the_input_counts(tmp_path, seed):
    pytest.importorskip("pyarrow")
    listed = tools(0, 20)
    same = json.dumps(record(listed[4]) | {"id": "another"})
    one = write(tmp_path / "a.jsonl", [*listed[:10], "{bad", "", listed[3], same])
    two = write(tmp_path / "b.jsonl", [listed[9], *listed[10:], same])
    outline, pieces = outlined([one, two], 200, seed=seed)
    assert len(pieces) > 4
    assert (outline.seen, len(outline.tools), len(outline.first)) == (25, 21, 20)
    assert outline.lines.sum() == 26
    assert bad_lines(outline, pieces) == [(one, 11), (one, 13), (two, 1), (two, 12)]
    of_tools = [bytes.fromhex(WORDING.key(WORDING.texts(tool))) for tool in listed]
    assert [key.tobytes() for key in outline.keys[outline.first]] == of_tools
    refused = np.frombuffer(of_tools[4], np.uint8).reshape(1, 32)
    both = outline.of_keys(refused)
    assert len(both) == 2
    outline.drop(both)
    assert (len(outline.tools), len(outline.first), len(outline.bad)) == (19, 19, 6)


def bad_lines(outline, pieces):
    """(file, line) of the bad lines of an outline."""
    before = outline.lines_before(pieces)
    return [
        (pieces[piece].path, before[piece] + number)
        for piece, number in lines_of(outline, outline.bad)
    ]


def test_an_outline_says_which_tools_have_no_vectors_yet(tmp_path):
    pytest.importorskip("pyarrow")
    listed = tools(0, 6)
    run(tmp_path, write(tmp_path / "some.jsonl", listed[2:4]))
    file = write(tmp_path / "all.jsonl", ["{bad", *listed[:4], listed[0], *listed[4:]])
    outline = Outline(1)
    cache = CacheFolder(heads(), tmp_path / "cache", "float16")
    columns = OutlineColumns(WORDING, cache)
    for table in read_piece(pieces_of([file], 10_000)[0], 0, columns, None):
        outline.add(table)
    outline.settle()
    assert outline.missing.tolist() == [True, True, False, False, True, True]


def test_a_file_that_changes_while_a_job_reads_it_is_told(tmp_path):
    pytest.importorskip("pyarrow")
    file = write(tmp_path / "a.jsonl", ["{bad"])
    with pytest.raises(CarriedError) as caught:
        list(read_piece(pieces_of([file], 100)[0], 0, TextColumns(WORDING), np.array([1])))
    with pytest.raises(DataError, match="must stay as it is while a job reads it"):
        raise unpacked(caught.value) or caught.value


def rows(count, seed=0):
    return np.random.default_rng(seed).standard_normal((count, 8), np.float32)


def keys(start, stop):
    return [f"{i:064x}" for i in range(start, stop)]


def as_bytes(listed):
    return np.frombuffer(bytes.fromhex("".join(listed)), np.uint8).reshape(-1, 32)


def test_rows_of_shards_come_in_the_order_they_are_asked_for(tmp_path):
    shards = Shards(tmp_path / "s", width=8)
    made = rows(10)
    for start, stop in ((6, 10), (0, 3), (3, 6)):
        shards.add(write_shard(tmp_path / "s", keys(start, stop), made[start:stop]))
    asked = [7, 0, 9, 3, 5, 1]
    numbers = shards.have(as_bytes([keys(0, 10)[i] for i in asked]))
    found = list(shards.batches(numbers, 4))
    assert [len(batch) for batch, _ in found] == [4, 2]
    assert [key for batch, _ in found for key in batch] == [keys(0, 10)[i] for i in asked]
    np.testing.assert_array_equal(np.concatenate([part for _, part in found]), made[asked])
    assert shards.have(as_bytes(keys(9, 12))).tolist()[1:] == [-1, -1]
    shards.remove()
    assert not (tmp_path / "s").exists()


def test_shards_of_an_earlier_run_are_taken_up_as_far_as_they_are_whole(tmp_path):
    made = rows(9)
    about = [write_shard(tmp_path, keys(at, at + 3), made[at : at + 3]) for at in (0, 3, 6)]
    damaged, unnamed = (tmp_path / json.loads(text)["file"] for text in about[1:])
    raw = bytearray(damaged.read_bytes())
    raw[5] ^= 1
    damaged.write_bytes(raw)
    unnamed.with_suffix(".json").unlink()  # a worker was killed before it wrote it
    (tmp_path / ".tmp-1.json").write_text("{}")
    (tmp_path / "other.json").write_text("[1]")
    shards = Shards(tmp_path, width=8)
    shards.take_up()
    assert len(shards) == 3
    assert shards.have(as_bytes(keys(0, 9))).tolist() == [0, 1, 2, *[-1] * 6]


def test_a_shard_that_is_gone_is_told(tmp_path):
    about = write_shard(tmp_path, keys(0, 3), rows(3))
    (tmp_path / json.loads(about)["file"]).unlink()
    with pytest.raises(IndexStoreError, match="must exist, got no such file"):
        Shards(tmp_path, width=8).add(about)


def test_an_error_keeps_its_words_on_the_way_out_of_a_worker():
    with pytest.raises(CarriedError) as caught, carried():
        raise DataError("the file is bad")
    annotated = pickle.loads(pickle.dumps(caught.value))
    annotated.args = (*annotated.args, "to retry, set this and that")  # as Ray does
    found = unpacked(pickle.loads(pickle.dumps(annotated)))
    assert (type(found), str(found)) == (DataError, "the file is bad")
    assert unpacked(ValueError("another")) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"workers": 0}, "workers must be >= 1, got 0"),
        ({"worker_cpus": 0}, "worker_cpus must be >= 1, got 0"),
        ({"worker_gpus": -1.0}, "worker_gpus must be >= 0 and finite, got -1.0"),
        ({"piece_bytes": 0}, "piece_bytes must be >= 1, got 0"),
        ({"address": " "}, "address must name a cluster, such as auto"),
    ],
)
def test_a_cluster_says_what_is_wrong_with_it(given, said):
    with pytest.raises(ConfigError, match=said):
        Cluster(**given)


@pytest.mark.parametrize(
    ("cluster", "cpus", "gpus", "is_ours", "of_worker", "workers"),
    [
        (Cluster(), 8, 0, True, 0.0, 7),
        (Cluster(), 1, 0, True, 0.0, 1),
        (Cluster(worker_cpus=3), 8, 0, True, 0.0, 2),
        (Cluster(workers=5), 8, 0, True, 0.0, 5),
        (Cluster(), 64, 8, True, 1.0, 8),
        (Cluster(), 64, 4, False, 0.5, 8),
        (Cluster(workers=9), 64, 2, False, 1.0, 9),  # machines may join
    ],
)
def test_workers_fill_the_cluster(cluster, cpus, gpus, is_ours, of_worker, workers):
    assert Session(cluster, cpus, gpus, is_ours).workers(of_worker) == workers


@pytest.mark.parametrize(
    ("cluster", "is_ours"), [(Cluster(), False), (Cluster(workers=3), True), (Cluster(), True)]
)
def test_workers_that_need_more_gpus_than_there_are_are_told(cluster, is_ours):
    gpus = 2 if cluster.workers else 0
    with pytest.raises(ConfigError, match=f"1 GPUs for each worker, got {gpus}"):
        Session(cluster, 8, gpus, is_ours).workers(1.0)


def test_without_ray_the_command_that_installs_it_is_told(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    file = write(tmp_path / "t.jsonl", tools(0, 3))
    encoder = Counted()
    with pytest.raises(MissingExtraError, match=r"engine ray needs ray; .*toolheads\[ray\]"):
        run(tmp_path, file, encoder=encoder, cluster=Cluster())
    assert encoder.made == []


def test_ray_that_does_not_start_is_one_line(tmp_path, monkeypatch):
    ray = pytest.importorskip("ray", exc_type=ImportError)
    pytest.importorskip("ray.data", exc_type=ImportError)

    def init(**settings):
        raise Exception("The node timed out.\n  Look at the log.")

    monkeypatch.setattr(ray, "init", init)
    file = write(tmp_path / "t.jsonl", tools(0, 3))
    said = r"^Ray must start on this machine, got: The node timed out\. Look at the log\.$"
    with pytest.raises(EngineError, match=said):
        run(tmp_path, file, cluster=Cluster())
    assert not {"RAY_USAGE_STATS_ENABLED", "RAY_BACKEND_LOG_LEVEL"} & set(os.environ)


def test_a_cluster_that_is_not_there_is_one_line(tmp_path, monkeypatch):
    ray = pytest.importorskip("ray", exc_type=ImportError)
    pytest.importorskip("ray.data", exc_type=ImportError)

    def init(address, **settings):
        raise ConnectionError("Could not find any running Ray instance.\nMore of it")

    monkeypatch.setattr(ray, "init", init)
    file = write(tmp_path / "t.jsonl", tools(0, 3))
    said = r"^address must be that of a cluster, got 'auto': Could not find .* instance\.$"
    with pytest.raises(ConfigError, match=said):
        run(tmp_path, file, cluster=Cluster(address="auto"))
