"""The files of deploy/ for GPU machines, read as text: they run elsewhere and must not rot here."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("yaml", reason="needs the extra [openapi]")

import yaml

from toolheads.entrypoints.cli import _GROUPS, _parser
from toolheads.entrypoints.cli.options import encoder_settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
MODEL = "Qwen/Qwen3-Embedding-8B"
CONFIG = ROOT / "configs" / "qwen3-embedding-8b.yaml"
SLURM = DEPLOY / "slurm.sh"


@pytest.fixture(scope="module")
def services():
    return yaml.safe_load((DEPLOY / "compose.gpu.yaml").read_text("utf-8"))["services"]


@pytest.fixture(scope="module")
def manifest():
    documents = yaml.safe_load_all((DEPLOY / "kubernetes-gpu.yaml").read_text("utf-8"))
    return {(one["kind"], one["metadata"]["name"]): one for one in documents}


@pytest.fixture(scope="module")
def pods(manifest):
    kinds = ("Deployment", "Job")
    return {
        kind: one["spec"]["template"]["spec"]
        for (kind, _), one in manifest.items()
        if kind in kinds
    }


@pytest.fixture(scope="module")
def config():
    return yaml.safe_load(CONFIG.read_text("utf-8"))


def vllm_flags(words):
    """Flag → value of `vllm serve`."""
    pairs = [word.partition("=") for word in words if word.startswith("--")]
    return {name: value for name, _, value in pairs}


def commands_of_the_comments(path):
    text = re.sub(r"\\\n#\s+", "", path.read_text("utf-8"))
    return re.findall(r"^#   (.+)$", text, re.MULTILINE)


def test_the_commands_of_the_services_exist(services):
    jobs = _parser([], _GROUPS).parse_args(services["jobs"]["command"])
    server = _parser([], _GROUPS).parse_args(services["server"]["command"])
    assert encoder_settings(jobs).url == encoder_settings(server).url == "http://vllm:8000"
    assert server.host == "0.0.0.0"


def test_the_server_loads_what_the_training_makes(services, config):
    server = _parser([], _GROUPS).parse_args(services["server"]["command"])
    assert str(server.heads) == f"{config['runs']}/{config['name']}/heads.npz"
    encoder = encoder_settings(server)
    assert encoder.truncation == config["data"]["encoder"]["truncation"]
    assert encoder.model == config["data"]["encoder"]["model"] == MODEL


def test_the_encoder_is_the_model_of_the_config_and_cuts_no_text_short(services, pods, config):
    (pod,) = (one for one in pods["Deployment"]["containers"])
    for words in (services["vllm"]["command"], pod["args"]):
        flags = vllm_flags(words)
        assert words[:2] == ["serve", config["data"]["encoder"]["model"]]
        assert flags["--runner"] == "pooling"
        assert int(flags["--max-model-len"]) >= config["data"]["encoder"]["truncation"]
        assert int(flags["--max-num-batched-tokens"]) >= int(flags["--max-model-len"])


def test_services_wait_for_an_encoder_that_answers(services, pods):
    assert services["jobs"]["depends_on"]["vllm"]["condition"] == "service_healthy"
    (pod,) = pods["Deployment"]["containers"]
    assert "/health'" in services["vllm"]["healthcheck"]["test"][-1]
    assert pod["readinessProbe"]["httpGet"]["path"] == "/health"
    port = int(vllm_flags(services["vllm"]["command"])["--port"])
    assert f":{port}/health" in services["vllm"]["healthcheck"]["test"][-1]
    assert pod["ports"][0]["containerPort"] == int(vllm_flags(pod["args"])["--port"])


def test_nothing_runs_as_root_or_with_more_rights_than_it_needs(services, pods):
    for one in services.values():
        assert (one["user"], one["cap_drop"]) == ("1000:1000", ["ALL"])
    for pod in pods.values():
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in pod["containers"]:
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_the_job_makes_an_index_through_the_service(manifest, pods):
    (container,) = pods["Job"]["containers"]
    args = _parser([], _GROUPS).parse_args(container["args"])
    service = manifest["Service", "toolheads-vllm"]
    url = f"http://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    assert encoder_settings(args).url == url
    labels = manifest["Deployment", "toolheads-vllm"]["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == labels


def test_every_volume_of_a_pod_is_there(manifest, pods):
    claims = {name for kind, name in manifest if kind == "PersistentVolumeClaim"}
    for pod in pods.values():
        mounted = {m["name"] for one in pod["containers"] for m in one["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}
        named = [volume.get("persistentVolumeClaim") for volume in pod["volumes"]]
        assert {one["claimName"] for one in named if one} <= claims


def test_files_that_the_comments_name_exist():
    for path in (DEPLOY / "compose.gpu.yaml", DEPLOY / "kubernetes-gpu.yaml", SLURM):
        for command in commands_of_the_comments(path):
            for word in shlex.split(command, comments=True):
                if word.startswith(("deploy/", "configs/")) or word == "Dockerfile.gpu":
                    assert (ROOT / word).is_file(), (path.name, word)


def test_the_cluster_script_is_a_shell_script_and_names_a_config():
    sh = shutil.which("sh")
    if sh is None:
        pytest.skip("needs a shell")
    assert subprocess.run([sh, "-n", str(SLURM)], check=False).returncode == 0
    text = SLURM.read_text("utf-8")
    (config,) = re.findall(r"config=\$\{1:-(\S+)\}", text)
    assert (ROOT / config) == CONFIG
    assert f"model={MODEL}\n" in text


FAKE_APPTAINER = """#!/bin/sh
while [ "$1" != vllm ] && [ "$1" != toolheads ]; do shift; done
echo "${CUDA_VISIBLE_DEVICES:-} $*" >> "$CALLS"
if [ "$1" = toolheads ]; then
    until [ "$(grep -c '^pid' "$CALLS")" = 2 ]; do sleep 0.1; done
    exit "${TRAINED:-0}"
