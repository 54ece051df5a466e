"""Several servers as one encoder: work goes to who is free, and none is lost with a server."""

from __future__ import annotations

import threading
import time
from collections import Counter

import numpy as np
import pytest
from tests.fake_embeddings_server import FakeEmbeddingsServer, fake_vector
from tests.hash_encoder import HashEncoder

from toolheads.bootstrap import encoder
from toolheads.embedder import Embedder
from toolheads.encoders.openai import OpenAIEncoder, Patience
from toolheads.encoders.replicas import ReplicaEncoder
from toolheads.errors import BackboneMismatchError, ConfigError, EncoderError
from toolheads.identity import PROBE_TEXTS

TEXTS = [f"text number {i}" for i in range(400)]
ROWS = np.stack([fake_vector(text) for text in TEXTS])


@pytest.fixture
def servers():
    with FakeEmbeddingsServer() as one, FakeEmbeddingsServer() as two:
        yield one, two


@pytest.fixture
def joined():
    """Joins servers to one encoder, and closes it."""
    made = []

    def join(*servers, timeout_s=10.0, **settings):
        patience = Patience(timeout_s=timeout_s, connect_timeout_s=1.0, retries=0, backoff_s=0.01)
        encoders = {
            server.url: OpenAIEncoder(server.url, server.model, patience=patience, concurrency=1)
            for server in servers
        }
        settings = {"piece_texts": 10, "in_flight": 2, "retry_s": 0.05, "wait_s": 0.5} | settings
        made.append(ReplicaEncoder(encoders, **settings))
        return made[-1]

    yield join
    for one in made:
        one.close()


def sent(*servers):
    """How often each text was asked for, the probe texts apart."""
    counts = Counter(text for server in servers for text in server.texts)
    return {text: n for text, n in counts.items() if text in set(TEXTS)}


def test_texts_are_shared_and_each_is_sent_once(servers, joined):
    for server in servers:
        server.delay_s = 0.01
    encoder = joined(*servers)
    np.testing.assert_allclose(encoder.encode(TEXTS), ROWS, atol=1e-6)
    assert sent(*servers) == dict.fromkeys(TEXTS, 1)
    assert sum(encoder.served.values()) == len(TEXTS)
    assert all(encoder.served.values())


def test_a_fast_server_does_more(servers, joined):
    one, two = servers
    one.delay_s, two.delay_s = 0.3, 0.002
    encoder = joined(one, two)
    encoder.encode(TEXTS)
    assert encoder.served[two.url] > 2 * encoder.served[one.url]


def test_a_server_that_dies_meanwhile_loses_nothing(servers, joined):
    one, two = servers
    one.delay_s = two.delay_s = 0.02
    encoder = joined(one, two)
    assert encoder.identity.width == 32

    def kill():
        while len(one.texts) < 60:
            time.sleep(0.005)
        one.stop()

    thread = threading.Thread(target=kill)
    thread.start()
    rows = encoder.encode(TEXTS)
    thread.join()
    np.testing.assert_allclose(rows, ROWS, atol=1e-6)
    assert set(encoder.troubles) == {one.url}
    assert set(sent(one, two)) == set(TEXTS)


def test_a_server_that_is_back_gets_work_again(servers, joined):
    one, two = servers
    one.stop()
    encoder = joined(one, two)
    encoder.encode(TEXTS[:50])
    assert encoder.served[one.url] == 0
    one.start()
    until = time.monotonic() + 20
    while encoder.troubles and time.monotonic() < until:
        time.sleep(0.02)
    two.delay_s = 0.2
    np.testing.assert_allclose(encoder.encode(TEXTS), ROWS, atol=1e-6)
    assert encoder.served[one.url] > 0


def test_a_server_that_hangs_is_not_waited_for(servers, joined):
    one, two = servers
    encoder = joined(one, two, steal_s=0.1, timeout_s=60.0)
    assert encoder.identity.width == 32
    one.breaks("hang")
    np.testing.assert_allclose(encoder.encode(TEXTS), ROWS, atol=1e-6)
    assert not encoder.troubles, "it was waited for until its time limit"
    one.recovers()
    one.stop()  # lets the requests that hang go


