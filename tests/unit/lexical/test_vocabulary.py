from toolheads.lexical.vocabulary import Vocabulary

WORDS = Vocabulary(["list", "mail", "send"], "light")


def test_terms_are_asked_in_their_own_order_whatever_that_of_the_words():
    for text in ("mails SENDING mail", "sent send Mail mails"):
        asked = WORDS.asked(text)
        assert asked.numbers.tolist() == [1, 2]
        assert asked.repeats.tolist() == [2, 1]


def test_terms_are_spelled_as_the_query_first_does():
    assert WORDS.asked("Sending MAILS by mail").spellings == ("mails", "sending")


def test_words_that_no_tool_has_are_not_asked_for():
    assert len(WORDS.asked("weather in Izmir")) == 0
    assert len(WORDS.asked("")) == 0


def test_a_query_knows_whether_it_repeats_itself():
    assert WORDS.asked("mail mails").has_repeats
    assert not WORDS.asked("mail list").has_repeats
