"""Tools stuffed with the words of all others, among the tools of a small catalogue."""

import pytest
from tests.unit.rerank.catalogues import GARDEN, made

from toolheads.rerank import KeywordSettings, Reranker, RerankSettings

ASKED = {
    "put the tomato seeds into bed three": "plant_seeds",
    "water the plants in the front bed": "water_bed",
    "cut the dead branches off the old tree": "prune_tree",
    "the grass of the lawn is too long": "mow_lawn",
    "list all beds": "list_beds",
    "order two bags of compost": "order_compost",
    "will the coming night bring frost": "getFrostWarning",
    "pick the ripe fruit": "harvest_fruit",
}
WORDS = " ".join(f"{tool.name} {tool.description}".replace("_", " ") for tool in GARDEN)


def right(decoys, keyword=None):
    tools = [*made(*[(f"a_helper_{i}", WORDS) for i in range(decoys)]), *GARDEN]
    settings = RerankSettings(method="keyword", top_n=1, keyword=keyword or KeywordSettings())
    reranker = Reranker(tools, settings)
    return sum(reranker.rerank(text).names == (name,) for text, name in ASKED.items())


@pytest.mark.parametrize("decoys", [0, 1, 5])
def test_a_tool_that_holds_every_word_comes_first_for_none(decoys):
    assert right(decoys) == len(ASKED)


def test_without_a_look_at_length_it_comes_first_for_all():
    assert right(1, KeywordSettings(long=None)) == 0


def test_usual_tools_are_not_held_back():
    scores = {}
    for long in (None, 5.0):
        settings = RerankSettings(method="keyword", keyword=KeywordSettings(long=long))
        scores[long] = [Reranker(GARDEN, settings).rerank(text).names for text in ASKED]
    assert scores[None] == scores[5.0]
