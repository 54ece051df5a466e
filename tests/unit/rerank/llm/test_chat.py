import json
from contextlib import closing

import pytest
from tests.chat_server import Answer, ChatServer, refused, said

from toolheads.errors import ChatError, ConfigError
from toolheads.rerank import ChatSettings, OpenAIChat

pytest.importorskip("httpx", reason="needs the extra [openai]")

HI = [{"role": "user", "content": "hi"}]
SCHEMA = {"type": "object"}
HELD = {"type": "object", "properties": {"tools": {"type": "array", "maxItems": 3}}}


def parts(body):
    """What a call holds that may be refused."""
    has = {"maxItems"} if "maxItems" in json.dumps(body) else set()
    if body["messages"][0]["role"] == "system":
        has.add("system")
    return has | set(body) - {"model", "messages"}


def ask(server, deadline_s=20.0, schema=SCHEMA, **settings):
    chat = OpenAIChat(ChatSettings(server.url, "m", **settings), deadline_s=deadline_s)
    with closing(chat):
        return chat.send(HI, system="Be brief.", reply_schema=schema)


def test_a_call_has_model_messages_and_what_holds_the_reply():
    with ChatServer(said("hello")) as server:
        assert ask(server, api_key="k") == "hello"
    (body,) = server.bodies
    assert body["model"] == "m"
    assert body["messages"] == [{"role": "system", "content": "Be brief."}, *HI]
    assert (body["temperature"], body["max_tokens"]) == (0.0, 1024)
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA
    assert server.headers[0]["Authorization"] == "Bearer k"


def test_parameters_win_over_the_defaults():
    with ChatServer(said("x")) as server:
        ask(server, parameters={"temperature": 1, "seed": 7})
    assert (server.bodies[0]["temperature"], server.bodies[0]["seed"]) == (1, 7)


def test_without_a_schema_the_reply_is_free():
    with ChatServer(said("x")) as server:
        ask(server, schema=None)
    assert "response_format" not in server.bodies[0]


def test_fields_that_a_server_refuses_are_dropped_one_after_the_other_and_for_good():
    no = refused("unknown field", 400)
    with ChatServer(no, refused("no schemas", 422), no, said("x")) as server:
        chat = OpenAIChat(ChatSettings(server.url, "m", parameters={"seed": 7}))
        for _ in range(2):
            assert chat.send(HI, system="", reply_schema=SCHEMA) == "x"
        chat.close()
    extra = [sorted(set(body) - {"model", "messages"}) for body in server.bodies]
    assert extra == [
        ["chat_template_kwargs", "max_tokens", "response_format", "seed", "temperature"],
        ["max_tokens", "response_format", "seed", "temperature"],
        ["max_tokens", "seed", "temperature"],
        ["seed"],
        ["seed"],
    ]


@pytest.mark.parametrize(
    ("refusal", "kept"),
    [
        ("In context=('tools',), 'maxItems' is not permitted in response_format", {"maxItems"}),
        ("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'", {"max_tokens"}),
        ("'temperature' does not support 0 with this model", {"temperature"}),
        ("response_format is not supported", {"response_format", "maxItems"}),
        ("chat_template_kwargs: extra inputs are not permitted", {"chat_template_kwargs"}),
        ("System role not supported", {"system"}),
        ("Conversation roles must alternate user/assistant/…", {"system"}),
    ],
)
def test_what_a_refusal_names_is_dropped_alone_and_for_good(refusal, kept):
    with ChatServer(refused(refusal), said("x")) as server:
        chat = OpenAIChat(ChatSettings(server.url, "m"))
        for _ in range(2):
            assert chat.send(HI, system="Be brief.", reply_schema=HELD) == "x"
        chat.close()
    first, *others = map(parts, server.bodies)
    assert len(others) == 2
    assert [first - other for other in others] == [kept, kept]


def test_a_system_message_that_is_not_taken_is_said_by_the_user():
    with ChatServer(refused("System role not supported"), said("x")) as server:
        ask(server)
    assert server.bodies[1]["messages"] == [{"role": "user", "content": "Be brief.\n\nhi"}]


def test_limits_of_a_schema_go_before_the_schema():
    no = refused("invalid request")
    with ChatServer(no, no, said("x")) as server:
        ask(server, schema=HELD)
    assert parts(server.bodies[1]) - parts(server.bodies[2]) == {"maxItems"}
    schema = server.bodies[2]["response_format"]["json_schema"]["schema"]
    assert schema == {"type": "object", "properties": {"tools": {"type": "array"}}}


