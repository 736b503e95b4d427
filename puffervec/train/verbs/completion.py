# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train completion SHELL`: what bash, zsh and fish complete `puffer-train` by. Imports no torch, and no code of an env.

The printed script calls `puffer-train completion -- WORD...` at each TAB, which prints what the last word may become, one per
line; nothing where files are meant. So flags and envs are those that the command itself knows: there is no second list.
"""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path

import puffervec.envs
from puffervec.errors import ConfigError
from puffervec.train.config import flags
from puffervec.train.config.sections import LogSection, TrainConfig
from puffervec.train.verbs.settings_help import choices_of

SCRIPTS = {
    "bash": """\
_puffer_train() {
    local IFS=$'\\n'
    COMPREPLY=($(puffer-train completion -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _puffer_train puffer-train
""",
    "zsh": """\
#compdef puffer-train
_puffer_train() {
    local -a found
    found=("${(@f)$(puffer-train completion -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[*]}" ]]; then compadd -- "${found[@]}"; else _files; fi
}
compdef _puffer_train puffer-train
""",
    "fish": """\
function __puffer_train
    set -l words (commandline -opc) (commandline -ct)
    puffer-train completion -- $words[2..-1] 2>/dev/null
end
complete -c puffer-train -a '(__puffer_train)'
""",
}
CONFIGURED = ("train", "sweep", "bench")  # Verbs that take all flags of a run.
TAKES_RUN = ("eval", "plot", "export")
VALUES = {
    "--x": ("steps", "minutes"), "--format": ("onnx", "pt2"), "--device": ("auto", "cpu", "cuda"),
    "--baseline": ("random", "stop", "lane-follow", "log"),
}  # fmt: skip


def candidates(words: Sequence[str], usages: Mapping[str, str]) -> list[str]:
    """Return what the last word may become; nothing where files are meant.

    Args: words: those behind `puffer-train`, the last one as far as it is typed; usages: what each verb prints for --help.
    """
    typed, before = (words[-1] if words else ""), list(words[:-1])
    return [found for found in _possible(typed, before, usages) if found.startswith(typed)]


def _possible(typed: str, before: list[str], usages: Mapping[str, str]) -> list[str]:
    if not before:
        return ["--help", "--version"] if typed.startswith("-") else [*usages, *puffervec.envs.names()]
    verb = before.pop(0) if before[0] in usages else "train"
    target = next((word for word in before if not word.startswith("-")), None)
    if typed.startswith("-"):
        return _flags(verb, target, usages[verb])
    if before and before[-1].startswith("--"):
        found = _values(verb, target, before[-1])
        if found is not None:
            return found
    if verb == "completion":
        return list(SCRIPTS)
    if verb in CONFIGURED or (verb == "eval" and not target):
        return [] if target else [*_runs(verb), *puffervec.envs.names()]
    return _runs(verb) if verb == "plot" or not target else []


def _flags(verb: str, target: str | None, usage: str) -> list[str]:
    own = re.findall(r"(?<![\w-])--[a-z][\w-]*(?![\w.-])", usage)
    if verb in CONFIGURED:
        known = flags.known_flags(_config(target))
        own += [
            "--config",
            "--resume",
            "--help-all",
            *known,
            *(alias for alias, long in flags.ALIASES.items() if long in known),
        ]
    return sorted({*own, "--help"})


def _values(verb: str, target: str | None, flag: str) -> list[str] | None:
    """What may stand behind a flag: [] for files or any text, None where it takes nothing."""
    if flag in ("--help", "--help-all", "--json", "--apart", "--sample", "--clear", "--version"):
        return None
    if flag == "--resume":
        return _runs("eval")
    if verb in CONFIGURED:
        section, _, name = flags.ALIASES.get(flag, flag).removeprefix("--").replace("-", "_").partition(".")
        instance = getattr(_config(target), section, None)
        if dataclasses.is_dataclass(instance) and not isinstance(instance, type):
            hint = typing.get_type_hints(type(instance)).get(name)
            return list(VALUES.get(flag, ("true", "false") if hint is bool else choices_of(hint)))
    return list(VALUES.get(flag, ()))


def _config(target: str | None) -> TrainConfig:
    """The config of an env; of a Python env without importing anything."""
    if target in puffervec.envs.names():
        try:
            return TrainConfig.bare(target)
        except (ConfigError, ImportError):  # An installed env that is broken.
            pass
    return TrainConfig(target or "", {})


def _runs(verb: str) -> list[str]:
    """Run folders of this folder's `runs`, newest first, behind `latest` where the verb takes that."""
    folder: Path = LogSection().folder
    if verb not in TAKES_RUN:
        return []
    there = [path for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
    found = sorted(there, key=lambda path: path.stat().st_mtime, reverse=True)
    return [*([] if verb == "plot" else ["latest"]), *map(str, found)]
