from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.lexical.strategies import catalogues, lexical_settings

from toolheads.domain import Tool
from toolheads.lexical import FieldedIndex


@given(st.data(), catalogues(min_size=0), catalogues(min_size=0), lexical_settings())
def test_a_changed_index_is_the_one_made_of_all_tools_array_for_array(data, old, new, settings):
    stays = data.draw(st.lists(st.booleans(), min_size=len(old), max_size=len(old)))
    kept = [tool for tool, is_kept in zip(old, stays, strict=True) if is_kept]
    size = len(kept) + len(new)
    new_places = sorted(data.draw(st.permutations(range(size)))[: len(new)])
    free = [row for row in range(size) if row not in new_places]
    tools = [Tool("", "")] * size
    places = np.full(len(old), -1, np.int64)
    places[np.flatnonzero(stays)] = free
    for row, tool in [*zip(free, kept, strict=True), *zip(new_places, new, strict=True)]:
        tools[row] = tool

    index = FieldedIndex(old, settings).changed(places, new, np.array(new_places, np.int64))

    changed, fresh = index.to_arrays(), FieldedIndex(tools, settings).to_arrays()
    assert changed.keys() == fresh.keys()
    for name, array in fresh.items():
        assert changed[name].dtype == array.dtype
        np.testing.assert_array_equal(changed[name], array)
    assert FieldedIndex.from_arrays(changed).settings == settings


def test_the_texts_of_tools_that_stay_are_not_read_again(monkeypatch):
    tools = [Tool(f"t{i}", f"tool_{i}", None, "city mail") for i in range(5)]
    index = FieldedIndex(tools)
    read: list[str] = []
    parts = "toolheads.lexical.postings.field_parts"

    def noted(tool, field):
        read.append(tool.id)
        return iter([])

    monkeypatch.setattr(parts, noted)
    index.changed(np.array([0, 1, -1, 2, 3]), [Tool("new", "new")], np.array([4]))
    assert set(read) == {"new"}
