# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train ENV --help` and `--help-all`: print the most used settings, or all of them.

Imports no torch.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import re
import shutil
import textwrap
import typing
from typing import Any

from puffervec.train.config.flags import ALIASES, ENV_ALIASES, typed_sections
from puffervec.train.config.sections import OF_THE_RUN, RoleSection, TrainConfig
from puffervec.train.config.tables import describe, hints_of
from puffervec.train.config.target import training_of

COMMON = (
    "train.total_timesteps", "train.time_limit_s", "train.seed",
    "train.device", "vec.num_envs", "vec.num_workers",
    "train.lr", "train.horizon", "train.minibatch_size",
    "train.update_epochs", "train.gamma", "train.gae_lambda",
    "train.entropy_coef", "policy.kind", "policy.hidden",
    "policy.memory", "log.folder", "log.name", "log.tensorboard",
    "log.wandb",
)  # fmt: skip
SHORT = {long: alias for alias, long in ALIASES.items()}
INDENT = 26
ENV_NAMES = 20  # Number of the env's settings that the short form names.


def short_help(config: TrainConfig) -> str:
    """Return help on the settings of COMMON, with values, and the names of the env's settings."""
    lines = [f"usage: puffer-train {config.target} [flags]", ""]
    for alias, name in ENV_ALIASES.items():
        if hasattr(config.env, name):
            lines += _entry(
                alias, field_sentences(type(config.env)).get(name, ""), getattr(config.env, name)
            )
    for path in COMMON:
        section, name = path.split(".")
        instance = getattr(config, section)
        flag = _flag(section, name)
        sentence = re.split(
            r"(?<=[.]) ", field_sentences(type(instance)).get(name, ""), maxsplit=1
        )[0].rstrip(".")
        choices = choices_of(hints_of(instance)[name])
        named = (
            f" ({', '.join(choices)})"
            if len(choices) > 1 and not all(choice in sentence for choice in choices)
            else ""
        )
        lines += _entry(SHORT.get(flag, flag), f"{sentence}{named}.", getattr(instance, name))
    lines += _entry(
        "--config FILE.toml",
        "Tables [env] [vec] [train] [policy] [policies.NAME] [ray] [log] with the same keys.",
    )
    lines += _entry("--resume RUN|latest", "Resume a run from its newest checkpoint.")
    if config.python:
        lines += _entry("--env.NAME VALUE", "A keyword argument of the env's factory; repeatable.")
    else:
        names = [field.name.replace("_", "-") for field in dataclasses.fields(config.env)]
        more = f" and {len(names) - ENV_NAMES} more" if len(names) > ENV_NAMES else ""
        lines += _entry(
            "--env.NAME VALUE", f"A setting of the env: {', '.join(names[:ENV_NAMES])}{more}."
        )
    lines += _entry(
        "--policies.NAME.KEY VALUE",
        "A setting of train or policy for one of several policies.",
    )
    if notes := training_of(config.target).notes:
        lines += ["", "Settings of the env's files that have no effect here:"]
        lines += [f"  {note}" for note in notes]
    return "\n".join([*lines, "", f"All settings: puffer-train {config.target} --help-all"])


def _entry(flag: str, sentence: str, value: Any = None) -> list[str]:
    """Return the help of one flag: its sentence and its value.

    After a long flag the sentence begins on the next line.
    """
    default = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    text = sentence if value in (None, "") else f"{sentence} [{default}]"
    width = min(120, max(60, shutil.get_terminal_size((120, 24)).columns))
    head = f"  {flag}".ljust(INDENT - 2) + "  "
    if len(head) > INDENT:
        return [
            f"  {flag}",
            textwrap.fill(text, width, initial_indent=" " * INDENT, subsequent_indent=" " * INDENT),
        ]
    return [textwrap.fill(text, width, initial_indent=head, subsequent_indent=" " * INDENT)]


def choices_of(hint: Any) -> tuple[str, ...]:
    """Return the texts that a setting of this type allows; () if it is not limited to a list."""
    parts = typing.get_args(hint)
    return tuple(
        text for part in parts for text in ([part] if isinstance(part, str) else choices_of(part))
    )


def _flag(section: str, name: str) -> str:
    return f"--{section}.{name.replace('_', '-')}"


def full_help(config: TrainConfig) -> str:
    """Return help on every flag with its type, default and sentence, section by section."""
    out = []
    if config.python:
        out.append("\nenv: Keyword arguments of the env's factory.\n  --env.NAME VALUE")
        out.append("      A number, true, false or text; repeatable.")
    parts = {section: getattr(config, section) for section in typed_sections(config)} | {
        "policies.NAME": RoleSection()
    }
    for section, instance in parts.items():
        sentences = field_sentences(type(instance))
        summary = (type(instance).__doc__ or "").strip().splitlines()[0]
        out.append(f"\n{section}: {summary}")
        hints = hints_of(instance)
        for field in dataclasses.fields(instance):
            flag = _flag(section, field.name)
            short = f", {SHORT[flag]}" if flag in SHORT else ""
            out.append(f"  {flag}{short}")
            value = getattr(instance, field.name)
            line = f"      {sentences.get(field.name, '')} [{describe(hints[field.name])}; {value}]"
            out.append(line.replace("  [", " ["))
    out.append("  --policies.NAME.KEY VALUE")
    excluded = ", ".join(sorted(OF_THE_RUN))
    out.append(f"      KEY: a setting of policy or train, except map, {excluded}.")
    return "\n".join(out)


def field_sentences(kind: type) -> dict[str, str]:
    """Return the sentence after or below each field in the source of a dataclass, by field.

    The field of a subclass replaces a field of the same name in a base class. The result is empty
    if there is no source code, as in a zipped package.
    """
    sentences: dict[str, str] = {}
    for part in reversed(kind.__mro__):
        if dataclasses.is_dataclass(part):
            with contextlib.suppress(OSError, TypeError):
                sentences |= _sentences(textwrap.dedent(inspect.getsource(part)))
    return sentences


def _sentences(source: str) -> dict[str, str]:
    """Return the sentences of one class: a string below a field, else the comment at its end."""
    (body,) = [node.body for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    lines, sentences = source.split("\n"), {}
    for node, below in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            sentences[node.target.id] = " ".join(str(below.value.value).split())
        elif "# " in (rest := lines[(node.end_lineno or 1) - 1][node.end_col_offset :]):
            sentences[node.target.id] = rest.split("# ", 1)[1].strip()
    return sentences
