"""What a run leaves: heads that load, a card, plots, a summary; the same bytes for one seed."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from tests.hash_encoder import HashEncoder  # noqa: E402
from tests.train.synthetic import HARMLESS  # noqa: E402

from toolheads import DenseScorer, Embedder, load_heads, read_dataset  # noqa: E402
from toolheads.evaluation.evaluate import evaluate  # noqa: E402
from toolheads.evaluation.settings import EvaluationSettings  # noqa: E402
from toolheads.heads.fusion import LexicalPart  # noqa: E402
from toolheads.scorers.clm import CLMScorer  # noqa: E402
from toolheads_train.cli import main  # noqa: E402
from toolheads_train.data import folders  # noqa: E402
from toolheads_train.loop.module import HeadsModule  # noqa: E402
from toolheads_train.outcome.calibration import MarginPoint  # noqa: E402
from toolheads_train.outcome.card import licence_of  # noqa: E402
from toolheads_train.outcome.plots import plot_curves, plot_cutoff, plot_gains  # noqa: E402

pytestmark = [pytest.mark.train, *(pytest.mark.filterwarnings(w) for w in HARMLESS)]

ROOT = Path(__file__).parents[3]
CALIBRATION = """\
calibration:
  tool_weights: [{text: 1.0}, {text: 0.7, name: 0.3}]
  clause_weights: [0.0, 0.5]
  lexical_weights: [0.2]
  hubness_weights: [0.0, 0.1]
