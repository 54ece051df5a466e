"""`toolheads embed` against two servers, one of which dies on the way."""

from __future__ import annotations

import json
import threading
import time

from tests.fake_embeddings_server import FakeEmbeddingsServer

from toolheads.data import write_queries, write_tools
from toolheads.domain import Query, Tool
from toolheads.entrypoints.cli import main


def test_a_server_that_dies_on_the_way_loses_no_text(tmp_path, capsys):
    tools = [Tool(f"t{i}", f"tool_{i}", None, f"does thing {i}") for i in range(600)]
    write_tools(tmp_path / "tools.jsonl", tools)
    write_queries(tmp_path / "queries.jsonl", [Query("q", "do thing 3", {"t3": 1})])
    with FakeEmbeddingsServer(delay_s=0.02) as one, FakeEmbeddingsServer(delay_s=0.02) as two:
        argv = ["embed", "--data", tmp_path, "--cache", tmp_path / "cache", "--json"]
        argv += ["--url", one.url, "--url", two.url, "--model", one.model, "--timeout", "5"]

        def kill():
            while len(one.texts) < 100:
                time.sleep(0.005)
            one.stop()

        thread = threading.Thread(target=kill)
        thread.start()
        assert main(list(map(str, argv))) == 0
        thread.join()
        assert json.loads(capsys.readouterr().out)["embedded"] == 601
        before = len(two.texts)
        two_only = [word for word in argv if word != one.url]
        two_only.remove("--url")
        assert main(list(map(str, two_only))) == 0
        # One server or several are one encoder: the cache is the same.
        assert json.loads(capsys.readouterr().out)["reused"] == 601
        assert len(two.texts) - before < 10
