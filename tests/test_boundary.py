"""What the package promises of itself: light to import, complete, and nothing more in the wheel."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import types
import zipfile
from pathlib import Path

import pytest

import toolheads

ROOT = Path(__file__).parents[1]
HEAVY = [
    "torch",
    "lightning",
    "onnx",
    "onnxruntime",
    "httpx",
    "safetensors",
    "bm25s",
    "tokenizers",
    "tqdm",
    "toolheads_train",
    "sentence_transformers",
    "matplotlib",
    "wandb",
    "jsonargparse",
    "vllm",
    "scipy",
    "pandas",
    "pyarrow",
    "huggingface_hub",
    "ray",
]
PACKAGES = {"toolheads", "toolheads_train"}


def loaded_by(code):
    show = f"import sys\n{code}\nprint(*[m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_importing_the_package_loads_numpy_and_nothing_heavier():
    assert loaded_by("import toolheads") == []


def test_importing_every_module_of_the_package_loads_nothing_heavy():
    code = """
import pkgutil, toolheads
for module in pkgutil.walk_packages(toolheads.__path__, "toolheads."):
    if not module.name.endswith("__main__"):
        __import__(module.name)
"""
    assert loaded_by(code) == []


def test_the_command_line_answers_without_anything_heavy():
    code = """
from toolheads.entrypoints.cli import main
try:
    main(["--version"])
except SystemExit:
    pass
"""
    assert [m for m in loaded_by(code) if m in HEAVY] == []


def test_exported_names_are_sorted_and_exist():
    assert toolheads.__all__ == sorted(toolheads.__all__)
    assert all(hasattr(toolheads, name) for name in toolheads.__all__)


def test_every_public_name_is_exported():
    names = {
        name
        for name, value in vars(toolheads).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert names == set(toolheads.__all__)


def test_every_error_of_the_package_is_exported():
    from toolheads import errors

    of_ours = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.ToolheadsError)
    }
    assert of_ours <= set(toolheads.__all__)


@pytest.mark.parametrize("folder", ["src/toolheads", "train/toolheads_train"])
def test_both_packages_say_that_they_are_typed(folder):
    assert (ROOT / folder / "py.typed").is_file()


def test_no_module_of_the_core_names_training():
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "import toolheads_train" not in text, path
        assert "from toolheads_train" not in text, path


def test_every_extra_that_an_error_tells_people_to_install_exists():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    named = {
        extra
        for path in (ROOT / "src").rglob("*.py")
        for extra in re.findall(r"""(?:extra=|_EXTRA = .*, )"([^"]+)""", path.read_text("utf-8"))
    }
    assert named >= {"cache", "local", "openai", "sentence-transformers", "vllm"}
    assert named <= set(extras)


@pytest.mark.slow
def test_the_wheel_holds_exactly_the_two_packages(tmp_path):
    build = pytest.importorskip("hatchling.builders.wheel", reason="needs hatchling")
    (wheel,) = build.WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == PACKAGES
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)
    assert "toolheads/packaged_heads/index.json" in names
    assert not [name for name in names if "tests/" in name or name.endswith((".pyc", ".ckpt"))]


@pytest.mark.slow
def test_the_source_distribution_holds_what_the_tests_read(tmp_path):
    build = pytest.importorskip("hatchling.builders.sdist", reason="needs hatchling")
    (sdist,) = build.SdistBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    held = names | {name.split("/")[0] for name in names}
    tests = [name for name in names if name.startswith("tests/") and name.endswith(".py")]
    read = {
        name
        for test in tests
        for name in re.findall(r'\bROOT / ["]([^"]+)["]', (ROOT / test).read_text("utf-8"))
    }
    assert read >= {"src", "configs", "constraints.txt"}
    assert read - held == set()
    assert {name for name in held if name.startswith("benchmarks/") and "/work/" in name} == set()
