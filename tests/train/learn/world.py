"""A toy world of jargon: people ask in words that no tool has, but always the same ones.

Each request has one word that its tool has too, so that the tool is often shown, and a word of
jargon that stands for it: that is what there is to learn.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import torch
from tests.hash_encoder import HashEncoder

from toolheads.domain import Tool
from toolheads.facade import load_scorer
from toolheads.heads import Architecture, Heads, HeadsHeader
from toolheads.identity import PROBE_TEXTS, Fingerprint
from toolheads.texts import TextSettings
from toolheads.usage import Call, Search, UsageLog, UsageWriter, read_usage
from toolheads_train.learn.settings import LearnSettings
from toolheads_train.model.heads import TwoHeads
from toolheads_train.outcome.export import to_head
from toolheads_train.settings import OptimizerSettings

WIDTH = 48
COUNT = 24
SHOWN = 8
QUICK = LearnSettings(
    optimizer=OptimizerSettings(lr=1e-2, weight_decay=0.0),
    epochs=15,
    batch_size=64,
    resamples=500,
)
TOOLS = [
    Tool(f"t{n}", f"tool{n}", "server", f"Does the plain{n} thing. It needs the other{n} thing.")
    for n in range(COUNT)
]
"""Two sentences, so that label-free pairs can be made."""


def encoder():
    return HashEncoder(WIDTH)


def given_heads():
    """Heads that change nothing yet."""
    torch.manual_seed(0)
    heads = TwoHeads(Architecture(WIDTH, hidden=(32,)))
    backbone = encoder()
    header = HeadsHeader(Fingerprint(backbone.identity, TextSettings()), training={"name": "old"})
    return Heads(to_head(heads.state), to_head(heads.action), header, backbone.encode(PROBE_TEXTS))


def requests(repeats=10, *, seed=0):
    """(text, id of the right tool) in a random order."""
    rng = np.random.default_rng(seed)
    made = [
        (f"jargon{n} slang{n} plain{n} filler{rng.integers(10**6)} extra{rng.integers(10**6)}", n)
        for n in range(COUNT)
        for _ in range(repeats)
    ]
    return [(made[at][0], f"t{made[at][1]}") for at in rng.permutation(len(made))]


def events(heads, asked, *, choose=None, seed=0):
    """One search an hour, after which the right tool is called where it was shown.

    Args:
        heads: Show `SHOWN` tools.
        asked: (text, right tool).
        choose: (shown, right tool, rng) → the tool that is called, or None.
        seed: Of `choose`.
    """
    rng = np.random.default_rng(seed)
    choose = choose or (lambda shown, right, rng: right if right in shown else None)
    scorer = load_scorer(heads, encoder())
    scorer.index(TOOLS)
    lists = scorer.search_many([text for text, _ in asked], SHOWN)
    found: list[Search | Call] = []
    for number, ((text, right), hits) in enumerate(zip(asked, lists, strict=True)):
        time = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(hours=number)
        shown = tuple(hit.tool_id for hit in hits)
        found.append(Search(time, f"s{number}", f"v{number}", shown, text, "digest", heads.sha256))
        tool = choose(shown, right, rng)
        if tool is not None:
            found.append(Call(time + timedelta(minutes=1), tool, ok=True, search_id=f"s{number}"))
    return found


def written(folder, found, *, keep_texts=True) -> UsageLog:
    writer = UsageWriter(folder, keep_texts=keep_texts)
    for event in found:
        writer.write(event)
    return read_usage(folder)


def any_shown(shown, right, rng):
    """Calls whatever is shown."""
    return shown[rng.integers(len(shown))]
