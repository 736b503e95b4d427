# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train [VERB] ...`: find the verb and run it.

To add a verb: write a file in this folder that ends in VERB, and add its name to _VERBS here and a
line to docs/training.md. Wings add theirs through puffervec/doors.py.

Exit codes are those of puffervec/system/command.py; 130 and 143 mean stopped by Ctrl-C and SIGTERM,
in training after a checkpoint was saved.
"""

from __future__ import annotations

import difflib
import os
import signal
import sys
import warnings
from collections.abc import Sequence

import puffervec
from puffervec import doors, envs
from puffervec.commands import bench, cache, completion, eval, play, plot, render, train
from puffervec.commands import list as listing
from puffervec.commands.verb import StopSignals, Verb
from puffervec.errors import ConfigError
from puffervec.system import extras
from puffervec.system.command import EXIT_BAD_INPUT, run_command
from puffervec.train.config.target import native_env
from puffervec.train.device import ranks

_VERBS = (
    *(
        train.VERB,
        eval.VERB,
        listing.VERB,
        plot.VERB,
        render.VERB,
        play.VERB,
        bench.VERB,
        cache.VERB,
    ),
    *doors.verbs(),
    completion.VERB,
)
VERBS = {verb.name: verb for verb in _VERBS}
NAME = "puffer-train"
HELP = {"-h", "--help", "--help-all"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    # Inductor's advice to authors of models (TF32, split reductions) would disturb the dashboard.
    warnings.filterwarnings("ignore", category=UserWarning, module=r"torch\._inductor")
    verb = None
    if args and args[0] not in ("-h", "--help", "help") and args != ["--version"]:
        verb = VERBS.get(args[0], train.VERB)
    # A verb that trains succeeds even if its output is lost, since its purpose is its files.
    return run_command(
        NAME, lambda: _run(verb, args), writes_files=verb is not None and verb.trains
    )


def usage() -> str:
    """Return the text of `puffer-train --help`."""
    heads = {name: f"puffer-train {name} {verb.syntax}" for name, verb in VERBS.items()}
    verbs = "\n".join(f"       {heads[name]:<54}  {verb.summary}" for name, verb in VERBS.items())
    return train.help_text(f"{verbs.lstrip()}\n       puffer-train --version")


def _run(verb: Verb | None, args: list[str]) -> int:
    if verb is None:
        print(f"puffervec {puffervec.__version__}" if args == ["--version"] else usage())
        return 0
    _refuse_misspelled_verb(args[0])
    if args[0] in VERBS:
        del args[0]
    if not args and not verb.syntax.startswith("["):
        print(verb.usage, file=sys.stderr)
        return EXIT_BAD_INPUT
    if (
        verb is not train.VERB
        and int(os.environ.get("WORLD_SIZE", "1")) > 1
        and ranks.under_torchrun()
    ):
        raise ConfigError("torchrun is for training only: run this verb without torchrun")
    if verb is completion.VERB and args[:1] == ["--"]:
        print(*completion.candidates(args[1:], VERBS), sep="\n")
        return 0
    with StopSignals() as signals:
        try:
            if HELP & set(args):
                print(verb.usage if verb.help is None else verb.help(args))
                return 0
            if verb.trainer:
                extras.require("the trainer", *extras.TRAINER)
            verb.run(args, signals)
            return 128 + signals.received if signals.received else 0
        except KeyboardInterrupt:
            return 128 + (signals.received or signal.SIGINT)


def _refuse_misspelled_verb(word: str) -> None:
    """Raise ConfigError if the first word is neither a verb nor an env, but resembles a verb."""
    close = difflib.get_close_matches(word, VERBS, n=1)
    if word in VERBS or not close or word.startswith("-"):
        return
    if difflib.get_close_matches(word, envs.names(), n=1):
        return
    try:
        native_env(word)
    except ConfigError as error:
        raise ConfigError(
            f"no verb is called {word!r}: did you mean {close[0]}? And {error}"
        ) from None


if __name__ == "__main__":
    sys.exit(main())
