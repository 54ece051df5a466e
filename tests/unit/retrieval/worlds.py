"""Small catalogues and retrievers for tests."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from tests.made_heads import ALL_VIEWS, made_head, made_heads
from tests.unit.retrieval.odd_encoders import OddEncoder

import toolheads
from toolheads.domain import Tool
from toolheads.embedder import Embedder
from toolheads.heads import Architecture, Fusion
from toolheads.heads.fusion import LexicalPart
from toolheads.retrieval import RetrieverSettings

WIDTH = 16
WORDS = ["mail", "issue", "weather", "flight", "file", "city", "song", "train", "note", "map"]
ACTS = ["create", "list", "send", "delete", "book"]

STARTING = "the encoder is being started"

PATIENT = RetrieverSettings(
    deadline_s=30.0, retry_s=0.05, most_retry_s=0.1, check_every_s=60.0, poll_s=0.02
)
"""Nothing is cut short because the machine is busy."""

QUICK = replace(PATIENT, deadline_s=0.2)
"""For encoders that hang."""

TOOLS = [
    Tool(f"{server}/{act}_{word}", f"{act}_{word}", server, f"{act} a {word}")
    for server in ("hub", "lab")
    for act in ACTS
    for word in WORDS
]
"""100 tools; each plain name is that of two."""


def heads_for(encoder, *, cutoff=None):
    embedder = Embedder(encoder)
    architecture = Architecture(WIDTH, hidden=(12,))
    return made_heads(
        state=made_head(architecture, seed=1, alpha=0.02),
        action=made_head(architecture, seed=2, alpha=0.02),
        fingerprint=embedder.fingerprint,
        probe=embedder.probe(),
        views=ALL_VIEWS,
        cutoff=cutoff,
        fusion=Fusion(LexicalPart(0.5)),
    )


@contextmanager
def retriever_of(tools=TOOLS, *, encoder=None, settings=PATIENT, filled=True, **options):
    encoder = encoder or OddEncoder(WIDTH)
    cutoff = options.pop("cutoff", None)
    heads = options.pop("heads", None)
    if heads is None and options.get("scorer", "hybrid") in ("hybrid", "clm"):
        mood, encoder.mood = encoder.mood, "well"
        heads = heads_for(encoder, cutoff=cutoff)
        encoder.mood, encoder.calls = mood, 0
        del encoder.sent[:]
    made = toolheads.load_retriever(heads, encoder, tools=tools, settings=settings, **options)
    with made as retriever:
        if filled:
            assert retriever.wait(20)
            if encoder.mood == "well":  # rows of an earlier start do not wait for it
                assert soon(lambda: retriever.status().reason != STARTING, 20)
        yield retriever


def soon(condition, timeout_s=10.0):
    """Whether something comes true within a time that is no part of what is tested."""
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.005)
    return bool(condition())


def ids(answer):
    return [hit.tool_id for hit in answer.hits]


def scored(answer):
    return [(hit.tool_id, hit.score) for hit in answer.hits]


def some_tools(seed, share):
    rng = np.random.default_rng(seed)
    return [tool for tool in TOOLS if rng.random() < share]
