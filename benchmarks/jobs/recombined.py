"""Tools that are made of the texts of real ones, and their vectors in a cache."""

from __future__ import annotations

import itertools
import json
import tempfile
import time
from pathlib import Path

import numpy as np
from run import no_encoder

from toolheads.arrays import Floats, normalized
from toolheads.bootstrap import EncoderSettings, make_encoder
from toolheads.cache import VectorCache
from toolheads.data.files import read_tools
from toolheads.domain import Tool
from toolheads.heads import Heads
from toolheads.jobs.rows import RowMaker

SOURCES = 256
"""Real tools that all others are made of, and that are embedded."""

MADE_AT_ONCE = 20_000


class Sources:
    """Real tools, drawn from all data sets, and the vectors of their texts."""

    def __init__(self, data: Path, heads: Heads, seed: int) -> None:
        files = sorted(data.glob("*/tools.jsonl"))
        tools = [tool for file in files for tool in read_tools(file, skip_bad=True)]
        described = [tool for tool in tools if tool.description]
        rng = np.random.default_rng(seed)
        chosen = rng.choice(len(described), min(SOURCES, len(described)), replace=False)
        self.tools = [described[at] for at in chosen]
        self.views = list(heads.header.views.tool)
        self.vectors: dict[str, Floats] = {}
        encoder = make_encoder(EncoderSettings("local"))
        try:
            with tempfile.TemporaryDirectory() as nowhere:
                maker = opened(heads, Path(nowhere))
                texts = [maker.texts(tool) for tool in self.tools]
                maker.close()
            began = time.perf_counter()
            for at, view in enumerate(maker.wording.views):
                self.vectors[view] = encoder.encode([of_tool[at] for of_tool in texts])
            self.texts_per_s = sum(map(len, texts)) / (time.perf_counter() - began)
        finally:
            encoder.close()

    def made(self, number: int) -> tuple[Tool, tuple[int, int, int]]:
        """A tool, and the rows of the three that it is made of."""
        n = len(self.tools)
        # A step without a common divisor visits every triple once.
        place = number * 7_368_787 % n**3
        parts = place % n, place // n % n, place // n**2
        one, two, three = (self.tools[part] for part in parts)
        text = f"{halves(one.description)[0]} {halves(two.description)[1]}"
        name = f"{one.name}_{two.name}"
        tool = Tool(f"t{number}", name, three.server, text, three.input_schema)
        return tool, parts


def halves(text: str) -> tuple[str, str]:
    words = text.split()
    return " ".join(words[: len(words) // 2 + 1]), " ".join(words[len(words) // 2 :])


def make(folder: Path, heads: Heads, sources: Sources, count: int) -> None:
    """Shards of tools, and a cache of their vectors, as far as they are not there."""
    (folder / "tools").mkdir(parents=True, exist_ok=True)
    maker = opened(heads, folder / "cache")
    cache = VectorCache.open(folder / "cache", heads.fingerprint, heads.probe)
    for start in range(0, count, MADE_AT_ONCE):
        shard = folder / "tools" / f"{start:08}.jsonl"
        if shard.exists():
            continue
        made = [sources.made(at) for at in range(start, min(count, start + MADE_AT_ONCE))]
        texts = [maker.texts(tool) for tool, _ in made]
        parts = np.array([parts for _, parts in made])
        by_view = [sources.vectors[view][parts].mean(axis=1) for view in maker.wording.views]
        flat = list(itertools.chain.from_iterable(texts))
        cache.add(flat, normalized(np.stack(by_view, axis=1).reshape(len(flat), -1)))
        making = shard.with_suffix(".making")
        with making.open("w") as out:
            for tool, _ in made:
                record = {"id": tool.id, "name": tool.name, "description": tool.description}
                record |= {"server": tool.server, "input_schema": tool.input_schema}
                out.write(json.dumps(record) + "\n")
        making.rename(shard)
    maker.close()


def opened(heads: Heads, cache: Path, threads: int = 1) -> RowMaker:
    return RowMaker(heads, no_encoder, cache, threads=threads)
