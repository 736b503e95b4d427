# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Kinds of drivers of the vehicles that IDM drives (csrc/drive/motion/kinds.c), and their weights.

Runs in the learner; the weights reach the workers as params.
"""

from __future__ import annotations

import numpy as np

from drive_env.entries import entries_of
from puffervec._ffi import ffi, lib
from puffervec.errors import ConfigError

MOST = 1000.0  # largest weight
# The numbers in which kinds differ: factors of the settings idm_..., a probability, and m/s^2
NUMBERS = ("speed", "headway", "gap", "acceleration", "braking", "unseen", "late")


def kinds() -> dict[str, dict[str, tuple[float, float]]]:
    """Return, for each kind, the lowest and the highest value of each of NUMBERS."""
    count = ffi.new("uint32_t*")
    listed = lib.pv_drive_kinds(count)
    return {
        str(ffi.string(item.name).decode()): {
            number: (float(getattr(item, number)[0]), float(getattr(item, number)[1]))
            for number in NUMBERS
        }
        for item in listed[0 : count[0]]
    }


def parse_kinds(text: str) -> dict[str, float]:
    """Return {kind: weight} for a `traffic_kinds`.

    Raises:
        ConfigError: an entry is not NAME or NAME=WEIGHT, a kind is unknown or repeated, or a weight
            is out of bounds.

    >>> parse_kinds("hasty=2 timid")
    {'hasty': 2.0, 'timid': 1.0}
    """
    weights: dict[str, float] = {}
    example = "plain=2 hasty=1 timid=1"
    for name, number, prefix in entries_of("traffic_kinds", text, "kinds", list(kinds()), example):
        try:
            weight = 1.0 if number is None else float(number)
        except ValueError:
            raise ConfigError(f"{prefix} write {name}=WEIGHT, as in {name}=1") from None
        if not 0.0 < weight <= MOST:
            raise ConfigError(f"{prefix} the weight must be above 0 and at most {MOST:g}")
        weights[name] = weight
    return weights


def kind_params(text: str) -> dict[str, np.ndarray]:
    """Return a `traffic_kinds` as params: (kinds,) float32, their cumulative shares."""
    weights = parse_kinds(text)
    if not weights:
        return {}
    sums = np.cumsum([weights.get(name, 0.0) for name in kinds()])
    return {"traffic_kinds": (sums / sums[-1]).astype(np.float32)}
