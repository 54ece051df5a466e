"""The parts of the serving benchmark and the soak that need no server."""

import ast
import asyncio
import json
import re
import sys
from collections import Counter
from itertools import count, cycle
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mcp", reason="needs the extra [mcp]")

from benchmarks.serve.catalogues import drawn_queries, drawn_tools, write_callbus, write_toolheads
from benchmarks.serve.clients import Connection, quantile, search_load
from benchmarks.serve.embeddings import Words, answer
from benchmarks.serve.load import SoakLoad
from benchmarks.serve.servers import ServerFailedError, embeddings_server, started
from benchmarks.serve.soak import Sample, growth_of, logged_ids
from benchmarks.serve.table import render

import toolheads
from toolheads.catalogue import read_catalogue
from toolheads.domain import Query, Tool

ROOT = Path(__file__).parents[3]
TOOLS = [Tool(f"t{i}", f"tool_{i}", None, f"Does thing {i}.") for i in range(5)]


@pytest.fixture
def data(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        toolheads.write_tools(tmp_path / name / "tools.jsonl", TOOLS)
    queries = [Query(str(i), f"query {i}", {"t0": 1}) for i in range(3)]
    toolheads.write_queries(tmp_path / "one" / "queries.jsonl", queries)
    return tmp_path


def test_texts_that_share_words_have_near_vectors_of_length_one():
    words = Words(64)
    near, far = words.vector("open an issue"), words.vector("play some music")
    assert np.linalg.norm(near) == pytest.approx(1)
    assert near @ words.vector("an issue to open!") > 0.8 > 0.5 > near @ far
    assert np.isfinite(words.vector("")).all()


def test_vectors_come_as_numbers_or_base64():
    body = {"input": ["a", "b"]}
    plain = answer(Words(8), body)["data"]
    assert [len(item["embedding"]) for item in plain] == [8, 8]
    coded = answer(Words(8), body | {"encoding_format": "base64"})["data"]
    assert isinstance(coded[0]["embedding"], str)


def test_the_embeddings_server_keeps_a_connection_and_can_be_started_again_at_its_port():
    async def ask(port):
        connection = Connection(port)
        for _ in range(2):
            status, raw = await connection.ask("POST", "/v1/embeddings", {"input": "a text"})
            assert (status, len(json.loads(raw)["data"])) == (200, 1)
        connection.close()

    with embeddings_server() as (port, _):
        asyncio.run(ask(port))
    with embeddings_server(port) as (again, _):
        assert again == port
        asyncio.run(ask(port))


def test_tools_of_all_data_sets_have_ids_of_their_own(data):
    tools = drawn_tools(data, None)
    assert len({tool.id for tool in tools}) == 10
    assert drawn_tools(data, 3) == tools[:3]


def test_queries_never_come_twice_and_never_end(data):
    queries = drawn_queries(data)
    drawn = [next(queries) for _ in range(100)]
    assert len(set(drawn)) == 100
    assert sorted(drawn[:3]) == ["query 0", "query 1", "query 2"]


def test_both_sides_get_the_same_tools(data, tmp_path):
    tools = drawn_tools(data, None)
    write_toolheads(tmp_path / "served" / "toolheads", tools)
    write_callbus(tmp_path / "served" / "callbus", tools)
    ours = {t.id for t in read_catalogue(tmp_path / "served" / "toolheads").tools}
    lines = (tmp_path / "served" / "callbus" / "tools.jsonl").read_text().splitlines()
    theirs = [json.loads(line) for line in lines]
    assert ours == {record["id"] for record in theirs} == {tool.id for tool in tools}
    assert all("Does thing" in record["documentation"] for record in theirs)


def test_a_quantile_is_a_value_that_was_measured():
    assert [quantile([3, 1, 2, 4], share) for share in (0.25, 0.5, 0.99, 1.0)] == [1, 2, 4, 4]
    assert np.isnan(quantile([], 0.5))


def test_a_load_counts_what_failed_and_what_words_answered():
    answers = cycle(
        [
            (200, {"mode": "dense", "tools": [1]}),
            (200, {"mode": "lexical", "tools": [1]}),
            (200, {"mode": "dense", "tools": []}),
            (503, {}),
        ]
    )
    asked = []

    async def talk(reader, writer):
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            asked.append(json.loads(await reader.readexactly(length))["query"])
            status, body = next(answers)
            raw = json.dumps(body).encode()
            writer.write(
                f"HTTP/1.1 {status} X\r\nContent-Length: {len(raw)}\r\n\r\n".encode() + raw
            )
        writer.close()

    async def scenario():
        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        numbers = count()
        load = await search_load(
            server.sockets[0].getsockname()[1], 2, 0.2, lambda: str(next(numbers))
        )
        server.close()
        return load

    load = asyncio.run(scenario())
    assert len(load.seconds) == len(asked) == len(set(asked))
    assert load.by_words >= len(asked) // 4
    assert set(load.failures) == {"no tools", "503 {}"}


def test_memory_of_a_process_and_its_time_are_read(tmp_path):
    code = "import time; print('up', flush=True); time.sleep(60)"
    with started([sys.executable, "-c", code], 0, tmp_path / "log") as process:
        while not process.log.read_text():
            process.check()
        assert process.memory_mb() > 1
        assert process.memory_mb("VmHWM") >= process.memory_mb("RssAnon") > 0
        assert process.cpu_s() >= 0


def test_a_server_that_ended_is_told_with_its_last_words(tmp_path):
    code = "print('the reason'); raise SystemExit(3)"
    with started([sys.executable, "-c", code], 0, tmp_path / "log") as process:
        process.popen.wait()
        with pytest.raises(ServerFailedError, match=r"ended with 3(.|\n)*the reason"):
            process.check()


def start(system, seconds):
    about = {"what": "start", "system": system, "tools": 50, "kind": "cold"}
    return about | {
        "answer_s": seconds,
        "ready_s": seconds,
        "cpu_s": 1.0,
        "rss_mb": 100.0,
        "peak_mb": 100.0,
    }


def test_the_table_has_both_sides_and_says_what_was_answered_by_words():
    search = {
        "what": "search",
        "system": "toolheads",
        "clients": 8,
        "kind": "new",
        "searches": 10,
        "p50_ms": 1.0,
        "p99_ms": 2.0,
        "cpu_ms": 1.0,
        "answer_bytes": 1000.0,
        "by_words": 3,
        "failures": 1,
        "first_failure": "503",
    }
    found = {
        "machine": {"cpu": "C", "cpus": 2, "python": "3", "load_1_min": 0.1},
        "quick": False,
        "data": "data",
        "searched": 50,
        "seconds": 5.0,
        "rows": [start("callbus", 2.0), start("callbus", 4.0), start("toolheads", 1.5), search],
    }
    text = render(found)
    cells = [line.split("|")[1:-1] for line in text.splitlines() if "first answer" in line]
    assert [cell.strip() for cell in cells[0][1:]] == ["3.00", "1.50", "2.00x"]
    assert (
        "toolheads, new queries, 8 clients: of 10 searches 3 answered by words, 1 failed (503)"
        in text
    )


def samples(*values):
    return [Sample(i / 60, value, value, 1.0) for i, value in enumerate(values)]


def test_growth_is_the_slope_of_the_fitted_line_and_its_share():
    slope, share = growth_of(samples(100, 101, 102, 103), "rss_mb")
    assert slope == pytest.approx(60)  # 1 MB a second
    assert share == pytest.approx(3 / 101.5)
    assert growth_of(samples(100, 100, 100), "anon_mb")[1] == pytest.approx(0)


def test_events_are_found_in_every_file_of_the_log(tmp_path):
    files = [tmp_path / "a", tmp_path / "b"]
    files[0].write_text('{"event": "search", "search_id": "x"}\n')
    files[1].write_text('{"event": "call"}\n')
    assert logged_ids(files) == ({"x"}, 1)


def test_what_was_answered_and_not_logged_is_lost():
    load = SoakLoad(0, count_texts(), "peer")
    load.ids, load.calls = {"x", "y"}, Counter(ok=2)
    assert load.lost_events(({"x", "z"}, 1)) == ["search y", "a call"]
    assert load.lost_events(({"x", "y"}, 2)) == []


def count_texts():
    return (str(number) for number in count())


PLACES = sorted(
    set(
        re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs/robustness.md").read_text("utf-8"))
    )
)


@pytest.mark.parametrize(("path", "name"), PLACES)
def test_every_test_that_the_list_of_faults_names_exists(path, name):
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_each_fault_has_a_number_and_a_test():
    lines = (ROOT / "docs/robustness.md").read_text("utf-8").splitlines()
    rows = [re.match(r"\| (\d+) \|.*`tests/.*::test_.*` \|$", line) for line in lines]
    assert [int(row[1]) for row in rows if row] == list(range(1, 35))
