# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The space that a sweep searches: ranges and choices of settings, as flags write them.

Imports neither torch nor optuna.

--sweep.train.lr 1e-4:1e-2:log         from the first to the second number, on a logarithmic scale
--sweep.train.gamma 0.95:0.999         ... evenly
--sweep.train.update-epochs 1/2/4      one of these
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
from puffervec.train.config.sections import SECTIONS, TrainConfig, hints_of, suggest
from puffervec.train.config.target import training_of

PREFIX = "--sweep."  # Of flags: --sweep.SECTION.NAME TEXT.
# What is searched where no range is given.
SEARCHED = {
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


Searched = Range | Choices
Space = dict[str, Searched]  # By key, as "train.lr".


def build_space(
    config: TrainConfig, given: Mapping[str, str], names: Sequence[str] | None = None
) -> Space:
    """Return the space of a sweep: the env's usual ranges, overridden by those in `given`.

    `names` restricts it to these settings.

    Raises: ConfigError: an unknown key, a text that is not a range, or a value that the setting
        does not take.
    """
    own = training_of(
        config.target
    ).search  # Perhaps of settings that the run's algorithm does not have.
    known = {field.name for field in dataclasses.fields(config.train)}
    own = {
        key: text
        for key, text in own.items()
        if key.removeprefix("train.") in known or not key.startswith("train.")
    }
    of_algorithm = algorithms.get(config.train.algorithm).search
    usual = {**SEARCHED, **of_algorithm, **own}
    usual = {key: text for key, text in usual.items() if of_algorithm.get(key, text)}
    texts = {**usual, **given} if names is not None or not given else dict(given)
    if names is not None:
        for name in names:
            if name not in texts:
                raise ConfigError(
                    f"--parameters names {name}, which has no range{suggest(name, list(texts))}"
                )
        texts = {name: texts[name] for name in names}
    space = {key: parse(config, key, text) for key, text in texts.items()}
    for key, searched in space.items():
        ends = searched.options if isinstance(searched, Choices) else (searched.low, searched.high)
        for end in ends:
            with_values(config, {key: end}).check()
    return space


def parse(config: TrainConfig, key: str, text: str) -> Searched:
    """Return what `text` says about the setting `key`.

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
            f"{PREFIX}{key}: where a run leaves its files changes nothing of what it learns"
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

    Raises: ConfigError where one does not fit.
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
    for key, searched in space.items():
        if isinstance(searched, Choices):
            values[key] = trial.suggest_categorical(key, list(searched.options))
        elif searched.whole:
            values[key] = trial.suggest_int(
                key, int(searched.low), int(searched.high), log=searched.log
            )
        else:
            values[key] = trial.suggest_float(key, searched.low, searched.high, log=searched.log)
    return values


def as_text(searched: Searched) -> str:
    """Return a range or choices as text, the inverse of `parse`."""
    if isinstance(searched, Choices):
        return "/".join(searched.options)
    low, high = (int(end) if searched.whole else end for end in (searched.low, searched.high))
    ends = f"{low!r}:{high!r}"
    return f"{ends}:log" if searched.log else ends


def place(searched: Searched, value: Any) -> float:
    """Return the place of a value in the searched range, 0 to 1, for pictures."""
    if isinstance(searched, Choices):
        return searched.options.index(str(value)) / (len(searched.options) - 1)
    low, high, at = searched.low, searched.high, float(value)
    if searched.log:
        low, high, at = math.log(low), math.log(high), math.log(at)
    return (at - low) / (high - low)
