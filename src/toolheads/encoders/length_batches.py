"""Batches of texts of about equal length, so that little time goes into padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def length_batches(lengths: Sequence[int], most_tokens: int) -> Iterator[list[int]]:
    """Rows that run together, the longest first, so that running out of memory shows at once.

    Args:
        lengths: n lengths in tokens.
        most_tokens: Tokens of a batch, padding counted. A longer text runs alone.

    Yields:
        Row numbers; each of 0 to n - 1 comes once.
    """
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        # The first row of a batch is its longest and sets the padding.
        if batch and (len(batch) + 1) * lengths[batch[0]] > most_tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
