# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""argparse as the commands of this package use it: errors are one line."""

from __future__ import annotations

import argparse
import re
from typing import Any, NoReturn

from puffervec.errors import ConfigError


class Parser(argparse.ArgumentParser):
    """An argument parser that raises ConfigError instead of leaving the process.

    Flags cannot be abbreviated, and -1e-3 is a number like -1.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)
        self._negative_number_matcher = re.compile(r"-(\d|\.\d|inf)")

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError; argparse calls this for every error."""
        raise ConfigError(f"{message.removeprefix('argument ')} (see {self.prog} --help)")
