from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from tests.train.ddp_run import KINDS, run  # noqa: E402
from tests.train.synthetic import HARMLESS  # noqa: E402

pytestmark = [
    pytest.mark.train,
    pytest.mark.slow,
    *(pytest.mark.filterwarnings(w) for w in HARMLESS),
    pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed"),
]

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("kind", KINDS)
def test_two_gloo_ranks_equal_one_rank_on_the_same_global_batch(tmp_path, kind):
    """Negatives are gathered, gradients reach the rank a row came from, and are averaged once."""
    run(kind, 1, str(tmp_path / "one.pt"))
    script = [sys.executable, "-m", "tests.train.ddp_run", kind, "2", str(tmp_path / "two.pt")]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        script, cwd=ROOT, env=env, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    one, two = (torch.load(tmp_path / f"{n}.pt", weights_only=True) for n in ("one", "two"))
    assert one["steps"] == two["steps"] == 8
    torch.testing.assert_close(two["loss"], one["loss"], atol=1e-5, rtol=0)
    for name, value in one["weights"].items():
        torch.testing.assert_close(two["weights"][name], value, atol=1e-5, rtol=0)