"""


def write_data(folder):
    """24 tools; each has queries that say its words in another order, some with two errands."""
    folder.mkdir(parents=True)
    words = [f"w{i}" for i in range(60)]
    about = [" ".join(words[(7 * i + 11 * j) % 60] for j in range(5)) for i in range(24)]
    tools = [
        {"id": f"t{i}", "server": "made", "name": f"tool_{i}", "description": f"Does {a} for you."}
        for i, a in enumerate(about)
    ]
    texts = [f"please {' '.join(reversed(a.split()[1:]))} now" for a in about]
    asked = [(f"q{i}", text, [f"t{i}"], i) for i, text in enumerate(texts)]
    asked += [
        (f"p{i}", f"{texts[i]}. And {texts[i + 4]}", [f"t{i}", f"t{i + 4}"], i) for i in range(20)
    ]
    queries = [
        {"id": name, "text": text, "relevant": ids, "split": "val" if i % 4 == 3 else "train"}
        for name, text, ids, i in asked
    ]
    for name, rows in (("tools", tools), ("queries", queries)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    (folder / "SOURCE.md").write_text("# made\n\n- Licence: MIT | (LICENSE)\n", encoding="utf-8")


def command(runs, *more):
    return [
        *(
            "fit",
            "--config",
            str(ROOT / "configs" / "quickstart.yaml"),
            "--config",
            "calibration.yaml",
        ),
        *("--name", "made", "--runs", str(runs), "--data.root", "data", "--data.cache", "null"),
        *("--data.validation.min_queries", "1", "--data.validation.by", "given"),
        *("--data.sampling.batch_size", "16", "--data.sampling.steps_per_epoch", "4"),
        *("--data.sampling.label_free_share", "0", "--model.head.hidden", "[8]"),
        *("--model.optimizer.lr", "0.003", "--trainer.max_epochs", "3"),
        *("--trainer.accelerator", "cpu", "--trainer.enable_progress_bar", "false"),
        *("--trainer.enable_model_summary", "false", "--overwrite", "false", *more),
    ]


def enter(folder, monkeypatch):
    write_data(folder / "data" / "made")
    (folder / "calibration.yaml").write_text(CALIBRATION, encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(folders, "make_encoder", lambda settings: HashEncoder(16))
    monkeypatch.setattr(sys, "argv", ["toolheads"])  # Lightning looks at it


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One finished run that all tests below look at."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        root = tmp_path_factory.mktemp("run")
        enter(root, monkeypatch)
        assert main(command("runs")) == 0
        return root / "runs" / "made"


def summary_of(folder):
    return json.loads((folder / "summary.json").read_text(encoding="utf-8"))


def test_a_run_leaves_what_a_person_looks_at(run):
    files = {"config.yaml", "metrics.csv", "heads.npz", "heads.npz.sha256", "README.md"}
    files |= {"summary.json", "curves.png", "gains.png", "cutoff.png", "checkpoints"}
    assert {path.name for path in run.iterdir()} == files
    assert set(summary_of(run)["files"]) < files


def test_the_plots_are_pictures_that_can_be_read(run):
    for name in ("curves.png", "gains.png", "cutoff.png"):
        file = (run / name).read_bytes()
        assert file.startswith(b"\x89PNG\r\n\x1a\n")
        assert file.endswith(b"IEND\xaeB`\x82")
        width, height = struct.unpack(">II", file[16:24])
        assert 800 <= width <= 1200
        assert 200 <= height <= 1200
        assert len(file) > 8_000  # an empty canvas has about 3,000


def test_the_exported_heads_are_the_ones_that_were_measured(run):
    """What serving ranks with the file is what calibration says: views, clauses and words too."""
    heads = load_heads(run / "heads.npz")
    assert heads.fusion is not None
    assert heads.fusion.lexical == LexicalPart(0.2)
    dataset = read_dataset(run.parents[1] / "data" / "made")
    settings = EvaluationSettings(split="val", metrics=("ndcg@10",), k=10)
    told = summary_of(run)["metrics"]
    scorer = CLMScorer(heads, Embedder(HashEncoder(16), heads.texts))
    served = evaluate(scorer, dataset, settings)
    assert served.mean("ndcg@10") == pytest.approx(told["heads"]["mean"]["ndcg@10"], abs=1e-3)
    frozen = evaluate(DenseScorer(Embedder(HashEncoder(16))), dataset, settings)
    assert frozen.mean("ndcg@10") == pytest.approx(told["frozen"]["mean"]["ndcg@10"], abs=1e-6)


def test_the_header_tells_seeds_data_versions_and_numbers_but_no_place(run):
    training = load_heads(run / "heads.npz").header.training
    assert (training["name"], training["seed"], training["data_seed"]) == ("made", 0, 0)
    record = training["data"]["made"]
    assert (record["tools"], record["train"], record["validation"]) == (24, 33, 11)
    assert set(record["sha256"]) == {"tools.jsonl", "queries.jsonl"}
    assert training["licences"] == ["MIT | (LICENSE)"]
    assert training["packages"]["torch"] == torch.__version__
    assert training["config"]["model"]["optimizer"]["lr"] == 0.003
    assert training["metrics"]["heads"]["mean"]["ndcg@10"] > 0
    told = json.dumps(dict(training))
    assert str(run.parents[1]) not in told
    assert "root" not in training["config"]["data"]


def test_the_summary_and_the_header_agree(run):
    summary, heads = summary_of(run), load_heads(run / "heads.npz")
    assert summary["status"] == "finished"
    assert summary["sha256"] == heads.sha256
    assert summary["views"] == heads.header.views.to_json()
    assert summary["cutoff"] == heads.header.cutoff.to_json()
    assert summary["share"] == pytest.approx(heads.state.alpha)
    assert summary["cosine"] >= 0.999999
    assert summary["best_step"] <= summary["steps"] == 12


def test_the_card_holds_digest_data_licence_numbers_and_limits(run):
    card = (run / "README.md").read_text(encoding="utf-8")
    assert summary_of(run)["sha256"] in card
    assert "| made | 24 | 33 | 11 | 0 | MIT \\| (LICENSE) |" in card
    assert (
        load_heads(run / "heads.npz").header.training["data"]["made"]["sha256"]["tools.jsonl"]
        in card
    )
    for heading in ("Use", "Validation", "Settings in serving", "Data", "Recipe", "Limits"):
        assert f"## {heading}\n" in card
    for plot in ("curves.png", "gains.png", "cutoff.png"):
        assert f"({plot})" in card


def test_the_checkpoint_of_a_run_is_enough_to_export(run, tmp_path):
    best, out = run / "checkpoints" / "best.ckpt", tmp_path / "again.npz"
    assert main(["export", "--ckpt", str(best), "--out", str(out)]) == 0
    again, first = load_heads(out), load_heads(run / "heads.npz")
    assert again.fingerprint == first.fingerprint
    for name, weight in first.state.weights.items():
        assert (again.state.weights[name] == weight).all()


def test_one_seed_gives_the_same_bytes_in_another_process(run, tmp_path):
    code = (
        "import sys; sys.argv = ['toolheads']\n"
        "from tests.hash_encoder import HashEncoder\n"
        "from toolheads_train.data import folders\n"
        "from toolheads_train.cli import main\n"
        "folders.make_encoder = lambda settings: HashEncoder(16)\n"
        f"sys.exit(main({command(tmp_path / 'elsewhere')!r}))\n"
    )
    environment = {"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=run.parents[1],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for name in ("heads.npz", "README.md", "gains.png", "cutoff.png"):
        other = (tmp_path / "elsewhere" / "made" / name).read_bytes()
        assert other == (run / name).read_bytes(), name


def test_a_run_that_an_error_stops_leaves_metrics_config_and_the_reason(tmp_path, monkeypatch):
    enter(tmp_path, monkeypatch)
    real = HeadsModule._optimise

    def breaks(self, optimizer, step):
        if step == 6:
            raise OSError("the disk went away")
        real(self, optimizer, step)

    monkeypatch.setattr(HeadsModule, "_optimise", breaks)
    assert main(command("runs", "--data.chunk_steps", "2")) == 2
    folder = tmp_path / "runs" / "made"
    assert (folder / "config.yaml").is_file()
    assert (folder / "metrics.csv").read_text(encoding="utf-8").count("\n") == 5
    summary = summary_of(folder)
    assert (summary["status"], summary["error"]) == ("stopped", "the disk went away")
    assert summary["steps"] == 6
    assert not (folder / "heads.npz").exists()


def test_views_that_cannot_be_weighed_are_refused_before_training(tmp_path, monkeypatch, capfd):
    enter(tmp_path, monkeypatch)
    settings = CALIBRATION.replace("name: 0.3", "title: 0.3")
    (tmp_path / "calibration.yaml").write_text(settings, encoding="utf-8")
    assert main(command("runs")) == 2
    assert "tool views must map some of text, name, summary to weights" in capfd.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_new_run_of_the_same_name_leaves_nothing_of_the_old_one(tmp_path, monkeypatch):
    enter(tmp_path, monkeypatch)
    assert main(command("runs", "--trainer.max_epochs", "1")) == 0
    monkeypatch.setattr(HeadsModule, "_optimise", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(command("runs", "--overwrite", "true"))
    names = {path.name for path in (tmp_path / "runs" / "made").iterdir()}
    assert names <= {"config.yaml", "metrics.csv", "summary.json", "checkpoints"}


def test_a_licence_is_read_in_both_spellings_and_only_from_its_line(tmp_path):
    for line, licence in (
        ("- Licence: Apache-2.0 (LICENSE)", "Apache-2.0 (LICENSE)"),
        ("License: MIT", "MIT"),
        ("The licence is told elsewhere.", ""),
    ):
        (tmp_path / "SOURCE.md").write_text(f"# x\n{line}\n", encoding="utf-8")
        assert licence_of(tmp_path) == licence
    assert licence_of(tmp_path / "none") == ""


def test_plots_of_the_odd_runs_are_drawn_too(tmp_path):
    """Not a step, not a gain, many data sets, a cut that never cuts."""
    plot_curves(tmp_path / "a.png", [], {"": [(0, 0.5)], "one": [(0, 0.5)]}, best_step=0)
    many = {f"set {i}": [(0, 0.1), (10, 0.2)] for i in range(9)} | {"": [(0, 0.1), (10, 0.2)]}
    plot_curves(tmp_path / "b.png", [(i, 1.0) for i in range(30)], many, best_step=10)
    plot_gains(tmp_path / "c.png", {"one": 0.5, "": 0.5}, {"one": 0.5, "": 0.5})
    plot_gains(tmp_path / "d.png", {"a": 0.5, "b": 0.5, "": 0.5}, {"a": 0.4, "b": 0.3, "": 0.35})
    only = MarginPoint(2.0, 0.9, 0.8, 10.0)
    plot_cutoff(tmp_path / "e.png", [only], chosen=2.0, fixed=only)
    assert all((tmp_path / f"{name}.png").stat().st_size > 8_000 for name in "abcde")
