"""The contract of `toolheads.ports.Encoder`, one function for each of its sentences.

Plain functions of a setup, so that the same functions run against every adapter and against
encoders that are broken on purpose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from toolheads.errors import EncoderError
from toolheads.ports import Encoder

TEXTS = [
    "Send a message to a channel.",
    "weather",
    "Convert 250 US dollars to Japanese yen, then mail me the result. " * 3,
    "将文件上传到云存储",
    "a",
    "get_weather_forecast: the forecast for a city\nParameters: city; days",
    "Ein Dokument übersetzen",
    "🙂",
    *(f"invoice number {n}" for n in range(20)),
]
"""Of many lengths and scripts, so that an encoder that sorts or packs them has work to do."""


@dataclass(frozen=True)
class Setup:
    """How to come by one encoder under test."""

    make: Callable[[], Encoder]
    make_elsewhere: Callable[[], Encoder]
    """The same weights and settings, at another address or in another folder."""
    name: str
    """What the caller knows it by; its errors must say it."""


def sentence_1_one_row_for_each_text_in_order(setup: Setup) -> None:
    encoder = setup.make()
    together = encoder.encode(TEXTS)
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    assert together.shape[0] == len(TEXTS)
    nearest = (together @ alone.T).argmax(axis=1)
    assert nearest.tolist() == list(range(len(TEXTS)))


def sentence_2_rows_are_float32_finite_of_the_width_and_of_length_1(setup: Setup) -> None:
    encoder = setup.make()
    rows = encoder.encode(TEXTS)
    assert rows.dtype == np.float32
    assert rows.shape[1] == encoder.identity.width
    assert np.isfinite(rows).all()
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-3)


def sentence_3_a_row_does_not_depend_on_its_neighbours(setup: Setup) -> None:
    encoder = setup.make()
    one = encoder.encode(TEXTS)
    two = encoder.encode(TEXTS[::-1])[::-1]
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS[:5]])
    assert np.einsum("nd,nd->n", one, two).min() >= 0.999
    assert np.einsum("nd,nd->n", one[:5], alone).min() >= 0.999


def sentence_4_zero_texts_give_no_rows_of_the_width(setup: Setup) -> None:
    encoder = setup.make()
    rows = encoder.encode([])
    assert rows.shape == (0, encoder.identity.width)
    assert rows.dtype == np.float32


def sentence_5_a_failure_is_an_encoder_error_with_name_and_reason(setup: Setup) -> None:
    encoder = setup.make()
    unreadable: list[Any] = ["half a character \ud83d", 5, None]
    for bad in unreadable:
        with pytest.raises(EncoderError) as e:
            encoder.encode([*TEXTS[:3], bad, "good"])
        assert setup.name in str(e.value)
        assert "texts[3]" in str(e.value)
    with pytest.raises(EncoderError, match="single str"):
        encoder.encode("one text")


def sentence_6_the_identity_is_that_of_weights_and_settings(setup: Setup) -> None:
    encoder, elsewhere = setup.make(), setup.make_elsewhere()
    assert encoder.identity == elsewhere.identity
    assert encoder.identity == encoder.identity
    assert encoder.identity.model
    assert encoder.identity.width >= 1
    encoder.encode(["a"])
    assert encoder.identity == elsewhere.identity


CONTRACT = [
    sentence_1_one_row_for_each_text_in_order,
    sentence_2_rows_are_float32_finite_of_the_width_and_of_length_1,
    sentence_3_a_row_does_not_depend_on_its_neighbours,
    sentence_4_zero_texts_give_no_rows_of_the_width,
    sentence_5_a_failure_is_an_encoder_error_with_name_and_reason,
    sentence_6_the_identity_is_that_of_weights_and_settings,
]
