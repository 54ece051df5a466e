"""What a grid file may hold, and what it becomes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped, unused-ignore]

pytest.importorskip("torch")

from toolheads.errors import ConfigError
from toolheads_train.settings import HeadSettings, LossSettings, OptimizerSettings
from toolheads_train.sweep.grid import (
    Grid,
    Member,
    label,
    variant_of,
    wandb_sweep,
    words,
)

pytestmark = pytest.mark.train

GRID = {
    "seed_everything": [0, 1],
    "model.optimizer.lr": [1e-4, "3e-4"],
    "model.head.hidden": [[4], [8]],
}


def test_every_combination_comes_once():
    grid = Grid.of(GRID)
    found = [(*apart.items(), *own.items()) for apart in grid.apart() for own in grid.together()]
    assert len(found) == len(grid) == 8
    assert len({str(one) for one in found}) == 8


def test_what_has_another_shape_is_apart():
    grid = Grid.of(GRID)
    assert [one["model.head.hidden"] for one in grid.apart()] == [[4], [8]]
    assert {name for one in grid.together() for name in one} == {
        "seed_everything",
        "model.optimizer.lr",
    }


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([], "must map settings to lists"),
        ({}, "must map settings to lists"),
        ({"seed_everything": 3}, "must have a list of values for seed_everything"),
        ({"seed_everything": []}, "must have a list of values for seed_everything"),
        ({"model.head.alpha": [1.0, 1.0]}, "must have different values for model.head.alpha"),
    ],
)
def test_a_grid_that_is_none_is_refused(found, message):
    with pytest.raises(ConfigError, match=message):
        Grid.of(found)


def test_a_file_that_is_no_yaml_is_refused(tmp_path):
    (tmp_path / "grid.yaml").write_text("a: [", encoding="utf-8")
    with pytest.raises(ConfigError, match="grid must be a YAML file"):
        Grid.read(tmp_path / "grid.yaml")


def test_a_member_has_the_grids_values_and_the_configs_others():
    settings = {"seed_everything": 5, "model.optimizer.lr": "3e-4", "model.loss.mask_margin": None}
    loss = LossSettings(mask_margin=0.1, temperature=0.07)
    member = Member.of(settings, 0, HeadSettings(), loss, OptimizerSettings(weight_decay=0.5))
    assert (member.seed, member.optimizer.lr, member.optimizer.weight_decay) == (5, 3e-4, 0.5)
    assert (member.loss.mask_margin, member.loss.temperature) == (None, 0.07)


def test_a_value_that_breaks_its_rule_is_refused():
    parts = HeadSettings(), LossSettings(), OptimizerSettings()
    with pytest.raises(ConfigError, match=r"model\.optimizer\.lr must be > 0"):
        Member.of({"model.optimizer.lr": -1}, 0, *parts)
    with pytest.raises(ConfigError, match=r"model\.optimizer\.lr must be a number"):
        Member.of({"model.optimizer.lr": "fast"}, 0, *parts)


def test_seeds_are_no_variants():
    settings = {"seed_everything": 3, "data.seed": 1, "model.head.alpha": 0.5}
    assert label(variant_of(settings)) == "head.alpha=0.5"
    assert label({}) == "as configured"


def test_settings_become_options_of_fit():
    settings = {"model.head.hidden": [4, 8], "model.loss.mask_margin": None, "data.overlap": "x"}
    assert words(settings) == [
        "--model.head.hidden=[4, 8]",
        "--model.loss.mask_margin=null",
        "--data.overlap=x",
    ]


def test_the_sweep_of_wandb_has_the_same_values():
    found = yaml.safe_load(wandb_sweep(Grid.of(GRID), Path("configs/minilm.yaml")))
    assert found["metric"] == {"name": "val/ndcg@10", "goal": "maximize"}
    values = {n: p["values"] for n, p in found["parameters"].items()}
    assert values == {**GRID, "model.head.hidden": ["[4]", "[8]"]}
    assert found["command"][-1] == "${args}"
    assert "toolheads train fit --config configs/minilm.yaml" in found["command"][2]


def test_an_agent_of_wandb_starts_a_fit_with_the_options_of_a_variant(tmp_path):
    """Put together as its agent does, up to the words that reach the command."""
    agents = pytest.importorskip("wandb.sdk.launch.sweeps.utils")
    settings = {
        "model.optimizer.lr": 0.001,
        "model.loss.mask_margin": None,
        "model.head.hidden": [4, 8],
        "data.overlap": "of mine.json",
    }
    grid = Grid.of({name: [value] for name, value in settings.items()})
    sweep = yaml.safe_load(wandb_sweep(grid, Path("my config.yaml")))
    values = {name: {"value": one["values"][0]} for name, one in sweep["parameters"].items()}
    flags = agents.create_sweep_command_args({"args": values})["args"]
    command = agents.create_sweep_command(list(sweep["command"]))
    command = [word for part in command for word in (flags if part == "${args}" else [part])]
    (tmp_path / "toolheads").write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n", encoding="utf-8")
    (tmp_path / "toolheads").chmod(0o755)
    env = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "WANDB_RUN_ID": "x1"}
    told = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    usual = ["train", "fit", "--config", "my config.yaml", "--name", "sweep-x1"]
    assert told.splitlines() == [*usual, "--wandb.project", "toolheads", *words(settings)]
