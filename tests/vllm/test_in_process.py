"""The in-process encoder with the real library. A CPU build of it will do, though slowly."""

from __future__ import annotations

import numpy as np
import pytest
from tests.contract.encoder import CONTRACT, TEXTS, Setup
from tests.vllm.server import model_folder

from toolheads.encoders.vllm import VllmEncoder
from toolheads.errors import EncoderError

pytestmark = [pytest.mark.gpu, pytest.mark.vllm, pytest.mark.slow]


@pytest.fixture(scope="module")
def encoder():
    pytest.importorskip("vllm")
    made = VllmEncoder(str(model_folder()), name="minilm", engine={"enforce_eager": True})
    yield made
    made.close()


@pytest.mark.parametrize("sentence", CONTRACT, ids=lambda f: f.__name__)
def test_it_keeps_the_contract(sentence, encoder):
    sentence(Setup(lambda: encoder, lambda: encoder, "minilm"))


def test_its_vectors_are_those_of_the_local_encoder(encoder):
    pytest.importorskip("onnxruntime")
    from toolheads.encoders.local import LocalEncoder

    local = LocalEncoder(model_folder(), threads=1)
    assert np.einsum("nd,nd->n", encoder.encode(TEXTS), local.encode(TEXTS)).min() >= 0.999


def test_a_text_that_is_too_long_is_refused_and_the_next_call_works(encoder):
    with pytest.raises(EncoderError, match="failed on 2 texts: "):
        encoder.encode(["word " * 100_000, "short"])
    assert encoder.encode(["short"]).shape[0] == 1
