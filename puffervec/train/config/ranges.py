# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The search space of a sweep: ranges and choices of settings, in the notation of flags.

Imports neither torch nor optuna.

--sweep.train.lr 1e-4:1e-2:log         from the first to the second number, on a logarithmic scale
--sweep.train.gamma 0.95:0.999         from the first to the second number, on a linear scale
--sweep.train.update-epochs 1/2/4      one of these values
--sweep.policy.hidden 64,64/128,128    one of these lists
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from puffervec.errors import ConfigError
from puffervec.train.config import algorithms, flags, schedules
from puffervec.train.config.sections import SECTIONS, TrainConfig
from puffervec.train.config.tables import hints_of, suggest
from puffervec.train.config.target import training_of

PREFIX = "--sweep."  # Prefix of flags: --sweep.SECTION.NAME TEXT.
# The search space if the user sets no range.
DEFAULT_SPACE = {
    "train.lr": "3e-4:1e-2:log",
    "train.gamma": "0.95:0.999",
    "train.gae_lambda": "0.8:0.98",
    "train.entropy_coef": "1e-4:5e-2:log",
    "train.update_epochs": "2/5/10",
}

Values = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Range:
    """Numbers from low to high, both included."""

    low: float
    high: float
    log: bool
    whole: bool


@dataclasses.dataclass(frozen=True)
class Choices:
    """One of several values, as text."""

    options: tuple[str, ...]


Domain = Range | Choices
Space = dict[str, Domain]  # Domains by key, such as "train.lr".


def build_space(
    config: TrainConfig, ranges: Mapping[str, str], names: Sequence[str] | None = None
) -> Space:
    """Return the search space of a sweep: the env's usual ranges, overridden by `ranges`.

    `names` restricts it to these settings.

    Raises: ConfigError: an unknown key, a text that is not a range, or a value that the setting
        does not allow.
    """
    # The env may name settings that the run's algorithm does not have.
    own = training_of(config.target).search
    known = {field.name for field in dataclasses.fields(config.train)}
    own = {
        key: text
        for key, text in own.items()
        if key.removeprefix("train.") in known or not key.startswith("train.")
    }
    of_algorithm = algorithms.get(config.train.algorithm).search
    usual = {**DEFAULT_SPACE, **of_algorithm, **own}
    usual = {key: text for key, text in usual.items() if of_algorithm.get(key, text)}
    texts = {**usual, **ranges} if names is not None or not ranges else dict(ranges)
    if names is not None:
        for name in names:
            if name not in texts:
                raise ConfigError(
                    f"--parameters names {name}, which has no range{suggest(name, list(texts))}"
                )
        texts = {name: texts[name] for name in names}
    space = {key: parse(config, key, text) for key, text in texts.items()}
    for key, domain in space.items():
        ends = domain.options if isinstance(domain, Choices) else (domain.low, domain.high)
        for end in ends:
            with_values(config, {key: end}).check()
    return space


def parse(config: TrainConfig, key: str, text: str) -> Domain:
    """Parse the range or choices of the setting `key`.

    Raises: ConfigError.
    """
    hint = _hint(config, key)
    flag = f"{PREFIX}{key.replace('_', '-')} {text}"
    if ":" not in text:
        options = tuple(text.split("/"))
        if len(set(options)) < 2:
            raise ConfigError(
                f"{flag}: give LOW:HIGH, LOW:HIGH:log, or two or more values with / between them"
            )
        return Choices(options)
    low_text, high_text, *rest = text.split(":")
    if rest not in ([], ["log"]):
        raise ConfigError(f"{flag}: a range is LOW:HIGH or LOW:HIGH:log")
    low, high = flags.plain_value(low_text), flags.plain_value(high_text)
    numbers = all(
        isinstance(end, (int, float)) and not isinstance(end, bool) for end in (low, high)
    )
    if not numbers or hint not in (int, float, Any, schedules.Schedule):
        raise ConfigError(
            f"{flag}: only a number has a range; for other settings give values with / between them"
        )
    assert isinstance(low, (int, float)) and isinstance(high, (int, float))
    whole = hint is int or (hint is Any and isinstance(low, int) and isinstance(high, int))
    if (
        not low < high
        or (rest and low <= 0)
        or (whole and not (float(low).is_integer() and float(high).is_integer()))
    ):
        what = "whole numbers" if whole else "numbers"
        raise ConfigError(f"{flag}: LOW must be below HIGH, with :log above 0, and both {what}")
    return Range(float(low), float(high), bool(rest), whole)


def _hint(config: TrainConfig, key: str) -> Any:
    """Return the type of a setting; Any for those of a Python env."""
    section, _, name = key.partition(".")
    if section not in SECTIONS:
        raise ConfigError(
            f"{PREFIX}{key}: settings are SECTION.NAME, with a section of {', '.join(SECTIONS)}"
        )
    if section == "log":
        raise ConfigError(
            f"{PREFIX}{key}: settings of log do not affect learning: choose another section"
        )
    if section == "env" and config.python:
        return Any
    if section == "policies":
        settings, name = config.of_policy(name.rpartition(".")[0]), name.rpartition(".")[2]
        hints = hints_of(settings.policy) | hints_of(settings.train)
    else:
        hints = hints_of(getattr(config, section))
    if name not in hints:
        raise ConfigError(f"{PREFIX}{key}: unknown setting {name}{suggest(name, list(hints))}")
    return hints[name]


def with_values(config: TrainConfig, values: Values) -> TrainConfig:
    """Return the config with values (numbers of a Range, texts of Choices) by key.

    Raises: ConfigError: a value is invalid.
    """
    tables: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        section, _, name = key.partition(".")
        table = tables.setdefault(section, {})
        if section == "policies":
            policy, _, name = name.rpartition(".")
            table = table.setdefault(policy, {})
        table[name] = _convert(value, _hint(config, key))
    return config.merged(tables)


def _convert(value: Any, hint: Any) -> Any:
    if not isinstance(value, str):
        return int(value) if hint is int else value
    is_list = typing.get_origin(hint) is tuple
    return flags.from_words(value.strip(",").split(",") if is_list else value, hint)


def draw(trial: Any, space: Space) -> Values:
    """Let an optuna trial choose values by key. Whole numbers of a Range are ints."""
    values: Values = {}
    for key, domain in space.items():
        if isinstance(domain, Choices):
            values[key] = trial.suggest_categorical(key, list(domain.options))
        elif domain.whole:
            values[key] = trial.suggest_int(key, int(domain.low), int(domain.high), log=domain.log)
        else:
            values[key] = trial.suggest_float(key, domain.low, domain.high, log=domain.log)
    return values


def as_text(domain: Domain) -> str:
    """Return a range or choices as text, the inverse of `parse`."""
    if isinstance(domain, Choices):
        return "/".join(domain.options)
    low, high = (int(end) if domain.whole else end for end in (domain.low, domain.high))
    ends = f"{low!r}:{high!r}"
    return f"{ends}:log" if domain.log else ends


def place(domain: Domain, value: Any) -> float:
    """Return the position of a value in its domain, 0 to 1, for plots."""
    if isinstance(domain, Choices):
        return domain.options.index(str(value)) / (len(domain.options) - 1)
    low, high, at = domain.low, domain.high, float(value)
    if domain.log:
        low, high, at = math.log(low), math.log(high), math.log(at)
    return (at - low) / (high - low)
