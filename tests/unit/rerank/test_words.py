import pytest

from toolheads.domain import Tool
from toolheads.rerank.words import (
    ascii_words,
    query_search_words,
    tool_search_words,
    with_parts,
)

STOP = {"the", "my"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, []),
        ("", []),
        ("Prune THE tree, the tree", ["prune", "tree", "tree"]),
        ("a 3d b2 _x_y", ["b2", "x_y"]),
        ("Bäume gießen", ["ume", "gie", "en"]),
        ("деревья 木", []),
    ],
)
def test_ascii_words_start_with_a_letter_and_have_two(text, words):
    assert ascii_words(text, STOP) == words


def test_parts_follow_all_words_and_may_be_one_letter():
    assert with_parts(["water_bed", "the_x_", "tree"], STOP) == [
        *("water_bed", "the_x_", "tree"),
        *("water", "bed", "x"),
    ]


def test_search_words_of_a_tool_come_from_its_server_and_parameters_too():
    schema = {"properties": {"bedNumber": {"description": "which one"}}}
    words = tool_search_words(Tool("t", "waterBeds", "garden", "Waters plants.", schema))
    assert words >= query_search_words("garden waterbeds water bed plant number")


def test_a_query_of_stop_words_alone_keeps_them():
    assert query_search_words("who is it") == {"who", "is", "it"}
