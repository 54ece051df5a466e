"""What a job made is what a retriever over the same catalogue looks for."""

from __future__ import annotations

from tests.hash_encoder import HashEncoder
from tests.unit.jobs.made import WIDTH, heads, run, tools, write
from tests.unit.retrieval.worlds import soon

from toolheads import load_retriever
from toolheads.identity import PROBE_TEXTS


def test_a_retriever_finds_all_rows_and_embeds_no_tool(tmp_path):
    write(tmp_path / "tools.jsonl", tools(0, 60))
    run(tmp_path, tmp_path)
    encoder = HashEncoder(WIDTH)
    with load_retriever(heads(), encoder, folder=tmp_path) as retriever:
        assert retriever.wait(60)
        # The rows were there before the encoder, which is made in the background.
        assert soon(lambda: retriever.status().mode == "dense")
        status = retriever.status()
        assert (status.pending, status.tools) == (0, 60)
        assert set(encoder.sent) <= set(PROBE_TEXTS)
