"""Values of the environment in the settings of sources, put in when they are used, never stored."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolheads.errors import ConfigError

_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def expand(value: Any, *, user: str, environment: Mapping[str, str] | None = None) -> Any:
    """Put in the variables that strings of a JSON value refer to.

    `${VAR}` and `${env:VAR}` are the variable, `${VAR:-other}` is `other` where it is not set or
    empty, `${userHome}` is the home folder. What an editor would ask for or look up
    (`${input:key}`, `${workspaceFolder}`) is refused. Names of an object's fields stay.

    Args:
        value: A string, or a JSON value with strings in it.
        user: What refers to the variables, for the error, such as "source 'github'".
        environment: The variables; None for those of this process.

    Raises:
        ConfigError: If a variable is not set, named with every other one that is not, or a
            reference is of another kind.
    """
    reader = _Reader(os.environ if environment is None else environment, user)
    expanded = reader.expand(value)
    if reader.missing:
        names = ", ".join(dict.fromkeys(reader.missing))
        msg = f"{names} must be set in the environment for {user}, got nothing"
        raise ConfigError(msg)
    return expanded


class _Reader:
    def __init__(self, environment: Mapping[str, str], user: str) -> None:
        self.environment = environment
        self.user = user
        self.missing: list[str] = []

    def expand(self, value: Any) -> Any:
        if isinstance(value, str):
            return _REFERENCE.sub(self._replacement, value)
        if isinstance(value, Mapping):
            return {name: self.expand(inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.expand(inner) for inner in value]
        return value

    def _replacement(self, found: re.Match[str]) -> str:
        reference = found[1]
        if reference == "userHome":
            return str(Path.home())
        name, has_default, default = reference.removeprefix("env:").partition(":-")
        if reference.startswith("workspaceFolder") or not _VARIABLE.fullmatch(name):
            msg = (
                f"{self.user} must refer to variables as ${{VAR}} or ${{env:VAR}}, got "
                f"{found[0]}, which only an editor can fill in; put the value into a variable"
            )
            raise ConfigError(msg)
        there = self.environment.get(name)
        if has_default:
            return there or default
        if there is None:
            self.missing.append(name)
            return ""
        return there
