# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Flags of `puffer-train`, generated from the config dataclasses, and the `--config` file.

Imports no torch. The words of a flag are converted to the value that a TOML file would have, and
checked in the same way. Later sources override earlier ones: dataclass defaults, the env's preset,
the config of the resumed run, the TOML file, the flags.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import difflib
import json
import math
import re
import tomllib
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from puffervec.errors import ConfigError
from puffervec.system.arguments import Parser
from puffervec.train.config.schedules import Schedule
from puffervec.train.config.sections import SECTIONS, TrainConfig
from puffervec.train.config.tables import hints_of

MOST_CONFIG_BYTES = 1 << 20
LARGEST_FLOAT = 2**53  # Above this a float may represent several whole numbers.
# Short names for the most used settings.
ALIASES = {
    "--total-timesteps": "--train.total-timesteps",
    "--time-limit-s": "--train.time-limit-s",
    "--seed": "--train.seed",
    "--device": "--train.device",
    "--deterministic": "--train.deterministic",
    "--lr": "--train.lr",
    "--num-envs": "--vec.num-envs",
    "--num-workers": "--vec.num-workers",
    "--backend": "--vec.backend",
    "--scenes": "--env.scenes",
    "--run-name": "--log.name",
    "--ray": "--ray.address",
}


# Settings by their names in Stable-Baselines3, CleanRL and PufferLib, where those differ.
OTHER_NAMES = {
    "learning_rate": "--train.lr", "ent_coef": "--train.entropy_coef",
    "vf_coef": "--train.value_coef",
    "n_steps": "--train.horizon", "num_steps": "--train.horizon", "bptt_horizon": "--train.horizon",
    "n_epochs": "--train.update_epochs",
    "num_minibatches": "--train.minibatch_size", "clip_coef": "--train.clip",
    "clip_range": "--train.clip", "discount": "--train.gamma",
    "use_rnn": "--policy.memory", "n_envs": "--vec.num_envs",
}  # fmt: skip
POLICIES = "--policies."  # Prefix of NAME.KEY, a setting of one policy.
ENV_ALIASES = {
    alias: long.removeprefix("--env.")
    for alias, long in ALIASES.items()
    if long.startswith("--env.")
}


