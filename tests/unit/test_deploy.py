"""The files of deploy/, read as text: they run elsewhere, so they must not rot here."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("yaml", reason="needs the extra [openapi]")
pytest.importorskip("starlette", reason="needs the extra [serve]")

import yaml
from tests.unit.serving.fakes import FakeCaller, a_retriever, fake_calls

from toolheads.entrypoints.cli import _GROUPS, _parser
from toolheads.serving import ServeSettings, load_keys
from toolheads.serving.rest import Rest
from toolheads.serving.service import ToolService

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


@pytest.fixture(scope="module")
def manifest():
    documents = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text("utf-8"))
    return {document["kind"]: document for document in documents}


@pytest.fixture(scope="module")
def container(manifest):
    (container,) = manifest["Deployment"]["spec"]["template"]["spec"]["containers"]
    return container


@pytest.fixture(scope="module")
def service():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]["toolheads"]


def test_what_the_containers_run_is_a_command(container, service):
    for words in (container["args"], service["command"]):
        args = _parser([], _GROUPS).parse_args(words)
        assert (args.host, args.folder) == ("0.0.0.0", Path("/catalogue"))
        assert args.keys is not None


def test_probes_ask_for_what_is_served(container, service, a_rest):
    paths = {route.path for route in a_rest.routes()}
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness")}
    live = container["livenessProbe"]["httpGet"]
    assert {probe["path"] for probe in probes.values()} == {"/readyz"}
    assert live["path"] == "/healthz"  # a server that is not ready yet must not be killed
    assert {"/readyz", "/healthz"} <= paths
    assert "/readyz" in " ".join(service["healthcheck"]["test"])
    ports = [container["ports"][0]["containerPort"], int(service["ports"][0].split(":")[-1])]
    assert ports == [_parser([], _GROUPS).parse_args(["serve"]).port] * 2


def test_containers_may_do_nothing_beyond_their_work(manifest, container, service):
    pod = manifest["Deployment"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    for one in (container, *pod["initContainers"]):
        locked = one["securityContext"]
        assert locked["readOnlyRootFilesystem"] is True
        assert locked["capabilities"] == {"drop": ["ALL"]}
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])


def test_there_is_time_to_end(manifest, container, service):
    """preStop and the drain of the server fit into what the container is given."""
    drain_s = 20
    pod = manifest["Deployment"]["spec"]["template"]["spec"]
    slept = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert slept + drain_s < pod["terminationGracePeriodSeconds"]
    assert drain_s < int(service["stop_grace_period"].removesuffix("s"))


def test_the_service_finds_the_pods(manifest):
    labels = manifest["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert manifest["Service"]["spec"]["selector"] == labels
    assert manifest["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels


def test_every_volume_that_is_mounted_is_there(manifest):
    pod = manifest["Deployment"]["spec"]["template"]["spec"]
    mounted = {
        mount["name"]
        for one in (*pod["containers"], *pod["initContainers"])
        for mount in one["volumeMounts"]
    }
    assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_the_example_of_a_keys_file_is_one():
    names = re.findall(r"\$\{(\w+)\}", (DEPLOY / "keys.example.json").read_text("utf-8"))
    environ = {name: f"{name}-0123456789abcdef" for name in names}
    keys = load_keys(DEPLOY / "keys.example.json", environ=environ)
    assert len(keys) == len(json.loads((DEPLOY / "keys.example.json").read_text("utf-8")))


def test_the_image_copies_what_there_is():
    recipe = (DEPLOY / "Dockerfile").read_text("utf-8")
    for line in re.findall(r"^COPY (?!--)(.*)$", recipe, re.MULTILINE):
        for path in line.split()[:-1]:
            assert (ROOT / path).exists(), path


@pytest.fixture(scope="module")
def a_rest():
    service = ToolService(a_retriever(), fake_calls(FakeCaller()), settings=ServeSettings())
    return Rest(service, version="0")
