import pytest
from tests.unit.rerank.catalogues import GARDEN

from toolheads.errors import ConfigError
from toolheads.rerank import Reranker, RerankSettings, Turns

LAWN = {"role": "user", "content": "mow the lawn"}
CALL = {"role": "assistant", "content": "I will."}
RESULT = {"role": "tool", "content": "done"}
COMPOST = {"role": "user", "content": "order compost"}


class Counting(Reranker):
    """Counts how often it is asked."""

    count = 0

    def rerank(self, message, **settings):
        self.count += 1
        return super().rerank(message, **settings)


def turns(top_n=1, **settings):
    reranker = Counting(GARDEN, RerankSettings(method="keyword", top_n=top_n))
    return reranker, Turns(reranker, **settings)


def test_tools_are_chosen_once_for_the_loop_of_a_turn():
    reranker, held = turns()
    note = {"role": "user", "content": "[System] be brief"}
    messages = [LAWN, CALL, RESULT, note, CALL, RESULT]
    lists = [held.tools(messages[:n]).names for n in range(1, 7)]
    assert set(lists) == {("mow_lawn",)}
    assert reranker.count == 1


def test_a_new_text_of_the_user_begins_a_turn_and_the_same_text_again_does():
    reranker, held = turns()
    held.tools([LAWN])
    assert held.tools([LAWN, CALL, COMPOST]).names == ("order_compost",)
    held.tools([LAWN, CALL, COMPOST, CALL, COMPOST])
    assert reranker.count == 3


def test_a_conversation_whose_beginning_was_cut_off_is_still_in_its_turn():
    reranker, held = turns()
    held.tools([COMPOST, CALL, LAWN])
    held.tools([LAWN, CALL, RESULT])
    assert reranker.count == 1


def test_over_turns_a_held_list_grows_at_its_end_alone():
    _, held = turns(hold="conversation")
    held.tools([LAWN])
    second = held.tools([LAWN, COMPOST])
    assert second.names == ("mow_lawn", "order_compost")
    assert second.report.held == ("mow_lawn",)
    assert second.report.listed == second.names
    third = held.tools([LAWN, COMPOST, LAWN])
    assert third.names == second.names


def test_a_held_list_that_would_be_too_long_starts_anew():
    _, held = turns(hold="conversation", most=1)
    held.tools([LAWN])
    assert held.tools([LAWN, COMPOST]).names == ("order_compost",)


def test_a_tool_that_was_used_stays():
    _, held = turns()
    held.tools([LAWN])
    held.used("mow_lawn")
    assert held.tools([LAWN, COMPOST]).names == ("mow_lawn", "order_compost")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hold": "day"}, "hold must be one of turn, conversation, got 'day'"),
        ({"most": 0}, "most must be a whole number >= 1, got 0"),
    ],
)
def test_settings_keep_their_rules(settings, message):
    with pytest.raises(ConfigError, match=message):
        turns(**settings)


def test_a_message_is_no_conversation():
    with pytest.raises(ConfigError, match="message must be a string or a list of messages"):
        turns()[1].tools(7)
