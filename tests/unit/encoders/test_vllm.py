"""The calls that the in-process encoder makes, seen by a stand-in for the library."""

from __future__ import annotations

import os
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from tests.fake_embeddings_server import fake_vector

from toolheads.encoders.vllm import VllmEncoder
from toolheads.errors import ConfigError, EncoderError, MissingExtraError


class FakeVllm(ModuleType):
    """`vllm` with LLM and PoolingParams; records every call."""

    def __init__(self):
        super().__init__("vllm")
        self.loads: list[dict] = []
        self.embeds: list[tuple[list[str], dict]] = []
        self.shutdowns: list[dict] = []
        self.width = 32
        self.spoil = lambda vectors: vectors
        self.load_error: Exception | None = None
        self.embed_error: Exception | None = None
        fake = self

        class LLM:
            def __init__(self, **settings):
                if fake.load_error:
                    raise fake.load_error
                fake.loads.append(settings)
                core = SimpleNamespace(shutdown=lambda: fake.shutdowns.append(settings))
                self.llm_engine = SimpleNamespace(engine_core=core)

            def embed(self, prompts, **settings):
                if fake.embed_error:
                    raise fake.embed_error
                fake.embeds.append((prompts, settings))
                params = settings.get("pooling_params")
                width = params.dimensions if params else fake.width
                vectors = fake.spoil([(7 * fake_vector(t, width)).tolist() for t in prompts])
                return [SimpleNamespace(outputs=SimpleNamespace(embedding=v)) for v in vectors]

        self.LLM = LLM
        self.PoolingParams = SimpleNamespace


@pytest.fixture
def vllm(monkeypatch):
    fake = FakeVllm()
    monkeypatch.setitem(sys.modules, "vllm", fake)
    monkeypatch.setenv("VLLM_LOGGING_STREAM", "")
    monkeypatch.delenv("VLLM_LOGGING_STREAM")
    return fake


def test_nothing_is_loaded_before_the_first_use(vllm):
    encoder = VllmEncoder("m", dimensions=8)
    assert encoder.identity.width == 8
    assert vllm.loads == []


def test_the_model_is_loaded_once_as_a_pooling_model(vllm):
    encoder = VllmEncoder("m", revision="abc", engine={"tensor_parallel_size": 2})
    encoder.encode(["one"])
    encoder.encode(["two"])
    assert vllm.loads == [
        {
            "model": "m",
            "runner": "pooling",
            "revision": "abc",
            "dtype": "auto",
            "tensor_parallel_size": 2,
        }
    ]


def test_all_texts_go_in_one_call_and_come_back_with_length_one(vllm):
    texts = [f"text {i}" for i in range(500)]
    rows = VllmEncoder("m").encode(texts)
    assert vllm.embeds == [(texts, {"use_tqdm": False})]
    np.testing.assert_allclose(rows, [fake_vector(t) for t in texts], atol=1e-6)
    assert rows.dtype == np.float32


def test_truncation_and_dimensions_are_passed_on(vllm):
    encoder = VllmEncoder("m", truncation=77, dimensions=8)
    assert encoder.encode(["one"]).shape == (1, 8)
    (_, settings), *_ = vllm.embeds
    assert settings["tokenization_kwargs"] == {"truncate_prompt_tokens": 77}
    assert settings["pooling_params"].dimensions == 8


def test_the_width_is_learned_from_one_short_text(vllm):
    encoder = VllmEncoder("m")
    assert encoder.encode([]).shape == (0, 32)
    assert encoder.identity.width == 32
    assert [len(texts) for texts, _ in vllm.embeds] == [1]


def test_a_model_loaded_here_has_the_identity_that_a_server_of_it_has(vllm):
    pytest.importorskip("httpx")
    from toolheads.encoders.openai import OpenAIEncoder

    here = VllmEncoder("/models/qwen", name="qwen", revision="r", truncation=9)
    server = OpenAIEncoder("http://host", "qwen", revision="r", truncation=9, width=32)
    assert here.identity == server.identity
    assert VllmEncoder("m", dtype="float32").identity.dtype == "float32"


def test_the_log_of_the_library_keeps_off_stdout(vllm, monkeypatch):
    VllmEncoder("m").encode(["one"])
    assert os.environ["VLLM_LOGGING_STREAM"] == "ext://sys.stderr"
    monkeypatch.setenv("VLLM_LOGGING_STREAM", "ext://sys.stdout")
    VllmEncoder("m").encode(["one"])
    assert os.environ["VLLM_LOGGING_STREAM"] == "ext://sys.stdout"


def _set(row, value):
    def spoil(vectors):
        vectors[row] = value
        return vectors

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda vectors: vectors[1:], "'m' in vLLM must give 3 vectors, got 2"),
        (_set(1, [0.1] * 33), r"must give vectors of one width, got \[32, 33\]"),
        (_set(1, [float("nan")] * 32), "must be finite, got NaN or inf in 1 rows, first row 1"),
        (_set(2, [0.0] * 32), "must not give zero vectors, got 1 of 3"),
    ],
)
def test_vectors_that_cannot_be_used_are_refused(spoil, message, vllm):
    vllm.spoil = spoil
    with pytest.raises(EncoderError, match=message):
        VllmEncoder("m").encode(["one", "two", "three"])


def test_another_width_than_before_is_refused(vllm):
    encoder = VllmEncoder("m")
    encoder.encode(["one"])
    vllm.width = 48
    with pytest.raises(EncoderError, match=r"width 32, got \[48\]"):
        encoder.encode(["two"])


def test_a_failure_inside_the_library_is_one_clear_line(vllm):
    vllm.embed_error = ValueError("This model's maximum context\nlength is 256 tokens")
    with pytest.raises(
        EncoderError, match=r"'m' in vLLM failed on 2 texts: ValueError: .* length is"
    ):
        VllmEncoder("m").encode(["one", "two"])


def test_a_model_that_cannot_be_loaded_is_one_clear_line_and_may_be_tried_again(vllm):
    vllm.load_error = RuntimeError("CUDA out of memory")
    encoder = VllmEncoder("m")
    with pytest.raises(EncoderError, match="cannot load 'm': RuntimeError: CUDA out of memory"):
        encoder.encode(["one"])
    vllm.load_error = None
    assert encoder.encode(["one"]).shape == (1, 32)


def test_close_ends_the_engine_once_and_needs_none_to_be_there(vllm):
    VllmEncoder("m").close()
    encoder = VllmEncoder("m")
    encoder.encode(["one"])
    encoder.close()
    encoder.close()
    assert vllm.shutdowns == vllm.loads
    assert len(vllm.shutdowns) == 1


def test_after_close_every_call_is_an_encoder_error(vllm):
    encoder = VllmEncoder("m")
    encoder.encode(["one"])
    encoder.close()
    with pytest.raises(EncoderError, match="must be open, got a call after close"):
        encoder.encode(["one"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": ""}, "model must be a name on the hub or a folder, got ''"),
        ({"model": "m", "truncation": -1}, "truncation must be >= 0, got -1"),
        ({"model": "m", "dimensions": 0}, "dimensions must be >= 1, got 0"),
        ({"model": "m", "engine": {"runner": "generate"}}, "engine must not set runner"),
    ],
)
def test_a_setting_outside_its_rule_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        VllmEncoder(**settings)


def test_a_missing_vllm_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'toolheads\[vllm\]'"):
        VllmEncoder("m").encode(["one"])
