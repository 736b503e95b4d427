# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The argparse parser of this package's commands, whose errors are one line."""

from __future__ import annotations

import argparse
import re
import shutil
from typing import Any, NoReturn

from puffervec.errors import ConfigError


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of descriptions; help texts begin in column 26."""

    def __init__(self, prog: str) -> None:
        width = min(120, max(60, shutil.get_terminal_size((100, 24)).columns))
        super().__init__(prog, max_help_position=26, width=width)


class Parser(argparse.ArgumentParser):
    """An argument parser that raises ConfigError instead of leaving the process.

    Flags cannot be abbreviated, and -1e-3 is a number like -1.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=_Formatter, **settings)
        self._negative_number_matcher = re.compile(r"-(\d|\.\d|inf)")

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError; argparse calls this for every error."""
        raise ConfigError(f"{message.removeprefix('argument ')} (see {self.prog} --help)")

    def long_flags(self) -> list[str]:
        """Return all flags that begin with two dashes, sorted."""
        return sorted(flag for flag in self._option_string_actions if flag.startswith("--"))

    def action_of(self, flag: str) -> argparse.Action | None:
        """Return the argparse action of a flag, or None if the flag is unknown."""
        return self._option_string_actions.get(flag)

    def flag(self, usage: str, text: str, **kind: Any) -> None:
        """Declare a flag that takes a value ("--out FILE"), or a switch ("--json")."""
        name, _, value = usage.partition(" ")
        kind |= {"metavar": value} if value else {"action": "store_true"}
        self.add_argument(name, help=text, **kind)
