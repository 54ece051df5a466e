"""The one check of texts on their way into an encoder."""

from __future__ import annotations

from collections.abc import Sequence

from toolheads.errors import EncoderError


def checked_texts(texts: Sequence[str], *, encoder: str) -> list[str]:
    """Refuse what no encoder can read, and name it.

    Args:
        texts: What the caller gave.
        encoder: The encoder as the caller knows it; used in the error.

    Raises:
        EncoderError: If `texts` is a single text, or an item is no str or holds a lone surrogate.
    """
    if isinstance(texts, (str, bytes)):
        msg = f"{encoder}: texts must be a sequence of str, got a single {type(texts).__name__}"
        raise EncoderError(msg)
    checked = list(texts)
    for i, text in enumerate(checked):
        if not isinstance(text, str):
            msg = f"{encoder}: texts[{i}] must be a str, got {type(text).__name__}"
            raise EncoderError(msg)
        try:
            text.encode()
        except UnicodeEncodeError as e:
            code = f"U+{ord(text[e.start]):04X}"
            msg = f"{encoder}: texts[{i}] must be valid Unicode, got lone {code} at {e.start}"
            raise EncoderError(msg) from e
    return checked
