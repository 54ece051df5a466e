import math

import pytest

from toolheads.errors import ConfigError
from toolheads.rerank import ChatSettings, LlmSettings, chat_settings

MAIN = ChatSettings("http://main:1/v1", "big", "k-main", {"temperature": 0.7})


def test_what_is_not_set_comes_from_the_main_model():
    assert ChatSettings().inheriting(MAIN) == MAIN


def test_another_model_of_the_same_server_takes_its_key_and_not_its_parameters():
    own = ChatSettings(model="small").inheriting(MAIN)
    assert own == ChatSettings("http://main:1/v1", "small", "k-main", None)


def test_a_key_is_never_sent_to_another_server():
    assert ChatSettings(url="http://other:1/v1").inheriting(MAIN).api_key is None
    assert ChatSettings(url="http://main:2/v1").inheriting(MAIN).api_key is None
    assert ChatSettings(url="HTTP://MAIN:1").inheriting(MAIN).api_key == "k-main"
    assert ChatSettings(url="http://[").inheriting(MAIN).api_key is None


def test_what_is_set_wins():
    own = ChatSettings("http://other/v1", "small", "", {"temperature": 0})
    assert own.inheriting(MAIN) == own


def test_arguments_win_over_own_variables_and_these_over_the_main_ones():
    environ = {
        "TOOLHEADS_CHAT_URL": "http://main/v1",
        "TOOLHEADS_CHAT_MODEL": "big",
        "TOOLHEADS_CHAT_API_KEY": "k",
        "TOOLHEADS_CHAT_PARAMETERS": '{"seed": 1}',
        "TOOLHEADS_RERANK_MODEL": "small",
    }
    read = chat_settings(environ=environ)
    assert (read.url, read.model, read.api_key, read.parameters) == (
        *("http://main/v1", "small", "k", None),
    )
    assert chat_settings(ChatSettings(model="tiny"), environ).model == "tiny"
    assert not chat_settings(environ={}).is_set


def test_a_key_does_not_show():
    assert "k-main" not in repr(MAIN)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"url": None}, "url must be text, got NoneType"),
        ({"api_key": 7}, "api_key must be text, got int"),
        ({"parameters": [1]}, "parameters must be an object, got list"),
        ({"parameters": {"model": "x"}}, "parameters must leave .*model.* out, got model"),
        ({"parameters": {"a": object()}}, "parameters must be JSON, got"),
        ({"parameters": {"a": math.nan}}, "parameters must be JSON, got"),
    ],
)
def test_settings_of_a_model_keep_their_rules(settings, message):
    with pytest.raises(ConfigError, match=message):
        ChatSettings(**settings)


@pytest.mark.parametrize("text", ["{", "[1]", "7"])
def test_parameters_of_the_environment_must_be_an_object(text):
    with pytest.raises(ConfigError, match="TOOLHEADS_CHAT_PARAMETERS must be a JSON object, got"):
        chat_settings(environ={"TOOLHEADS_CHAT_PARAMETERS": text})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"deadline_s": 0}, "deadline_s must be > 0 and finite, got 0"),
        ({"deadline_s": math.inf}, "deadline_s must be > 0 and finite, got inf"),
        ({"most_candidates": 0}, "most_candidates must be a whole number >= 1, got 0"),
        ({"description_chars": 1.5}, r"description_chars must be a whole number >= 1, got 1\.5"),
        ({"message_chars": True}, "message_chars must be a whole number >= 1, got True"),
        ({"first_stage": "llm"}, "first_stage must be one of keyword, heads, got 'llm'"),
        ({"order": "name"}, "order must be one of rank, catalogue, got 'name'"),
    ],
)
def test_settings_of_a_question_keep_their_rules(settings, message):
    with pytest.raises(ConfigError, match=message):
        LlmSettings(**settings)
