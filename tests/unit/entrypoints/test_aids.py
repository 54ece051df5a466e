"""What `toolheads serve` is given for decisions, and for reranking by a chat model."""

from __future__ import annotations

import argparse

import pytest
from tests.chat_server import ChatServer, said

pytest.importorskip("starlette", reason="needs the extra [serve]")

from toolheads.decide import PickerSettings
from toolheads.entrypoints.cli.aids import (
    add_aid_options,
    check_thresholds,
    floor_thresholds,
    made_aids,
)
from toolheads.errors import CalibrationError, ConfigError


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for prefix in ("TOOLHEADS_RERANK", "TOOLHEADS_CHAT"):
        for name in ("URL", "MODEL", "API_KEY", "PARAMETERS"):
            monkeypatch.delenv(f"{prefix}_{name}", raising=False)
    for name in ("TOOLHEADS_SERVER_KEY", "TOOLHEADS_API_KEY"):
        monkeypatch.setenv(name, "a-key-for-another-purpose")


def made(*words):
    parser = argparse.ArgumentParser()
    parser.add_argument("--deadline", type=float, default=30.0)
    add_aid_options(parser)
    return made_aids(parser.parse_args(list(words)))


def asked(server, *words):
    """The headers that a chat model is sent."""
    aids = made("--chat-url", server.url, "--chat-model", "m", *words)
    assert aids.chat is not None
    aids.chat.send([{"role": "user", "content": "hi"}], system="s")
    aids.close()
    return {name.lower(): value for name, value in server.headers[-1].items()}


def test_without_an_address_there_is_no_chat_model():
    assert made().chat is None


def test_the_keys_of_the_server_itself_and_of_its_encoder_are_sent_to_no_chat_model(monkeypatch):
    with ChatServer(said("[]")) as server:
        assert "authorization" not in asked(server)
        monkeypatch.setenv("TOOLHEADS_RERANK_API_KEY", "of-the-model")
        assert "authorization" not in asked(server)  # whose server that is, nothing says
        monkeypatch.setenv("TOOLHEADS_RERANK_URL", server.url)
        assert asked(server)["authorization"] == "Bearer of-the-model"


def test_the_environment_names_the_model_of_a_server(monkeypatch):
    with ChatServer(said("[]")) as server:
        monkeypatch.setenv("TOOLHEADS_CHAT_URL", server.url)
        monkeypatch.setenv("TOOLHEADS_CHAT_MODEL", "from-the-environment")
        aids = made("--chat-deadline", "3")
        assert aids.chat is not None
        aids.chat.send([{"role": "user", "content": "hi"}], system="s")
        aids.close()
    assert server.bodies[-1]["model"] == "from-the-environment"
    assert aids.llm.deadline_s == 3


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--chat-deadline", "30"), "below the deadline of 30 s, got 30"),
        (("--chat-deadline", "0"), "chat-deadline must be > 0"),
        (("--chat-url", "http://h"), "model must be that of a chat model"),
        (("--chat-url", "h", "--chat-model", "m"), "url must start with http"),
        (("--chat-parameters", "[]"), "chat-parameters must be a JSON object"),
        (("--thresholds", '{"flor": 1}'), "a setting must be one of"),
    ],
)
def test_options_that_break_their_rule_are_refused(words, reason):
    with pytest.raises(ConfigError, match=reason):
        made(*words)


def test_a_file_of_thresholds_that_is_missing_is_told():
    with pytest.raises(CalibrationError, match="must be a calibration file"):
        made("--thresholds", "nowhere.json")


def test_settings_of_ones_own_decide_and_set_no_floor():
    aids = made("--thresholds", '{"margin": 0.1}')
    assert aids.thresholds == PickerSettings(margin=0.1)
    assert floor_thresholds(aids) is None
    assert floor_thresholds(made()) == "packaged"
    assert floor_thresholds(made("--thresholds", "none")) is None


def test_resolve_is_not_offered_where_every_decision_would_fail():
    for words in ((), ("--thresholds", "none")):
        with pytest.raises(ConfigError, match="thresholds must be given to offer resolve"):
            check_thresholds(made(*words), {"scorer": "other"}, is_needed=True)
        check_thresholds(made(*words), {"scorer": "other"}, is_needed=False)
    check_thresholds(made("--thresholds", "{}"), None, is_needed=True)
