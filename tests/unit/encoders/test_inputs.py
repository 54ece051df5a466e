"""The check of texts that all encoders share."""

import pytest

from toolheads.encoders.inputs import checked_texts
from toolheads.errors import EncoderError


def test_texts_of_any_sequence_come_back_as_a_list():
    assert checked_texts(("a", "将", "🙂", ""), encoder="e") == ["a", "将", "🙂", ""]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("one text", "e: texts must be a sequence of str, got a single str"),
        (b"bytes", "e: texts must be a sequence of str, got a single bytes"),
        (["a", 5], r"e: texts\[1\] must be a str, got int"),
        (["a", None], r"e: texts\[1\] must be a str, got NoneType"),
        (["a", "b\ud800c"], r"e: texts\[1\] must be valid Unicode, got lone U\+D800 at 1"),
    ],
)
def test_what_no_encoder_can_read_is_named(texts, message):
    with pytest.raises(EncoderError, match=f"^{message}$"):
        checked_texts(texts, encoder="e")