def test_a_server_that_fails_now_and_then_costs_no_text(servers, joined):
    one, two = servers
    encoder = joined(one, two)
    one.breaks("status:503", 3)
    two.breaks("status:500", 2)
    np.testing.assert_allclose(encoder.encode(TEXTS), ROWS, atol=1e-6)


def test_when_no_server_works_the_call_ends_with_the_reasons(servers, joined):
    one, two = servers
    encoder = joined(one, two, wait_s=0.2)
    encoder.encode(TEXTS[:20])
    one.stop()
    two.stop()
    with pytest.raises(EncoderError, match=f"got none of 2: .*{one.address}.*{two.address}"):
        encoder.encode(TEXTS)
    one.start()
    until = time.monotonic() + 20
    while one.url in encoder.troubles and time.monotonic() < until:
        time.sleep(0.02)
    np.testing.assert_allclose(encoder.encode(TEXTS), ROWS, atol=1e-6)


def test_when_no_server_works_at_the_start_that_is_told(servers, joined):
    for server in servers:
        server.stop()
    with pytest.raises(EncoderError, match="at least one server must work, got none of 2"):
        joined(*servers).encode(TEXTS)


def test_a_text_that_every_server_refuses_ends_the_call_and_not_the_servers(servers, joined):
    for server in servers:
        server.refused_word = "poison"
    encoder = joined(*servers)
    with pytest.raises(EncoderError, match="poison"):
        encoder.encode([*TEXTS, "a poison text"])
    assert not encoder.troubles
    np.testing.assert_allclose(encoder.encode(TEXTS), ROWS, atol=1e-6)


def test_a_server_with_other_weights_is_refused():
    encoder = ReplicaEncoder({"a": HashEncoder(), "b": HashEncoder(weights="two")})
    with pytest.raises(BackboneMismatchError, match="other weights"):
        encoder.encode(TEXTS)
    encoder = ReplicaEncoder({"a": HashEncoder(), "b": HashEncoder(width=8)})
    with pytest.raises(BackboneMismatchError):
        encoder.encode(TEXTS)


def test_calls_from_several_threads_get_their_own_rows(servers, joined):
    encoder = joined(*servers)
    found = {}
    threads = [
        threading.Thread(target=lambda i=i: found.update({i: encoder.encode(TEXTS[i::4])}))
        for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(4):
        np.testing.assert_allclose(found[i], ROWS[i::4], atol=1e-6)


def test_no_text_gives_no_row(servers, joined):
    assert joined(*servers).encode([]).shape == (0, 32)


def test_a_closed_encoder_says_so(servers, joined):
    encoder = joined(*servers)
    encoder.encode(TEXTS[:3])
    encoder.close()
    with pytest.raises(EncoderError, match="after close"):
        encoder.encode(TEXTS[:3])


@pytest.mark.parametrize("bad", ["in_flight", "piece_texts"])
def test_a_number_below_one_is_refused(servers, joined, bad):
    with pytest.raises(ConfigError, match=f"{bad} must be at least 1, got 0"):
        joined(*servers, **{bad: 0})


def test_an_address_list_makes_one_encoder_and_a_cache_is_filled_through_it(servers, tmp_path):
    one, two = servers
    made = encoder(url=f"{one.url}, {two.url},{one.url}", model=one.model)
    assert isinstance(made, ReplicaEncoder)
    try:
        assert made.served == {one.url: 0, two.url: 0}
        counts = Embedder(made, cache=tmp_path).fill(TEXTS)
        assert counts.embedded == len(TEXTS)
        assert set(sent(one, two)) == set(TEXTS)
        assert len(PROBE_TEXTS) * 2 <= len([*one.texts, *two.texts]) - len(TEXTS)
    finally:
        made.close()