@pytest.mark.parametrize(
    "refusal",
    [
        "request (9019 tokens) exceeds the available context size (8192 tokens)",
        "'max_tokens' is too large: 1024. The maximum context length is 2048 tokens",
    ],
)
def test_a_call_that_is_too_long_is_sent_once_more_without_room_for_a_long_reply(refusal):
    long = refused(refusal)
    with ChatServer(long, said("x"), said("y"), long) as server:
        chat = OpenAIChat(ChatSettings(server.url, "m"))
        assert [chat.send(HI, system="", reply_schema=HELD) for _ in range(2)] == ["x", "y"]
        with pytest.raises(ChatError, match="tokens"):
            chat.send(HI, system="", reply_schema=HELD)
        chat.close()
    first, second, third, *rest = map(parts, server.bodies)
    assert first - second == {"max_tokens"}
    assert third == first, "the next call is not too long"
    assert rest == [first, second]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (refused("bad key", 401), "answered 401: bad key"),
        (refused("no such model", 404), "answered 404: no such model"),
        (refused("always", 400), "answered 400: always"),
        (refused("overloaded", 500), "answered 500: overloaded"),
        (Answer(b"", 302, headers={"Location": "http://x/"}), "redirects to http://x/"),
        (Answer(b"<html>hello</html>", content_type="text/html"), "must answer JSON, got: <html>"),
        (Answer(b""), "must answer JSON, got: an empty body"),
        (Answer(b"[" * 100_000), "must answer JSON, got"),
        (Answer(b"{}"), "must answer a message with text, got: {}"),
        (Answer(b"7"), "must answer a message with text, got: 7"),
        (Answer(b'{"choices": []}'), "must answer a message with text"),
        (Answer(b'{"choices": [null]}'), "must answer a message with text"),
        (Answer(b'{"choices": [{"message": "x"}]}'), "must answer a message with text"),
        (said(None), "must answer a message with text"),
        (said(7), "must answer a message with text"),
        (Answer(b"{}" + b" " * (5 << 20)), "must answer at most"),
        (Answer(drops=True), "lost the connection"),
    ],
)
def test_what_is_no_answer_is_one_line_that_names_the_model(answer, message):
    with ChatServer(answer) as server, pytest.raises(ChatError) as raised:
        ask(server, api_key="secret")
    assert message in str(raised.value)
    assert str(raised.value).startswith("chat model 'm' at http://127.0.0.1")
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_text_in_blocks_is_put_together():
    blocks = [{"type": "text", "text": "a"}, {"type": "x"}, "y", {"text": "b"}]
    with ChatServer(said(blocks)) as server:
        assert ask(server) == "ab"


def test_a_server_that_hangs_is_left():
    with ChatServer(Answer(hangs=True)) as server, pytest.raises(ChatError, match="no answer"):
        ask(server, deadline_s=0.3)


def test_a_call_can_have_a_shorter_deadline_than_the_model():
    with ChatServer(Answer(hangs=True)) as server:
        chat = OpenAIChat(ChatSettings(server.url, "m"), deadline_s=60)
        with closing(chat), pytest.raises(ChatError, match=r"no answer within 0\.3 s"):
            chat.send(HI, system="", deadline_s=0.3)


def test_a_server_that_is_not_there_is_an_error():
    chat = OpenAIChat(ChatSettings("http://127.0.0.1:1", "m"), deadline_s=5)
    with closing(chat), pytest.raises(ChatError, match="cannot be reached"):
        chat.send(HI, system="")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (ChatSettings("", "m"), "url must be that of a chat model, got nothing"),
        (ChatSettings("http://x", ""), "model must be that of a chat model, got nothing"),
        (ChatSettings("ftp://x", "m"), "url must start with http:// or https://"),
    ],
)
def test_settings_that_name_no_model_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        OpenAIChat(settings)


def test_an_address_is_taken_as_people_type_it():
    for path in ("", "/", "/v1", "/v1/", "/v1/chat/completions"):
        with closing(OpenAIChat(ChatSettings(f"http://h:1{path}", "m"))) as chat:
            assert chat.url == "http://h:1/v1/chat/completions"
