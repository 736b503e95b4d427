# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train [VERB] ...`: finds the verb, runs it, and turns what it raises into an exit code.

To add a verb: a file beside this one that ends in VERB, its name in _VERBS here, a line in
docs/training.md. Wings bring theirs through puffervec/doors.py.

Exit codes: 0 done, 1 the run failed, 2 bad input (one line on standard error), 130 and 143 stopped
by Ctrl-C and SIGTERM: in training after saving a checkpoint, else at once.
"""

from __future__ import annotations

import difflib
import os
import signal
import sys
from collections.abc import Sequence

import puffervec
from puffervec import doors, envs
from puffervec.commands import bench, cache, completion, eval, play, plot, render, train
from puffervec.commands import list as listing
from puffervec.commands.verb import StopSignals, Verb
from puffervec.errors import (
    CheckpointError,
    ConfigError,
    MissingExtraError,
    PuffervecError,
    SceneError,
)
from puffervec.system import extras
from puffervec.system.output import printable, steady_output
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
)
VERBS = {verb.name: verb for verb in (*_VERBS, completion.verb(_VERBS))}
BAD_INPUT = (ConfigError, SceneError, CheckpointError, MissingExtraError)
EXIT_FAILED, EXIT_BAD_INPUT = 1, 2
HELP = {"-h", "--help", "--help-all"}
LONGEST = 4000  # Characters of a message; names in it may be a stranger's.


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    with steady_output() as output:
        code, trains = _run(list(sys.argv[1:] if argv is None else argv))
        output.flush()
        if output.lost is None or code != 0:
            return code
        if not isinstance(output.lost, BrokenPipeError):  # Who closes a pipe knows.
            _say(
                "some of the output was lost: "
                f"{getattr(output.lost, 'strerror', None) or output.lost}"
            )
        return 0 if trains else EXIT_FAILED


def _say(text: str) -> None:
    print(
        f"puffer-train: {printable(text[:LONGEST])}{'...' if len(text) > LONGEST else ''}",
        file=sys.stderr,
        flush=True,
    )


def usage() -> str:
    """Return what `puffer-train --help` prints."""
    heads = {name: f"puffer-train {name} {verb.syntax}" for name, verb in VERBS.items()}
    verbs = "\n".join(f"       {heads[name]:<54}  {verb.summary}" for name, verb in VERBS.items())
    return f"usage: {verbs.lstrip()}\n       puffer-train --version\n\n{train.about()}"


def _run(args: list[str]) -> tuple[int, bool]:
    """Run a verb; return the exit code, and whether it is one that trains: its files are what it is
    for, not its output.
    """
    if not args or args[0] in ("-h", "--help", "help"):
        print(usage())
        return 0, False
    if args == ["--version"]:
        print(f"puffervec {puffervec.__version__}")
        return 0, False
    if args[0] not in VERBS and (text := _misspelt(args[0])):
        _say(text)
        return EXIT_BAD_INPUT, False
    verb = VERBS[args.pop(0) if args[0] in VERBS else "train"]
    if not args and not verb.syntax.startswith("["):
        print(verb.usage, file=sys.stderr)
        return EXIT_BAD_INPUT, False
    if (
        verb is not train.VERB
        and int(os.environ.get("WORLD_SIZE", "1")) > 1
        and ranks.under_torchrun()
    ):
        _say("torchrun is for training only: give this verb without torchrun")
        return EXIT_BAD_INPUT, False
    return _guarded(verb, args), verb.trains


def _misspelt(word: str) -> str:
    """Return what to say of a first word that is neither a verb nor an env, but close to a verb;
    else "".
    """
    close = difflib.get_close_matches(word, VERBS, n=1)
    if not close or word.startswith("-") or difflib.get_close_matches(word, envs.names(), n=1):
        return ""
    try:
        native_env(word)
    except ConfigError as error:
        return f"no verb is called {word!r}: did you mean {close[0]}? And {error}"
    return ""


def _guarded(verb: Verb, args: list[str]) -> int:
    with StopSignals() as signals:
        try:
            if HELP & set(args) and args[0] != "--":  # Behind -- stand words to complete.
                print(verb.usage if verb.help is None else verb.help(args))
                return 0
            if verb.trainer:
                extras.require("the trainer", *extras.TRAINER)
            verb.run(args, signals)
            return 128 + signals.received if signals.received else 0
        except BAD_INPUT as error:
            _say(" ".join(str(error).split()))
            return EXIT_BAD_INPUT
        except PuffervecError as error:
            _say(str(error))
            return EXIT_FAILED
        except KeyboardInterrupt:
            return 128 + (signals.received or signal.SIGINT)


if __name__ == "__main__":
    sys.exit(main())
