"""Tools as the answers of searches have them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.serving.fakes import a_tool

from toolheads.serving import records, shortening
from toolheads.serving.records import FoundRecords, found_record

TOOL = a_tool("mail", "send_mail", "Send a mail.")
LARGE = {
    "type": "object",
    "properties": {f"field_{n}": {"type": "string", "description": "x" * 200} for n in range(30)},
}


@pytest.fixture
def shortened(monkeypatch):
    """Schemas that are looked at, one by one."""
    seen = []

    def see(schema):
        seen.append(schema)
        return shortening.shortened(schema)

    monkeypatch.setattr(records, "shortened", see)
    return seen


@pytest.mark.parametrize("schemas", ["short", "full", "none"])
@pytest.mark.parametrize("schema", [None, LARGE])
def test_a_record_that_was_kept_is_the_record_with_the_score_of_this_search(schemas, schema):
    tool, kept = a_tool("mail", "send_mail", "Send a mail.", schema=schema), FoundRecords()
    for score in (0.25, 0.75):
        record = kept.of(tool, score, schemas)
        assert record == found_record(tool, score, schemas)
        assert list(record) == list(found_record(tool, score, schemas))


def test_the_schema_of_a_tool_that_is_found_again_is_not_shortened_again(shortened):
    kept = FoundRecords()
    for _ in range(3):
        kept.of(TOOL, 0.5, "short")
    assert len(shortened) == 1


def test_a_changed_tool_has_a_record_of_its_own():
    kept, found = FoundRecords(), []
    for number in range(50):  # so that an object may lie where one that is gone lay
        tool = replace(TOOL, description=f"Send mail {number}.")
        found.append(kept.of(tool, 0.5, "short")["description"])
    assert found == [f"Send mail {number}." for number in range(50)]


def test_the_record_unused_for_longest_goes_first(shortened):
    kept = FoundRecords(most=2)
    one, two, three = (a_tool("mail", name) for name in ("one", "two", "three"))
    for tool in (one, two, one, three, one, two):
        kept.of(tool, 0.5, "short")
    assert len(shortened) == 4  # `two` twice
