"""Operations as tools."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.sources.openapi.descriptions import ID, SERVER, TEXT, body_tool, listing, tool

from toolheads.errors import ConfigError
from toolheads.sources.openapi.names import operation_name
from toolheads.sources.openapi.operation import Operation

FORM = "application/x-www-form-urlencoded"
JSON = {"application/json": {"schema": {"type": "object"}}}


def only_tool(paths) -> Any:
    (one,) = listing(paths).tools
    return one


def skipped(operation, *, path="/items", method="post", **more):
    got = listing({path: {method: operation}}, **more)
    assert got.tools == ()
    (one,) = got.skipped
    return one.reason


def test_an_operation_is_a_tool_of_its_source():
    operation = {
        "operationId": "getItem",
        "summary": "Get an item.",
        "description": "All of it.",
        "tags": ["items"],
        "parameters": [ID, {"name": "full", "in": "query", "schema": {"type": "boolean"}}],
    }
    one = tool(operation, path="/items/{id}")
    assert (one.id, one.name, one.server) == ("shop/getItem", "getItem", "shop")
    assert one.description == "Get an item.\nAll of it."
    assert one.input_schema == {
        "type": "object",
        "properties": {"id": TEXT, "full": {"type": "boolean"}},
        "required": ["id"],
        "additionalProperties": False,
    }
    assert one.extra["kind"] == "openapi"
    assert one.extra["tags"] == ["items"]
    assert one.extra["annotations"] == {
        "readOnlyHint": True,
        "openWorldHint": True,
        "title": "Get an item.",
    }
    call = Operation.from_extra(one.extra["http"])
    assert (call.method, call.path, call.base_url) == ("GET", "/items/{id}", SERVER)
    assert [p.location for p in call.parameters] == ["path", "query"]


def test_methods_say_whether_they_change_something():
    methods = ("get", "head", "delete", "put", "post", "patch", "options")
    got = listing({"/a": {method: {"operationId": method} for method in methods}})
    hints = {t.name: t.extra["annotations"] for t in got.tools}
    assert {n for n, h in hints.items() if h["readOnlyHint"]} == {"get", "head"}
    assert {n for n, h in hints.items() if h.get("destructiveHint")} == {"delete"}
    assert {n for n, h in hints.items() if h.get("idempotentHint")} == {"put", "delete"}


def test_a_deprecated_operation_says_so():
    one = tool({"summary": "Old.", "deprecated": True})
    assert one.description == "Old.\nDeprecated."
    assert one.extra["deprecated"] is True


def test_an_operation_without_words_is_described_by_itself():
    assert tool({}).description == "GET /items"


@pytest.mark.parametrize(
    ("operation_id", "name"),
    [("getItem", "getItem"), ("a__b-c_1", "a__b-c_1"), ("x" * 64, "x" * 64)],
)
def test_an_operation_id_that_fits_is_the_name(operation_id, name):
    assert tool({"operationId": operation_id}).name == name


@given(
    st.lists(
        st.tuples(
            st.none() | st.text(min_size=1, max_size=80),
            st.sampled_from(["GET", "POST"]),
            st.text(alphabet="/{}ab-_ä", max_size=90),
        ),
        max_size=8,
        unique=True,
    )
)
def test_names_fit_every_provider_and_are_never_made_twice(operations):
    keyed = {one[0] if one[0] is not None else one: one for one in operations}
    names = [operation_name(*one) for one in keyed.values()]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)


def test_a_name_that_looks_made_is_made_anew():
    made = operation_name("get item", "GET", "/")
    assert made.startswith("get_item___")
    assert operation_name(made, "GET", "/") != made


def test_operations_that_share_an_id_are_named_by_their_paths_in_any_order():
    paths = {"/a": {"get": {"operationId": "x"}}, "/b": {"get": {"operationId": "x"}}}
    names = [t.name for t in listing(paths).tools]
    assert [name.partition("___")[0] for name in names] == ["get_a", "get_b"]
    turned = dict(reversed(paths.items()))
    assert sorted(t.name for t in listing(turned).tools) == sorted(names)


def test_parameters_of_the_operation_replace_those_of_its_path():
    paths = {
        "/a/{id}": {
            "parameters": [ID, {"name": "n", "in": "query", "schema": TEXT}],
            "get": {"parameters": [{"name": "n", "in": "query", "schema": {"type": "integer"}}]},
        }
    }
    one = only_tool(paths)
    assert one.input_schema["properties"] == {"id": TEXT, "n": {"type": "integer"}}


def test_parameters_of_one_name_become_arguments_of_two():
    path = {"parameters": [ID, {"name": "id", "in": "query"}, {"name": "a[b]", "in": "query"}]}
    one = only_tool({"/a/{id}": {"get": path}})
    assert list(one.input_schema["properties"]) == ["id", "id_query", "a_b"]
    bound = Operation.from_extra(one.extra["http"]).parameters
    assert [(p.name, p.location, p.argument) for p in bound] == [
        ("id", "path", "id"),
        ("id", "query", "id_query"),
        ("a[b]", "query", "a_b"),
    ]


def test_references_to_parameters_and_bodies_are_followed():
    components = {
        "parameters": {"Page": {"name": "page", "in": "query", "schema": TEXT}},
        "requestBodies": {"Item": {"content": JSON}},
    }
    operation = {
        "parameters": [{"$ref": "#/components/parameters/Page"}],
        "requestBody": {"$ref": "#/components/requestBodies/Item"},
    }
    one = tool(operation, method="post", components=components)
    assert list(one.input_schema["properties"]) == ["page", "body"]


def test_styles_are_kept():
    parameters = [
        {"name": "a", "in": "query", "style": "deepObject", "explode": True, "schema": {}},
        {"name": "b", "in": "query", "style": "pipeDelimited", "schema": {}},
        {"name": "c", "in": "query", "allowReserved": True, "schema": {}},
        {"name": "d", "in": "query", "content": JSON},
        {"name": "e", "in": "header", "schema": {}},
    ]
    bound = Operation.from_extra(tool({"parameters": parameters}).extra["http"]).parameters
    assert [(p.style, p.explode, p.keeps_reserved, p.is_json) for p in bound] == [
        ("deepObject", True, False, False),
        ("pipeDelimited", False, False, False),
        ("form", True, True, False),
        ("form", True, False, True),
        ("simple", False, False, False),
    ]


@pytest.mark.parametrize(
    ("parameter", "reason"),
    [
        ({"name": "sid", "in": "cookie", "required": True}, "must be in path, query or header"),
        ({"name": "Host", "in": "header", "required": True}, "a header that a client may set"),
        ({"name": "X-Forwarded-For", "in": "header", "required": True}, "that a client may set"),
        ({"name": "a b", "in": "header", "required": True}, "must have the name of a header"),
        ({"name": "a", "in": "query", "style": "matrix"}, "style of 'a' must be one of form"),
        ({"name": "a", "in": "query", "content": {"text/xml": {}}}, "must be JSON alone"),
        ({"in": "query"}, "must have a name and a place"),
        ({"$ref": "other.yaml#/x"}, "must lead to a place in the document"),
        (5, "a parameter must be an object"),
    ],
)
def test_a_parameter_that_must_be_sent_and_cannot_be_costs_the_operation(parameter, reason):
    assert reason in skipped({"parameters": [parameter]})


@pytest.mark.parametrize("name", ["Authorization", "Content-Type", "X-Key"])
def test_headers_that_are_sent_anyway_are_no_arguments(name):
    parameters = [{"name": name, "in": "header", "required": True}]
    one = tool({"parameters": parameters}, settings={"configured_headers": ("x-key",)})
    assert one.input_schema["properties"] == {}


def test_an_optional_cookie_is_left_out():
    parameters = [{"name": "sid", "in": "cookie"}]
    assert tool({"parameters": parameters}).input_schema["properties"] == {}


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("items", "path must start with /"),
        ("/a?b=c", "neither query"),
        ("/a/../b", "no dot segments"),
        ("/a/%2E%2e", "no dot segments"),
        ("/a b", "nor spaces"),
        ("/a\\b", "path must start"),
        ("/a/{id", "path must start"),
        ("/a/{id}", "got none for 'id'"),
    ],
)
def test_a_path_that_could_lead_elsewhere_costs_the_operation(path, reason):
    assert reason in skipped({}, path=path)


def test_a_plain_body_becomes_arguments_of_its_own():
    schema = {
        "type": "object",
        "properties": {"name": TEXT, "n": {"type": "integer"}},
        "required": ["name"],
    }
    one = body_tool(schema)
    assert one.input_schema["properties"] == schema["properties"]
    assert one.input_schema["required"] == ["name"]
    assert one.extra["http"]["body"] == {
        "media_type": "application/json",
        "required": True,
        "flattened": True,
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": TEXT},
        {"type": "object"},
        {"properties": {"a": TEXT}, "anyOf": [{"required": ["a"]}]},
        {"properties": {"a": TEXT}, "additionalProperties": True},
        {"properties": {"a": TEXT}, "minProperties": 1},
        {"properties": {"a b": TEXT}},
        {"properties": {"a": TEXT}, "required": ["b"]},
        {"type": ["object", "null"], "properties": {"a": TEXT}},
        True,
    ],
)
def test_any_other_body_is_one_argument(schema):
    one = body_tool(schema)
    assert list(one.input_schema["properties"]) == ["body"]
    assert one.extra["http"]["body"]["argument"] == "body"


def test_a_body_whose_property_is_named_like_a_parameter_is_one_argument():
    operation = {
        "parameters": [ID],
        "requestBody": {"content": {"application/json": {"schema": {"properties": {"id": {}}}}}},
    }
    one = only_tool({"/a/{id}": {"put": operation}})
    assert list(one.input_schema["properties"]) == ["id", "body"]


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        ({"text/plain": {}, "application/json": {}}, "application/json"),
        ({"application/vnd.api+json; v=1": {}}, "application/vnd.api+json"),
        ({"multipart/form-data": {}, FORM: {}}, FORM),
        ({"text/csv": {}}, "text/csv"),
        ({"*/*": {}}, "application/json"),
    ],
)
def test_json_goes_before_forms_before_text(content, media_type):
    one = tool({"requestBody": {"content": content}}, method="post")
    assert one.extra["http"]["body"]["media_type"] == media_type


def test_a_body_that_cannot_be_sent_costs_the_operation_only_if_it_must_be():
    content: dict = {"multipart/form-data": {"schema": {}}}
    reason = skipped({"requestBody": {"content": content, "required": True}})
    assert reason.endswith(
        "must be JSON, a URL-encoded form or plain text, got multipart/form-data"
    )
    assert "body" not in tool({"requestBody": {"content": content}}, method="post").extra["http"]


def test_damaged_operations_are_left_out_and_the_rest_is_kept():
    paths = {
        "/a": {"get": "text", "post": {"operationId": "good"}, "trace": {}},
        "/b": 5,
        "/c": {"$ref": "other.yaml"},
        "/d": {"get": {"parameters": {}}},
        "x-note": {"get": {}},
    }
    got = listing(paths)
    assert [t.name for t in got.tools] == ["good"]
    assert sorted(s.operation for s in got.skipped) == ["/b", "/c", "GET /a", "GET /d", "TRACE /a"]


def test_only_names_tags_ids_and_operations():
    paths = {
        "/a": {"get": {"operationId": "one", "tags": ["x"]}, "post": {"operationId": "two"}},
        "/b": {"get": {"tags": ["x", "y"]}},
    }
    for only, count in ((["x"], 2), (["one"], 1), (["POST /a"], 1), (["two", "y"], 2)):
        assert len(listing(paths, settings={"only": only}).tools) == count
    with pytest.raises(ConfigError, match=r"only must name a tag or an operation .* got 'z'"):
        listing(paths, settings={"only": ["x", "z"]})


@pytest.mark.parametrize(
    ("servers", "location", "address"),
    [
        ([{"url": "https://a.example/v1/"}], "x.json", "https://a.example/v1"),
        ([{"url": "HTTPS://A.example:443"}], "x.json", "https://a.example"),
        ([{"url": "/v1"}], "http://localhost:8000/docs/openapi.json", "http://localhost:8000/v1"),
        ([], "http://localhost:8000/openapi.json", "http://localhost:8000"),
        ([{"url": "ws://a"}, {"url": "http://b"}], "x.json", "http://b"),
        (
            [
                {
                    "url": "https://{r}.example:{p}",
                    "variables": {"r": {"default": "eu"}, "p": {"default": 8443}},
                }
            ],
            "x.json",
            "https://eu.example:8443",
        ),
    ],
)
def test_the_address_is_that_of_the_first_server_that_can_be_used(servers, location, address):
    assert tool({}, servers=servers, location=location).extra["http"]["base_url"] == address


@pytest.mark.parametrize(
    ("servers", "reason"),
    [
        ([{"url": "/v1"}], "must name an http(s) server, or base_url must"),
        ([{"url": "https://{x}.example"}], "variable 'x' of a server must have a default"),
        ([{"url": "https://user:secret@a.example"}], "must not carry a user or password"),
        ([{"url": "https://a.example/?x=1"}], "without query"),
        ([{"url": "https://a.example/../x"}], "must be an http or https address"),
        ([{"url": 5}], "a server must have a url"),
        ("text", "servers must be a list"),
    ],
)
def test_an_address_that_cannot_be_used_costs_the_operations(servers, reason):
    got = skipped({}, servers=servers)
    assert reason in got
    assert "secret" not in got


def test_a_configured_address_replaces_that_of_the_description_and_not_an_operations_own():
    settings = {"base_url": "http://localhost:9"}
    paths = {
        "/a": {"get": {"operationId": "a"}},
        "/b": {"get": {"operationId": "b", "servers": [{"url": "https://other.example"}]}},
    }
    first, second = listing(paths, settings=settings).tools
    assert "base_url" not in first.extra["http"]
    assert second.extra["http"]["base_url"] == "https://other.example"
    assert second.extra["http"]["own_server"] is True
