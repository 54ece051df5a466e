from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolheads.errors import ConfigError
from toolheads.plan import COMPATIBLE_ESTIMATE, ESTIMATE, named_counter, token_counter


@pytest.mark.parametrize(("chars", "tokens"), [(0, 1), (1, 1), (5, 1), (6, 2), (10, 2), (400, 100)])
def test_latin_without_accents_counts_a_quarter_and_halves_go_to_even(chars, tokens):
    assert ESTIMATE("x" * chars) == COMPATIBLE_ESTIMATE("x" * chars) == tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        # What the larger of OpenAI's cl100k_base and o200k_base counts.
        ("请帮我预订一张去北京的火车票", 15),
        ("図書館の開館時間を教えてください", 19),
        ("도서관은 몇 시에 문을 여나요", 14),
        ("Во сколько открывается библиотека", 16),  # noqa: RUF001
        ("متى تفتح المكتبة", 12),
        ("पुस्तकालय कब खुलता है", 22),
    ],
)
def test_no_script_is_counted_short(text, tokens):
    assert ESTIMATE(text) >= tokens
    assert ESTIMATE(text) > COMPATIBLE_ESTIMATE(text)


@given(st.lists(st.text(), min_size=1))
def test_weights_of_parts_add_up_to_that_of_the_whole(parts):
    assert sum(map(ESTIMATE.weight, parts)) == ESTIMATE.weight("".join(parts))


@given(st.text(), st.text())
def test_more_text_is_never_fewer_tokens(text, more):
    assert ESTIMATE(text + more) >= ESTIMATE(text) >= 1


def test_a_tokenizer_counts_exactly():
    """A byte-pair encoding with one pair, made here: no file to fetch."""
    tiktoken = pytest.importorskip("tiktoken", reason="needs the extra [tokens]")
    ranks = {bytes([i]): i for i in range(256)} | {b"ab": 256}
    encoding = tiktoken.Encoding(
        "made", pat_str=r"\S+|\s+", mergeable_ranks=ranks, special_tokens={}
    )
    count = token_counter(encoding)
    assert [count("ab ab"), count("ba"), count("é"), count("")] == [3, 2, 2, 0]


def test_text_that_looks_like_a_special_token_is_text():
    tiktoken = pytest.importorskip("tiktoken", reason="needs the extra [tokens]")
    ranks = {bytes([i]): i for i in range(256)}
    encoding = tiktoken.Encoding(
        "made", pat_str=r".", mergeable_ranks=ranks, special_tokens={"<|end|>": 256}
    )
    assert token_counter(encoding)("<|end|>") == 7


def test_a_file_of_tokenizers_counts_exactly_whatever_it_was_cut_to(tmp_path):
    tokenizers = pytest.importorskip("tokenizers", reason="needs the extra [local]")
    model = tokenizers.models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=8)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    for count in (named_counter(str(tmp_path)), token_counter(tokenizer)):
        assert count("a b a b a") == 5
    assert len(tokenizer.encode("a b a b a").ids) == 8  # the caller's own is as it was


def test_any_callable_counts():
    assert token_counter(len)("four") == 4
    assert token_counter(str.split)("two words") == 2


@pytest.mark.parametrize("bad", [3, "cl100k_base", object()])
def test_what_counts_nothing_is_refused(bad):
    with pytest.raises(ConfigError, match="tokenizer must be one of"):
        token_counter(bad)


@pytest.mark.parametrize("answer", [-1, 1.5, None, True])
def test_an_answer_that_is_no_number_is_refused_and_not_guessed_at(answer):
    with pytest.raises(ConfigError, match="tokenizer must give a number >= 0"):
        token_counter(lambda _: answer)("text")


@pytest.mark.parametrize(
    "name", ["", "cl100k_base", "tiktoken:", "tiktoken:no_such_encoding", "no/such.json"]
)
def test_a_tokenizer_that_is_not_there_is_one_line(name):
    pytest.importorskip("tiktoken", reason="needs the extra [tokens]")
    with pytest.raises(ConfigError, match="tokenizer") as caught:
        named_counter(name)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_tokenizer_is_one_line(tmp_path):
    pytest.importorskip("tokenizers", reason="needs the extra [local]")
    (tmp_path / "t.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"must be a file of the library tokenizers"):
        named_counter(str(tmp_path / "t.json"))
