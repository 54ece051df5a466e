"""From torch to a heads file: equal projections or no file."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.made_heads import made_fingerprint  # noqa: E402
from tests.train.synthetic import HARMLESS, toy_module, trainer, unit  # noqa: E402
from tests.train.synthetic import toy_data as toy_tensors  # noqa: E402

from toolheads.cutoff import CutoffSettings  # noqa: E402
from toolheads.errors import ConfigError, HeadsFormatError, ShapeError  # noqa: E402
from toolheads.heads import Architecture, Views, load_heads, save_heads  # noqa: E402
from toolheads_train.cli import main  # noqa: E402
from toolheads_train.model.heads import TwoHeads  # noqa: E402
from toolheads_train.outcome import export as export_module  # noqa: E402
from toolheads_train.outcome.export import Backbone, export_heads, package_versions  # noqa: E402

pytestmark = [pytest.mark.train, *(pytest.mark.filterwarnings(w) for w in HARMLESS)]

SHAPES = (
    Architecture(16, hidden=(8,)),
    Architecture(16, hidden=(8, 6), input_scaling="layernorm", hidden_norm=True),
    Architecture(16, hidden=(4,), activation="identity", input_scaling="sqrt"),
    Architecture(16, hidden=()),
)


def trained(architecture=SHAPES[0], *, seed=0, **settings):
    torch.manual_seed(seed)
    heads = TwoHeads(architecture, alpha=0.6, **settings)
    with torch.no_grad():
        for parameter in heads.parameters():
            if parameter.dim():
                parameter.normal_(std=0.3)
    return heads


def backbone(d=16, **settings):
    return Backbone(made_fingerprint(d), unit(4, d, seed=7), **settings)


@pytest.mark.parametrize("architecture", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_numpy_projects_from_the_file_as_torch_does(tmp_path, architecture, dtype):
    heads, batch = trained(architecture), unit(50, seed=5)
    done = export_heads(tmp_path / "h.npz", heads, backbone(), batch, dtype=dtype)
    loaded = load_heads(tmp_path / "h.npz")
    assert loaded.sha256 == done.sha256
    assert 1 - done.cosine < 1e-10  # of the rounded weights: the rounding itself is no part
    assert done.weights_cosine >= (0.999999 if dtype == "float32" else 0.9999)
    with torch.no_grad():
        expected = heads.action(torch.from_numpy(batch)).numpy()
    tolerance = 1e-6 if dtype == "float32" else 1e-2  # float16 has 11 bits
    np.testing.assert_allclose(loaded.action(batch), expected, atol=tolerance)


def test_the_header_says_what_was_trained_on_what(tmp_path):
    export_heads(
        tmp_path / "h.npz",
        trained(),
        backbone(tool_views={"text": 0.8, "name": 0.2}),
        unit(5),
        cutoff=CutoffSettings(margin=0.12),
        training={"name": "toy", "seed": 3},
    )
    loaded = load_heads(tmp_path / "h.npz")
    assert loaded.fingerprint == made_fingerprint(16)
    assert loaded.header.views == Views(tool={"text": 0.8, "name": 0.2})
    assert loaded.header.cutoff.margin == 0.12
    assert loaded.name == "toy"
    assert loaded.state.alpha == pytest.approx(0.6)
    np.testing.assert_array_equal(loaded.probe, backbone().probe)


def test_a_file_that_projects_otherwise_is_refused_and_removed(tmp_path, monkeypatch):
    real = save_heads

    def tampered(path, heads, *, dtype):
        wrong = trained(seed=1)
        state = export_module.to_head(wrong.state)
        return real(path, type(heads)(state, heads.action, heads.header, heads.probe), dtype=dtype)

    monkeypatch.setattr(export_module, "save_heads", tampered)
    with pytest.raises(HeadsFormatError, match=r"cosine >= 0.999999, got 0\.\d+; the file was rem"):
        export_heads(tmp_path / "h.npz", trained(), backbone(), unit(20))
    assert list(tmp_path.iterdir()) == []


def test_a_head_that_torch_computes_otherwise_is_refused(tmp_path, monkeypatch):
    """The other way round: the weights are right, the formula is not (tanh for erf)."""
    gelu = torch.nn.functional.gelu
    monkeypatch.setattr(
        torch.nn.functional, "gelu", lambda x: gelu(4 * x, approximate="tanh") / 4 + 0.01
    )
    with pytest.raises(HeadsFormatError, match="must project as the trained heads"):
        export_heads(tmp_path / "h.npz", trained(), backbone(), unit(20))
    assert list(tmp_path.iterdir()) == []


def test_weights_that_are_not_finite_are_refused(tmp_path):
    heads = trained()
    with torch.no_grad():
        heads.state.out.bias[0] = torch.nan
    with pytest.raises(ShapeError, match=r"out\.bias must be finite"):
        export_heads(tmp_path / "h.npz", heads, backbone(), unit(20))
    assert list(tmp_path.iterdir()) == []


def test_an_export_is_compared_on_at_least_one_row(tmp_path):
    with pytest.raises(ConfigError, match=r"batch must have at least one row, got shape \(0, 16\)"):
        export_heads(tmp_path / "h.npz", trained(), backbone(), np.empty((0, 16), np.float32))


def test_equal_heads_give_equal_bytes_and_other_heads_others(tmp_path):
    digests = [
        export_heads(tmp_path / f"{at}.npz", trained(seed=seed), backbone(), unit(5)).sha256
        for at, seed in enumerate((0, 0, 1))
    ]
    assert digests[0] == digests[1] != digests[2]


def test_one_head_for_both_sides_is_written_as_both(tmp_path):
    export_heads(tmp_path / "h.npz", trained(shared=True), backbone(), unit(5))
    loaded = load_heads(tmp_path / "h.npz")
    np.testing.assert_array_equal(loaded.state(unit(5)), loaded.action(unit(5)))


def test_the_versions_that_shape_a_number_are_told():
    assert set(package_versions()) == {"toolheads", "torch", "lightning", "numpy"}
    assert package_versions()["torch"] == torch.__version__


def test_a_checkpoint_alone_can_be_exported_by_the_command(tmp_path, capsys):
    module, fitter = toy_module(), trainer(tmp_path, epochs=1)
    fitter.fit(module, datamodule=toy_tensors())
    checkpoint = tmp_path / "best.ckpt"
    words = ["export", "--ckpt", str(checkpoint), "--out", str(tmp_path / "mine.npz")]
    assert main(words) == 2  # made of tensors: nobody knows of which encoder
    assert "must name its encoder" in capsys.readouterr().err
    stored = torch.load(checkpoint, weights_only=True)
    torch.save(stored | {export_module.BACKBONE_KEY: backbone().to_state()}, checkpoint)
    assert main(words) == 0
    heads = load_heads(tmp_path / "mine.npz")
    assert heads.sha256 in capsys.readouterr().out
    assert heads.name == "mine"
    assert heads.fingerprint == made_fingerprint(16)


def test_a_checkpoint_that_is_not_there_is_one_clear_line(tmp_path, capsys):
    missing = str(tmp_path / "no.ckpt")
    assert main(["export", "--ckpt", missing, "--out", str(tmp_path / "h.npz")]) == 2
    assert f"ckpt must be a checkpoint file, got no file {missing}" in capsys.readouterr().err
