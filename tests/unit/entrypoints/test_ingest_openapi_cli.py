"""`toolheads ingest openapi`, with files and with a description behind an address."""

import json
from typing import Any

import pytest
from tests.unit.calls.api_server import ApiServer

from toolheads.catalogue import read_catalogue, read_sources
from toolheads.entrypoints.cli import main

pytest.importorskip("filelock", reason="needs the extra [ingest]")
pytest.importorskip("httpx", reason="needs the extra [openapi]")

SPEC = {
    "openapi": "3.1.0",
    "info": {"title": "Shop", "version": "1"},
    "servers": [{"url": "https://shop.example/v1"}],
    "paths": {
        "/items": {"get": {"operationId": "listItems", "tags": ["items"]}},
        "/orders": {
            "post": {"operationId": "order"},
            "get": {"operationId": "damaged", "parameters": 5},
        },
    },
}


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "shop.json"
    path.write_text(json.dumps(SPEC))
    return path


@pytest.fixture
def out(tmp_path):
    return tmp_path / "catalogue"


def ingest(spec, out, *options):
    return main(["ingest", "openapi", str(spec), "--name", "shop", "--out", str(out), *options])


def ids(out):
    return sorted(tool.id for tool in read_catalogue(out, allow_empty=True).tools)


def test_the_operations_of_a_file_become_tools_and_damaged_ones_are_told(spec, out, capsys):
    assert ingest(spec, out) == 0
    assert ids(out) == ["shop/listItems", "shop/order"]
    printed = capsys.readouterr()
    assert printed.out == "shop: 2 added\n"
    assert "shop: left out: GET /orders: parameters must be a list, got 5" in printed.err
    assert read_sources(out) == {"shop": {"kind": "openapi", "spec": str(spec)}}


def test_running_again_changes_only_what_changed(spec, out, capsys):
    ingest(spec, out)
    assert ingest(spec, out) == 0
    assert capsys.readouterr().out == "shop: 2 added\nshop: 2 kept\n"
    spec.write_text(json.dumps(SPEC).replace("listItems", "findItems"))
    assert main(["sync", str(out)]) == 0
    assert ids(out) == ["shop/findItems", "shop/order"]


def test_a_dry_run_writes_nothing(spec, out, capsys):
    assert ingest(spec, out, "--dry-run") == 0
    assert "  + shop/listItems\n" in capsys.readouterr().out
    assert not out.exists()


def test_options_are_kept_for_the_next_time_with_their_variables_unfilled(spec, out, monkeypatch):
    monkeypatch.setenv("SHOP_TOKEN", "secret")
    options = [
        "--base-url",
        "http://127.0.0.1:9/v2",
        "--header",
        "Authorization: Bearer ${SHOP_TOKEN}",
    ]
    options += ["--only", "items", "--max-tool-bytes", "2000", "--allow-write"]
    assert ingest(spec, out, *options) == 0
    assert ids(out) == ["shop/listItems"]
    assert read_sources(out)["shop"] == {
        "kind": "openapi",
        "spec": str(spec),
        "base_url": "http://127.0.0.1:9/v2",
        "headers": {"Authorization": "Bearer ${SHOP_TOKEN}"},
        "only": ["items"],
        "max_tool_bytes": 2000,
        "allow_write": True,
    }
    assert "secret" not in (out / "sources.json").read_text()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--header", "X: 1"], "must have a base_url to send headers to"),
        (["--header", "secret"], "header must be written as 'NAME: VALUE'"),
        (["--base-url", "ftp://a"], "base_url must be an http or https address"),
        (["--base-url", "http://a:b@c"], "base_url must not carry a user or password"),
        (["--base-url", "http://a", "--header", "X: ${NO_SUCH_VARIABLE}"], "NO_SUCH_VARIABLE must"),
        (["--base-url", "http://a", "--header", "X Y: 1"], "must have names of headers"),
        (["--only", "nobody"], "only must name a tag or an operation of the description"),
        (["--max-tool-bytes", "1"], "max_tool_bytes must be >= 500, got 1"),
    ],
)
def test_a_bad_option_is_told_in_one_line(spec, out, capsys, options, reason):
    assert ingest(spec, out, *options) == 2
    err = capsys.readouterr().err
    assert reason in err
    assert err.count("\n") == 1
    assert not (out / "tools.jsonl").exists()


def test_a_description_that_cannot_be_read_keeps_the_tools_of_before(spec, out, capsys):
    ingest(spec, out)
    spec.write_text("[")
    assert ingest(spec, out) == 1
    assert "its 2 tools of before stay" in capsys.readouterr().err
    assert len(ids(out)) == 2
    spec.unlink()
    assert main(["sync", str(out)]) == 1
    assert len(ids(out)) == 2


class SpecServer(ApiServer):
    """Answers with its `spec` at `/openapi.json`."""

    def __init__(self, spec):
        super().__init__()
        body = json.dumps(spec).encode()
        handler: Any = self._server.RequestHandlerClass
        answer = handler.answer

        def answer_spec(self):
            if self.path != "/openapi.json":
                return answer(self)
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.api.seen.append({"target": self.path, "headers": headers})
            return self.reply(200, body)

        handler.do_GET = answer_spec


def test_a_description_behind_an_address_is_fetched_with_the_headers_of_its_own_server(out):
    with SpecServer({**SPEC, "servers": []}) as server:
        code = ingest(f"{server.url}/openapi.json", out, "--header", "X-Key: 1")
    assert code == 0
    (tool, _) = read_catalogue(out).tools
    assert tool.extra["http"]["base_url"] == server.url
    assert server.seen[0]["headers"]["x-key"] == "1"


def test_headers_for_another_address_are_not_sent_to_where_the_description_is(out):
    options = ["--base-url", "https://shop.example", "--header", "X-Key: 1"]
    with SpecServer(SPEC) as server:
        assert ingest(f"{server.url}/openapi.json", out, *options) == 0
    assert "x-key" not in server.seen[0]["headers"]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/redirect", "must be the description itself, got a redirect to http://169"),
        ("/status/500", "must answer with status 200, got 500"),
        ("/broken", "must be reachable, got"),
        ("/empty", "must answer with status 200, got 204"),
    ],
)
def test_an_address_without_a_description_is_told_in_one_line(out, capsys, path, reason):
    with ApiServer() as server:
        assert ingest(f"{server.url}{path}", out) == 1
    assert reason in capsys.readouterr().err.splitlines()[0]


def test_a_description_that_never_ends_is_given_up(out, capsys):
    with ApiServer() as server:
        assert ingest(f"{server.url}/drip", out, "--timeout", "0.3") == 1
    assert "within 33,554,432 bytes and 0.3 s" in capsys.readouterr().err
