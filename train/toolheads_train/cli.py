"""`toolheads train`: checks that torch is there, runs the command, says what went wrong in a line.

Imports nothing heavy at the top, so that the other commands and `--help` of `toolheads` stay fast.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from toolheads.errors import ToolheadsError, import_extra

_NEEDED = ("torch", "lightning.pytorch", "jsonargparse")


def main(argv: Sequence[str] | None = None) -> int:
    """Run `toolheads train fit|validate|sweep|export|soup|teach|mine …`.

    Args:
        argv: The words after `toolheads train`.

    Returns:
        The exit code: 0 done, 2 bad input or a training that had to stop, 130 interrupted, 143
        ended by SIGTERM.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        for module in _NEEDED:
            import_extra(module, user="toolheads train", extra="train")
        if words[:1] == ["export"]:
            from toolheads_train.outcome.export import main as export

            return export(words[1:])
        if words[:1] == ["soup"]:
            from toolheads_train.outcome.soup import main as soup

            return soup(words[1:])
        if words[:1] in (["teach"], ["mine"]):
            from toolheads_train.labelling.command import mine_main, teach_main

            return (teach_main if words[0] == "teach" else mine_main)(words[1:])
        if words[:1] == ["sweep"]:
            from toolheads_train.sweep.command import main as sweep

            return sweep(words[1:])
        from toolheads_train.command import run

        run(words)
    except (ToolheadsError, OSError) as e:
        return _refused(str(e))
    except KeyboardInterrupt:
        sys.stderr.write("toolheads train: interrupted\n")
        return 130
    except SystemExit as e:  # --help and --print_config end like this
        if type(e).__name__ == "SIGTERMException":  # Lightning's; has no code of its own
            sys.stderr.write("toolheads train: terminated\n")
            return 143
        return e.code if isinstance(e.code, int) else 0 if e.code is None else _refused(str(e.code))
    return 0


def _refused(message: str) -> int:
    sys.stderr.write(f"toolheads train: {message}\n")
    return 2
