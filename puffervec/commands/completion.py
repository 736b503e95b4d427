# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train completion SHELL`: print completion scripts for bash, zsh and fish.

Imports no torch and no code of an env. Flags and envs come from the command itself, so the scripts
(puffervec/system/shells.py) contain no list of them.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import puffervec.envs
from puffervec.commands.settings_help import choices_of
from puffervec.commands.verb import StopSignals, Verb
from puffervec.errors import ConfigError, PuffervecError
from puffervec.system.arguments import Parser
from puffervec.system.shells import scripts
from puffervec.train.config import algorithms, flags
from puffervec.train.config.sections import LogSection, TrainConfig
from puffervec.train.config.tables import hints_of

ABOUT = """\
Prints a script that completes verbs, envs, runs, flags and their values. To load it in every new
shell:

  bash    echo 'eval "$(puffer-train completion bash)"' >> ~/.bashrc
  zsh     echo 'eval "$(puffer-train completion zsh)"' >> ~/.zshrc       (after compinit)
  fish    puffer-train completion fish > ~/.config/fish/completions/puffer-train.fish"""
# A completion library would know neither the runs in this folder nor the settings of an env.
SCRIPTS = scripts("puffer-train")
SUGGESTIONS = {"--device": ("auto", "cpu", "cuda"), "--host": ("127.0.0.1", "::1")}


def candidates(words: Sequence[str], verbs: Mapping[str, Verb]) -> list[str]:
    """Return the completions of the last word; an empty list lets the shell complete file names.

    Args: words: the words after `puffer-train`, of which the last may be incomplete; verbs: all
        verbs by name.
    """
    typed, before = (words[-1] if words else ""), list(words[:-1])
    return [word for word in _list_words(typed, before, verbs) if word.startswith(typed)]


def _list_words(typed: str, before: list[str], verbs: Mapping[str, Verb]) -> list[str]:
    if not before:
        return (
            ["--help", "--version"] if typed.startswith("-") else [*verbs, *puffervec.envs.names()]
        )
    verb = verbs[before.pop(0) if before[0] in verbs else "train"]
    target = next((word for word in before if not word.startswith("-")), None)
    if typed.startswith("-"):
        return _flags(verb, _config(target, before))
    if before and before[-1].startswith("--"):
        values = _values(verb, target, before[-1])
        if values is not None:
            return values
    if target and not any(more in verb.syntax for more in ("...", "[RUN]")):
        return []
    runs = (
        [*(["latest"] if "latest" in verb.syntax else []), *_runs()] if "RUN" in verb.syntax else []
    )
    shells = SCRIPTS if verb is VERB else ()
    return [*shells, *runs, *(puffervec.envs.names() if "ENV" in verb.syntax else [])]


def _flags(verb: Verb, config: TrainConfig) -> list[str]:
    own = [flag for flag in verb.parser().long_flags() if "." not in flag]
    if verb.configured:
        own += [*flags.settings_parser(config).long_flags(), "--help-all"]
    return sorted(own)


def _values(verb: Verb, target: str | None, flag: str) -> list[str] | None:
    """Return the values of a flag: [] for files or any text, None for a flag without a value."""
    if flag in ("--resume", "--init-from"):
        return ["latest", *_runs()]
    if flag == "--baseline":
        return _baselines(target)
    if flag == "--train.algorithm":
        return algorithms.names()
    config = _config(target, [])
    if verb.configured and (action := flags.settings_parser(config).action_of(flag)):
        section, _, name = action.dest.partition(".")
        hint = hints_of(getattr(config, section))[name]
        return ["true", "false"] if hint is bool else list(choices_of(hint))
    action = verb.parser().action_of(flag)
    if action is None or action.nargs == 0:
        return None
    return list(action.choices or SUGGESTIONS.get(flag, ()))


def _baselines(target: str | None) -> list[str]:
    with contextlib.suppress(PuffervecError, ImportError):
        own = puffervec.envs.get(target or "").own_evaluation()
        return ["random", *(own.baselines if own is not None else ())]
    return ["random"]


def _config(target: str | None, before: list[str]) -> TrainConfig:
    """Return the config of an env, with the algorithm that was named before it.

    No Python env is imported.
    """
    config = TrainConfig(target or "", {})
    if target in puffervec.envs.names():
        with contextlib.suppress(ConfigError, ImportError):  # An installed env may be broken.
            config = TrainConfig.bare(target)
    with contextlib.suppress(ConfigError):
        if flags.peek(before, "--train.algorithm") in algorithms.names():
            config = flags.of_algorithm(config, before)
    return config


def _runs() -> list[str]:
    """Return the run folders in `runs` of this folder, the most recently saved one first.

    The modification time of a run folder also changes when a plot or a report is written into it.
    """
    folder: Path = LogSection().folder

    def save_time(run: Path) -> float:
        checkpoints = run / "checkpoints"
        return (checkpoints if checkpoints.is_dir() else run).stat().st_mtime

    runs = [path for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
    return [str(path) for path in sorted(runs, key=save_time, reverse=True)]


def options(parser: Parser) -> None:
    """Declare the argument of completion."""
    parser.add_argument("target", choices=tuple(SCRIPTS), help=argparse.SUPPRESS)


def run(args: list[str], signals: StopSignals) -> None:
    """Run `puffer-train completion SHELL`."""
    print(SCRIPTS[VERB.parse(args).target], end="")


VERB = Verb(
    "completion", "|".join(SCRIPTS),
    "a script that completes these commands in a shell", ABOUT, run, options,
    trainer=False,
)  # fmt: skip
