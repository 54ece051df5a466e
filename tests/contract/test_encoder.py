"""Runs the `Encoder` contract against every adapter, and against encoders broken on purpose."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from tests.contract.encoder import CONTRACT, Setup
from tests.fake_embeddings_server import FakeEmbeddingsServer, fake_vector
from tests.tiny_bert import POSITIONS, write_tiny_bert

from toolheads.arrays import Floats
from toolheads.encoders.inputs import checked_texts
from toolheads.errors import EncoderError
from toolheads.identity import EncoderIdentity

WIDTH = 64


def openai_setup(stack: ExitStack, _folder: Path) -> Setup:
    pytest.importorskip("httpx")
    from toolheads.encoders.openai import OpenAIEncoder

    here, there = (stack.enter_context(FakeEmbeddingsServer(width=WIDTH)) for _ in range(2))

    def make_at(url: str) -> OpenAIEncoder:
        encoder = OpenAIEncoder(url, here.model, batch_texts=5, concurrency=3)
        stack.callback(encoder.close)
        return encoder

    return Setup(lambda: make_at(here.url), lambda: make_at(f"{there.address}/"), here.model)


def replicas_setup(stack: ExitStack, _folder: Path) -> Setup:
    pytest.importorskip("httpx")
    from toolheads.encoders.openai import OpenAIEncoder
    from toolheads.encoders.replicas import ReplicaEncoder

    servers = [stack.enter_context(FakeEmbeddingsServer(width=WIDTH)) for _ in range(3)]

    def make_at(*some: FakeEmbeddingsServer) -> ReplicaEncoder:
        encoders = {s.url: OpenAIEncoder(s.url, s.model, concurrency=1) for s in some}
        encoder = ReplicaEncoder(encoders, piece_texts=5, in_flight=2, wait_s=1.0)
        stack.callback(encoder.close)
        return encoder

    return Setup(
        lambda: make_at(*servers[:2]), lambda: make_at(servers[2], servers[0]), servers[0].model
    )


def local_setup(stack: ExitStack, folder: Path) -> Setup:
    for needed in ("onnxruntime", "onnx", "tokenizers", "safetensors"):
        pytest.importorskip(needed)
    from toolheads.encoders.local import LocalEncoder

    return folder_setup(stack, folder, LocalEncoder)


def sentence_transformers_setup(stack: ExitStack, folder: Path) -> Setup:
    pytest.importorskip("sentence_transformers")
    from toolheads.encoders.sentence_transformers import SentenceTransformersEncoder

    return folder_setup(stack, folder, SentenceTransformersEncoder)


def folder_setup(stack: ExitStack, folder: Path, adapter) -> Setup:
    # Long enough for texts that differ in their last word.
    here = write_tiny_bert(folder / "here" / "tiny", sentence={"max_seq_length": POSITIONS})
    there = Path(shutil.copytree(here, folder / "there" / "tiny"))

    def make_from(model: Path):
        encoder = adapter(model, batch_tokens=128)
        stack.callback(encoder.close)
        return encoder

    return Setup(lambda: make_from(here), lambda: make_from(there), "tiny")


ADAPTERS = {
    "openai": openai_setup,
    "replicas": replicas_setup,
    "local": local_setup,
    "sentence-transformers": sentence_transformers_setup,
}


_SLOW = {"sentence-transformers": [pytest.mark.slow]}  # its import alone takes seconds


@pytest.fixture(
    scope="module",
    params=[pytest.param(s, id=name, marks=_SLOW.get(name, [])) for name, s in ADAPTERS.items()],
)
def setup(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Setup]:
    with ExitStack() as stack:
        yield request.param(stack, tmp_path_factory.mktemp("models"))


@pytest.mark.parametrize("sentence", CONTRACT, ids=lambda f: f.__name__)
def test_every_encoder_keeps_the_contract(sentence, setup):
    sentence(setup)


# The contract of the contract: an encoder that keeps it, and one broken for each way to fail.


class Good:
    def __init__(self, address: str = "here") -> None:
        self.address = address

    @property
    def identity(self) -> EncoderIdentity:
        return EncoderIdentity("good", "", "mean", 0, WIDTH, "float32")

    def encode(self, texts: Sequence[str]) -> Floats:
        checked = checked_texts(texts, encoder=self.identity.model)
        if not checked:
            return np.empty((0, WIDTH), np.float32)
        return self.embed(checked)

    def embed(self, texts: list[str]) -> Floats:
        return np.stack([fake_vector(text, WIDTH) for text in texts])

    def close(self) -> None:
        pass


class Reversed(Good):
    def embed(self, texts):
        return super().embed(texts)[::-1]


class SortedByLength(Good):
    def embed(self, texts):
        return super().embed(sorted(texts, key=len))


class LosesTheLast(Good):
    def embed(self, texts):
        return super().embed(texts[:-1] or texts)


class OneRowForAll(Good):
    def embed(self, texts):
        return super().embed(["always"] * len(texts))


class Float64(Good):
    def embed(self, texts):
        return super().embed(texts).astype(np.float64)


class NotOfLengthOne(Good):
    def embed(self, texts):
        return super().embed(texts) * np.float32(1.01)


class NaNInOneRow(Good):
    def embed(self, texts):
        rows = super().embed(texts)
        rows[len(texts) // 2, 0] = np.nan
        return rows


class AnotherWidth(Good):
    def embed(self, texts):
        return np.stack([fake_vector(text, WIDTH + 1) for text in texts])


class LooksAtNeighbours(Good):
    def embed(self, texts):
        rows = super().embed(texts)
        rows = rows + 0.1 * rows.mean(axis=0)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class LooksAtTheFirst(Good):
    def embed(self, texts):
        rows = super().embed(texts)
        rows = rows + 0.2 * rows[:1]
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class NothingHasNoWidth(Good):
    def encode(self, texts):
        return super().encode(texts) if len(texts) else np.empty((0,), np.float32)


class NothingIsAnError(Good):
    def encode(self, texts):
        if not len(texts):
            raise EncoderError("good: nothing to do")
        return super().encode(texts)


class LetsOthersErrorsThrough(Good):
    def encode(self, texts):
        return self.embed([text.encode().decode() for text in texts] or [""])[: len(texts)]


class AnswersInPart(Good):
    def encode(self, texts):
        try:
            return super().encode(texts)
        except EncoderError:
            return super().encode(list(texts)[:3])


class MakesRowsUp(Good):
    def encode(self, texts):
        return super().encode([str(text).encode("ascii", "replace").decode() for text in texts])


class NamesNobody(Good):
    def encode(self, texts):
        try:
            return super().encode(texts)
        except EncoderError as e:
            raise EncoderError(str(e).replace("good", "it")) from e


class GivesNoReason(Good):
    def encode(self, texts):
        try:
            return super().encode(texts)
        except EncoderError as e:
            raise EncoderError("good failed") from e


class AddressInTheIdentity(Good):
    @property
    def identity(self):
        return EncoderIdentity(f"good at {self.address}", "", "mean", 0, WIDTH, "float32")


class IdentityLearnedTooLate(Good):
    width = 0

    @property
    def identity(self):
        return EncoderIdentity("good", "", "mean", 0, self.width, "float32")

    def embed(self, texts):
        self.width = WIDTH
        return super().embed(texts)


BROKEN = {
    Reversed: 1,
    SortedByLength: 1,
    LosesTheLast: 1,
    OneRowForAll: 1,
    Float64: 2,
    NotOfLengthOne: 2,
    NaNInOneRow: 2,
    AnotherWidth: 2,
    LooksAtNeighbours: 3,
    LooksAtTheFirst: 3,
    NothingHasNoWidth: 4,
    NothingIsAnError: 4,
    LetsOthersErrorsThrough: 5,
    AnswersInPart: 5,
    MakesRowsUp: 5,
    NamesNobody: 5,
    GivesNoReason: 5,
    AddressInTheIdentity: 6,
    IdentityLearnedTooLate: 6,
}
"""Broken encoder → the sentence that must catch it, whatever others do."""


@pytest.mark.parametrize("sentence", CONTRACT, ids=lambda f: f.__name__)
def test_an_encoder_without_a_model_can_keep_the_contract(sentence):
    sentence(Setup(Good, lambda: Good("there"), "good"))


@pytest.mark.parametrize("broken", BROKEN, ids=lambda c: c.__name__)
def test_the_contract_catches_a_broken_encoder(broken):
    sentence = CONTRACT[BROKEN[broken] - 1]
    caught = (AssertionError, EncoderError, ValueError, TypeError, AttributeError)
    with pytest.raises((*caught, pytest.fail.Exception)):
        sentence(Setup(broken, lambda: broken("there"), "good"))
