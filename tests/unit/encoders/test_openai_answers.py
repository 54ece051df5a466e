"""What an answer must be; each fault of the small server is one that some server has shown."""

import base64
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fake_embeddings_faults import FAULTS, STATUS_BODIES
from tests.fake_embeddings_server import FakeEmbeddingsServer, fake_vector

from toolheads.encoders.openai import OpenAIEncoder, Patience
from toolheads.encoders.openai.answers import read_rows, server_message
from toolheads.errors import EncoderError

pytest.importorskip("httpx")

ONCE = Patience(timeout_s=60, retries=0)

REASONS = {
    "nan": "finite, got NaN or inf in 1 rows",
    "inf": "finite, got NaN or inf in 1 rows",
    "huge-float": "finite, got NaN or inf in 1 rows",
    "zero": "zero vectors, got 1 of 3",
    "wrong-width": "width 32, got 33 for text 0",
    "one-wrong-width": "width 32, got 33 for text 2",
    "empty-vector": "width 32, got 0 for text 2",
    "too-few": "3 embeddings for 3 texts, got 2",
    "too-many": "3 embeddings for 3 texts, got 4",
    "duplicate-index": "each index of 0 to 2 exactly once, got 0 twice",
    "index-out-of-range": "each index of 0 to 2 exactly once, got 10000",
    "negative-index": "each index of 0 to 2 exactly once, got -1",
    "no-index": "each index of 0 to 2 exactly once, got None",
    "bool-index": "each index of 0 to 2 exactly once, got True",
    "null-vector": "base64 or a list of numbers, got None",
    "text-vector": "base64 of float32, got 'not base64!'",
    "odd-base64": "base64 of float32, got 'MTIzNDU='",
    "strings-in-vector": "list of numbers, got ['a', 'b']",
    "nested-vector": "list of numbers, got [[1.0], [2.0]]",
    "ragged-vector": "list of numbers, got [[1.0], [2.0, 3.0]]",
    "item-is-no-object": "exactly once, got None",
    "no-data": "without a list of embeddings: {}",
    "list-at-top": "without a list of embeddings: []",
    "null-at-top": "without a list of embeddings: null",
    "empty-body": "must answer JSON, got: an empty body",
    "html": "must answer JSON, got: <html><head><title>Welcome</title>",
    "error-with-200": "without a list of embeddings: EngineError: the engine is asleep",
    "deep-json": "must answer JSON, got: [[[[",
    "not-utf-8": "must answer JSON, got: ",
    "redirect": "answered 307: an empty body (redirects to http://127.0.0.1:9/elsewhere)",
    "no-content": "answered 204",
    "hang": "gave no answer within 1 s",
    "drip": "gave no answer within 1 s",
    "die": "lost the connection: ",
    "drop": "lost the connection: ",
    "endless": "must answer at most 4194304 bytes",
}


def test_every_fault_of_the_small_server_is_a_test():
    assert REASONS.keys() == FAULTS.keys()


@pytest.mark.parametrize("encoding_format", ["base64", "float"])
@pytest.mark.parametrize("fault", REASONS)
def test_a_wrong_answer_is_refused_with_its_reason_and_the_next_one_is_taken(
    fault, encoding_format
):
    patience = Patience(timeout_s=1, retries=0) if fault in ("hang", "drip") else ONCE
    with FakeEmbeddingsServer() as server:
        encoder = OpenAIEncoder(
            server.url,
            server.model,
            width=32,
            encoding_format=encoding_format,
            patience=patience,
        )
        server.breaks(fault, times=1)
        with pytest.raises(EncoderError) as e:
            encoder.encode(["one", "two", "three"])
        said = str(e.value)
        assert REASONS[fault] in said
        assert f"encoder 'fake-model' at {server.url}/embeddings " in said
        assert said.count("\n") == 0
        assert len(server.requests) == 1, "no second try for a wrong answer"
        if patience is ONCE:  # a machine under load may need more than the second
            assert encoder.encode(["one"]).shape == (1, 32)
        encoder.close()


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_is_not_tried_again_and_carries_the_servers_words(status):
    with FakeEmbeddingsServer() as server:
        encoder = OpenAIEncoder(server.url, server.model, width=32)
        server.breaks(f"status:{status}")
        with pytest.raises(EncoderError, match=f"answered {status}: ") as e:
            encoder.encode(["one"])
        assert server_message(STATUS_BODIES[status].encode()) in str(e.value)
        assert len(server.requests) == 1
        encoder.close()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            '{"error": {"message": "too\\nlong", "type": "BadRequestError"}}',
            "BadRequestError: too long",
        ),
        ('{"error": {"message": "m", "type": null}}', "m"),
        ('{"error": "Unauthorized"}', "Unauthorized"),
        ('{"detail": "Not Found"}', "Not Found"),
        ('{"detail": [{"msg": "field required"}]}', '[{"msg": "field required"}]'),
        ('{"object": "error", "message": "loading"}', "loading"),
        ("<html>\n<b>Bad Gateway</b>", "<html> <b>Bad Gateway</b>"),
        ("", "an empty body"),
        ("x" * 600, "x" * 500 + "…"),
    ],
)
def test_each_shape_of_error_body_is_read(body, said):
    assert server_message(body.encode()) == said


