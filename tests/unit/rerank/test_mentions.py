import pytest
from tests.unit.rerank.catalogues import GARDEN, made

from toolheads.domain import Tool
from toolheads.rerank import mentioned

TOOLS = [
    *GARDEN,
    *made(("alarm", ""), ("GitHub", ""), ("lawn-care-tips", ""), ("浇水", ""), ("bed", "")),
    *[Tool("shed/list_beds", "list_beds", "shed"), Tool("shed/open", "open", "shed")],
]


def names(message, **settings):
    return [TOOLS[row].id for row in mentioned(TOOLS, message, **settings)]


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("first prune_tree, then mow_lawn", ["prune_tree", "mow_lawn"]),
        ("RUN PRUNE_TREE NOW", ["prune_tree"]),
        ("use-prune_tree-now", ["prune_tree"]),
        ("xprune_tree prune_trees my_prune_tree", []),
        ("call getFrostWarning", ["getFrostWarning"]),
        ("call getfrostwarning", []),
        ("an alarm on github", []),
        ("an `alarm` on 'GitHub'", ["alarm", "GitHub"]),
        ("GitHub", ["GitHub"]),
        ("alarm ", ["alarm"]),
        ("use lawn-care-tips", ["lawn-care-tips"]),
        ("请用「浇水」", ["浇水"]),
        ("请浇水", []),
        ("shed/open and shed", ["shed/open"]),
        ("list_beds", ["list_beds", "shed/list_beds"]),
        ("shed/list_beds please", ["shed/list_beds"]),
        ("", []),
    ],
)
def test_identifiers_and_marked_words_name_tools(message, found):
    assert names(message) == found


def test_every_word_can_count_or_none():
    assert names("an alarm on github", mentions="words") == ["alarm", "GitHub"]
    assert names("prune_tree", mentions="none") == []


def test_letters_that_grow_in_lower_case_move_nothing():
    assert names("İİİ getFrostWarning İ prune_tree") == ["getFrostWarning", "prune_tree"]


def test_an_empty_name_names_nothing():
    assert mentioned([Tool("", " ")], "a b") == ()
