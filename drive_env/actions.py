# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What an action is under each model of dynamics: its axes (csrc/drive/motion/actions.c), and
values of the user's own for them.

Runs in the learner.
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
    values: tuple[
        float, ...
    ]  # what discrete actions choose from; () where there are only continuous ones


def axes_of(dynamics: str) -> tuple[Axis, ...]:
    """Return the axes of a model's actions, with the model's own values.

    Raises: KeyError: there is no such model.
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


def as_texts(given: object) -> tuple[str, ...]:
    """Return `action_values` in the form that is kept with a run, "AXIS=NUMBER,NUMBER" each.
    Mappings are taken too.

    Raises: ConfigError: it is neither a list of texts nor a mapping from axes to numbers.
    """
    if isinstance(given, Mapping):
        try:
            return tuple(
                f"{axis}={','.join(f'{float(v):.9g}' for v in values)}"
                for axis, values in given.items()
            )
        except (TypeError, ValueError):
            given = dict(given)
    elif (
        isinstance(given, Sequence)
        and not isinstance(given, str)
        and all(isinstance(item, str) for item in given)
    ):
        return tuple(given)
    raise ConfigError(
        f"drive: action_values is {given!r}; it must be a list of AXIS=NUMBER,NUMBER,... or a "
        "mapping of that kind"
    )


def given_values(texts: Sequence[str], dynamics: str) -> dict[str, tuple[float, ...]]:
    """Return the user's values by axis.

    Raises: ConfigError: an axis that the model does not have or that is named twice, or what is no
        list of numbers.
    """
    names = [axis.name for axis in _MODELS[dynamics]]
    found: dict[str, tuple[float, ...]] = {}
    for text in texts:
        name, equals, rest = text.partition("=")
        if not equals or name not in names or name in found:
            raise ConfigError(
                f"drive: action_values has {text!r}; each must be AXIS=NUMBER,NUMBER,..., once "
                f"for an axis of dynamics={dynamics}: {', '.join(names)}"
            )
        found[name] = _numbers(text, rest)
    return found


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
    """Return the named arrays by which C takes the user's values; none where there are none.

    Raises: ConfigError as `given_values`.
    """
    if not texts:
        return {}
    given = given_values(texts, dynamics)
    lists = [given.get(axis.name, ()) for axis in _MODELS[dynamics]]
    return {
        "action_counts": np.array([len(values) for values in lists], dtype=np.uint32),
        "action_values": np.array(
            [value for values in lists for value in values], dtype=np.float32
        ),
    }