fi
[ -z "${BROKEN:-}" ] || exit 3
echo "pid $$" >> "$CALLS"
exec sleep 60
"""


@pytest.fixture
def cluster(tmp_path):
    """The script on a node of two cards, whose image and servers are stand-ins."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    for name, text in (("apptainer", FAKE_APPTAINER), ("curl", "#!/bin/sh\nexit ${DOWN:-0}\n")):
        (bin_folder / name).write_text(text)
        (bin_folder / name).chmod(0o755)

    def run(**environ):
        path = f"{bin_folder}:/usr/bin:/bin"
        calls = tmp_path / "calls"
        environ = {"PATH": path, "CALLS": str(calls), "SLURM_GPUS_ON_NODE": "2", **environ}
        done = subprocess.run(
            ["sh", str(SLURM)],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            timeout=30,
            check=False,
        )
        return done, calls.read_text().splitlines()

    return run


def test_the_cluster_script_trains_through_a_server_on_each_card(cluster):
    done, calls = cluster(SLURM_JOB_ID="7")
    assert done.returncode == 0
    servers = sorted(call for call in calls if "vllm serve" in call)
    assert [call.split()[0] for call in servers] == ["0", "1"]
    (train,) = (shlex.split(call) for call in calls if "toolheads train" in call)
    assert train[-1] == "http://127.0.0.1:20007/v1,http://127.0.0.1:20008/v1"


def test_the_cluster_script_leaves_no_server_behind(cluster):
    _, calls = cluster(TRAINED="2")
    pids = [int(call.split()[1]) for call in calls if call.startswith("pid ")]
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_the_cluster_script_ends_when_a_server_does(cluster):
    done, calls = cluster(BROKEN="1", DOWN="1")
    assert done.returncode == 1
    assert b"a vLLM server ended" in done.stderr
    assert not [call for call in calls if "toolheads" in call]


def test_the_cluster_script_tells_when_training_failed(cluster):
    assert cluster(TRAINED="2")[0].returncode == 2


def test_the_keys_of_the_server_are_the_example_s(services):
    names = re.findall(r"\$\{(\w+)\}", (DEPLOY / "keys.example.json").read_text("utf-8"))
    assert set(names) == set(services["server"]["environment"])
    assert json.loads((DEPLOY / "keys.example.json").read_text("utf-8"))


def test_the_jobs_of_the_recipe_exist():
    text = (ROOT / "docs" / "deploy.md").read_text("utf-8")
    jobs = re.findall(r"run --rm jobs (.+)$", text, re.MULTILINE)
    train, reindex = (shlex.split(job) for job in jobs)
    assert train[:2] == ["train", "fit"]
    assert (ROOT / train[train.index("--config") + 1]) == CONFIG
    assert encoder_settings(_parser([], _GROUPS).parse_args(reindex)).model == MODEL


def test_the_recipe_embeds_what_the_training_reads(config):
    text = (ROOT / "docs" / "deploy.md").read_text("utf-8")
    (embed,) = re.findall(r"^toolheads (embed .*)$", text, re.MULTILINE)
    args = _parser([], _GROUPS).parse_args(shlex.split(embed))
    texts, encoder = config["data"]["texts"], config["data"]["encoder"]
    assert (args.tool_format, args.instruction) == (texts["tool_format"], texts["instruction"])
    assert (args.model, args.truncation) == (encoder["model"], encoder["truncation"])
