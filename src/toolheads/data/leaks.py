"""Leaks: training queries that are, but for their wording, queries of a held-out set.

The word search is exact, not a sketch: two sets of words can only be as alike as asked if their
rarest words meet (prefix filtering; Bayardo et al., 2007, https://doi.org/10.1145/1242572.1242591),
so an index of the rarest words finds every pair.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from toolheads.arrays import Floats, Ids, as_rows, normalized
from toolheads.domain import Query
from toolheads.errors import ConfigError, DataError, ShapeError
from toolheads.texts.words import plain_words

REASONS = ("equal", "words", "vectors")
"""Why a row is a leak: equal but for wording, many words in common, embeddings close."""

_OPENING = re.compile(
    r"^(?:(?:hi|hello|hey|ok|okay|so|please|pls|kindly|just|thanks|thank you|there"
    r"|(?:can|could|would|will) you|(?:i|we) (?:want|need)(?: you)? to"
    r"|(?:i|we) would like(?: you)? to|(?:id|i d) like(?: you)? to|help me(?: to)?)(?: |$))+"
)
_CLOSING = re.compile(
    r"(?: (?:please|pls|for me|thanks(?: a lot| in advance)?"
    r"|thank you(?: very much| so much| in advance)?))+$"
)
_BLOCK, _HELD_OUT_BLOCK = 1024, 8192
"""Rows of each side that are compared at once: 32 MB of cosines, however many rows there are."""


@dataclass(frozen=True)
class Leak:
    """One training row that must go."""

    row: int
    """Row of the training texts."""
    held_out_row: int
    """A row of the held-out texts that it is too close to."""
    reason: str
    """One of `REASONS`."""


@dataclass(frozen=True)
class LeakReport:
    """What is left of the training rows, and why the others went."""

    kept: Ids
    """(n,) int64 rows of the training texts, ascending."""
    leaks: tuple[Leak, ...]
    """The others, ascending by row; each with the first reason that holds."""

    @property
    def counts(self) -> dict[str, int]:
        """Reason → rows dropped for it, every reason named."""
        found = Counter(leak.reason for leak in self.leaks)
        return {reason: found[reason] for reason in REASONS}


def text_key(text: str) -> str:
    """What two texts share that are equal but for case, accents, punctuation and politeness.

    A text of nothing but politeness or symbols keeps what it has.
    """
    words = " ".join(plain_words(text))
    bare = _CLOSING.sub("", _OPENING.sub("", words))
    return bare or words or unicodedata.normalize("NFKC", text).strip()


def find_leaks(
    training: Sequence[str],
    held_out: Sequence[str],
    *,
    min_jaccard: float = 0.8,
    vectors: tuple[Floats, Floats] | None = None,
    min_cosine: float = 0.97,
) -> LeakReport:
    """Find the training texts that are equal or nearly equal to a held-out text.

    Args:
        training: n texts.
        held_out: m texts of validation and test sets.
        min_jaccard: Shared words over all words, in (0, 1], from which two texts are too close.
            1 still takes texts of the same words in another order.
        vectors: (n, d) and (m, d) float32 embeddings of both; None leaves this test out.
        min_cosine: Cosine in [-1, 1] from which two embeddings are too close.

    Raises:
        ConfigError: If a bound breaks its rule.
        ShapeError: If the vectors do not fit the texts.
    """
    if not 0 < min_jaccard <= 1:
        msg = f"min_jaccard must be in (0, 1], got {min_jaccard}"
        raise ConfigError(msg)
    if not -1 <= min_cosine <= 1:
        msg = f"min_cosine must be in [-1, 1], got {min_cosine}"
        raise ConfigError(msg)
    keys = [text_key(text) for text in training]
    first_row: dict[str, int] = {}
    for row, text in enumerate(held_out):
        first_row.setdefault(text_key(text), row)
    leaks = {
        row: Leak(row, first_row[key], "equal") for row, key in enumerate(keys) if key in first_row
    }
    near = _near_keys({k for k in keys if k not in first_row}, list(first_row), min_jaccard)
    for row, key in enumerate(keys):
        if key in near and row not in leaks:
            leaks[row] = Leak(row, first_row[near[key]], "words")
    if vectors is not None:
        mine, theirs = _fitting(vectors, (len(training), len(held_out)))
        rest = np.array([r for r in range(len(training)) if r not in leaks], dtype=np.int64)
        nearest = close_rows(mine[rest], theirs, min_cosine=min_cosine)
        for row, other in zip(rest.tolist(), nearest.tolist(), strict=True):
            if other >= 0:
                leaks[row] = Leak(row, other, "vectors")
    kept = np.array([r for r in range(len(training)) if r not in leaks], dtype=np.int64)
    return LeakReport(kept, tuple(leaks[row] for row in sorted(leaks)))


def close_rows(training: Floats, held_out: Floats, *, min_cosine: float) -> Ids:
    """Find the training vectors that are close to a held-out vector.

    Every pair is compared, in float32 and in blocks: beside the two arrays it takes memory for
    1,024 training rows, 8,192 held-out rows and their cosines.

    Args:
        training: (n, d) float32, finite, of any length; a zero row is close to nothing.
        held_out: (m, d) float32, likewise.
        min_cosine: Cosine in (-1, 1] from which two rows are close.

    Returns:
        (n,) int64, for each training row the held-out row of the largest cosine, the first of
        equal ones; -1 where that cosine is below `min_cosine`.
    """
    best = np.full(len(training), -np.inf, np.float32)
    nearest = np.full(len(training), -1, np.int64)
    for first in range(0, len(held_out), _HELD_OUT_BLOCK):
        theirs = normalized(held_out[first : first + _HELD_OUT_BLOCK])  # (m', d)
        for start in range(0, len(training), _BLOCK):
            cosines = normalized(training[start : start + _BLOCK]) @ theirs.T  # (n', m')
            row = cosines.argmax(axis=1)
            cosine = cosines[np.arange(len(row)), row]
            is_better = cosine > best[start : start + _BLOCK]
            best[start : start + _BLOCK][is_better] = cosine[is_better]
            nearest[start : start + _BLOCK][is_better] = first + row[is_better]
    nearest[~(best >= min_cosine)] = -1
    return nearest


def check_validation(validation: Iterable[Query], test: Iterable[Query]) -> None:
    """Refuse a validation set that shares queries with a test set.

    Raises:
        DataError: If two texts have one `text_key`; the message has the count and the first.
    """
    tests = {text_key(query.text): query for query in test}
    shared = [(q, tests[key]) for q in validation if (key := text_key(q.text)) in tests]
    if shared:
        mine, theirs = shared[0]
        msg = (
            f"a validation set must share no query with a test set, got {len(shared)} shared, "
            f"first {mine.id!r} = {theirs.id!r}; drop them from validation"
        )
        raise DataError(msg)


def _near_keys(keys: Iterable[str], others: Sequence[str], least: float) -> dict[str, str]:
    """Map each key that is near to the first of `others` with a Jaccard >= least to it."""
    bound = Fraction(least).limit_denominator(10_000)  # 0.8 is 4/5 here, not a float beside it
    over, under = bound.numerator, bound.denominator  # in integers: fractions are slow
    other_sets = [frozenset(key.split()) for key in others]
    # The rarest word first; the word itself breaks ties, so that both sides sort alike.
    frequency = Counter(word for words in other_sets for word in words)
    index: dict[str, list[int]] = defaultdict(list)
    for row, words in enumerate(other_sets):
        for word in _rarest(words, frequency, bound):
            index[word].append(row)
    near: dict[str, str] = {}
    for key in keys:
        words = frozenset(key.split())
        size = len(words)
        candidates = {r for w in _rarest(words, frequency, bound) for r in index.get(w, ())}
        for row in sorted(candidates):
            other_size = len(other_sets[row])
            if min(size, other_size) * under < over * max(size, other_size):
                continue  # too different in size to share enough
            shared = len(words & other_sets[row])
            if shared * under >= over * (size + other_size - shared):
                near[key] = others[row]
                break
    return near


def _rarest(words: frozenset[str], frequency: Counter[str], bound: Fraction) -> list[str]:
    """The words of which one at least is shared with any set that is close enough.

    A set of s words shares at least bound · s of them with such a set, so of its rarest
    s - ceil(bound · s) + 1 words it shares one.
    """
    least_shared = -(-bound.numerator * len(words) // bound.denominator)
    by_rarity = sorted(words, key=lambda word: (frequency.get(word, 0), word))
    return by_rarity[: len(words) - least_shared + 1]


def _fitting(vectors: tuple[Floats, Floats], sizes: tuple[int, int]) -> tuple[Floats, Floats]:
    """The vectors, if there is one of the same width for each text."""
    mine, theirs = (as_rows(v, width=None, name=f"vectors[{i}]") for i, v in enumerate(vectors))
    want = (sizes[0], mine.shape[1]), (sizes[1], mine.shape[1])
    if (mine.shape, theirs.shape) != want:
        msg = f"vectors must have shapes {want[0]} and {want[1]}, got {mine.shape}, {theirs.shape}"
        raise ShapeError(msg)
    return mine, theirs
