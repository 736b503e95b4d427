# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Settings that may change over a run: a number, or points with linear interpolation.

Imports no torch.

lr = 1e-3                              constant
lr = [[0, 1e-3], [1_000_000, 1e-4]]    decreases for a million agent-steps, then stays at 1e-4
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from puffervec.errors import ConfigError

Points = tuple[tuple[float, float], ...]  # (agent-steps, value) by ascending agent-steps.
Schedule = float | Points  # The type of such a setting.


def value_at(schedule: Schedule, steps: int) -> float:
    """Return the value after `steps` agent-steps.

    It is constant before the first point and after the last one. Two points with the same step make
    a jump, after which the later one applies.

    >>> [value_at(((100, 1.0), (200, 0.0)), steps) for steps in (0, 150, 300)], value_at(0.5, 7)
    ([1.0, 0.5, 0.0], 0.5)
    """
    if not isinstance(schedule, tuple):
        return schedule
    at, values = zip(*schedule, strict=True)
    return float(np.interp(steps, at, values))


def convert(value: Any, key: str) -> Schedule:
    """Convert a TOML or JSON value to a schedule.

    Raises: ConfigError: names `key` and the bad point.
    """
    if is_number(value):
        return float(value)
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise ConfigError(
            f"{key} is {reprlib.repr(value)}: must be a number, or points [[step, value], ...]"
        )
    return tuple(_point(point, f"{key}, point {number}") for number, point in enumerate(value, 1))


def check(key: str, schedule: Schedule, zero: bool) -> None:
    """Raise ConfigError unless the values are numbers of at least 0, and the points are in order.

    Args: zero: whether a constant 0, or points that are all 0, are allowed.
    """
    if not isinstance(schedule, tuple):
        least, words = (0.0, "at least 0") if zero else (math.ulp(0.0), "above 0")
        if not least <= schedule < math.inf:
            raise ConfigError(f"{key} is {schedule}: must be {words}, and finite")
        return
    before = 0.0
    for number, (step, value) in enumerate(schedule, 1):
        if not before <= step < math.inf:
            raise ConfigError(
                f"{key}, point {number}: its step is {step:g}: steps begin at 0 and ascend, here "
                f"from {before:g}"
            )
        if not 0 <= value < math.inf:
            raise ConfigError(
                f"{key}, point {number}: its value is {value}: must be at least 0, and finite"
            )
        before = step
    if not zero and not any(value for _, value in schedule):
        raise ConfigError(f"{key} is 0 in all its points: one must be above 0")


def _point(point: Any, where: str) -> tuple[float, float]:
    if (
        not isinstance(point, Sequence)
        or isinstance(point, str)
        or len(point) != 2
        or not all(map(is_number, point))
    ):
        raise ConfigError(f"{where} is {reprlib.repr(point)}: must be [step, value], two numbers")
    return float(point[0]), float(point[1])


def is_number(value: Any) -> bool:
    """Return whether a value is a number that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        float(value)
    except OverflowError:  # A whole number of more than 308 digits.
        return False
    return True
