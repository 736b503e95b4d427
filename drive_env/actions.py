# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Axes of the actions of each dynamics model, and the values that the user sets for them.

csrc/drive/motion/actions.c defines the models' own values. Runs in the learner.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from puffervec._ffi import ffi, lib
from puffervec.errors import ConfigError

MOST_VALUES = 64  # DRIVE_MAX_VALUES
LARGEST_VALUE = 1e4


@dataclass(frozen=True)
class Axis:
    """One number of an action."""

    name: str
    unit: str
    low: float  # bounds of a continuous action
    high: float
    # The values that discrete actions choose from; () if the model only has continuous actions.
    values: tuple[float, ...]


def axes_of(dynamics: str) -> tuple[Axis, ...]:
    """Return the axes of a model's actions, with the model's own values.

    Raises:
        KeyError: there is no such model.
    """
    return _MODELS[dynamics]


def _models() -> dict[str, tuple[Axis, ...]]:
    count = ffi.new("uint32_t*")
    models = lib.pv_drive_models(count)[0 : count[0]]
    return {
        _text(model.name): tuple(map(_axis, model.axes[0 : model.axis_count])) for model in models
    }


def _axis(a: Any) -> Axis:
    values = tuple(float(v) for v in a.values[0 : a.count]) if a.count else ()
    return Axis(_text(a.name), _text(a.unit), float(a.low), float(a.high), values)


def _text(chars: Any) -> str:
    return str(ffi.string(chars).decode())


_MODELS = _models()


def as_texts(values: object) -> tuple[str, ...]:
    """Return `action_values` as it is stored with a run: a tuple of "AXIS=NUMBER,NUMBER" texts.

    Mappings from axes to numbers are accepted too.

    Raises:
        ConfigError: `values` is neither a list of texts nor a mapping from axes to numbers.
    """
    if isinstance(values, Mapping):
        try:
            return tuple(
                f"{axis}={','.join(f'{float(v):.9g}' for v in numbers)}"
                for axis, numbers in values.items()
            )
        except (TypeError, ValueError):
            values = dict(values)
    elif (
        isinstance(values, Sequence)
        and not isinstance(values, str)
        and all(isinstance(item, str) for item in values)
    ):
        return tuple(values)
    raise ConfigError(
        f"drive: action_values is {values!r}; it must be a list of AXIS=NUMBER,NUMBER,... or a "
        "mapping of that kind"
    )


def parse_action_values(texts: Sequence[str], dynamics: str) -> dict[str, tuple[float, ...]]:
    """Return the values that `action_values` texts give, by axis.

    Raises:
        ConfigError: the model does not have the axis, the axis is named twice, or its values are
            not a list of numbers.
    """
    names = [axis.name for axis in _MODELS[dynamics]]
    values: dict[str, tuple[float, ...]] = {}
    for text in texts:
        name, equals, rest = text.partition("=")
        if not equals or name not in names or name in values:
            raise ConfigError(
                f"drive: action_values has {text!r}; each must be AXIS=NUMBER,NUMBER,..., once "
                f"for an axis of dynamics={dynamics}: {', '.join(names)}"
            )
        values[name] = _numbers(text, rest)
    return values


def _numbers(text: str, rest: str) -> tuple[float, ...]:
    try:
        values = tuple(float(part) for part in rest.split(","))
    except ValueError:
        values = ()
    finite = all(math.isfinite(value) and abs(value) <= LARGEST_VALUE for value in values)
    if not 1 <= len(values) <= MOST_VALUES or not finite or len(set(values)) < len(values):
        raise ConfigError(
            f"drive: action_values has {text!r}; it must list 1 to {MOST_VALUES} different "
            f"numbers from {-LARGEST_VALUE:g} to {LARGEST_VALUE:g}"
        )
    return values


def action_params(texts: Sequence[str], dynamics: str) -> dict[str, NDArray[np.generic]]:
    """Return the named arrays that pass the user's values to C; an empty dict if there are none.

    Raises:
        ConfigError: see `parse_action_values`.
    """
    if not texts:
        return {}
    chosen = parse_action_values(texts, dynamics)
    lists = [chosen.get(axis.name, ()) for axis in _MODELS[dynamics]]
    return {
        "action_counts": np.array([len(values) for values in lists], dtype=np.uint32),
        "action_values": np.array(
            [value for values in lists for value in values], dtype=np.float32
        ),
    }
