# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The verbs of `puffer-train`, and how Ctrl-C, SIGTERM and a closed terminal stop them.

Each verb has its own file, which imports nothing heavy before it runs.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import difflib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from puffervec._ffi import lib
from puffervec.errors import ConfigError
from puffervec.system.arguments import Parser
from puffervec.train.config import flags

if TYPE_CHECKING:
    from puffervec.train.run.trainer import Trainer


class Stoppable(Protocol):
    """A trainer, or a sweep of them."""

    def request_stop(self) -> None:
        """Ask the trainer to stop soon. May be called in a signal handler."""


class StopSignals:
    """The handling of Ctrl-C and SIGTERM within the block, by the phase of the command.

    Without a trainer (imports, evaluation), a signal ends the process immediately. While a trainer
    starts, it raises KeyboardInterrupt, so that the start is undone. During training, it stops the
    trainer, which saves a checkpoint. A second signal ends the process immediately in all phases,
    even while C code runs and keeps Python's handlers from being called (csrc/core/stop.h); workers
    exit by themselves when the process is gone. A closed terminal (SIGHUP) does not stop training;
    without a trainer it ends the process.
    """

    def __init__(self) -> None:
        self.received = 0  # The number of the first signal.
        self.starting = False
        self.trainer: Stoppable | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            self._before = {
                number: signal.signal(number, self._handle)
                for number in (signal.SIGINT, signal.SIGTERM)
            }
            lib.pv_stop_by_second_signal()
            # Any other handler means that SIGHUP is ignored already, as under nohup.
            if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
                self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._hang_up)
        return self

    def __exit__(self, *error: object) -> None:
        """Restore the previous handlers, unless a signal came: then the process is about to end."""
        for number, handler in self._before.items() if not self.received else ():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.trainer is None and not self.starting:
            os._exit(128 + number)
        self.received = number
        if self.trainer is None:
            raise KeyboardInterrupt
        self.trainer.request_stop()
        with contextlib.suppress(OSError):
            os.write(2, b"\nstopping: saving a checkpoint (once more to quit immediately)\n")

    def _hang_up(self, number: int, frame: FrameType | None) -> None:
        if self.trainer is None and not self.starting:
            os._exit(128 + number)

    def start(self, make: Callable[[], Trainer]) -> Trainer:
        """Make a trainer and return it. Raises: KeyboardInterrupt: a signal came meanwhile."""
        self.starting = True
        try:
            trainer = make()
        except Exception:
            if self.received:  # The interrupted code turned the KeyboardInterrupt into this error.
                raise KeyboardInterrupt from None
            raise
        finally:
            self.starting = False
        if self.received:  # The KeyboardInterrupt was lost in a callback.
            trainer.close()
            raise KeyboardInterrupt
        return trainer

    @contextlib.contextmanager
    def training(self, trainer: Stoppable) -> Iterator[None]:
        """Let the first signal within the block stop the trainer."""
        self.trainer = trainer
        try:
            yield
        finally:
            self.trainer = None


@dataclasses.dataclass(frozen=True)
class Verb:
    """A verb of `puffer-train`.

    Attributes:
        name, syntax: the verb is called as `puffer-train NAME SYNTAX`. A syntax that begins with
            RUN or ENV names the first argument; one that begins with [ needs no arguments.
        summary: a description in a few words.
        about: the description for --help.
        run: called with the arguments after the verb, and the StopSignals whose block it runs in.
            Raises the exceptions that run_command turns into exit codes.
        options: declares the verb's own flags, from which --help and completion are generated.
        help: if set, returns the text for --help and --help-all from the arguments.
        configured: whether the verb has the flags of a run, as train does.
        targetless: whether the verb may be called without a target.
        trainer: whether the verb needs the packages of the trainer.
        trains: whether the purpose of the verb is the files that it writes, not the printed text.
    """

    name: str
    syntax: str
    summary: str
    about: str
    run: Callable[[list[str], StopSignals], None]
    options: Callable[[Parser], None] = lambda parser: None
    help: Callable[[list[str]], str] | None = None
    configured: bool = False
    targetless: bool = False
    trainer: bool = True
    trains: bool = False

    @property
    def usage(self) -> str:
        """The text that --help prints."""
        return self.parser().format_help()

    def parser(self) -> Parser:
        """Return a parser of all flags except the settings of a run."""
        parser = self._own_parser()
        if self.configured:
            flags.add_sources(parser)
        return parser

    def _own_parser(self) -> Parser:
        takes_settings = self.configured and not self.help
        more = "All flags of puffer-train train work too." if takes_settings else None
        usage = f"puffer-train {self.name} {self.syntax}"
        parser = Parser(
            prog=f"puffer-train {self.name}", usage=usage, description=self.about, epilog=more
        )
        if self.syntax.startswith("RUN") and not self.configured:
            several = "*" if "..." in self.syntax else "?"
            parser.add_argument("target", nargs=several, help=argparse.SUPPRESS)
        self.options(parser)
        return parser

    def parse(self, args: Sequence[str]) -> argparse.Namespace:
        """Return the verb's own options and its target.

        If the verb is configured, `settings` contains the other arguments, for flags.build_config.
        If it has flags for an env's settings (players.add_player), `env_flags` contains these.

        Raises: ConfigError: an unknown argument, an invalid value, or no target.
        """
        parser, left = self._own_parser(), list(args)
        if self.configured:
            parsed, left = parser.parse_known_args(left)
            parsed.target, parsed.settings = flags.take_target(left), left
        else:
            with_env = parser.get_default("env_flags") is not None
            env_flags = flags.take_env_flags(left) if with_env else ()
            parsed, left = parser.parse_known_intermixed_args(left)
            parsed.env_flags = env_flags
            self.refuse(left)
        if not self.targetless and not getattr(parsed, "target", True):
            raise self.no_target()
        return parsed

    def refuse(self, left: Sequence[str]) -> None:
        """Raise ConfigError if there are arguments that the verb does not know."""
        if left:
            flag, parser = left[0].partition("=")[0], self.parser()
            close = difflib.get_close_matches(flag, parser.long_flags(), n=1)
            hint = f"did you mean {close[0]}?" if close else f"{parser.prog} --help lists the flags"
            raise ConfigError(f"unknown argument {left[0]}: {hint}")

    def no_target(self) -> ConfigError:
        """Return the error for arguments without a run or env."""
        what = self.syntax.split("|")[0].split()[0].strip(".").lower()
        return ConfigError(
            f"which {what}? Use: puffer-train {self.name} {self.syntax} (puffer-train {self.name} "
            "--help shows more)"
        )
