"""What `toolheads learn` makes of a month of use, and of logs that teach nothing.

    python -m benchmarks.learn.run [--data DIR] [--requests N] [--work DIR] [--cache DIR] [--seed N]
                                   [--ask train,val] [--measure test] [--good-only]
                                   [-- OPTIONS of toolheads learn]

Simulated people use one catalogue, the sample's unless `--data` names the folder of another data
set: they ask for what the requests of the splits `--ask` ask for, are shown tools by the packaged
heads, and call what they need with the slips of `simulate.Habits`. `toolheads learn` then trains
these heads on from the log. Printed are its report, and given and new heads on the requests of
split `--measure`, with their true labels; they are in no log. Then come the bad logs.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import time
from pathlib import Path

import numpy as np
from benchmarks.learn.simulate import (
    Habits,
    cut_lines,
    first_searches,
    shuffled_calls,
    shuffled_ids,
    shuffled_texts,
    simulate,
    write_log,
)

from toolheads.data import read_dataset
from toolheads.domain import Query
from toolheads.evaluation.ranked import per_query_metrics
from toolheads.evaluation.statistics import bootstrap_means, interval, permutation_p
from toolheads.facade import load_scorer
from toolheads.heads import load_heads
from toolheads.sample import dataset_path
from toolheads.scorers.vectors import VectorScorer
from toolheads_train.learn.cli import main as learn

HEADS = "minilm"


def main() -> int:
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="sample", help="folder of one data set")
    parser.add_argument("--requests", type=int, help="so many, drawn at random; default: all")
    parser.add_argument("--work", type=Path, default=Path("runs/learn"))
    parser.add_argument("--cache", type=Path, default=Path(".cache/toolheads"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ask", default="train,val", help="splits that are in the log")
    parser.add_argument("--measure", default="test", help="split that is in no log")
    parser.add_argument("--good-only", action="store_true", help="leave out the bad logs")
    args = parser.parse_args(words[:at])
    bench = Bench(args, words[at + 1 :])
    bench.good()
    if not args.good_only:
        bench.bad()
    return 0


class Bench:
    def __init__(self, args: argparse.Namespace, options: list[str]) -> None:
        self.args, self.options = args, options
        self.dataset = read_dataset(dataset_path(args.data))
        self.heads = load_heads(HEADS)
        self.scorer = self._scorer(HEADS)
        asked = args.ask.split(",")
        self.asked = [query for query in self.dataset.queries if query.split in asked]
        if args.requests is not None:
            order = np.random.default_rng(args.seed).permutation(len(self.asked))
            self.asked = [self.asked[at] for at in sorted(order[: args.requests].tolist())]

    def _scorer(self, heads: str) -> VectorScorer:
        scorer = load_scorer(heads, cache=self.args.cache)
        scorer.index(self.dataset.tools)
        return scorer

    def _events(self, habits: Habits) -> list:
        cutoff = self.scorer.cutoff

        def show(texts):  # as `search_many`, but through the cache
            queries = [Query(str(at), text) for at, text in enumerate(texts)]
            ranked = self.scorer.rank(queries, cutoff.max_k)
            shown = [hits[: cutoff.count([hit.score for hit in hits])] for hits in ranked]
            return [[hit.tool_id for hit in hits] for hits in shown]

        return simulate(
            self.asked, show, heads=self.heads.sha256, habits=habits, seed=self.args.seed
        )

    def _learn(self, log: Path, out: Path) -> tuple[int, str, str]:
        said, complained = io.StringIO(), io.StringIO()
        words = [
            *("--log", str(log), "--tools", self.args.data, "--heads", HEADS, "--out", str(out)),
            *("--cache", str(self.args.cache), "--seed", str(self.args.seed), *self.options),
        ]
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
            code = learn(words)
        lines = [one for one in complained.getvalue().splitlines() if one.startswith("toolheads")]
        return code, said.getvalue(), "\n".join(lines)

    def good(self) -> None:
        log, out = self.args.work / "log", self.args.work / "learnt.npz"
        out.unlink(missing_ok=True)
        write_log(log, self._events(Habits()))
        began = time.monotonic()
        code, report, why = self._learn(log, out)
        print(report, end="")
        print(f"exit code {code}, {time.monotonic() - began:.0f} s {why}", flush=True)
        if code == 0:
            self._measure(self._scorer(str(out)))

    def _measure(self, after: VectorScorer) -> None:
        queries = [q for q in self.dataset.split(self.args.measure) if q.relevant]
        values = [_values(scorer, queries) for scorer in (self.scorer, after)]
        print(f"\n{len(queries)} requests of split {self.args.measure}, in no log, true labels:")
        for name in ("ndcg@10", "recall@5"):
            change = values[1][name] - values[0][name]
            drawn = bootstrap_means({"all": change}, resamples=10_000, seed=0)["all"][:, 0]
            low, high = interval(drawn, confidence=0.95)
            p = permutation_p({"all": change})
            print(
                f"  {name}: before {100 * values[0][name].mean():.1f}, after "
                f"{100 * values[1][name].mean():.1f}, change {100 * change.mean():+.1f} "
                f"[{100 * low:+.1f}, {100 * high:+.1f}], p = {p:.4f}",
                flush=True,
            )

    def bad(self) -> None:
        seed, good = self.args.seed, self._events(Habits())
        ids = [tool.id for tool in self.dataset.tools]
        logs = {
            "random clicks": (self._events(Habits(is_random=True)), {}),
            "shuffled tool ids": (shuffled_ids(good, ids, seed=seed), {}),
            "calls of other searches": (shuffled_calls(good, seed=seed), {}),
            "texts of other searches": (shuffled_texts(good, seed=seed), {}),
            "30 requests": (first_searches(good, 30), {}),
            "digests only": (good, {"keep_texts": False}),
            "a fifth of the lines cut": (good, {}),
        }
        print("\nlogs that nothing should be learnt from:")
        for name, (events, how) in logs.items():
            slug = name.replace(" ", "-")
            log, out = self.args.work / slug, self.args.work / f"{slug}.npz"
            out.unlink(missing_ok=True)
            write_log(log, events, **how)
            if name.startswith("a fifth"):
                cut_lines(log, 0.2, seed=seed)
            code, _, why = self._learn(log, out)
            print(f"- {name}: exit code {code}, {'written' if out.exists() else 'nothing written'}")
            print(f"  {why}", flush=True)


def _values(scorer: VectorScorer, queries: list[Query]) -> dict:
    ranked = scorer.rank(queries, 10)
    run = {q.id: [hit.tool_id for hit in hits] for q, hits in zip(queries, ranked, strict=True)}
    qrels = {q.id: q.relevance for q in queries}
    return per_query_metrics(run, qrels, ("ndcg@10", "recall@5"))


if __name__ == "__main__":
    sys.exit(main())
