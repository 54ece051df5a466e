"""`toolheads train` from its words to its folder, on a tiny data set and a model-free encoder."""

from __future__ import annotations

import csv
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped, unused-ignore]

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from tests.hash_encoder import HashEncoder  # noqa: E402
from tests.train.synthetic import HARMLESS  # noqa: E402

from toolheads.heads import load_heads  # noqa: E402
from toolheads_train.cli import main  # noqa: E402
from toolheads_train.data import folders  # noqa: E402
from toolheads_train.loop.module import HeadsModule  # noqa: E402

pytestmark = [pytest.mark.train, *(pytest.mark.filterwarnings(w) for w in HARMLESS)]

ROOT = Path(__file__).parents[2]
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))
WORDS = [f"word{i}" for i in range(200)]


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Two data sets of 30 tools and 60 queries that share words with their tool, one catalogue."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(folders, "make_encoder", lambda settings: HashEncoder(16))
    monkeypatch.setattr(sys, "argv", ["toolheads"])  # Lightning looks at it
    for number, name in enumerate(("one", "two", "catalogue")):
        folder = tmp_path / "data" / name
        folder.mkdir(parents=True)
        about = [
            " ".join(WORDS[(i * 7 + j * 31 + number * 5) % 200] for j in range(6))
            for i in range(30)
        ]
        tools = [
            {
                "id": f"{name}:{i}",
                "name": f"tool_{i}",
                "server": name,
                "description": f"{a}. {a[::-1]}",
            }
            for i, a in enumerate(about)
        ]
        write(folder / "tools.jsonl", tools)
        if name != "catalogue":
            queries = [
                {
                    "id": f"{name}-{i}",
                    "text": f"{i} " + " ".join(about[i % 30].split()[i % 3 : i % 3 + 4]),
                    "relevant": [f"{name}:{i % 30}"],
                    "split": "val" if i % 30 >= 25 else "train",
                }
                for i in range(60)
            ]
            write(folder / "queries.jsonl", queries)
    return tmp_path / "data"


