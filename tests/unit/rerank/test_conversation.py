from typing import Any

import pytest

from toolheads.errors import ConfigError
from toolheads.rerank import latest_user_text
from toolheads.rerank.conversation import user_texts


def user(content):
    return {"role": "user", "content": content}


def block(text):
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([], ""),
        ([user("a"), {"role": "assistant", "content": "b"}], "a"),
        ([user("a"), user("b")], "b"),
        ([user("a"), user("[System] b")], "a"),
        ([user("a"), user("[System]b")], "[System]b"),
        ([user("a"), user("")], ""),
        ([user("a"), user(None)], "a"),
        ([user("a"), user(7)], "a"),
        ([user("a"), user(b"bytes")], "a"),
        (
            [
                user(
                    [
                        {"type": "text", "text": "a"},
                        {"type": "image"},
                        {"type": "text", "text": "b"},
                    ]
                )
            ],
            "a\nb",
        ),
        ([user("a"), user([{"type": "tool_result", "content": "b"}])], "a"),
        ([user("a"), user([block(" ")])], "a"),
        ([user("a"), user([block("[System] b")])], "a"),
        ([user("a"), user(["b", block(7)])], "a"),
    ],
)
def test_the_newest_text_of_the_user_counts(messages, text):
    assert latest_user_text(messages) == text


def test_texts_come_newest_first():
    assert list(user_texts([user("a"), user("b")])) == ["b", "a"]
    assert list(user_texts("a")) == ["a"]
    assert list(user_texts(None)) == []


@pytest.mark.parametrize("bad", [7, b"a", {"role": "user"}])
def test_what_is_no_conversation_is_refused(bad):
    with pytest.raises(ConfigError, match="message must be a string or a list of messages, got"):
        list(user_texts(bad))


def test_what_is_no_message_is_named_with_its_place():
    bad: Any = [user("a"), "b"]
    with pytest.raises(ConfigError, match=r"messages\[1\] must be an object, got str"):
        list(user_texts(bad))
