import pytest

from toolheads.data.records import RecordError, from_query, from_tool, to_query, to_tool
from toolheads.domain import Query, Tool

TOOL = {"id": "t", "server": None, "name": "n", "description": "d", "input_schema": None}
QUERY = {"id": "q", "text": "x", "relevant": ["a"], "split": "test"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"id": 5}, "id must be a string, got 5"),
        ({"id": ""}, "id must not be empty"),
        ({"id": None}, "id must be a string, got null"),
        ({"name": ["n"]}, r'name must be a string, got \["n"\]'),
        ({"name": " "}, "name must not be empty"),
        ({"server": 5}, "server must be a string or null, got 5"),
        ({"description": {}}, "description must be a string or null, got {}"),
        ({"input_schema": "{}"}, "input_schema must be an object or null, got '{}'"),
        ({"input_schema": []}, r"input_schema must be an object or null, got \[\]"),
    ],
)
def test_a_tool_field_of_the_wrong_type_is_named(change, reason):
    with pytest.raises(RecordError, match=reason):
        to_tool(TOOL | change)


@pytest.mark.parametrize("name", ["id", "name"])
def test_a_tool_needs_id_and_name(name):
    with pytest.raises(RecordError, match=f"{name} is missing"):
        to_tool({k: v for k, v in TOOL.items() if k != name})


def test_all_faults_of_a_line_are_told():
    with pytest.raises(RecordError) as caught:
        to_tool({"id": 1, "server": 2, "description": 3})
    assert len(caught.value.reasons) == 4  # the missing name too


def test_server_description_and_schema_may_be_absent():
    assert to_tool({"id": "t", "name": "n"}) == Tool("t", "n")


def test_unknown_fields_of_a_tool_come_back_as_they_were():
    record = TOOL | {"annotations": {"readOnlyHint": True}, "n": [1, 2.5, None], "x": "\u2028"}
    assert to_tool(record).extra == {k: record[k] for k in ("annotations", "n", "x")}
    assert from_tool(to_tool(record)) == record


def test_the_schema_may_be_spelled_as_in_a_tool_listing_and_is_written_so():
    record = {"id": "t", "name": "n", "inputSchema": {"type": "object"}}
    tool = to_tool(record)
    assert tool.input_schema == {"type": "object"}
    written = from_tool(tool)
    assert written["inputSchema"] == {"type": "object"}
    assert "input_schema" not in written
    assert to_tool(written) == tool


def test_a_schema_of_the_wrong_type_is_named_in_the_spelling_of_the_file():
    with pytest.raises(RecordError, match="inputSchema must be an object or null"):
        to_tool({"id": "t", "name": "n", "inputSchema": 1})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"text": ""}, "text must not be empty"),
        ({"text": 1}, "text must be a string, got 1"),
        ({"relevant": "a"}, "relevant must be a list of tool ids, got 'a'"),
        ({"relevant": [1]}, "relevant must hold tool ids, got 1"),
        ({"relevant": ["a", "b", "a"]}, "relevant must hold each tool once, got 'a' twice"),
        ({"relevant": {"a": -1}}, "relevant of 'a' must be an integer >= 0, got -1"),
        ({"relevant": {"a": True}}, "relevant of 'a' must be an integer >= 0, got true"),
        ({"relevant": {"a": 0.5}}, "relevant of 'a' must be an integer >= 0, got 0.5"),
        ({"relevant": None}, "relevant is missing; an empty list says that no tool fits"),
        ({"scores": [1]}, r"scores must map tool ids to numbers, got \[1\]"),
        ({"scores": {"a": 0}}, "scores must be > 0 for a relevant tool, got 0 for 'a'"),
        ({"split": "dev"}, "split must be one of train, val, test, got 'dev'"),
        ({"split": 1}, "split must be one of train, val, test, got 1"),
        ({"negatives": ["a"]}, "negatives must hold no relevant tool, got 'a'"),
        ({"negatives": {"b": 1}}, "negatives must be a list of tool ids"),
        ({"teacher_scores": {"a": "high"}}, "teacher_scores of 'a' must be a number, got 'high'"),
        ({"teacher_scores": 3}, "teacher_scores must map tool ids to numbers, got 3"),
    ],
)
def test_a_query_field_that_breaks_its_rule_is_named(change, reason):
    with pytest.raises(RecordError, match=reason):
        to_query(QUERY | change)


def test_grades_may_be_in_relevant_or_in_scores():
    graded = {"a": 2, "b": 1, "c": 0}
    assert to_query(QUERY | {"relevant": graded}).relevance == graded
    listed = to_query(QUERY | {"relevant": ["a", "b"], "scores": {"a": 2, "c": 0}})
    assert listed.relevance == graded
    assert listed.relevant == ("a", "b")


def test_scores_alone_say_what_is_relevant():
    record = {"id": "q", "text": "x", "scores": {"a": 3, "b": 0}}
    assert to_query(record).relevant == ("a",)


def test_a_query_may_have_no_tool_and_no_split():
    assert to_query({"id": "q", "text": "x", "relevant": []}) == Query("q", "x")


def test_a_query_comes_back_as_it_was():
    record = QUERY | {
        "relevant": ["a", "b"],
        "scores": {"a": 3, "b": 1, "c": 0},
        "negatives": ["d"],
        "teacher_scores": {"a": -0.5, "d": 12},
        "category": {"x": [1]},
    }
    assert from_query(to_query(record)) == record
    assert from_query(to_query(QUERY)) == QUERY


def test_an_extra_field_cannot_take_the_place_of_a_known_one():
    with pytest.raises(RecordError, match="extra must not hold name"):
        from_tool(Tool("t", "n", extra={"name": "other"}))
    with pytest.raises(RecordError, match="extra must not hold text"):
        from_query(Query("q", "x", extra={"text": "other"}))