def group_by_policy(config: TrainConfig, texts: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of --opponent, NAME=WHO each, by policy name.

    WHO without a name applies to the only policy that is not trained.

    Raises: ConfigError: the policy is ambiguous.
    """
    names = [entry.partition("=")[0] for entry in config.policy.map]
    frozen = [name for name in names if not config.of_policy(name).role.to_train]
    values: dict[str, list[str]] = {}
    for text in texts:
        name, equals, what = text.partition("=")
        if not equals or not re.fullmatch(r"\w[\w.-]*", name):
            name, what = frozen[0] if len(frozen) == 1 else "", text
        if not name or not what:
            known = f", NAME one of {', '.join(names)}" if names else ""
            raise ConfigError(
                f"--opponent {text} does not say which policy it plays: use --opponent "
                f"NAME={text.rpartition('=')[2]}{known}"
            )
        values.setdefault(name, []).append(what)
    return values


def peek(argv: Sequence[str], flag: str) -> str | None:
    """Return the value of a flag without removing it from argv; None if it is absent."""
    parser = Parser(prog="puffer-train", add_help=False)
    parser.add_argument(flag, dest="value")
    value: str | None = parser.parse_known_args(argv)[0].value
    return value


def take_target(args: list[str]) -> str | None:
    """Remove and return the first argument unless it is a flag."""
    return args.pop(0) if args and not args[0].startswith("-") else None


def take_env_flags(args: list[str]) -> tuple[str, ...]:
    """Remove `--env.NAME [VALUE]` and their short forms from args and return them."""
    taken: list[str] = []
    at = 0
    while at < len(args):
        flag, equals, _ = args[at].partition("=")
        if not flag.startswith("--env.") and flag not in ENV_ALIASES:
            at += 1
            continue
        has_value = not equals and at + 1 < len(args) and not args[at + 1].startswith("--")
        taken += args[at : at + 1 + has_value]
        del args[at : at + 1 + has_value]
    return tuple(taken)


def at_least(least: int) -> Callable[[str], int]:
    """Return an argument type: whole numbers of at least `least`, which may be written as 1e6."""

    def convert(text: str) -> int:
        with contextlib.suppress(ValueError):
            if (value := whole_number(text)) >= least:
                return value
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of at least {least}")

    return convert


def whole_number(text: str) -> int:
    """Convert text to a whole number, which may be written as 1e6. Raises: ValueError.

    >>> whole_number("1e5"), whole_number("2.5e3"), whole_number("7")
    (100000, 2500, 7)
    """
    try:
        return int(text)
    except ValueError:
        value = float(text)
        if not value.is_integer() or abs(value) > LARGEST_FLOAT:
            raise
        return int(value)


def number(text: str) -> float:
    """Convert text to a finite number. This is an argument type."""
    with contextlib.suppress(ValueError):
        if math.isfinite(value := float(text)):
            return value
    raise argparse.ArgumentTypeError(f"{text!r} must be a number")


def check_integers(table: Any, key: str = "") -> None:
    """Raise ConfigError for integers of more than 64 bits in a table that was read from a file.

    TOML does not allow larger ones either, and Python refuses to print integers of more than 4,300
    digits.
    """
    if isinstance(table, int):
        if table.bit_length() > 64:
            raise ConfigError(
                f"{key} is a whole number of {table.bit_length():,} bits: at most 64 are allowed"
            )
    elif isinstance(table, (Mapping, list)):
        for name, value in table.items() if isinstance(table, Mapping) else enumerate(table):
            check_integers(name)
            check_integers(value, f"{key}.{name}" if key else str(name))


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a `--config` file.

    Raises: ConfigError: names the file, and the line of a syntax error.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_CONFIG_BYTES + 1)
        if len(data) > MOST_CONFIG_BYTES:
            raise ConfigError(f"has more than {MOST_CONFIG_BYTES:,} bytes: give a run's config")
        tables = tomllib.loads(data.decode("utf-8"))
        check_integers(tables)
        return tables
    except OSError as error:
        raise ConfigError(f"--config {path}: {error.strerror}") from error
    # Not TOML or UTF-8, too long, too deeply nested, or a NUL in the name.
    except (ConfigError, ValueError, RecursionError) as error:
        raise ConfigError(f"--config {path}: {error}") from error


def apply_config_file(config: TrainConfig, path: Path) -> TrainConfig:
    """Return the config with the values of a TOML file.

    Raises: ConfigError: names the file and the table or key.
    """
    tables = read_toml(path)
    try:
        return config.merged(tables)
    except ConfigError as error:
        raise ConfigError(f"--config {path}: {error}") from error


def known_flags(config: TrainConfig) -> list[str]:
    """Return the long names of all flags that set a value of this config."""
    return [
        f"--{section}.{field.name.replace('_', '-')}"
        for section in typed_sections(config)
        for field in dataclasses.fields(getattr(config, section))
    ]


def typed_sections(config: TrainConfig) -> list[str]:
    """Return the names of the sections that are dataclasses: all, except env of a Python env."""
    return [section for section in SECTIONS if dataclasses.is_dataclass(getattr(config, section))]


def take_prefixed(argv: list[str], prefix: str) -> dict[str, str]:
    """Remove every flag that begins with `prefix`, and its value, from argv; return the values.

    Their keys are the rest of the flag's name, with underscores.

    Raises: ConfigError: a value is missing.
    """
    parser = Parser(prog="puffer-train", add_help=False)
    for flag in dict.fromkeys(word.partition("=")[0] for word in argv if word.startswith(prefix)):
        parser.add_argument(flag, dest=flag.removeprefix(prefix).replace("-", "_"))
    values, argv[:] = parser.parse_known_args(argv)
    return vars(values)


def take_policies(argv: list[str]) -> dict[str, dict[str, Any]]:
    """Remove every `--policies.NAME.KEY VALUE...` from argv; return the values by policy and key.

    Several words become a list.

    Raises: ConfigError: a name or a value is missing.
    """
    tables: dict[str, dict[str, Any]] = {}
    at = 0
    while at < len(argv):
        if not argv[at].startswith(POLICIES):
            at += 1
            continue
        end = next((i for i in range(at + 1, len(argv)) if argv[i].startswith("--")), len(argv))
        flag, *words = argv[at:end]
        flag, equals, value = flag.partition("=")
        name, _, key = flag.removeprefix(POLICIES).rpartition(".")
        words = [value, *words] if equals else words
        if not name or not key or not words:
            raise ConfigError(
                f"{flag}{' needs a value' if name and key else ''}: give {POLICIES}NAME.KEY VALUE"
            )
        words = [part for word in words for part in _numbers_of(word)]
        values = [json_list(word) if word.startswith("[") else plain_value(word) for word in words]
        tables.setdefault(name, {})[key] = values[0] if len(values) == 1 else values
        del argv[at:end]
    return tables


def json_list(text: str) -> Any:
    """Parse text as JSON; return it unchanged if it is not JSON."""
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(text)
    return text


def plain_value(text: str) -> bool | int | float | str:
    """Convert text to a boolean, an integer or a float if it looks like one, else return it.

    A quoted value stays text: '"3"'.

    >>> plain_value("true"), plain_value("-3"), plain_value("1e-3"), plain_value('"3"')
    (True, -3, 0.001, '3')
    >>> plain_value("map3")
    'map3'
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    if re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text):
        return float(text)
    return text


