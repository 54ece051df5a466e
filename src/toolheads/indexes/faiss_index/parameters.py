"""What shapes a faiss structure and its searches, and the rule that fits it to rows and width.

Knows numbers only, no faiss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from toolheads.errors import ConfigError
from toolheads.indexes.checks import check_at_least, check_choice

STRUCTURES = ("flat", "hnsw", "ivf", "ivfpq", "cagra")
"""What `structure` may be."""

GRAPHS = ("hnsw", "cagra")
"""Those that follow links from row to row."""

LISTED = ("ivf", "ivfpq")
"""Those that sort rows into lists."""

_STORAGE = {"float32": "Flat", "float16": "SQfp16", "int8": "SQ8"}
_LEAST = {"neighbours": 2, "bits": 4}
"""Of the settings for which 1 makes no sense."""
_MOST = {"bits": 8}

_CODES = (96, 64, 56, 48, 40, 32, 28, 24, 20, 16, 12, 8, 4, 3, 2, 1)
_CODED = (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 28, 32)
"""How many codes a row may have in faiss on a GPU, and of how many entries each."""
_ENTRIES_OF_A_CODE = 4

_MANY_ROWS = 100_000
_LEAST_OF_A_LIST = 39
"""Fewer rows for each list, or value of a code, and faiss warns that they cannot be fitted."""
_TRAINED_OF_A_LIST = 64
_PROBED = 4
"""Times the root of the number of lists is how many are looked at. With a fixed share of them, few
rows need a larger share than many for the same recall."""
_TRAINED_OF_A_CODE = 256


@dataclass(frozen=True)
class Parameters:
    """What shapes a structure and its searches. 0 stands for a value that fits the size."""

    structure: str
    """One of `STRUCTURES`."""
    dtype: str
    """What faiss stores rows in: `float32`, `float16`, or `int8` with its own rounding. IVF-PQ
    stores codes, CAGRA float32."""
    neighbours: int = 0
    """HNSW, CAGRA: links of a row in each layer but the lowest, which has twice as many."""
    ef_construction: int = 0
    """HNSW: rows looked at to find the links of a new one."""
    ef_search: int = 0
    """HNSW, CAGRA: rows looked at for a query, at least."""
    lists: int = 0
    """IVF, IVF-PQ: lists that rows are sorted into."""
    probes: int = 0
    """IVF, IVF-PQ: lists looked at for a query."""
    codes: int = 0
    """IVF-PQ: codes that stand for a row."""
    bits: int = 0
    """IVF-PQ: bits of a code."""
    refine: int = 0
    """IVF-PQ: rows for each hit that are found by their codes and scored again with the stored
    rows; with 1 the codes alone choose."""
    sample: int = 0
    """IVF, IVF-PQ: rows that centres and codes are fitted to."""

    def check(self, width: int) -> Parameters:
        """The same, if it can be built over rows of d entries.

        Raises:
            ConfigError: If a value breaks its rule.
        """
        check_choice(self.structure, STRUCTURES, "structure")
        for name in _NUMBERS:
            value = getattr(self, name)
            if check_at_least(0, value, name):
                check_at_least(_LEAST.get(name, 1), value, name)
                if value > _MOST.get(name, value):
                    msg = f"{name} must be at most {_MOST[name]}, got {value}"
                    raise ConfigError(msg)
        if self.codes > width:
            msg = f"codes must be at most the width {width}, got {self.codes}"
            raise ConfigError(msg)
        return self

    def for_rows(self, n: int, width: int) -> Parameters:
        """The same with values for n rows of d entries in place of zeros."""
        lists = self.lists or max(1, min(round(4 * math.sqrt(n)), n // _LEAST_OF_A_LIST))
        bits = self.bits or _bits(n)
        fitted = _TRAINED_OF_A_LIST * lists
        if self.structure == "ivfpq":
            fitted = max(fitted, _TRAINED_OF_A_CODE << bits)
        return replace(
            self,
            neighbours=self.neighbours or 32,
            ef_construction=self.ef_construction or 100,
            ef_search=self.ef_search or (64 if n < _MANY_ROWS else 128),
            lists=lists,
            probes=min(lists, self.probes or round(_PROBED * math.sqrt(lists))),
            codes=self.codes or next(c for c in _CODES if c <= max(1, width // _ENTRIES_OF_A_CODE)),
            bits=bits,
            refine=self.refine or 10,
            sample=min(n, self.sample or fitted),
        )

    def builds_as(self, other: Parameters) -> bool:
        """Whether a structure that was built for one serves the other."""
        fixed = (self.structure, self.dtype) == (other.structure, other.dtype)
        return fixed and all(getattr(self, n) in (0, getattr(other, n)) for n in self._shaping)

    def searching(self, built: Parameters) -> Parameters:
        """What a structure was built with, searched as this one asks for."""
        return replace(built, **{name: getattr(self, name) for name in _SEARCHING})

    def to_json(self) -> dict[str, int]:
        """The numbers that count for the structure."""
        names = [*self._shaping, *_SEARCHES.get(self.structure, ())]
        return {name: getattr(self, name) for name in names}

    @property
    def is_exact(self) -> bool:
        """Whether the structure finds the largest products with the rows of the store."""
        return self.structure == "flat" and self.dtype != "int8"

    @property
    def candidates(self) -> int:
        """Rows for each hit that are scored again with the stored rows."""
        return self.refine if self.structure == "ivfpq" else 1

    @property
    def takes_codes_at_their_word(self) -> bool:
        """Whether hits are chosen by codes alone."""
        return self.structure == "ivfpq" and self.refine == 1

    @property
    def least_rows(self) -> int:
        """Fewer rows cannot be built over."""
        if self.structure == "cagra":
            return 4 * (self.neighbours or 32) + 1
        return 1 << (self.bits or _LEAST["bits"]) if self.structure == "ivfpq" else 1

    @property
    def _shaping(self) -> tuple[str, ...]:
        return _BUILDS.get(self.structure, ())

    def recipe(self, width: int) -> str:
        """As faiss's index_factory reads it, of values without zeros."""
        storage = _STORAGE[self.dtype]
        if self.structure == "hnsw":
            return f"HNSW{self.neighbours},{storage}"
        if self.structure == "ivf":
            return f"IVF{self.lists},{storage}"
        if self.structure == "ivfpq":
            # Turned at random, so that every code has an equal share of what tells rows apart:
            # the leading entries of a projection may hold most of it. `np` spares faiss minutes
            # for an order of the codes that only its search by Hamming distance uses.
            least = -(-width // self.codes)
            entries = next((e for e in _CODED if e >= least), least)
            return f"RR{entries * self.codes},IVF{self.lists},PQ{self.codes}x{self.bits}np"
        return storage


def _bits(n: int) -> int:
    """Of codes that n rows are enough to fit."""
    least, most = _LEAST["bits"], _MOST["bits"]
    return max(least, min(most, (n // _LEAST_OF_A_LIST).bit_length() - 1))


_BUILDS = {
    "hnsw": ("neighbours", "ef_construction"),
    "cagra": ("neighbours",),
    "ivf": ("lists", "sample"),
    "ivfpq": ("lists", "codes", "bits", "sample"),
}
_SEARCHES = {
    "hnsw": ("ef_search",),
    "cagra": ("ef_search",),
    "ivf": ("probes",),
    "ivfpq": ("probes", "refine"),
}
_SEARCHING = ("ef_search", "probes", "refine")
_NUMBERS = (
    "neighbours",
    "ef_construction",
    *_SEARCHING,
    "lists",
    "codes",
    "bits",
    "sample",
)
