"""What the documents show exists: names of the package, and commands with their options."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
from pathlib import Path

import pytest

from toolheads.entrypoints import cli

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
OF_EACH = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)

_PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"^```\w*\n(.*?)^```|^(    .*)$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^ *(toolheads (?!(?:train|learn)\b).*)$", re.MULTILINE)


@OF_EACH
def test_python_in_a_document_uses_names_that_exist(path):
    for block in _PYTHON.findall(path.read_text(encoding="utf-8")):
        for node in ast.walk(ast.parse(block)):
            for module, name in _names(node):
                found = importlib.import_module(module)
                assert hasattr(found, name), f"{module} has no {name}"


@OF_EACH
def test_commands_in_a_document_have_options_that_exist(path):
    parser = cli._parser([], cli._GROUPS)
    for command in _commands(path.read_text(encoding="utf-8")):
        try:
            parser.parse_args(shlex.split(command, comments=True)[1:])
        except SystemExit as e:
            pytest.fail(f"{command!r} is no command ({e.code})")


def test_commands_are_found_in_fences_and_indented_and_joined_where_a_line_goes_on():
    text = "toolheads is a word\n\n    toolheads a  # why\n```bash\ntoolheads b \\\n  --c\n```\n"
    assert _commands(text) == ["toolheads a  # why", "toolheads b    --c"]


def _commands(text):
    code = "\n".join(fenced or indented for fenced, indented in _CODE.findall(text))
    return _COMMAND.findall(code.replace("\\\n", " "))


def _is_ours(module):
    return module == "toolheads" or module.startswith("toolheads.")


def _names(node):
    """(module, name) of each import from the package and each `toolheads.NAME`."""
    match node:
        case ast.ImportFrom(module=str(module)) if _is_ours(module):
            return [(module, alias.name) for alias in node.names]
        case ast.Import():
            return [(alias.name, "__name__") for alias in node.names if _is_ours(alias.name)]
        case ast.Attribute(value=ast.Name(id="toolheads"), attr=name):
            return [("toolheads", name)]
    return []
