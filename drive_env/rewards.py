# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Terms of the driving env's reward (csrc/drive/tables.h), and ranges of their weights.

Runs in the learner; the ranges reach the workers as params.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from drive_env.entries import entries_of
from puffervec._ffi import ffi, lib
from puffervec.errors import ConfigError

MOST = 1000.0  # also the bound of the settings reward_...


@dataclass(frozen=True)
class Term:
    """A term of the reward. Its weight is the setting reward_<name>."""

    name: str
    unit: str  # unit of the value that the weight multiplies
    meaning: str


def terms() -> tuple[Term, ...]:
    """Return all terms, in the order in which they are summed."""
    count = ffi.new("uint32_t*")
    listed = lib.pv_drive_rewards(count)
    return tuple(
        Term(*(str(ffi.string(text).decode()) for text in (i.name, i.unit, i.meaning)))
        for i in listed[0 : count[0]]
    )


def parse_ranges(text: str) -> dict[str, tuple[float, float]]:
    """Return {term: (lowest, highest)} for a `reward_ranges`.

    Raises:
        ConfigError: an entry is not NAME=LOW:HIGH, a term is unknown or repeated, or the numbers
            are not a range within the bounds.

    >>> parse_ranges("collision=-3:-0.5 lane_align=0:0.02")
    {'collision': (-3.0, -0.5), 'lane_align': (0.0, 0.02)}
    """
    names = [term.name for term in terms()]
    ranges: dict[str, tuple[float, float]] = {}
    example = "collision=-3:-0.5 goal=0.5:1"
    for name, numbers, prefix in entries_of("reward_ranges", text, "terms", names, example):
        try:
            low, high = (float(number) for number in (numbers or "").split(":"))
        except ValueError:
            raise ConfigError(f"{prefix} write {name}=LOW:HIGH, as in {name}=0:1") from None
        if not (math.isfinite(low) and -MOST <= low <= high <= MOST):
            raise ConfigError(
                f"{prefix} LOW must be at most HIGH, and both from {-MOST:g} to {MOST:g}"
            )
        ranges[name] = (low, high)
    return ranges


def reward_params(text: str) -> dict[str, np.ndarray]:
    """Return a `reward_ranges` as params: (terms, 2) float32.

    In the row of a term without a range, the lowest value is above the highest.
    """
    ranges = parse_ranges(text)
    if not ranges:
        return {}
    return {
        "reward_ranges": np.array(
            [ranges.get(term.name, (1.0, -1.0)) for term in terms()], np.float32
        )
    }
