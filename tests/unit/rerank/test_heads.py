import pytest
from tests.hash_encoder import HashEncoder
from tests.unit.rerank.catalogues import GARDEN

from toolheads.domain import Hit, Tool
from toolheads.embedder import Embedder
from toolheads.errors import EncoderError
from toolheads.rerank import Reranker, RerankSettings, rerank
from toolheads.scorers.bm25 import BM25Scorer
from toolheads.scorers.dense import DenseScorer


class Backwards:
    """Ranks the catalogue from its end."""

    name = "backwards"

    def __init__(self, error=None):
        self.error, self.indexed, self.asked = error, 0, []

    def index(self, tools):
        self.indexed += 1
        self.tools = tuple(tools)

    def rank(self, queries, k):
        self.asked.append((queries[0].text, k))
        if self.error:
            raise self.error
        return [[Hit(tool, 1 / (i + 1)) for i, tool in enumerate(reversed(self.tools))][:k]]


def test_a_scorer_decides_the_order():
    chosen = rerank(GARDEN, "anything", "heads", top_n=2, scorer=Backwards())
    assert chosen.names == ("harvest_fruit", "getFrostWarning")
    assert (chosen.report.method, chosen.report.matched) == ("heads", True)


def test_named_and_pinned_tools_do_not_take_the_place_of_others():
    chosen = rerank(
        GARDEN,
        "use harvest_fruit",
        "heads",
        top_n=1,
        pinned=["getFrostWarning"],
        scorer=Backwards(),
    )
    assert chosen.names == ("harvest_fruit", "getFrostWarning", "order_compost")


def test_vectors_rank_too():
    dense = DenseScorer(Embedder(HashEncoder(64)))
    chosen = rerank(GARDEN, "cut dead branches off a tree", "heads", top_n=1, scorer=dense)
    assert chosen.names == ("prune_tree",)


def test_what_a_scorer_leaves_out_words_top_up():
    chosen = rerank(GARDEN, "compost", "heads", top_n=3, scorer=BM25Scorer())
    assert chosen.names[0] == "order_compost"
    assert chosen.report.topped_up == ("plant_seeds", "water_bed")


@pytest.mark.parametrize(
    ("scorer", "message", "reason"),
    [
        (None, "mow the lawn", "no scorer is set"),
        (
            Backwards(EncoderError("no\nserver")),
            "mow the lawn",
            "scorer backwards failed: no server",
        ),
        (Backwards(ZeroDivisionError()), "mow the lawn", "failed: ZeroDivisionError"),
        (Backwards(), " ", "the message is blank"),
        (BM25Scorer(), "xyz", "scorer bm25 found nothing"),
    ],
)
def test_what_fails_is_ranked_by_words_and_says_so(scorer, message, reason, caplog):
    chosen = rerank(GARDEN, message, "heads", top_n=2, scorer=scorer)
    assert chosen.names == rerank(GARDEN, message, "keyword", top_n=2).names
    assert (chosen.report.asked, chosen.report.method) == ("heads", "keyword")
    assert reason in str(chosen.report.reason)


def test_the_catalogue_is_indexed_once():
    scorer = Backwards()
    reranker = Reranker(GARDEN, RerankSettings(method="heads", top_n=1), scorer=scorer)
    for _ in range(3):
        reranker.rerank("x")
    assert scorer.indexed == 1


def test_hits_below_the_floor_match_nothing():
    settings = RerankSettings(method="heads", top_n=2, floor=2.0)
    chosen = rerank(GARDEN, "xyz", settings=settings, scorer=Backwards())
    assert chosen.names == ("harvest_fruit", "getFrostWarning")
    assert not chosen.report.matched


def test_hits_that_are_no_candidates_are_passed_over():
    class Stranger(Backwards):
        def rank(self, queries, k):
            return [[Hit(Tool("x", "x"), 1.0)]]

    chosen = rerank(GARDEN, "mow the lawn", "heads", top_n=1, scorer=Stranger())
    assert chosen.names == ("mow_lawn",)