def add_sources(parser: Parser) -> None:
    """Declare the flags that configure a run without being settings."""
    # fmt: off
    flag = parser.flag
    flag("--config FILE.toml", "tables [env] [vec] [train] [policy] [policies.NAME] [ray] [log] "
         "with the same keys as the flags", type=Path)
    flag("--opponent NAME=RUN", "use the policy of RUN as the policy NAME, without training it; "
         "RUN: a run, a checkpoint, or a folder of checkpoints, one of which is drawn for each "
         "episode", action="append", default=[])
    # fmt: on


def build_config(config: TrainConfig, args: Sequence[str], own: Sequence[str] = ()) -> TrainConfig:
    """Apply the file of `--config` and the flags to the config, check it and return it.

    Args: own: see apply_flags.
    Raises: ConfigError.
    """
    parser = Parser(prog="puffer-train", add_help=False)
    add_sources(parser)
    sources, left = parser.parse_known_args(args)
    config = of_algorithm(config, left)  # The file may contain settings of this algorithm alone.
    if sources.config is not None:
        config = apply_config_file(config, sources.config)
    config = apply_flags(config, left, own)
    opponents = group_by_policy(config, sources.opponent).items()
    config = config.merged({"policies": {name: {"opponent": runs} for name, runs in opponents}})
    config.check()
    return config


def of_algorithm(config: TrainConfig, argv: Sequence[str]) -> TrainConfig:
    """Return the config with the algorithm that argv names, and with that algorithm's settings.

    Raises: ConfigError: the algorithm is unknown.
    """
    name = peek(argv, "--train.algorithm")
    return config if name is None else config.merged({"train": {"algorithm": name}})


def apply_flags(config: TrainConfig, argv: Sequence[str], own: Sequence[str] = ()) -> TrainConfig:
    """Return the config with the values of command-line flags.

    Args:
        own: other flags of the command, which an error message may suggest.

    Raises: ConfigError: an unknown flag or an invalid value; the message is one line.
    """
    config = of_algorithm(config, argv)
    left = list(argv)
    if config.python:
        values = take_prefixed(left, "--env.")
        if bad := [name for name in values if not name.isidentifier()]:
            raise ConfigError(
                f"--env.{bad[0]} is not the name of a keyword argument: use --env.NAME VALUE"
            )
        config = config.merged({"env": {name: plain_value(text) for name, text in values.items()}})
    tables: dict[str, dict[str, Any]] = {"policies": take_policies(left)}
    settings, unknown = settings_parser(config).parse_known_args(list(map(_with_dashes, left)))
    if unknown:
        flag = next((word for word in unknown if word.startswith("-")), unknown[0])
        kind = "flag" if flag.startswith("-") else "argument"
        raise ConfigError(f"unknown {kind} {flag}: {_nearest(flag, [*known_flags(config), *own])}")
    for path, words in vars(settings).items():
        section, _, name = path.partition(".")
        hint = hints_of(getattr(config, section))[name]
        tables.setdefault(section, {})[name] = from_words(words, hint)
    return config.merged(tables)


