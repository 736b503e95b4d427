# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train completion SHELL`: what bash, zsh and fish complete `puffer-train` by. Imports no
torch, and no code of an env.

Flags and envs are those that the command itself knows: there is no second list
(puffervec/system/shells.py has the scripts).
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import puffervec.envs
from puffervec.commands.settings_help import choices_of
from puffervec.commands.verb import StopSignals, Verb
from puffervec.errors import ConfigError, PuffervecError
from puffervec.system.shells import scripts
from puffervec.train.config import algorithms, flags
from puffervec.train.config.sections import LogSection, TrainConfig, hints_of

ABOUT = """\
  Prints a script that completes verbs, envs, runs, flags and their values. To have it in every new shell:

  bash    echo 'eval "$(puffer-train completion bash)"' >> ~/.bashrc
  zsh     echo 'eval "$(puffer-train completion zsh)"' >> ~/.zshrc       (behind compinit)
  fish    puffer-train completion fish > ~/.config/fish/completions/puffer-train.fish
"""
SCRIPTS = scripts("puffer-train")


def candidates(words: Sequence[str], verbs: Mapping[str, Verb]) -> list[str]:
    """Return what the last word may become; nothing where files are meant.

    Args: words: those behind `puffer-train`, the last one as far as it is typed; verbs: by name.
    """
    typed, before = (words[-1] if words else ""), list(words[:-1])
    return [found for found in _possible(typed, before, verbs) if found.startswith(typed)]


def _possible(typed: str, before: list[str], verbs: Mapping[str, Verb]) -> list[str]:
    if not before:
        return (
            ["--help", "--version"] if typed.startswith("-") else [*verbs, *puffervec.envs.names()]
        )
    verb = verbs[before.pop(0) if before[0] in verbs else "train"]
    target = next((word for word in before if not word.startswith("-")), None)
    if typed.startswith("-"):
        return _flags(verb, _config(target, before))
    if before and before[-1].startswith("--"):
        found = _values(verb, target, before[-1])
        if found is not None:
            return found
    if target and not any(more in verb.syntax for more in ("...", "[RUN]")):
        return []
    runs = (
        [*(["latest"] if "latest" in verb.syntax else []), *_runs()]
        if verb.syntax.startswith("RUN")
        else []
    )
    choices = [*verb.values.get("", ()), *runs]
    return [*choices, *(puffervec.envs.names() if "ENV" in verb.syntax else [])]


def _flags(verb: Verb, config: TrainConfig) -> list[str]:
    own = re.findall(r"(?<![\w-])--[a-z][\w-]*(?![\w.-])", verb.about)
    if verb.configured:
        known = flags.known_flags(config)
        short = [alias for alias, long in flags.ALIASES.items() if long in known]
        own += ["--config", "--help-all", *known, *short]
    return sorted({*own, "--help"})


def _values(verb: Verb, target: str | None, flag: str) -> list[str] | None:
    """What may stand behind a flag: [] for files or any text, None where it takes nothing."""
    if flag in ("--resume", "--init-from"):
        return ["latest", *_runs()]
    if flag == "--baseline":
        return _baselines(target)
    if flag == "--train.algorithm":
        return algorithms.names()
    if verb.configured:
        section, _, name = (
            flags.ALIASES.get(flag, flag).removeprefix("--").replace("-", "_").partition(".")
        )
        instance = getattr(_config(target, []), section, None)
        if dataclasses.is_dataclass(instance) and not isinstance(instance, type):
            hint = hints_of(instance).get(name)
            return ["true", "false"] if hint is bool else list(choices_of(hint))
    takes_one = re.search(rf"{flag} [A-Z]", verb.about)  # As in --out FILE.
    return list(verb.values.get(flag, ())) if takes_one else None


def _baselines(target: str | None) -> list[str]:
    with contextlib.suppress(PuffervecError, ImportError):
        own = puffervec.envs.get(target or "").own_evaluation()
        return ["random", *(own.baselines if own is not None else ())]
    return ["random"]


def _config(target: str | None, before: list[str]) -> TrainConfig:
    """The config of an env, with the algorithm that was named before; of a Python env without
    importing anything.
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
    """Return the run folders in `runs` of this folder, the one that saved last first.

    The time of a run folder itself also changes when a plot or a report is written into it.
    """
    folder: Path = LogSection().folder

    def saved(run: Path) -> float:
        checkpoints = run / "checkpoints"
        return (checkpoints if checkpoints.is_dir() else run).stat().st_mtime

    there = [path for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
    return [str(path) for path in sorted(there, key=saved, reverse=True)]


def verb(others: Sequence[Verb]) -> Verb:
    """Return the verb. others: that it completes beside itself."""

    def run(args: list[str], signals: StopSignals) -> None:
        if args[:1] == ["--"]:
            print(
                *candidates(args[1:], {known.name: known for known in (*others, completion)}),
                sep="\n",
            )
            return
        shell = flags.take_target(args)
        flags.refuse_left(args, "completion")
        if shell not in SCRIPTS:
            raise ConfigError(f"completion: {shell!r} is not known: use {', '.join(SCRIPTS)}")
        print(SCRIPTS[shell], end="")

    syntax, summary = "|".join(SCRIPTS), "what completes these commands in a shell"
    completion = Verb(
        "completion", syntax, summary, ABOUT, run, trainer=False, values={"": tuple(SCRIPTS)}
    )
    return completion
