import pytest
from tests.unit.rerank.llm.test_method import Hangs, Says

from toolheads.rerank import LlmSettings, probe


@pytest.mark.parametrize(
    ("reply", "names", "usable", "right"),
    [
        ('["set_reminder", "play_music"]', ("set_reminder", "play_music"), True, True),
        ('["play_music"]', ("play_music",), True, False),
        ('["dig"]', (), False, False),
        ("OK", (), False, False),
        ("", (), False, False),
    ],
)
def test_what_the_model_said_counts_and_nothing_else(reply, names, usable, right):
    probed = probe(Says(reply))
    assert (probed.names, probed.is_usable, probed.is_right) == (names, usable, right)
    assert (probed.reply, probed.error) == (reply, None)


def test_a_call_that_fails_is_no_success():
    probed = probe(Says(error=OSError("no route")))
    assert (probed.is_usable, probed.error) == (False, "no route")


def test_a_call_that_hangs_is_no_success():
    chat = Hangs()
    probed = probe(chat, LlmSettings(deadline_s=0.1))
    chat.left.set()
    assert not probed.is_usable
    assert probed.took_s >= 0.1
