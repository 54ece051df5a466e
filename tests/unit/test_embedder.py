import logging

import numpy as np
import pytest
from tests.hash_encoder import HashEncoder

from toolheads.cache import VectorCache
from toolheads.domain import Tool
from toolheads.embedder import Embedder
from toolheads.errors import BackboneMismatchError, ConfigError, EncoderError
from toolheads.identity import PROBE_TEXTS
from toolheads.texts import TextSettings

TEXTS = [f"text number {i}" for i in range(50)]


class ManualClock:
    """Time that passes only where a test says so."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Spy(HashEncoder):
    """Counts calls, lets time pass in each, and does what the test says at one of them."""

    def __init__(self, clock=None, seconds=0.0, fail_at=None, error=None):
        super().__init__()
        self.calls = []
        self._clock, self._passing = clock, seconds
        self._fail_at, self._error = fail_at, error

    def encode(self, texts):
        self.calls.append(len(texts))
        if self._clock:
            self._clock.now += self._passing
        if self._fail_at == len(self.calls):
            raise self._error
        return super().encode(texts)


class Answers(HashEncoder):
    """Gives the same answer to everything but the probe."""

    def __init__(self, answer):
        super().__init__(width=2)
        self.answer = answer

    def encode(self, texts):
        return super().encode(texts) if texts == PROBE_TEXTS else self.answer


def shard_sizes(embedder):
    assert embedder.cache is not None
    return [len(rows) for _, rows in embedder.cache.matrix().blocks()]


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("with_cache", [True, False])
def test_equal_texts_are_sent_once_and_come_back_in_order(tmp_path, with_cache, keep):
    encoder = HashEncoder()
    embedder = Embedder(encoder, cache=tmp_path if with_cache else None)
    vectors = embedder.embed(["b", "a", "b", "b"], keep=keep)
    assert sorted(set(encoder.sent) - set(PROBE_TEXTS)) == ["a", "b"]
    assert encoder.count == 2 + (len(PROBE_TEXTS) if with_cache else 0)
    expected = HashEncoder().encode(["b", "a", "b", "b"])
    np.testing.assert_allclose(vectors, expected, atol=2e-3)  # float16


def test_a_second_run_sends_nothing_but_the_probe_and_gives_equal_vectors(tmp_path):
    first = Embedder(HashEncoder(), cache=tmp_path).embed(TEXTS)
    encoder = HashEncoder()
    np.testing.assert_array_equal(Embedder(encoder, cache=tmp_path).embed(TEXTS), first)
    assert encoder.sent == list(PROBE_TEXTS)


def test_what_is_not_kept_is_as_precise_as_what_is(tmp_path):
    fresh = Embedder(HashEncoder(), cache=tmp_path / "a").embed(TEXTS, keep=False)
    stored = Embedder(HashEncoder(), cache=tmp_path / "b").embed(TEXTS)
    np.testing.assert_array_equal(fresh, stored)


def test_what_is_not_kept_is_still_looked_up(tmp_path):
    Embedder(HashEncoder(), cache=tmp_path).embed(["a"])
    for _ in range(2):
        encoder = HashEncoder()
        Embedder(encoder, cache=tmp_path).embed(["a", "b"], keep=False)
        assert encoder.sent == [*PROBE_TEXTS, "b"]


def test_counts_say_what_was_reused(tmp_path):
    embedder = Embedder(HashEncoder(), cache=tmp_path)
    embedder.embed(["a", "b"])
    counts = embedder.fill(["a", "c", "d", "c"])
    assert (counts.texts, counts.unique, counts.reused, counts.embedded) == (4, 3, 1, 2)


def test_filling_without_a_cache_is_an_error():
    with pytest.raises(ConfigError, match="cache must be given to fill it, got None"):
        Embedder(HashEncoder()).fill(["a"])


def test_a_chunk_is_stored_after_so_many_texts(tmp_path):
    embedder = Embedder(HashEncoder(), cache=tmp_path, chunk_texts=20)
    embedder.embed(TEXTS)
    assert shard_sizes(embedder) == [20, 20, 10]


def test_a_chunk_is_stored_after_so_much_time(tmp_path):
    clock = ManualClock()
    encoder = Spy(clock, seconds=9)  # each call is long, so that the next one is half as large
    texts = [str(i) for i in range(200)]
    embedder = Embedder(encoder, cache=tmp_path, chunk_seconds=25, clock=clock)
    embedder.embed(texts)
    assert encoder.calls[:7] == [len(PROBE_TEXTS), 64, 32, 16, 8, 4, 2]
    assert shard_sizes(embedder)[:2] == [64 + 32 + 16, 8 + 4 + 2]


def test_calls_grow_with_a_fast_encoder():
    encoder = Spy()
    Embedder(encoder).embed([str(i) for i in range(1000)])
    assert encoder.calls == [64, 128, 256, 512, 40]


@pytest.mark.parametrize("error", [EncoderError("gone"), KeyboardInterrupt()])
def test_an_interrupted_run_keeps_the_calls_that_were_finished(tmp_path, error):
    texts = [str(i) for i in range(500)]
    stopped = Spy(fail_at=4, error=error)  # after the probe and 64 + 128 texts
    with pytest.raises(type(error)):
        Embedder(stopped, cache=tmp_path).embed(texts)
    encoder = HashEncoder()
    vectors = Embedder(encoder, cache=tmp_path).embed(texts)
    assert encoder.count == len(PROBE_TEXTS) + 500 - 64 - 128
    uninterrupted = Embedder(HashEncoder(), cache=tmp_path / "other").embed(texts)
    np.testing.assert_array_equal(vectors, uninterrupted)


def test_a_damaged_shard_is_embedded_again_and_not_served(tmp_path, caplog):
    embedder = Embedder(HashEncoder(), cache=tmp_path, chunk_texts=20)
    before = embedder.embed(TEXTS)
    path = next(tmp_path.glob("*/float16/*"))
    content = bytearray(path.read_bytes())
    content[-700] ^= 0x40
    path.write_bytes(content)
    encoder = HashEncoder()
    with caplog.at_level(logging.WARNING):
        after = Embedder(encoder, cache=tmp_path).embed(TEXTS)
    np.testing.assert_array_equal(after, before)
    assert encoder.count - len(PROBE_TEXTS) in (10, 20)
    assert str(path) in caplog.text


def test_progress_is_told_from_zero_to_all(tmp_path):
    told = []
    embedder = Embedder(HashEncoder(), cache=tmp_path, progress=lambda *x: told.append(x))
    embedder.embed([str(i) for i in range(100)])
    assert told == [(0, 100), (64, 100), (100, 100)]


def test_other_weights_behind_the_same_name_are_refused_before_a_vector_is_mixed(tmp_path):
    Embedder(HashEncoder(weights="one"), cache=tmp_path).embed(["a"])
    other = Embedder(HashEncoder(weights="two"), cache=tmp_path)
    with pytest.raises(BackboneMismatchError, match="made with other weights"):
        other.embed(["b"])


def test_an_open_cache_of_another_encoder_is_refused(tmp_path):
    first = Embedder(HashEncoder(), cache=tmp_path)
    with pytest.raises(BackboneMismatchError, match="model 'hash' != 'other'"):
        Embedder(HashEncoder(model="other"), cache=first.cache)


def test_an_open_cache_of_the_same_encoder_is_used(tmp_path):
    encoder = HashEncoder()
    first = Embedder(encoder)
    cache = VectorCache.open(tmp_path, first.fingerprint, first.probe(), dtype="float32")
    vectors = Embedder(encoder, cache=cache).embed(["a"])
    np.testing.assert_array_equal(vectors, encoder.encode(["a"]))


def test_the_probe_is_embedded_once():
    encoder = HashEncoder()
    embedder = Embedder(encoder)
    embedder.probe()
    np.testing.assert_array_equal(embedder.probe(), HashEncoder().encode(PROBE_TEXTS))
    assert encoder.sent == list(PROBE_TEXTS)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (np.ones((1, 3)), r"vectors of encoder hash must have shape \(n, 2\), got \(1, 3\)"),
        (np.ones((2, 2)), "must give one vector for each text, 1, got 2"),
        (np.zeros((1, 2)), "must give no zero vector, got 1, first for 'a'"),
        (np.array([[np.nan, 1]]), "must be finite, got NaN or inf in 1 rows"),
        (np.array([["x", "y"]]), "must hold real numbers"),
    ],
)
@pytest.mark.parametrize("with_cache", [True, False])
def test_an_answer_that_cannot_be_used_is_an_error_of_the_encoder(
    tmp_path, with_cache, answer, message
):
    embedder = Embedder(Answers(answer), cache=tmp_path if with_cache else None)
    with pytest.raises(EncoderError, match=message):
        embedder.embed(["a"])


@pytest.mark.parametrize("bad", [np.nan, 0.0], ids=["NaN", "zero"])
def test_a_bad_answer_is_not_remembered_once_the_encoder_is_well_again(tmp_path, bad):
    encoder = Answers(np.full((1, 2), bad))
    embedder = Embedder(encoder, cache=tmp_path)
    with pytest.raises(EncoderError):
        embedder.embed(["a"])
    encoder.answer = np.array([[0.0, 1.0]])
    np.testing.assert_array_equal(embedder.embed(["a"]), [[0, 1]])
    np.testing.assert_array_equal(Embedder(encoder, cache=tmp_path).embed(["a"]), [[0, 1]])


@pytest.mark.parametrize("method", [Embedder.embed, Embedder.fill])
def test_one_str_in_place_of_a_list_is_refused(method):
    with pytest.raises(ConfigError, match="must be a sequence of texts, got one str 'weather'"):
        method(Embedder(HashEncoder()), "weather")


def test_a_chunk_of_no_texts_is_refused():
    with pytest.raises(ConfigError, match="chunk_texts must be >= 1, got 0"):
        Embedder(HashEncoder(), chunk_texts=0)


def test_tools_have_one_matrix_for_each_view():
    tools = [Tool("1", "getWeather", description="Weather of a city. Daily."), Tool("2", "mail")]
    encoder = HashEncoder()
    vectors = Embedder(encoder).tools(tools, ("text", "name", "summary"))
    expected = {
        "text": ["get Weather: Weather of a city. Daily.", "mail"],
        "name": ["get Weather", "mail"],
        "summary": ["Weather of a city.", "mail"],
    }
    for view, texts in expected.items():
        np.testing.assert_allclose(vectors[view], encoder.encode(texts), atol=1e-6)


def test_no_tools_have_a_matrix_without_rows_for_each_view():
    vectors = Embedder(HashEncoder()).tools([], ("text", "name"))
    assert {view: rows.shape for view, rows in vectors.items()} == {
        "text": (0, 16),
        "name": (0, 16),
    }


def test_clauses_of_a_query_are_the_rows_between_its_offsets():
    encoder = HashEncoder()
    one, two = "Book a table. Then write a mail to Ann.", "What is the weather?"
    embedded = Embedder(encoder).queries([one, two, one], with_clauses=True)
    np.testing.assert_array_equal(embedded.offsets, [0, 2, 2, 4])
    np.testing.assert_allclose(embedded.whole, encoder.encode([one, two, one]), atol=1e-6)
    clauses = encoder.encode(["Book a table.", "Then write a mail to Ann."])
    np.testing.assert_allclose(embedded.clauses[2:4], clauses, atol=1e-6)


def test_queries_without_clauses_have_empty_offsets():
    embedded = Embedder(HashEncoder()).queries(["Do this here. Do that there."], with_clauses=False)
    assert embedded.clauses.shape == (0, 16)
    np.testing.assert_array_equal(embedded.offsets, [0, 0])


def test_no_queries_are_fine():
    embedded = Embedder(HashEncoder()).queries([], with_clauses=True)
    assert (embedded.whole.shape, embedded.clauses.shape) == ((0, 16), (0, 16))
    np.testing.assert_array_equal(embedded.offsets, [0])


def test_queries_are_written_in_the_query_format():
    encoder = HashEncoder()
    Embedder(encoder, TextSettings(instruction="Find a tool")).queries(["hi"], with_clauses=True)
    assert encoder.sent == ["Instruct: Find a tool\nQuery:hi"]
