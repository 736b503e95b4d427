# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What a verb of `puffer-train` is. Each has a file of its own, which imports nothing heavy before it runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from puffervec.train.verbs.signals import StopSignals


@dataclasses.dataclass(frozen=True)
class Verb:
    """A verb.

    Attributes:
        name, syntax: `puffer-train NAME SYNTAX`. A syntax that begins with RUN or ENV says what the first argument is; one that
            does not begin with [ needs arguments.
        summary: in a few words.
        about: the rest of its --help: what it does, and its own flags, from which completion knows them too.
        run: called with the arguments behind the verb, and the signals within which it runs. Raises what cli.main turns into
            exit codes.
        help: another text for --help and --help-all, from the arguments.
        configured: takes the flags of a run, as train does.
        trainer: needs the packages of the trainer.
        trains: its files are what it is for, not what it prints.
        values: what may stand behind its own flags.
    """

    name: str
    syntax: str
    summary: str
    about: str
    run: Callable[[list[str], StopSignals], None]
    help: Callable[[list[str]], str] | None = None
    configured: bool = False
    trainer: bool = True
    trains: bool = False
    values: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    @property
    def usage(self) -> str:
        """The text of --help."""
        return f"usage: puffer-train {self.name} {self.syntax}\n\n{self.about}"
