"""How texts are packed into requests."""

from hypothesis import given
from hypothesis import strategies as st

from toolheads.encoders.openai.batching import estimated_tokens, packed


def sizes(texts, **limits):
    return [len(batch) for batch in packed(texts, **limits)]


def test_a_batch_ends_at_the_most_texts():
    assert sizes(["a"] * 5, most_tokens=1000, most_texts=2, truncation=0) == [2, 2, 1]


def test_a_batch_ends_before_the_most_tokens():
    text = "a" * 24  # 2 + 24 // 3 = 10 tokens
    assert sizes([text] * 5, most_tokens=25, most_texts=100, truncation=0) == [2, 2, 1]


def test_a_text_beyond_the_most_tokens_travels_alone():
    assert sizes(["a", "b" * 900, "c"], most_tokens=50, most_texts=9, truncation=0) == [1, 1, 1]


def test_truncation_caps_what_a_text_counts():
    assert sizes(["b" * 9000] * 4, most_tokens=64, most_texts=9, truncation=32) == [2, 2]


def test_chinese_text_counts_at_least_a_token_for_each_character():
    assert estimated_tokens("将文件上传到云存储" * 100) >= 900


def test_english_text_is_not_counted_ten_times_too_high():
    text = "get the weather forecast for a city " * 10  # 70 words
    assert 70 <= estimated_tokens(text) <= 210


def test_no_texts_are_no_batches():
    assert packed([], most_tokens=1, most_texts=1, truncation=0) == []


@given(st.lists(st.text(max_size=60)), st.integers(1, 80), st.integers(1, 7), st.integers(0, 20))
def test_batches_cover_all_texts_once_in_order_and_keep_the_limits(texts, tokens, most, cut):
    batches = packed(texts, most_tokens=tokens, most_texts=most, truncation=cut)
    assert [i for batch in batches for i in batch] == list(range(len(texts)))
    for batch in batches:
        cost = sum(min(estimated_tokens(texts[i]), cut or 10**9) for i in batch)
        assert 1 <= len(batch) <= most
        assert cost <= tokens or len(batch) == 1
