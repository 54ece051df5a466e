"""Runs the `Scorer` contract against every adapter, and against scorers broken on purpose."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.contract import scorer as contract
from tests.contract.scorer import CONTRACT
from tests.hash_encoder import HashEncoder
from tests.made_heads import ALL_VIEWS, made_head, made_heads

from toolheads.domain import Hit
from toolheads.embedder import Embedder
from toolheads.errors import ConfigError
from toolheads.heads import Architecture, Fusion
from toolheads.heads.fusion import HubnessPart, LexicalPart
from toolheads.indexes.keys import row_key, space_of
from toolheads.indexes.numpy_index import NumpyIndex
from toolheads.scorers.bm25 import BM25Scorer
from toolheads.scorers.clm import CLMScorer
from toolheads.scorers.dense import DenseScorer
from toolheads.scorers.hybrid import HybridScorer
from toolheads.scorers.index_backed import IndexBackedScorer
from toolheads.scorers.rank_fusion import RankFusion
from toolheads.scorers.recipe import Recipe

WIDTH = 64
ENCODER = HashEncoder(WIDTH)


def clm(fusion=None):
    embedder = Embedder(ENCODER)
    architecture = Architecture(WIDTH, hidden=(48,))
    heads = made_heads(
        state=made_head(architecture, seed=1, alpha=0.02),
        action=made_head(architecture, seed=2, alpha=0.02),
        fingerprint=embedder.fingerprint,
        probe=embedder.probe(),
        views=ALL_VIEWS,
        fusion=fusion,
    )
    return CLMScorer(heads, embedder)


def dense():
    return DenseScorer(Embedder(ENCODER))


def bm25():
    return BM25Scorer()


def hybrid(ranks=None):
    return HybridScorer(Embedder(ENCODER), ranks=ranks)


def over_an_index(fusion=None, ranks=None):
    recipe = Recipe.frozen(WIDTH, ALL_VIEWS, fusion=fusion)
    space = space_of(Embedder(ENCODER).fingerprint, views=recipe.tool_weights)
    index = NumpyIndex(space=space, width=WIDTH)
    key_of = partial(row_key, space)
    return IndexBackedScorer("hybrid", Embedder(ENCODER), recipe, index, key_of, ranks=ranks)


ADAPTERS = {
    "dense": dense,
    "dense with all views": lambda: DenseScorer(Embedder(ENCODER), ALL_VIEWS),
    "clm": clm,
    "clm with words": lambda: clm(Fusion(LexicalPart(0.5))),
    "clm with all": lambda: clm(Fusion(LexicalPart(0.5), HubnessPart(0.2), 0.05)),
    "bm25": bm25,
    "hybrid": hybrid,
    "hybrid by ranks": lambda: hybrid(RankFusion(depth=30)),
    "over an index": over_an_index,
    "over an index with words": lambda: over_an_index(Fusion(LexicalPart(0.5), None, 0.05)),
    "over an index by ranks": lambda: over_an_index(Fusion(LexicalPart(0.5)), RankFusion(depth=30)),
}


@pytest.mark.parametrize("make", ADAPTERS.values(), ids=list(ADAPTERS))
@pytest.mark.parametrize("clause", CONTRACT, ids=lambda f: f.__name__)
def test_adapter_keeps_the_contract(clause, make):
    clause(make)


class Plain:
    """Counts shared words, one list after the other; keeps the contract. Others break it."""

    name = "plain"

    tools: Any = None

    def index(self, tools):
        if not tools:
            raise ConfigError("tools must hold at least one tool, got none")
        self.tools = [(tool, set(tool.description.split())) for tool in tools]

    def rank(self, queries, k):
        if self.tools is None or k < 1:
            raise ConfigError(f"k must be >= 1 and a corpus there, got {k}")
        return [self.one(query, k) for query in queries]

    def one(self, query, k):
        words = set(query.text.split())
        scored = [self.hit(tool, float(len(words & own))) for tool, own in self.tools]
        return sorted(scored, key=lambda hit: -hit.score)[:k]

    def hit(self, tool, score):
        return Hit(tool, score)


class WorstFirst(Plain):
    def one(self, query, k):
        return super().one(query, k)[::-1]


class OneTooMany(Plain):
    def one(self, query, k):
        return super().one(query, k + 1)


class Blind(Plain):
    def one(self, query, k):
        return [self.hit(tool, 1.0) for tool, _ in self.tools][:k]


class TiesBackwards(Plain):
    def one(self, query, k):
        hits = super().one(query, len(self.tools))[::-1]
        return sorted(hits, key=lambda hit: -hit.score)[:k]


class TiesByNoise(Plain):
    def hit(self, tool, score):
        return super().hit(tool, score + 1e-9 * sum(map(ord, tool.id)))


class NotFinite(Plain):
    def one(self, query, k):
        hits = super().one(query, k)
        return [dataclasses.replace(hit, score=hit.score / (hit.score or np.nan)) for hit in hits]


class OtherFrontForSmallK(Plain):
    def one(self, query, k):
        hits = super().one(query, k)
        return sorted(hits, key=lambda hit: (-hit.score, hit.tool_id if k < 50 else ""))


class Neighbourly(Plain):
    def rank(self, queries, k):
        lists = super().rank(queries, k)
        return [
            [dataclasses.replace(h, score=h.score + 1e-9 * len(queries)) for h in hits]
            for hits in lists
        ]


class MeanCentred(Plain):
    """Scores against the mean of the call's queries, as a batch norm would."""

    def rank(self, queries, k):
        lists = super().rank(queries, k)
        mean = np.mean([hit.score for hits in lists for hit in hits]) if lists else 0
        return [
            [dataclasses.replace(h, score=float(h.score - mean)) for h in hits] for hits in lists
        ]


