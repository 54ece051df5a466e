"""The encoder against the small server: requests, retries, time limits, threads."""

import logging
import sys
import threading
import time

import numpy as np
import pytest
from tests.fake_embeddings_server import FakeEmbeddingsServer, fake_vector

from toolheads.encoders.openai import OpenAIEncoder, Patience
from toolheads.encoders.openai.transport import _retry_after_s
from toolheads.errors import ConfigError, EncoderError, MissingExtraError

pytest.importorskip("httpx")

QUICK = Patience(timeout_s=60, backoff_s=0.005, most_backoff_s=0.01, retries=3)
TEXTS = [f"text number {i}" for i in range(40)]


@pytest.fixture
def server():
    with FakeEmbeddingsServer() as running:
        yield running


@pytest.fixture
def make(server):
    """Encoders on the server, closed afterwards."""
    made = []

    def make_one(**settings):
        made.append(OpenAIEncoder(server.url, server.model, **({"patience": QUICK} | settings)))
        return made[-1]

    yield make_one
    for encoder in made:
        encoder.close()


def test_rows_come_in_the_order_of_the_texts_with_many_batches_in_flight(server, make):
    server.delay_s = 0.03
    rows = make(batch_texts=3, concurrency=4).encode(TEXTS)
    np.testing.assert_allclose(rows, [fake_vector(t) for t in TEXTS], atol=1e-6)
    assert 1 < server.most_in_flight <= 4
    assert sorted(server.texts[1:]) == sorted(TEXTS), "each text is sent once"


def test_one_connection_is_kept_for_many_requests(server, make):
    encoder = make(concurrency=1, batch_texts=4)
    encoder.encode(TEXTS)
    encoder.encode(TEXTS)
    assert len(server.requests) == 21
    assert server.connections == 1


def test_the_width_is_learned_once_and_not_asked_for_when_it_is_given(server, make):
    encoder = make()
    assert encoder.identity.width == encoder.identity.width == 32
    assert len(server.requests) == 1
    assert make(width=32).identity.width == 32
    assert len(server.requests) == 1


def test_another_width_than_the_declared_one_is_refused(server, make):
    with pytest.raises(EncoderError, match="width 64, got 32"):
        make(width=64).encode(["one"])


def test_new_weights_of_another_width_are_refused_after_the_first_answer(server, make):
    encoder = make()
    encoder.encode(["one"])
    server.width = 48
    with pytest.raises(EncoderError, match="width 32, got 48"):
        encoder.encode(["two"])


def test_zero_texts_are_an_empty_array(make):
    assert make().encode([]).shape == (0, 32)


def test_only_what_is_set_is_sent(server, make):
    make(width=32).encode(["one"])
    assert server.requests[0].body.keys() == {"model", "input", "encoding_format"}
    assert "authorization" not in server.requests[0].headers


def test_truncation_and_dimensions_are_passed_through(server, make):
    server.matryoshka = True
    encoder = make(truncation=2, dimensions=8)
    rows = encoder.encode(["one two three"])
    assert server.requests[0].body["truncate_prompt_tokens"] == 2
    assert server.requests[0].body["dimensions"] == 8
    cut = fake_vector("one two")[:8]
    np.testing.assert_allclose(rows[0], cut / np.linalg.norm(cut), atol=1e-6)
    assert (encoder.identity.truncation, encoder.identity.width) == (2, 8)


def test_dimensions_that_the_model_does_not_have_are_the_servers_error(make):
    with pytest.raises(EncoderError, match=r"answered 400: .*does not support Matryoshka"):
        make(dimensions=8).encode(["one", "two"])


def test_the_address_is_no_part_of_the_identity(server, make):
    with FakeEmbeddingsServer() as other:
        moved = OpenAIEncoder(f"{other.address}/", other.model)
        assert moved.identity == make().identity
        moved.close()


@pytest.mark.parametrize(
    "fault", ["status:429", "status:500", "status:502", "status:503", "drop", "die"]
)
def test_a_passing_fault_is_tried_again_until_it_passes(fault, server, make):
    encoder = make(width=32)
    server.breaks(fault, times=3)
    assert encoder.encode(["one"]).shape == (1, 32)
    assert len(server.requests) == 4


def test_a_fault_that_stays_ends_after_the_last_retry_with_the_servers_words(server, make):
    encoder = make(width=32)
    server.breaks("status:503")
    with pytest.raises(EncoderError, match="503: loading the model; gave up after 4 attempts"):
        encoder.encode(["one"])
    assert len(server.requests) == 4


def test_a_server_that_asks_for_a_pause_gets_it(server, make):
    encoder = make(width=32)
    server.breaks("retry-after:0.3", times=1)
    start = time.monotonic()
    encoder.encode(["one"])
    assert time.monotonic() - start >= 0.3