@pytest.mark.parametrize("ignores", [False, True])
def test_base64_and_plain_lists_give_the_same_vectors(ignores):
    with FakeEmbeddingsServer(ignores_base64=ignores) as server:
        encoder = OpenAIEncoder(server.url, server.model)
        rows = encoder.encode(["one", "two"])
        assert server.requests[-1].body["encoding_format"] == "base64"
        np.testing.assert_allclose(rows, [fake_vector("one"), fake_vector("two")], atol=1e-6)
        encoder.close()


def test_vectors_of_any_length_come_out_with_length_one():
    with FakeEmbeddingsServer(scale=1e-20) as server:
        encoder = OpenAIEncoder(server.url, server.model)
        rows = encoder.encode(["one"])
        np.testing.assert_allclose(rows[0], fake_vector("one"), atol=1e-6)
        encoder.close()


def test_a_server_that_ignores_truncation_is_found_by_its_token_count():
    with FakeEmbeddingsServer(ignores_truncation=True) as server:
        encoder = OpenAIEncoder(server.url, server.model, truncation=3, width=32)
        assert encoder.encode(["a b c", "a"]).shape == (2, 32)
        with pytest.raises(EncoderError, match="cut texts at 3 tokens, got 5 tokens used for 1"):
            encoder.encode(["a b c d e"])
        encoder.close()


@given(st.permutations(range(5)))
def test_rows_are_ordered_by_index_whatever_their_order(order):
    data = [{"index": i, "embedding": [float(i + 1), 1.0]} for i in order]
    body = json.dumps({"data": data}).encode()
    rows = read_rows(body, count=5, width=None, truncation=0)
    np.testing.assert_allclose(rows[:, 0] / rows[:, 1], [1, 2, 3, 4, 5], rtol=1e-5)


@given(st.binary(max_size=200))
def test_no_body_whatsoever_gives_anything_but_an_encoder_error(content):
    with pytest.raises(EncoderError):
        read_rows(content, count=1, width=None, truncation=0)


def test_base64_with_dirt_in_it_is_refused_and_not_read_around():
    clean = base64.b64encode(np.ones(4, "<f4").tobytes()).decode()
    body = json.dumps({"data": [{"index": 0, "embedding": f"{clean[:8]} !?{clean[8:]}"}]})
    with pytest.raises(EncoderError, match="must answer base64 of float32"):
        read_rows(body.encode(), count=1, width=4, truncation=0)


@pytest.mark.parametrize("embedding", ["", []])
def test_vectors_without_entries_are_refused_when_no_width_is_known(embedding):
    body = json.dumps({"data": [{"index": 0, "embedding": embedding}]})
    with pytest.raises(EncoderError, match="zero vectors"):
        read_rows(body.encode(), count=1, width=None, truncation=0)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(JSON, JSON)
def test_any_json_for_an_embedding_gives_unit_rows_or_an_encoder_error(embedding, usage):
    answer = {"data": [{"index": 0, "embedding": embedding}], "usage": usage}
    try:
        rows = read_rows(json.dumps(answer).encode(), count=1, width=None, truncation=4)
    except EncoderError:
        return
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
