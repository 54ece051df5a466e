"""The commands of `toolheads`: each loads itself alone."""

from __future__ import annotations

import subprocess
import sys

import pytest

from toolheads.entrypoints import cli


def commands_loaded_by(*words):
    code = (
        "import sys\n"
        "from toolheads.entrypoints import cli\n"
        "try:\n    cli.main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print('loaded', *(m.rpartition('.')[2] for m in sys.modules if m.rpartition('.')[0] == "
        "cli.__name__))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split()[1:])


def test_a_command_loads_no_other_command():
    assert commands_loaded_by("-v", "table", "--help") & set(cli._GROUPS) == {"table"}


def test_help_and_words_that_are_no_command_know_all_commands():
    for words in (["--help"], ["no-such-command"], []):
        assert commands_loaded_by(*words) >= set(cli._GROUPS)


@pytest.mark.parametrize("group", cli._GROUPS)
def test_each_command_is_found_by_its_name(group, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([group, "--help"])
    assert ended.value.code == 0
    assert f"usage: toolheads {group}" in capsys.readouterr().out