def test_a_pause_longer_than_the_deadline_is_not_waited_for(server, make):
    encoder = make(width=32)
    server.breaks("retry-after:86400")
    with pytest.raises(EncoderError, match=r"slow down; gave up after 1 attempt .* wait 86400 s"):
        encoder.encode(["one"])
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7),
        ("1.5", 1.5),
        ("-3", 0),
        ("nan", 0),
        ("", 0),
        ("soon", 0),
        ("1e99", 1e6),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("Wed, 21 Oct 9999 07:28:00 GMT", 1e6),
    ],
)
def test_retry_after_is_read_as_seconds_or_a_date(value, seconds):
    assert _retry_after_s(value) == seconds


def test_pauses_grow_with_jitter_up_to_their_limit():
    patience = Patience(backoff_s=1, most_backoff_s=8)
    for attempt, whole in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 8), (5000, 8)]:
        pauses = [patience.pause_s(attempt) for _ in range(50)]
        assert whole / 2 <= min(pauses) < max(pauses) <= whole


def test_a_hanging_server_ends_at_the_deadline_with_all_retries_in_it(server, make):
    encoder = make(width=32, patience=Patience(timeout_s=0.5, deadline_s=1.2, backoff_s=0.01))
    server.breaks("hang")
    with pytest.raises(
        EncoderError, match=r"gave no answer within 0\.5 s; gave up after \d attempt"
    ):
        encoder.encode(["one"])  # without the deadline it would take all five retries
    assert len(server.requests) < 6


def test_a_slow_server_is_waited_for(server, make):
    server.delay_s = 0.4
    assert make(width=32).encode(["one"]).shape == (1, 32)
    assert len(server.requests) == 1


def test_a_refused_connection_is_tried_again_and_then_reported(server, make):
    encoder = make(width=32)
    server.stop()
    with pytest.raises(EncoderError, match=r"cannot be reached: .*gave up after 4 attempts"):
        encoder.encode(["one"])


def test_a_host_that_can_be_no_name_is_one_clear_error():
    encoder = OpenAIEncoder("http://a..b", "m", width=2, patience=Patience(retries=0))
    with pytest.raises(EncoderError, match="cannot be reached"):
        encoder.encode(["one"])
    encoder.close()


def test_a_server_that_comes_back_while_we_retry_is_used(server, make):
    patience = Patience(timeout_s=60, backoff_s=0.05, most_backoff_s=0.05, retries=100)
    encoder = make(patience=patience)
    encoder.encode(["one"])
    server.stop()
    back = threading.Timer(0.2, server.start)
    back.start()
    np.testing.assert_allclose(encoder.encode(["two"])[0], fake_vector("two"), atol=1e-6)
    back.join()


def test_a_server_that_dies_amid_the_batches_gives_no_partial_answer_and_is_used_again(
    server, make
):
    encoder = make(width=32, batch_texts=2, concurrency=3)
    encoder.encode(TEXTS[:6])
    server.breaks("die")
    with pytest.raises(EncoderError, match=r"lost the connection.*; batch texts\[\d+:\d+\]"):
        encoder.encode(TEXTS)
    server.stop()
    with pytest.raises(EncoderError, match="cannot be reached"):
        encoder.encode(TEXTS)
    server.recovers()
    server.start()
    np.testing.assert_allclose(encoder.encode(TEXTS), [fake_vector(t) for t in TEXTS], atol=1e-6)


def test_one_wrong_batch_among_many_fails_the_whole_call(server, make):
    encoder = make(width=32, batch_texts=4, concurrency=4)
    server.breaks("nan", times=1)
    with pytest.raises(EncoderError, match="must be finite"):
        encoder.encode(TEXTS)


def test_a_failure_does_not_wait_for_batches_that_hang(server, make):
    encoder = make(width=32, batch_texts=1, concurrency=2, patience=Patience(timeout_s=60))
    server.refused_word = "bad"
    server.breaks("hang", times=1)
    with pytest.raises(EncoderError, match="no bad here"):  # not: no answer within 60 s
        encoder.encode(["hangs", "bad", *TEXTS])


@pytest.mark.parametrize("row", [0, 17, 39])
def test_the_text_that_is_too_long_is_named(row, server, make):
    texts = list(TEXTS)
    texts[row] = "word " * 600
    with pytest.raises(EncoderError, match=rf"512 tokens.*; texts\[{row}\] is refused: 3000 char"):
        make(batch_texts=16).encode(texts)


def test_the_longest_text_of_a_batch_is_suspected_first(server, make):
    with pytest.raises(EncoderError, match=r"texts\[30\] is refused"):
        make(width=32).encode([*TEXTS[:30], "word " * 600, *TEXTS[30:]])
    assert len(server.requests) == 3, "the batch, a harmless text, the longest text"


def test_a_text_that_is_too_long_for_any_batch_is_named_too(server, make):
    texts = [*TEXTS[:5], "word " * 6000, *TEXTS[5:]]
    with pytest.raises(EncoderError, match=r"; texts\[5\] is refused: 30000 characters"):
        make(batch_tokens=1000, concurrency=1).encode(texts)


def test_a_single_text_that_is_refused_costs_one_request(server, make):
    encoder = make(width=32)
    with pytest.raises(EncoderError, match=r"512 tokens\.$"):
        encoder.encode(["word " * 600])
    assert len(server.requests) == 1


