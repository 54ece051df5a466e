"""The encoder against a real vLLM server; see `tests/vllm/server.py` for how to name one."""

from __future__ import annotations

import json
import urllib.request

import numpy as np
import pytest
from tests.contract.encoder import CONTRACT, TEXTS, Setup
from tests.vllm.server import running_vllm

from toolheads.encoders.openai import OpenAIEncoder
from toolheads.errors import EncoderError

pytestmark = [pytest.mark.vllm, pytest.mark.slow]

LONG = "send the report about the harbour to the captain " * 60


@pytest.fixture(scope="module")
def vllm(tmp_path_factory):
    pytest.importorskip("httpx")
    with running_vllm(tmp_path_factory.mktemp("vllm")) as running:
        yield running


@pytest.fixture(scope="module")
def most_tokens(vllm):
    request = urllib.request.Request(
        f"{vllm.url}/v1/models", headers={"Authorization": f"Bearer {vllm.api_key}"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)["data"][0]["max_model_len"]


@pytest.fixture
def make(vllm):
    made = []

    def make_one(model="", **settings):
        arguments = {"api_key": vllm.api_key} | settings
        made.append(OpenAIEncoder(vllm.url, model or vllm.model, **arguments))
        return made[-1]

    yield make_one
    for encoder in made:
        encoder.close()


def cosines(one, two):
    return np.einsum("nd,nd->n", one, two)


@pytest.mark.parametrize("sentence", CONTRACT, ids=lambda f: f.__name__)
def test_it_keeps_the_contract(sentence, make, vllm):
    sentence(Setup(make, lambda: make(batch_texts=7, concurrency=2), vllm.model))


def test_its_vectors_are_those_of_the_local_encoder(make, vllm):
    pytest.importorskip("onnxruntime")
    from toolheads.encoders.local import LocalEncoder

    local = LocalEncoder(vllm.folder, threads=1)
    assert cosines(make().encode(TEXTS), local.encode(TEXTS)).min() >= 0.999


def test_its_vectors_are_those_of_sentence_transformers(make, vllm):
    pytest.importorskip("sentence_transformers")
    from toolheads.encoders.sentence_transformers import SentenceTransformersEncoder

    reference = SentenceTransformersEncoder(vllm.folder)
    assert cosines(make().encode(TEXTS), reference.encode(TEXTS)).min() >= 0.999


def test_truncation_cuts_at_the_same_token_as_the_local_encoder(make, vllm):
    pytest.importorskip("onnxruntime")
    from toolheads.encoders.local import LocalEncoder

    local = LocalEncoder(vllm.folder, truncation=16, threads=1)
    cut = make(truncation=16).encode([LONG, *TEXTS])
    assert cosines(cut, local.encode([LONG, *TEXTS])).min() >= 0.999
    whole = LocalEncoder(vllm.folder, threads=1).encode([LONG])
    assert cosines(cut[:1], whole).max() < 0.99, "the cut must show"


def test_a_text_that_is_too_long_is_named_with_the_servers_words(make, most_tokens):
    texts = [*TEXTS, "word " * (most_tokens + 10), *TEXTS]
    with pytest.raises(EncoderError, match=r"answered 400: .*maximum context length") as e:
        make().encode(texts)
    assert f"texts[{len(TEXTS)}] is refused" in str(e.value)


def test_truncation_beyond_the_model_is_refused(make, most_tokens):
    with pytest.raises(EncoderError, match="truncate_prompt_tokens value is greater"):
        make(truncation=most_tokens + 1).encode(["one"])


def test_an_unknown_model_is_refused(make):
    with pytest.raises(EncoderError, match=r"answered 404: NotFoundError: .*`nope` does not exist"):
        make(model="nope").encode(["one"])


def test_a_wrong_route_shows_what_the_server_says(vllm):
    encoder = OpenAIEncoder(f"{vllm.url}/v7", vllm.model, api_key=vllm.api_key)
    with pytest.raises(EncoderError, match=r"answered 40[14]: "):
        encoder.encode(["one"])
    encoder.close()


def test_base64_and_plain_lists_give_the_same_vectors(make):
    compact = make(encoding_format="base64").encode(TEXTS)
    plain = make(encoding_format="float").encode(TEXTS)
    assert cosines(compact, plain).min() >= 0.99999


def test_dimensions_are_refused_by_a_model_without_them(make):
    with pytest.raises(EncoderError, match=r"answered 400: .*[Mm]atryoshka"):
        make(dimensions=128).encode(["one", "two"])


def test_a_wrong_key_is_refused_and_not_shown(make, vllm):
    if not vllm.api_key:
        pytest.skip("the server asks for no key")
    with pytest.raises(EncoderError, match=r"answered 401: Unauthorized") as e:
        make(api_key="not-the-key").encode(["one"])
    assert "not-the-key" not in str(e.value)


def test_an_empty_text_has_a_vector(make):
    assert make().encode([""]).shape[0] == 1
