"""The GPU image's recipe, read as text: it is built elsewhere, so it must not rot here."""

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from toolheads.entrypoints.cli import _parser
from toolheads.entrypoints.cli.options import encoder_settings

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "Dockerfile.gpu"

BASE_COMMANDS = {"python3", "mkdir", "set"}
"""What vLLM's image or any shell has."""


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


def test_the_extras_it_installs_exist(project):
    (extras,) = re.findall(r"\.whl.*?\$1\[(.+?)\]", " ".join(rest_of("RUN")))
    assert extras.split(",") == ["train", "openai", "local"]
    assert set(extras.split(",")) <= set(project["optional-dependencies"])


def test_every_installation_is_held_by_the_constraints_or_a_pin():
    installs = [words for words in commands() if "install" in words]
    assert installs
    for words in installs:
        pinned = any("==" in word for word in words) and "--no-deps" in words
        assert "--constraint" in words or pinned, words


def test_the_base_is_pinned_to_a_release():
    (declared,) = rest_of("ARG")
    assert re.fullmatch(r"VLLM_IMAGE=vllm/vllm-openai:v\d+\.\d+\.\d+", declared)
    assert {rest.split()[0] for rest in rest_of("FROM")} == {"${VLLM_IMAGE}"}


def test_the_torch_of_the_base_is_the_one_of_the_constraints():
    said = re.search(r"has torch (\d+\.\d+\.\d+)\.", RECIPE.read_text("utf-8"))
    assert said
    assert f"torch=={said[1]}" in (ROOT / "constraints.txt").read_text("utf-8").split()


def test_it_does_not_run_as_root_and_is_a_job():
    assert rest_of("USER")[-1] == "1000:1000"
    names = [instruction for instruction, _ in instructions()]
    assert names.index("USER") > max(i for i, name in enumerate(names) if name == "RUN")
    assert not {"HEALTHCHECK", "EXPOSE", "ADD"} & set(names)


def test_it_carries_no_secret():
    for _, rest in instructions():
        assert not re.search(r"(?i)secret|passw|token|api_?key|://[^/\s]*@", rest), rest


def test_the_commands_in_its_comments_exist():
    comments = re.findall(r"^#.*toolheads-gpu (\w.*)$", RECIPE.read_text("utf-8"), re.MULTILINE)
    assert len(comments) == 2
    embed, train = (shlex.split(comment) for comment in comments)
    args = _parser({}).parse_args(embed)
    assert encoder_settings(args).kind == "vllm"
    assert train[:2] == ["train", "fit"]
    config = train[train.index("--config") + 1]
    assert config.startswith("configs/")
    assert (ROOT / config).is_file()