def write(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def command(*more, name="run", config="minilm"):
    return [
        *("fit", "--config", str(ROOT / "configs" / f"{config}.yaml"), "--name", name),
        *("--data.root", "data", "--data.validation.min_queries", "1"),
        *("--data.validation.by", "given", "--data.sampling.batch_size", "16"),
        *("--data.sampling.steps_per_epoch", "4", "--data.chunk_steps", "2"),
        *("--trainer.max_epochs", "2", "--trainer.accelerator", "cpu"),
        *("--trainer.enable_progress_bar", "false", "--trainer.enable_model_summary", "false"),
        *more,
    ]


def test_fit_leaves_a_folder_with_config_metrics_and_checkpoints(data, caplog):
    options = ["--model.optimizer.lr", "0.001", "--data.sampling.label_free_share", "0.5"]
    assert main(command(*options)) == 0
    run = data.parent / "runs" / "run"
    assert {"config.yaml", "metrics.csv"} <= {path.name for path in run.iterdir()}
    assert {path.name for path in (run / "checkpoints").iterdir()} == {"best.ckpt", "last.ckpt"}
    saved = yaml.safe_load((run / "config.yaml").read_text())
    assert saved["model"]["optimizer"]["lr"] == 0.001
    assert (run / "metrics.csv").read_text().count("\n") == 6  # header, start, four chunks
    assert "train on catalogue (label-free): 30 label-free pairs" in caplog.text
    assert "validate on one: 10 queries, 30 tools" in caplog.text


def test_options_of_the_heads_reach_the_heads_file(data):
    options = ["--model.head.widths", "[4, 8]", "--model.head.centre", "corpus"]
    options += ["--model.head.feature_dropout", "0.1", "--model.ema", "0.5"]
    assert main(command(*options, "--model.head.hidden", "[]")) == 0
    heads = load_heads(data.parent / "runs/run/heads.npz")
    assert heads.header.widths == (4, 8)
    assert heads.state.centre is not None
    assert heads.state.architecture.hidden == ()
    stored = heads.header.training["config"]["model"]
    assert (stored["ema"], stored["head"]["feature_dropout"]) == (0.5, 0.1)
    checkpoint = data.parent / "runs/run/checkpoints/last.ckpt"
    out = data.parent / "again.npz"
    assert main(["export", "--ckpt", str(checkpoint), "--out", str(out)]) == 0
    assert load_heads(out).at_width(4).state.projection_width == 4


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_every_config_drops_training_queries_that_are_nearly_held_out_ones(config):
    told = yaml.safe_load(config.read_text(encoding="utf-8"))["data"]
    assert (told["min_jaccard"], told["min_cosine"]) == (0.8, 0.97)


def test_a_killed_run_resumed_by_the_command_equals_one_that_was_not(data, monkeypatch):
    assert main(command(name="whole")) == 0
    real = HeadsModule._optimise

    def killed(self, optimizer, step):
        if step == 5:  # in the second epoch, within a chunk
            raise OSError("the machine went away")
        real(self, optimizer, step)

    with monkeypatch.context() as patch:
        patch.setattr(HeadsModule, "_optimise", killed)
        assert main(command(name="parts")) == 2
    assert main(command("--ckpt_path", "last", name="parts")) == 0
    whole, parts = (
        torch.load(data.parent / f"runs/{name}/checkpoints/last.ckpt", weights_only=True)
        for name in ("whole", "parts")
    )
    assert whole["global_step"] == parts["global_step"] == 8
    for name, value in whole["state_dict"].items():
        assert torch.equal(value, parts["state_dict"][name])
    losses = [
        trained_losses(data.parent / f"runs/{name}/metrics.csv") for name in ("whole", "parts")
    ]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 4


def trained_losses(path):
    with path.open(encoding="utf-8", newline="") as file:
        return {r["step"]: r["train/loss"] for r in csv.DictReader(file) if r["train/loss"]}


def test_validate_reads_the_best_checkpoint_and_writes_nothing(data, capfd):
    assert main(command()) == 0
    before = sorted(path.name for path in (data.parent / "runs/run").iterdir())
    words = ["validate", *command("--ckpt_path", "best")[1:]]
    capfd.readouterr()
    assert main(words) == 0
    assert "val/ndcg@10" in capfd.readouterr().out
    assert sorted(path.name for path in (data.parent / "runs/run").iterdir()) == before


def test_a_run_is_not_written_over_unless_asked(data, capfd):
    assert main(command("--trainer.max_epochs", "0")) == 0
    (data.parent / "runs/run/checkpoints").mkdir(exist_ok=True)
    capfd.readouterr()
    assert main(command()) == 2
    assert "name must be new, got runs/run, which holds a run" in one_line(capfd)
    assert main(command("--overwrite", "true")) == 0


def test_resuming_on_other_data_is_refused(data, capfd):
    assert main(command()) == 0
    with (data / "one" / "tools.jsonl").open("a") as file:
        file.write('{"id": "one:new", "name": "new"}\n')
    capfd.readouterr()
    assert main(command("--ckpt_path", "last", "--trainer.max_epochs", "3")) == 2
    assert "resumed on its own data, got other files in one/tools.jsonl" in one_line(capfd)


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--model.optimizer.lr", "-1"], "model.optimizer.lr must be > 0, got -1.0"),
        (["--model.optimizer.rate", "1"], "model.optimizer.rate"),
        (["--model.loss.other_positives", "keep"], "other_positives"),
        (["--data.sampling.power", "2"], r"data.sampling.power must be in \[0, 1\], got 2"),
        (["--data.encoder.kind", "magic"], "encoder must be one of local"),
        (["--data.root", "nowhere"], "no such folder: nowhere"),
        (["--data.exclude", "[three]"], "data.exclude must name data sets of .* got 'three'"),
        (["--trainer.precision", "bf16-true"], "precision must be 32-true or bf16-mixed"),
        (["--ckpt_path", "last"], "ckpt_path must be best, last or a checkpoint file"),
        (["--patience", "0"], "patience must be >= 1, got 0"),
        (["--config", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_a_wrong_setting_is_one_line_and_exit_code_2(data, capfd, words, match):
    assert main(command(*words)) == 2
    assert re.search(match, one_line(capfd))


def one_line(capfd):
    """The one line of the command's own on stderr; there is no traceback."""
    told = capfd.readouterr().err
    assert "Traceback" not in told
    (line,) = [line for line in told.splitlines() if line.startswith("toolheads train: ")]
    return line


def test_a_missing_torch_is_one_line_that_names_the_extra(monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["fit"]) == 2
    assert "toolheads train needs torch; install it with: pip install 'toolheads[train]'" in (
        one_line(capfd)
    )


def test_the_entry_point_loads_without_torch():
    code = (
        "import sys, toolheads_train.cli; "
        "sys.exit(any(m in sys.modules for m in ('torch', 'lightning', 'jsonargparse')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_patience_stops_a_run_that_gets_no_better(data):
    words = command("--patience", "1", "--model.optimizer.lr", "1e-30", "--trainer.max_epochs", "9")
    assert main(words) == 0
    last = torch.load(data.parent / "runs/run/checkpoints/last.ckpt", weights_only=True)
    assert last["global_step"] == 4


def test_wandb_writes_its_run_offline(data, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    assert main(command("--wandb.project", "toolheads", "--wandb.offline", "true")) == 0
    assert list((data.parent / "runs/run/wandb").glob("offline-run-*/run-*.wandb"))
    assert (data.parent / "runs/run/metrics.csv").exists()


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_config_parses_by_its_header_command_and_is_complete(path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["toolheads"])
    header = [line.lstrip("# ") for line in path.read_text().splitlines() if line.startswith("#")]
    (line,) = [line for line in header if line.startswith("toolheads train fit")]
    words = shlex.split(line.replace("DATA", "tests"))[2:]
    assert main([*words, "--print_config"]) == 0
    parsed = yaml.safe_load(capsys.readouterr().out)
    written = yaml.safe_load(path.read_text())
    assert f"configs/{path.name}" in words
    if path.stem == "quickstart":  # shows what one has to decide, and leaves the rest
        return
    for part in ("model", "data"):
        assert written[part].keys() == parsed[part].keys()
        assert all(
            written[part][key].keys() >= (parsed[part][key].keys() - {"model", "name"})
            for key in ("head", "loss", "optimizer", "validation", "sampling", "texts")
            if key in written[part]
        )


def test_the_ancestor_config_is_the_published_recipe():
    written = yaml.safe_load((ROOT / "configs" / "ancestor.yaml").read_text())
    head, loss, optimizer = (written["model"][k] for k in ("head", "loss", "optimizer"))
    sampling = written["data"]["sampling"]
    assert (head["hidden"], head["hidden_norm"], head["activation"]) == ([1536, 1536], True, "gelu")
    assert (loss["both_directions"], loss["mask_margin"], loss["other_positives"]) == (
        False, None, "mask",
    )  # fmt: skip
    assert (1 / loss["temperature"], 1 / loss["min_temperature"]) == (20.0, 100.0)
    assert (optimizer["lr"], optimizer["weight_decay"], optimizer["warmup_share"]) == (
        1e-5, 0.01, 0.05,
    )  # fmt: skip
    assert (sampling["batch_size"], sampling["power"], sampling["steps_per_epoch"]) == (
        512, 1.0, None,
    )  # fmt: skip
    assert (written["trainer"]["max_epochs"], written["trainer"]["precision"]) == (5, "32-true")
