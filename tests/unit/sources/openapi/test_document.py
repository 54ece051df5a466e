"""Reading descriptions: JSON, YAML, limits."""

import datetime
import json
import re
import time

import pytest
from tests.unit.sources.openapi.descriptions import description, parsed

from toolheads.errors import DataError
from toolheads.sources.openapi.document import OperationError, parse_document
from toolheads.sources.openapi.yaml_text import YamlError, parse_yaml

yaml = pytest.importorskip("yaml")


def test_json_and_yaml_give_the_same_document():
    root = description({"/a": {"get": {"responses": {"200": {"description": "ok"}}}}})
    assert parsed(json.dumps(root)).root == root
    assert parsed(yaml.safe_dump(root)).root == root
    assert parse_document(b"\xef\xbb\xbf" + json.dumps(root).encode(), name="x").root == root


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: no", {"a": "no"}),
        ("on: yes", {"on": "yes"}),
        ("a: 2026-01-31", {"a": "2026-01-31"}),
        ("a: 12:30", {"a": "12:30"}),
        ("a: 012", {"a": 12}),
        ("a: 0o12", {"a": 10}),
        ("a: 1e3", {"a": 1000.0}),
        ("a: true", {"a": True}),
        ("200: x", {"200": "x"}),
        ("null: x", {"null": "x"}),
        ("a: .inf", {"a": ".inf"}),
        ("a: 1_000", {"a": "1_000"}),
        ("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}),
        (
            "a: &x {b: 1, c: 1}\nd:\n  <<: *x\n  c: 2",
            {"a": {"b": 1, "c": 1}, "d": {"b": 1, "c": 2}},
        ),
        ("a: {<<: [{x: 1}, {x: 2, y: 2}]}", {"a": {"x": 1, "y": 2}}),
    ],
)
def test_yaml_means_what_json_can_say(text, value):
    assert parse_yaml(text, most_levels=20) == value


@pytest.mark.parametrize(
    "text",
    [
        "a: !!python/object/apply:os.system [echo]",
        "a: !!timestamp 2026-01-31",
        "a: !!binary aGk=",
        "a: !!set {x}",
        "a: [1",
        "? [a, b]\n: 1",
        "a: 1\n---\nb: 2",
        "a: *nowhere",
        "\x00",
    ],
)
def test_what_is_no_json_value_is_refused_in_one_line(text):
    with pytest.raises(YamlError) as caught:
        parse_yaml(text, most_levels=20)
    assert "\n" not in str(caught.value)


def test_aliases_that_double_at_every_step_are_refused():
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 60)]
    start = time.process_time()
    with pytest.raises(YamlError, match=r"at most [\d,]+ (values with its aliases|levels)"):
        parse_yaml("\n".join(lines), most_levels=1_000)
    assert time.process_time() - start < 30, "an upper bound that no machine misses"


def test_merges_that_double_at_every_step_are_refused():
    lines = ["a0: &a0 {x: [y, y]}"]
    lines += [f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}" for i in range(1, 60)]
    with pytest.raises(YamlError, match=r"must have at most|must nest at most"):
        parse_yaml("\n".join(lines), most_levels=1_000)


@pytest.mark.parametrize("text", ["a: &x [*x]", "a: &x {b: *x}", "[" * 50_000, "- " * 5_000])
def test_nesting_without_end_is_refused(text):
    with pytest.raises(YamlError, match=r"must nest at most 20 levels|maximum nesting depth"):
        parse_yaml(text, most_levels=20)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "must be an object, got null"),
        (b"[]", "must be an object, got []"),
        (b"just text", "must be an object, got 'just text'"),
        (b'{"openapi": ', "must be JSON or YAML"),
        (b"\xff\xfe{", "must be UTF-8, got ff fe"),
        (b'{"a":' * 100_000, "must nest at most 100 levels"),
        (b'{"a":' * 200 + b"1" + b"}" * 200, "must nest at most 100 levels"),
        (b" " * (32 * 2**20 + 1), "must have at most 33,554,432 bytes"),
        (b'{"swagger": "2.0"}', "got swagger '2.0'; convert it to OpenAPI 3 first"),
        (b'{"openapi": "4.0.0"}', "must be one of 3.0, 3.1, 3.2, got openapi '4.0.0'"),
        (b'{"openapi": 3.0}', "must be one of 3.0, 3.1, 3.2, got openapi 3.0"),
        (b'{"openapi": "3.1.0", "paths": []}', "paths must be an object"),
    ],
)
def test_what_is_no_description_is_refused_with_its_name(content, reason):
    with pytest.raises(DataError, match=f"^spec: .*{re.escape(reason)}"):
        parse_document(content, name="spec")


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("other.json#/a", "must lead to a place in the document"),
        ("http://127.0.0.1/a", "must lead to a place in the document"),
        ("#anchor", "must lead to a place in the document"),
        ("#", "must lead to a place in the document"),
        ("#/paths/~1b", "where there is none"),
        ("#/openapi/0", "where there is none"),
        (5, "must be a string"),
    ],
)
def test_references_stay_inside_the_document(reference, reason):
    document = parsed(json.dumps(description({"/a": {}})))
    with pytest.raises(OperationError, match=reason):
        document.at(reference)


def test_references_are_unescaped():
    document = parsed(json.dumps(description({"/a b~": [{"x": datetime.MAXYEAR}]})))
    assert document.at("#/paths/~1a%20b~0/0/x") == 9999