class Moody(Plain):
    calls = 0

    def rank(self, queries, k):
        Moody.calls += 1
        return [
            hits[Moody.calls % 2 :] + hits[: Moody.calls % 2] for hits in super().rank(queries, k)
        ]


class RanksNothing(Plain):
    def rank(self, queries, k):
        return super().rank(queries, k) if self.tools is not None else [[] for _ in queries]


class AnyK(Plain):
    def rank(self, queries, k):
        return super().rank(queries, max(1, k))


class TakesNothing(Plain):
    def index(self, tools):
        self.tools = [] if not tools else super().index(tools) or self.tools


class Hoarder(Plain):
    def index(self, tools):
        old = self.tools or []
        super().index(tools)
        self.tools = old + self.tools


class HalfIndexed(Plain):
    def index(self, tools):
        if not tools:
            raise ConfigError("tools must hold at least one tool, got none")
        self.tools = []
        for tool in tools:
            self.tools.append((tool, set(tool.description.split())))


class Aliased(Plain):
    def index(self, tools):
        super().index(tools)
        self.given = tools

    def one(self, query, k):
        self.tools = [(tool, set(tool.description.split())) for tool in self.given]
        return super().one(query, k)


class Nameless(Plain):
    name = ""


BROKEN = {
    WorstFirst: contract.returns_min_k_and_corpus_hits_best_first,
    OneTooMany: contract.returns_min_k_and_corpus_hits_best_first,
    Blind: contract.finds_what_is_asked_for,
    TiesBackwards: contract.orders_equal_scores_as_the_tools_were_given,
    TiesByNoise: contract.gives_twins_equal_scores,
    NotFinite: contract.gives_finite_scores_whatever_is_asked,
    OtherFrontForSmallK: contract.gives_a_prefix_for_a_smaller_k,
    Neighbourly: contract.ranks_a_query_the_same_alone_and_among_others,
    MeanCentred: contract.ranks_a_query_the_same_alone_and_among_others,
    Moody: contract.ranks_the_same_twice,
    RanksNothing: contract.refuses_to_rank_before_index,
    AnyK: contract.refuses_k_below_one,
    TakesNothing: contract.refuses_an_empty_corpus,
    Hoarder: contract.replaces_the_corpus,
    HalfIndexed: contract.keeps_the_old_corpus_when_index_fails,
    Aliased: contract.keeps_its_own_list_of_tools,
    Nameless: contract.has_a_short_name,
}


@pytest.mark.parametrize("clause", CONTRACT, ids=lambda f: f.__name__)
def test_the_plain_scorer_keeps_the_contract(clause):
    clause(Plain)


@pytest.mark.parametrize(("broken", "clause"), BROKEN.items(), ids=lambda c: c.__name__)
def test_the_contract_catches_a_broken_scorer(broken, clause):
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        clause(broken)
