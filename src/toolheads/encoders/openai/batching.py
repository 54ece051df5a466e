"""How texts are put into requests."""

from __future__ import annotations

from collections.abc import Sequence


def estimated_tokens(text: str) -> int:
    """An estimate of a text's tokens that is rather too high than too low.

    Counted on bytes of UTF-8: three ASCII characters, or two bytes of any other character, are a
    token. That makes 1.5 tokens of a Chinese character, where a rule by characters alone
    would pack three times too many into a batch, and 2 of an emoji.
    """
    ascii_bytes = len(text.encode("ascii", "ignore"))
    return 2 + ascii_bytes // 3 + (len(text.encode()) - ascii_bytes) // 2


def packed(
    texts: Sequence[str], *, most_tokens: int, most_texts: int, truncation: int
) -> list[range]:
    """Pack texts into batches, in order.

    Args:
        texts: n texts.
        most_tokens: Estimated tokens of a batch. A text beyond it travels alone.
        most_texts: Texts of a batch.
        truncation: No text counts more than this; 0 for no limit.

    Returns:
        Consecutive ranges of rows that cover 0 to n.
    """
    batches: list[range] = []
    start = tokens = 0
    for i, text in enumerate(texts):
        cost = estimated_tokens(text)
        if truncation:
            cost = min(cost, truncation)
        if i > start and (tokens + cost > most_tokens or i - start == most_texts):
            batches.append(range(start, i))
            start, tokens = i, 0
        tokens += cost
    if texts:
        batches.append(range(start, len(texts)))
    return batches
