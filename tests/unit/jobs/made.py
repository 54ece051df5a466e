"""Heads over the hash encoder, tools, and a job over both: what the tests of jobs start from."""

from __future__ import annotations

import json
from functools import lru_cache

import numpy as np
from tests.hash_encoder import HashEncoder
from tests.made_heads import made_head, made_heads

from toolheads.domain import Tool
from toolheads.embedder import Embedder
from toolheads.heads import Architecture, Views
from toolheads.identity import Fingerprint
from toolheads.indexes import open_index, row_key, space_of
from toolheads.jobs import Target, reindex
from toolheads.scorers.recipe import Recipe
from toolheads.texts import TextSettings, tool_view_texts

WIDTH = 16


@lru_cache
def heads(seed=1):
    """Heads over `HashEncoder`, with two views of a tool."""
    encoder = HashEncoder(WIDTH)
    head = Architecture(WIDTH, hidden=(8,))
    return made_heads(
        state=made_head(head, seed=seed),
        action=made_head(head, seed=seed + 100),
        fingerprint=Fingerprint(encoder.identity, TextSettings()),
        probe=Embedder(encoder).probe(),
        views=Views(tool={"text": 0.7, "name": 0.3}),
    )


def tools(start, stop, word="does"):
    return [
        Tool(f"t{i}", f"tool_{i}", "shop", f"{word} thing number {i}") for i in range(start, stop)
    ]


def record(tool):
    return {
        "id": tool.id,
        "name": tool.name,
        "server": tool.server,
        "description": tool.description,
    }


def write(path, listed):
    """A file of lines: tools, or text as it is."""
    lines = [t if isinstance(t, str) else json.dumps(record(t)) for t in listed]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


class Counted:
    """Makes encoders, and counts them and what they were asked for."""

    def __init__(self, **settings):
        self.settings, self.made = settings, []

    def __call__(self):
        self.made.append(HashEncoder(WIDTH, **self.settings))
        return self.made[-1]

    @property
    def sent(self):
        return [text for encoder in self.made for text in encoder.sent]


def run(folder, *inputs, kind="numpy", encoder=None, seed=1, **settings):
    """Reindex into `folder`/index with the cache beside it."""
    target = settings.pop("target", None) or Target(kind, folder / "index")
    return reindex(
        inputs,
        heads(seed),
        target,
        encoder=encoder or Counted(),
        cache=folder / "cache",
        **settings,
    )


def space(seed=1):
    recipe = Recipe.of_heads(heads(seed))
    return space_of(
        heads(seed).fingerprint,
        heads_sha256=recipe.action_sha256(),
        views=recipe.tool_weights,
    )


def keys(listed, seed=1):
    views = list(Recipe.of_heads(heads(seed)).tool_weights)
    return [row_key(space(seed), tool_view_texts(t, views, TextSettings())) for t in listed]


def opened(folder, kind="numpy", seed=1, **settings):
    """The index as a process that serves these heads opens it."""
    return open_index(kind, space=space(seed), width=WIDTH, folder=folder / "index", **settings)


def expected(listed, folder, seed=1):
    """The rows that a retriever makes of the tools, through a cache of its own."""
    embedder = Embedder(HashEncoder(WIDTH), TextSettings(), folder / "other-cache")
    return Recipe.of_heads(heads(seed)).rows(embedder, listed)


def assert_holds(index, listed, folder, seed=1):
    """The index has the rows of these tools to the bit, and no others."""
    assert index.keys() == set(keys(listed, seed))
    np.testing.assert_array_equal(index.gather(keys(listed, seed)), expected(listed, folder, seed))
