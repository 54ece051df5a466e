"""Servers for tests: an app without a network, as one client of it sees it."""

from __future__ import annotations

import json
from contextlib import contextmanager

from starlette.testclient import TestClient
from tests.unit.serving.fakes import FakeCaller, a_retriever, fake_calls

from toolheads.serving import ServeSettings, create_app, load_keys

SEARCH_KEY = "search-key-0123456789"
FULL_KEY = "full-key-0123456789ab"
MAIL_KEY = "mail-key-0123456789ab"
METRICS_KEY = "metrics-key-012345678"
KEYS = {
    "searcher": {"key": SEARCH_KEY, "scopes": ["search"]},
    "agent": FULL_KEY,
    "mailer": {"key": MAIL_KEY, "sources": ["mail"]},
    "prometheus": {"key": METRICS_KEY, "scopes": ["metrics"]},
}


class Served:
    """An app that runs, with the parts that stand behind it."""

    def __init__(self, client, retriever, caller):
        self.client, self.retriever, self.caller = client, retriever, caller

    def post(self, path, body, *, key=None, **headers):
        if key:
            headers["Authorization"] = f"Bearer {key}"
        return self.client.post(path, json=body, headers=headers)

    def get(self, path, *, key=None, **headers):
        if key:
            headers["Authorization"] = f"Bearer {key}"
        return self.client.get(path, headers=headers)


@contextmanager
def served(
    *, keys=None, usage=None, tmp_path=None, retriever=None, heads="", aids=None, **settings
):
    retriever, caller = retriever or a_retriever(), FakeCaller()
    found = None
    if keys is not None:
        (tmp_path / "keys.json").write_text(json.dumps(keys))
        found = load_keys(tmp_path / "keys.json", environ={})
    app = create_app(
        retriever,
        fake_calls(caller),
        settings=ServeSettings(**settings),
        keys=found,
        usage=usage,
        heads=heads,
        aids=aids,
    )
    with TestClient(app, base_url="http://127.0.0.1:8765") as client:
        yield Served(client, retriever, caller)


def error_of(response):
    """(status, code) of an error, whose form is checked."""
    assert response.headers["content-type"] == "application/json"
    (error,) = response.json().values()
    assert set(error) == {"code", "message"}
    assert "\n" not in error["message"]
    assert "Traceback" not in response.text
    return response.status_code, error["code"]
