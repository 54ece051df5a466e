"""Reads tools batch by batch in this process, and adds the rows that are missing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from toolheads.data.jsonl import shown
from toolheads.jobs.inputs import Line, read_inputs
from toolheads.jobs.parts import Parts


class OneProcessJob:
    """See `toolheads.jobs.parts.Reading`."""

    def __init__(self, parts: Parts) -> None:
        self._maker, self._writing = parts.maker, parts.writing
        self._quarantine = parts.quarantine
        self._batch, self._progress = parts.at_once, parts.progress
        self._ids: set[bytes] = set()
        self._keys: set[bytes] = set()
        self.seen = self.tools = self.resumed = 0

    @property
    def wanted(self) -> int:
        """See `toolheads.jobs.parts.Reading`."""
        return len(self._keys)

    def is_wanted(self, key: str) -> bool:
        """See `toolheads.jobs.parts.Reading`."""
        return _digest(key) in self._keys

    def read(self, files: Sequence[Path]) -> None:
        """See `toolheads.jobs.parts.Reading`."""
        for batch in self._batches(files):
            self._add(batch)
            self._progress(self.seen)

    def _batches(self, files: Sequence[Path]) -> Iterator[list[Line]]:
        batch: list[Line] = []
        for line in read_inputs(files):
            self.seen += 1
            if line.tool is None:
                self._quarantine.add(line, line.reason)
                continue
            known = _digest(line.tool.id)
            if known in self._ids:
                self._quarantine.add(line, f"duplicate id {shown(line.tool.id)}")
                continue
            self._ids.add(known)
            batch.append(line)
            if len(batch) == self._batch:
                yield batch
                batch = []
        if batch:
            yield batch

    def _add(self, batch: Sequence[Line]) -> None:
        texts = [self._maker.texts(line.tool) for line in batch if line.tool is not None]
        keys = [self._maker.key(of_tool) for of_tool in texts]
        first = {key: place for place, key in reversed(list(enumerate(keys)))}
        fresh = sorted(place for key, place in first.items() if not self._writing.is_there(key))
        refused: dict[str, str] = {}
        if fresh:
            made = self._maker.rows([texts[place] for place in fresh])
            refused = {keys[fresh[place]]: why for place, why in made.refused.items()}
            if made.places:
                self._writing.add([keys[fresh[place]] for place in made.places], made.rows)
        for line, key in zip(batch, keys, strict=True):
            if key in refused:
                self._quarantine.add(line, refused[key])
            else:
                self.tools += 1
                self._keys.add(_digest(key))


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
