"""How many tokens a text is: counted by a tokenizer, or estimated from its characters.

A counter is any callable from a text to a number. The two estimates here add up: the tokens of
several texts together follow from their weights, without looking at the whole again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from toolheads.errors import ConfigError, import_extra

TokenCounter = Callable[[str], int]
"""Text → tokens, >= 0."""

_QUARTERS = (
    # (first code point, quarters of a token): what each character counts until the next row.
    # Chosen over what two byte-pair tokenizers of OpenAI take, see docs/plan.md.
    (0x0000, 1),  # ASCII
    (0x0080, 4),  # Latin with accents, signs, phonetic letters, Greek
    (0x0400, 3),  # Cyrillic
    (0x0530, 8),  # Armenian
    (0x0590, 5),  # Hebrew, Arabic
    (0x0700, 8),  # Syriac and its neighbours
    (0x0900, 5),  # Devanagari
    (0x0980, 8),  # the other scripts of India
    (0x0E00, 4),  # Thai
    (0x0E80, 12),  # Lao, Tibetan, Burmese, Georgian, Ethiopic, Khmer, …
    (0x1E00, 8),  # Latin with more accents, old Greek
    (0x2000, 4),  # punctuation, arrows, signs
    (0x3040, 5),  # Kana
    (0x3100, 6),
    (0x3400, 12),  # rare Han
    (0x4E00, 6),  # Han
    (0xA000, 12),
    (0xAC00, 5),  # Hangul
    (0xD7B0, 12),
    (0xFF00, 4),  # wide forms
    (0x10000, 12),  # emoji and rare scripts
)


def _table() -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """(0x10001,) quarters of each code point; the last is that of all beyond."""
    table = np.zeros(0x10001, np.uint8)
    for start, quarters in _QUARTERS:
        table[start:] = quarters
    return table


_TABLE = _table()


@dataclass(frozen=True)
class TokenEstimate:
    """Tokens worked out from the characters, for when there is no tokenizer.

    A text has at least 1 token; halves are rounded to even.
    """

    is_compatible: bool = False
    """Every character counts a quarter of a token, of whatever script, as much software has it.
    That is a quarter of what Chinese takes."""

    def __call__(self, text: str) -> int:
        """Tokens of a text."""
        return self.of_weight(self.weight(text))

    def weight(self, text: str) -> int:
        """Quarters of tokens of a text; those of two texts together are the sum."""
        if self.is_compatible or text.isascii():
            return len(text)
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        return int(_TABLE[np.minimum(codes, 0x10000)].sum(dtype=np.int64))

    @staticmethod
    def of_weight(weight: int) -> int:
        """Tokens of a text that weighs so many quarters."""
        return max(1, round(weight / 4))


ESTIMATE = TokenEstimate()
"""Counts no script short; see docs/plan.md for how far it is off."""

COMPATIBLE_ESTIMATE = TokenEstimate(is_compatible=True)
"""`max(1, round(characters / 4))`."""


def token_counter(tokenizer: Any) -> TokenCounter:
    """A counter of what a tokenizer gives, special tokens left out.

    Args:
        tokenizer: An `Encoding` of tiktoken, a tokenizer of transformers or of tokenizers, or
            any callable from a text to a number or to a sequence of tokens. An estimate of this
            module, and None for `ESTIMATE`, are taken as they are.

    Raises:
        ConfigError: If it is none of these.
    """
    if tokenizer is None:
        return ESTIMATE
    if isinstance(tokenizer, TokenEstimate):
        return tokenizer
    if callable(getattr(tokenizer, "encode_ordinary", None)):  # tiktoken
        return _checked(lambda text: tokenizer.encode_ordinary(text))
    if hasattr(tokenizer, "encode") and hasattr(tokenizer, "no_truncation"):  # tokenizers
        whole = type(tokenizer).from_str(tokenizer.to_str())  # the caller's own stays as it is
        whole.no_truncation()
        whole.no_padding()
        return _checked(lambda text: whole.encode(text, add_special_tokens=False).ids)
    if hasattr(tokenizer, "encode") and hasattr(tokenizer, "convert_tokens_to_ids"):
        # transformers; a text beyond the model's own length is no reason to warn
        return _checked(
            lambda text: tokenizer.encode(text, add_special_tokens=False, verbose=False)
        )
    if callable(tokenizer):
        return _checked(tokenizer)
    msg = (
        "tokenizer must be one of tiktoken, transformers or tokenizers, or a callable from a text "
        f"to a number, got {type(tokenizer).__name__}"
    )
    raise ConfigError(msg)


def named_counter(name: str) -> TokenCounter:
    """The counter that a command line names.

    Args:
        name: `estimate`; `compatible`; `tiktoken:NAME`, such as `tiktoken:o200k_base`; or a
            `tokenizer.json` of the library tokenizers, or a folder that holds one.

    Raises:
        ConfigError: If there is no such tokenizer.
        MissingExtraError: If its library is not installed.
    """
    if name == "estimate":
        return ESTIMATE
    if name == "compatible":
        return COMPATIBLE_ESTIMATE
    kind, _, encoding = name.partition(":")
    if kind == "tiktoken" and encoding:
        tiktoken = import_extra("tiktoken", user=f"tokenizer {name}", extra="tokens")
        try:
            return token_counter(tiktoken.get_encoding(encoding))
        except (ValueError, OSError) as e:  # no such encoding; its file could not be fetched
            why = " ".join(str(e).split())
            msg = f"tokenizer {name} must be one that tiktoken can load, got: {why:.200}"
            raise ConfigError(msg) from e
    path = Path(name) / "tokenizer.json" if Path(name).is_dir() else Path(name)
    if not path.is_file():
        msg = (
            "tokenizer must be estimate, compatible, tiktoken:NAME or a tokenizer.json, "
            f"got {name!r}"
        )
        raise ConfigError(msg)
    tokenizers = import_extra("tokenizers", user=f"tokenizer {name}", extra="local")
    try:
        return token_counter(tokenizers.Tokenizer.from_str(path.read_text("utf-8")))
    except Exception as e:  # the library raises bare Exception
        why = " ".join(str(e).split())
        msg = f"tokenizer {name} must be a file of the library tokenizers, got: {why:.200}"
        raise ConfigError(msg) from e


def _checked(count: Callable[[str], int | Sequence[Any]]) -> TokenCounter:
    """Numbers stay, sequences are measured, anything else is refused and never guessed at."""

    def counted(text: str) -> int:
        found = count(text)
        number = len(found) if isinstance(found, Sized) else found
        if type(number) is not int or number < 0:
            msg = f"tokenizer must give a number >= 0 or a sequence of tokens, got {found!r:.80}"
            raise ConfigError(msg)
        return number

    return counted
