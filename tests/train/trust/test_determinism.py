"""Same seed, same bytes: fitted twice, interrupted and resumed, and in the Trainer's own mode."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from tests.train.synthetic import HARMLESS  # noqa: E402
from tests.train.trust.made import enter, fit, queries, tools, write  # noqa: E402

from toolheads_train.loop.module import HeadsModule  # noqa: E402

pytestmark = [pytest.mark.train, *(pytest.mark.filterwarnings(w) for w in HARMLESS)]

LEARNS = ("--model.optimizer.lr", "0.01", "--model.loss.mask_margin", "null")


@pytest.fixture
def data(tmp_path, monkeypatch):
    enter(tmp_path, monkeypatch)
    rows = [*queries(48, 24), *queries(24, 24, split="val", first=100)]
    write(tmp_path / "data" / "made", tools(24), rows)


def npz():
    return Path("runs/run/heads.npz").read_bytes()


def card():
    return Path("runs/run/README.md").read_bytes()


def test_one_seed_fitted_twice_gives_the_same_bytes_and_another_seed_others(data):
    assert fit(*LEARNS) == 0
    first = npz(), card()
    assert fit(*LEARNS, "--overwrite", "true") == 0
    assert (npz(), card()) == first
    assert fit(*LEARNS, "--overwrite", "true", "--seed_everything", "1") == 0
    assert npz() != first[0]


@pytest.mark.parametrize("killed_at", [3, 9], ids=["in the first epoch", "in the last"])
def test_a_run_that_was_killed_and_resumed_gives_the_same_bytes(data, monkeypatch, killed_at):
    assert fit(*LEARNS, epochs=3) == 0
    whole = npz(), card()
    real = HeadsModule._optimise

    def killed(self, optimizer, step):
        if step == killed_at:
            raise OSError("the machine went away")
        real(self, optimizer, step)

    with monkeypatch.context() as patch:
        patch.setattr(HeadsModule, "_optimise", killed)
        assert fit(*LEARNS, "--overwrite", "true", epochs=3) == 2
    assert not Path("runs/run/heads.npz").exists()
    assert fit(*LEARNS, "--ckpt_path", "last", epochs=3) == 0
    assert (npz(), card()) == whole


def test_the_deterministic_mode_of_the_trainer_trains_and_repeats_itself(data):
    try:
        assert fit(*LEARNS, "--trainer.deterministic", "true") == 0
        assert torch.are_deterministic_algorithms_enabled()
        first = npz()
        assert fit(*LEARNS, "--trainer.deterministic", "true", "--overwrite", "true") == 0
    finally:
        torch.use_deterministic_algorithms(False)
        torch.backends.cudnn.deterministic = False
    assert npz() == first