def settings_parser(config: TrainConfig) -> Parser:
    """Return a parser of all flags that set a value of this config.

    It returns words by the path of the setting, such as "train.lr".
    """
    parser = Parser(prog="puffer-train", add_help=False)
    short = {long: alias for alias, long in ALIASES.items()}
    for flag in known_flags(config):
        section, _, name = (path := flag[2:].replace("-", "_")).partition(".")
        hint = hints_of(getattr(config, section))[name]
        kind: dict[str, Any] = {}
        if hint is bool:  # A flag without a value, as in `--log.tensorboard`, means true.
            kind = {"nargs": "?", "const": "true"}
        elif _item_of(hint) is not None:
            kind = {"nargs": "*"}
        names = [flag, short[flag]] if flag in short else [flag]
        parser.add_argument(*names, dest=path, default=argparse.SUPPRESS, **kind)
    return parser


def _with_dashes(word: str) -> str:
    flag, equals, value = word.partition("=")
    return flag.replace("_", "-") + equals + value if word.startswith("--") else word


def _item_of(hint: Any) -> Any:
    """Return the type of the items of a list, None for a type that is not a list."""
    for option in () if hint == Schedule else (hint, *typing.get_args(hint)):
        if typing.get_origin(option) in (tuple, Sequence):
            return typing.get_args(option)[0]
    return None


def from_words(words: str | Sequence[str], hint: Any) -> Any:
    """Convert the words of a flag as `from_text` does; for a list, one item per word.

    >>> from_words(["64,32"], tuple[int, ...]), from_words(["a,b", "c"], tuple[str, ...])
    ([64, 32], ['a,b', 'c'])
    """
    if isinstance(words, str):
        return from_text(words, hint)
    item = _item_of(hint)
    return [from_text(part, item) for word in words for part in _numbers_of(word)]


def from_text(text: str, hint: Any) -> Any:
    """Convert text to the TOML value of a setting of this type.

    Text that cannot be converted is returned as it is; TrainConfig.merged refuses it.

    >>> [from_text("1e5", kind) for kind in (int, float, str, int | Literal["auto"])]
    [100000, 100000.0, '1e5', 100000]
    """
    options = typing.get_args(hint)
    if hint is Any:
        return plain_value(text)
    if hint == Schedule:
        return json_list(text) if text.startswith("[") else from_text(text, float)
    if typing.get_origin(hint) is Literal:
        return next((option for option in options if str(option) == text), text)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        values = (from_text(text, option) for option in options)
        return next((value for value in values if value is not text), text)
    if hint is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    if hint is type(None):
        return None if text == "None" else text
    with contextlib.suppress(ValueError):
        return whole_number(text) if hint is int else float(text) if hint is float else text
    return text


def _numbers_of(word: str) -> list[str]:
    """Split a word that is a list of whole numbers; any other word is returned as one item.

    >>> _numbers_of("64,32"), _numbers_of("64"), _numbers_of("a,b")
    (['64', '32'], ['64'], ['a,b'])
    """
    return word.split(",") if re.fullmatch(r"\d+(,\d+)+", word) else [word]


def _nearest(flag: str, known: list[str]) -> str:
    """Return a hint for an unknown flag.

    For an env flag the hint suggests only flags of the env: the subcommand may accept no others.
    """
    other = OTHER_NAMES.get(flag.rpartition(".")[2].lstrip("-").replace("-", "_"), "").replace(
        "_", "-"
    )
    if other in known:
        return f"did you mean {other}?"
    of_env = [name for name in known if name.startswith("--env.")]
    likely = (
        of_env
        if flag.startswith("--env.")
        else [*known, *(alias for alias, long in ALIASES.items() if long in known)]
    )
    close = difflib.get_close_matches(
        flag, likely, n=1, cutoff=0.5 if likely is not of_env else 0.7
    )
    if close:
        return f"did you mean {close[0]}?"
    return (
        f"the env's are {', '.join(of_env) or 'none'}" if likely is of_env else "--help lists them"
    )
