"""The sample catalogue keeps what docs/sample.md says of it."""

import subprocess
import sys
import unicodedata
from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path

import pytest

from toolheads.data.leaks import check_validation, find_leaks, text_key
from toolheads.sample import SAMPLE_NAME, sample_dataset, sample_folder
from toolheads.texts.words import identifier_words

SAMPLE = sample_dataset()
TOOLS = {tool.id: tool for tool in SAMPLE.tools}
TYPES = {"string", "integer", "number", "boolean", "array", "object"}
SPLITS = ("train", "val", "test")


def test_the_folder_holds_the_data_set_under_its_own_name():
    assert SAMPLE.name == SAMPLE_NAME
    assert {"tools.jsonl", "queries.jsonl"} <= {path.name for path in sample_folder().iterdir()}


def test_a_wheel_holds_the_data_files():
    wheel = pytest.importorskip("hatchling.builders.wheel", reason="builds wheels")
    root = Path(__file__).parents[2]
    built = {f.distribution_path for f in wheel.WheelBuilder(str(root)).recurse_included_files()}
    assert {f"toolheads/sample/{name}.jsonl" for name in ("tools", "queries")} <= built


def test_the_files_are_readable_utf_8_that_git_can_diff():
    for name in ("tools.jsonl", "queries.jsonl"):
        data = (sample_folder() / name).read_bytes()
        assert b"\\u" not in data  # written as the characters themselves
        assert b"\r" not in data
        assert data.endswith(b"\n")
        assert unicodedata.is_normalized("NFC", data.decode())


def test_there_are_156_tools_of_13_servers_twelve_each():
    servers = Counter(tool.server for tool in SAMPLE.tools)
    assert len(SAMPLE.tools) == 156
    assert len(servers) == 13
    assert set(servers.values()) == {12}


def test_there_are_at_least_960_requests():
    assert len(SAMPLE.queries) >= 960


def test_no_two_tools_share_an_id_or_a_server_and_name():
    assert len({tool.id for tool in SAMPLE.tools}) == len(SAMPLE.tools)
    assert len({tool.identity for tool in SAMPLE.tools}) == len(SAMPLE.tools)
    assert all(tool.id == f"{tool.server}/{tool.name}" for tool in SAMPLE.tools)


def test_some_names_are_on_several_servers_so_that_the_server_has_to_be_read():
    spelled = defaultdict(set)
    for tool in SAMPLE.tools:
        spelled[identifier_words(tool.name).casefold()].add(tool.server)
    shared = {name for name, servers in spelled.items() if len(servers) > 1}
    assert {"create ticket", "create event", "book room", "create order", "check stock"} <= shared


def test_names_come_in_snake_camel_and_kebab_case():
    names = [tool.name for tool in SAMPLE.tools]
    assert sum("_" in name for name in names) > 40
    assert sum("-" in name for name in names) > 20
    assert sum(name != name.lower() for name in names) > 20


def test_every_description_is_a_sentence_of_its_own():
    descriptions = [tool.description for tool in SAMPLE.tools]
    assert len(set(descriptions)) == len(descriptions)
    assert all(len(text) >= 25 and text.endswith(".") for text in descriptions)


@pytest.mark.parametrize("tool", SAMPLE.tools, ids=lambda tool: tool.id)
def test_an_input_schema_is_a_json_schema_object(tool):
    schema = tool.input_schema
    assert schema is not None
    assert schema["type"] == "object"
    assert 1 <= len(schema["properties"]) <= 6
    assert set(schema.get("required", [])) <= set(schema["properties"])
    assert len(set(schema.get("required", []))) == len(schema.get("required", []))
    for name, about in schema["properties"].items():
        assert _faults(about) == [], name
        assert about["description"].strip(), name


def _faults(about):
    """What is wrong with a property's schema, at any depth; the few keywords that are in use."""
    faults = [] if about.get("type") in TYPES else [f"type {about.get('type')!r}"]
    if "enum" in about:
        faults += [] if len(set(about["enum"])) == len(about["enum"]) > 1 else ["enum"]
        faults += [] if about.get("default", about["enum"][0]) in about["enum"] else ["default"]
    if about.get("type") == "array":
        faults += _faults(about["items"])
    if about.get("type") == "object":
        faults += [f for inner in about["properties"].values() for f in _faults(inner)]
        faults += [] if set(about["required"]) <= set(about["properties"]) else ["required"]
    return faults


def test_every_tool_is_asked_for_at_least_five_times():
    asked = Counter(tool_id for query in SAMPLE.queries for tool_id in query.relevant)
    assert set(asked) == set(TOOLS)
    assert min(asked.values()) >= 5


def test_the_splits_are_by_tool():
    seen = defaultdict(set)
    for query in SAMPLE.queries:
        for tool_id in query.relevant:
            seen[tool_id].add(query.split)
    assert all(len(splits) == 1 for splits in seen.values())


@pytest.mark.parametrize(("split", "tools"), [("train", 7), ("val", 2), ("test", 3)])
def test_each_server_has_tools_in_each_split(split, tools):
    of_split = {tool_id for query in SAMPLE.split(split) for tool_id in query.relevant}
    assert set(Counter(TOOLS[tool_id].server for tool_id in of_split).values()) == {tools}


@pytest.mark.parametrize("split", SPLITS)
def test_each_split_has_requests_for_several_tools_and_for_none(split):
    wanted = Counter(len(query.relevant) for query in SAMPLE.split(split))
    several = sum(count for tools, count in wanted.items() if tools > 1)
    total = wanted.total()
    assert set(wanted) == {0, 1, 2, 3}
    assert 0.13 < several / total < 0.22
    assert 0.03 < wanted[0] / total < 0.07


def test_no_request_occurs_twice_even_with_other_punctuation_or_politeness():
    keys = Counter(text_key(query.text) for query in SAMPLE.queries)
    assert [key for key, count in keys.items() if count > 1] == []


@pytest.mark.parametrize("pair", list(combinations(SPLITS, 2)), ids="-".join)
def test_no_request_has_a_near_duplicate_in_another_split(pair):
    one, other = ([query.text for query in SAMPLE.split(split)] for split in pair)
    assert find_leaks(one, other, min_jaccard=0.6).leaks == ()


def test_the_validation_split_passes_the_check_that_training_makes():
    check_validation(SAMPLE.split("val"), SAMPLE.split("test"))


def test_requests_come_in_several_scripts_and_lengths():
    texts = [query.text for query in SAMPLE.queries]
    scripts = Counter(_script(text) for text in texts)
    assert scripts["CJK"] >= 25
    assert scripts["HIRAGANA"] >= 10
    assert sum(any(letter in text for letter in "äöüßéèñ¿") for text in texts) >= 80
    assert min(map(len, texts)) < 15
    assert max(map(len, texts)) > 150


def _script(text):
    names = {unicodedata.name(letter, "").split(" ")[0] for letter in text}
    return "HIRAGANA" if "HIRAGANA" in names else "CJK" if "CJK" in names else "LATIN"


def test_requests_do_not_spell_out_the_identifier_of_their_tool():
    for query in SAMPLE.queries:
        for tool_id in query.relevant:
            assert TOOLS[tool_id].name not in query.text


def test_no_text_is_empty_or_has_space_at_its_ends():
    texts = [query.text for query in SAMPLE.queries] + [tool.description for tool in SAMPLE.tools]
    assert all(text and text == text.strip() and "\n" not in text for text in texts)


def test_it_is_found_from_any_working_directory(tmp_path):
    code = "from toolheads.sample import sample_folder; print(sample_folder())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert (Path(done.stdout.strip()) / "tools.jsonl").is_file()