def test_a_text_that_is_refused_for_another_reason_is_found_by_halving(server, make):
    server.refused_word = "bad"
    texts = [*TEXTS[:21], "bad", *TEXTS[21:]]
    with pytest.raises(EncoderError, match=r"texts\[21\] is refused: 3 characters, starting 'bad'"):
        make().encode(texts)
    assert len(server.requests) <= 12


def test_a_batch_that_is_refused_as_a_whole_blames_no_text(server, make):
    server.most_texts = 8
    with pytest.raises(EncoderError, match=r"413: batch size 16 > .* 8; batch texts\[0:16\]$"):
        make(batch_texts=16, concurrency=1).encode(TEXTS)


def test_a_request_that_is_refused_whatever_the_text_blames_no_text(server, make):
    encoder = make(width=32, concurrency=1)
    server.breaks("status:400")
    with pytest.raises(EncoderError, match=r"cannot be understood; batch texts\[0:40\]$"):
        encoder.encode(TEXTS)
    assert len(server.requests) == 2, "the batch, and one harmless text"


def test_an_unknown_model_is_named(server):
    encoder = OpenAIEncoder(server.url, "nope")
    with pytest.raises(EncoderError, match=r"'nope' at http.*404: NotFoundError: The model `nope`"):
        encoder.encode(["one"])
    encoder.close()


def test_a_wrong_route_shows_what_the_server_says(server):
    encoder = OpenAIEncoder(f"{server.address}/v7", server.model)
    with pytest.raises(EncoderError, match="v7/embeddings answered 404: Not Found"):
        encoder.encode(["one"])
    encoder.close()


def test_the_key_opens_the_server_and_is_never_shown(server, make, caplog):
    caplog.set_level(logging.DEBUG)
    server.api_key = "s3cret-key"
    encoder = make(api_key="s3cret-key")
    encoder.encode(["one"])
    assert server.requests[0].headers["authorization"] == "Bearer s3cret-key"
    assert "s3cret" not in repr(encoder)
    assert "s3cret" not in caplog.text


def test_a_wrong_key_is_refused_and_not_shown_even_if_the_server_echoes_it(server, make):
    server.api_key = "another"
    with pytest.raises(EncoderError, match="answered 401: Unauthorized"):
        make(api_key="s3cret-key").encode(["one"])
    server.api_key = ""
    server.refused_word = "s3cret-key"
    with pytest.raises(EncoderError, match=r"answered 400: .*no \*\*\* here"):
        make(api_key="s3cret-key").encode(["s3cret-key"])


def test_the_key_of_the_environment_is_used(server, make, monkeypatch):
    monkeypatch.setenv("TOOLHEADS_API_KEY", "from-environment")
    make(width=32).encode(["one"])
    assert server.requests[0].headers["authorization"] == "Bearer from-environment"


def test_several_threads_may_use_one_encoder(server, make):
    encoder = make(batch_texts=5)
    got = {}

    def work(n):
        got[n] = encoder.encode([f"thread {n} text {i}" for i in range(20)])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n in range(4):
        want = [fake_vector(f"thread {n} text {i}") for i in range(20)]
        np.testing.assert_allclose(got[n], want, atol=1e-6)


def test_after_close_every_call_is_an_encoder_error(make):
    encoder = make(width=32)
    encoder.encode(["one"])
    encoder.close()
    encoder.close()
    with pytest.raises(EncoderError, match="must be open, got a call after close"):
        encoder.encode(["one"])


@pytest.mark.parametrize("text", ["将文件上传到云存储", "🙂 line\u2028break", "nul \0", "", " "])
def test_any_text_arrives_as_it_was(text, server, make):
    make().encode([text])
    assert server.texts[-1] == text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"truncation": -1}, "truncation must be >= 0, got -1"),
        ({"concurrency": 0}, "concurrency must be >= 1, got 0"),
        ({"batch_tokens": 0}, "batch_tokens must be >= 1, got 0"),
        ({"batch_texts": 0}, "batch_texts must be >= 1, got 0"),
        ({"dimensions": 0}, "dimensions must be >= 1, got 0"),
        ({"width": 0}, "width must be >= 1, got 0"),
        ({"dimensions": 8, "width": 16}, "width must equal dimensions, got 16 and 8"),
        ({"encoding_format": "bytes"}, "encoding_format must be one of base64, float, got 'bytes'"),
    ],
)
def test_a_setting_outside_its_rule_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        OpenAIEncoder("http://host", "m", **settings)


def test_an_empty_model_name_is_refused():
    with pytest.raises(ConfigError, match="model must be the name that the server serves"):
        OpenAIEncoder("http://host", "")


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_patience_must_be_positive_and_finite(value):
    with pytest.raises(ConfigError, match=r"patience\.timeout_s must be > 0 and finite"):
        Patience(timeout_s=value)


def test_a_long_timeout_leaves_room_for_a_second_try():
    assert Patience(timeout_s=7).batch_limit_s == 300
    assert Patience(timeout_s=600).batch_limit_s == 1200
    assert Patience(timeout_s=600, deadline_s=9).batch_limit_s == 9


def test_a_missing_httpx_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'toolheads\[openai\]'"):
        OpenAIEncoder("http://host", "m")
