# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Terms of the driving env's reward (csrc/drive/tables.h), and the ranges from which their weights
are drawn.

Runs in the learner; the ranges reach the workers as params.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from puffervec._ffi import ffi, lib
from puffervec.errors import ConfigError

MOST = 1000.0  # as of the settings


@dataclass(frozen=True)
class Term:
    """A term of the reward: its weight is the setting reward_<name>."""

    name: str
    unit: str  # of the value that the weight is multiplied with
    meaning: str


def terms() -> tuple[Term, ...]:
    """All terms, in the order in which they are summed."""
    count = ffi.new("uint32_t*")
    listed = lib.pv_drive_rewards(count)
    return tuple(
        Term(*(str(ffi.string(text).decode()) for text in (i.name, i.unit, i.meaning)))
        for i in listed[0 : count[0]]
    )


def parse_ranges(text: str) -> dict[str, tuple[float, float]]:
    """Return {term: (lowest, highest)} of a `reward_ranges`.

    Raises:
        ConfigError: an entry that is no NAME=LOW:HIGH, an unknown or repeated term, numbers that
            are no range in the bounds.

    >>> parse_ranges("collision=-3:-0.5 lane_align=0:0.02")
    {'collision': (-3.0, -0.5), 'lane_align': (0.0, 0.02)}
    """
    if not isinstance(text, str):
        raise ConfigError(
            f'drive: reward_ranges is {text!r}; it must be text like "collision=-3:-0.5 goal=0.5:1"'
        )
    names = [term.name for term in terms()]
    found: dict[str, tuple[float, float]] = {}
    for entry in text.replace(",", " ").split():
        name, _, numbers = entry.partition("=")
        said = f"drive: reward_ranges has {entry!r};"
        if name not in names:
            raise ConfigError(f"{said} the terms are {', '.join(names)}")
        if name in found:
            raise ConfigError(f"{said} {name} is there twice")
        try:
            low, high = (float(number) for number in numbers.split(":"))
        except ValueError:
            raise ConfigError(f"{said} write {name}=LOW:HIGH, as in {name}=0:1") from None
        if not (math.isfinite(low) and -MOST <= low <= high <= MOST):
            raise ConfigError(
                f"{said} the lowest weight comes first, and both are from {-MOST:g} to {MOST:g}"
            )
        found[name] = (low, high)
    return found


def reward_params(text: str) -> dict[str, np.ndarray]:
    """Return a `reward_ranges` as params: (terms, 2) float32, the lowest above the highest where a
    term has no range.
    """
    ranges = parse_ranges(text)
    if not ranges:
        return {}
    return {
        "reward_ranges": np.array(
            [ranges.get(term.name, (1.0, -1.0)) for term in terms()], np.float32
        )
    }
