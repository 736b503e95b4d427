# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Converts infos to Gymnasium's form: a dict of arrays over the envs, each with a mask `_key`.

Numbers arrive as columns, so only arrays, strings and objects need a loop over the envs. Masks are
added last, since an env may report a key that looks like the mask of another. Runs in the learner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from puffervec.core.infos import Infos, merge

# Always an object array, whatever the observations are.
OBJECT_KEYS = frozenset(("final_obs",))


def batch_infos(infos: Infos, num_envs: int) -> dict[str, Any]:
    """Return the infos of `num_envs` envs as Gymnasium batches them; {} if no env reported any.

    Numbers become a (num_envs,) array of int64, float64 or bool, with 0 where an env has none;
    arrays become one (num_envs, *shape) array. Dicts are batched recursively. Anything else is put
    in an object array with None for envs without it. So are values that do not fit together
    (different shapes, or a dict in one env and a number in another), in any order of the envs. Each
    key k comes with a mask `_k`, (num_envs,) bool, unless envs report a key of that name
    themselves. All arrays are new.
    """
    if not infos:
        return {}
    level: Level = {}
    for path, (values, present) in infos.numeric.items():
        _place_column(level, path, values, present)
    for position, info in infos.others:
        _add(level, info, position, num_envs)
    return _with_masks(level)


@dataclass
class _Entry:
    """The values of one key.

    Attributes:
        column: (num_envs, ...) values, or a nested level.
        mask: (num_envs,) bool, the envs that report the key.
    """

    column: NDArray[Any] | Level
    mask: NDArray[np.bool_]

    def put(self, position: int, value: Any) -> None:
        """Store the value of one env; the column becomes an object array if it does not fit."""
        if isinstance(self.column, dict) and isinstance(value, Mapping):
            _add(self.column, value, position, len(self.mask))
        else:
            if not _fits(self.column, value):
                self._to_objects()
            assert isinstance(self.column, np.ndarray)
            known = self.column[position]
            # The env reported one dict, whose numbers were stored before its other values.
            merges = isinstance(known, dict) and isinstance(value, Mapping)
            self.column[position] = merge(merge({}, known), value) if merges else value
        self.mask[position] = True

    def _to_objects(self) -> None:
        objects = np.full(len(self.mask), None, object)
        for index in np.flatnonzero(self.mask).tolist():
            objects[index] = self.of(index)
        self.column = objects

    def of(self, index: int) -> Any:
        """Return what env `index` reported."""
        if isinstance(self.column, dict):
            return {key: entry.of(index) for key, entry in self.column.items() if entry.mask[index]}
        value = self.column[index]
        return value.item() if isinstance(value, (np.number, np.bool_)) else value


Level = dict[Any, _Entry]


def _place_column(
    level: Level, path: tuple[str, ...], values: NDArray[Any], present: NDArray[np.bool_]
) -> None:
    """Put one column of numbers at its path (the keys of the nested dicts)."""
    key, deeper = path[0], path[1:]
    if key not in level and key not in OBJECT_KEYS:
        level[key] = _Entry({}, np.zeros_like(present)) if deeper else _Entry(values, present)
        if not deeper:
            return
    entry = level.get(key)
    if entry is not None and deeper and isinstance(entry.column, dict):
        entry.mask |= present
        _place_column(entry.column, deeper, values, present)
        return
    for position in np.flatnonzero(present).tolist():  # Numbers in some envs, dicts in others.
        value = values[position].item()
        for inner in reversed(deeper):
            value = {inner: value}
        _add(level, {key: value}, position, len(present))


def _add(level: Level, info: Mapping[Any, Any], position: int, num_envs: int) -> None:
    """Add the info of the env at `position`."""
    for key, value in info.items():
        if key not in level:
            level[key] = _Entry(_column(key, value, num_envs), np.zeros(num_envs, np.bool_))
        level[key].put(position, value)


def _column(key: Any, value: Any, num_envs: int) -> NDArray[Any] | Level:
    """Return an empty column for values like `value`."""
    if key in OBJECT_KEYS:
        return np.full(num_envs, None, object)
    if isinstance(value, Mapping):
        return {}
    if isinstance(value, np.ndarray) and value.dtype != object:
        return np.zeros((num_envs, *value.shape), value.dtype)
    if type(value) in (int, float, bool) or isinstance(value, (np.number, np.bool_)):
        column: NDArray[Any] = np.zeros(num_envs, type(value))
        if _fits(column, value):
            return column
    return np.full(num_envs, None, object)


def _fits(column: Any, value: Any) -> bool:
    """Return whether the column can hold `value` unchanged."""
    if not isinstance(column, np.ndarray) or column.dtype == object:
        return isinstance(column, np.ndarray)
    if (
        not isinstance(value, (int, float, np.generic, np.ndarray))
        or np.shape(value) != column.shape[1:]
    ):
        return False
    # A Python int has no fixed dtype: take the smallest that holds its value.
    dtype = np.min_scalar_type(value) if type(value) is int else np.asarray(value).dtype
    return np.can_cast(dtype, column.dtype)


def _with_masks(level: Level) -> dict[str, Any]:
    """Return a level as a dict with its masks; an entry that envs report replaces a mask."""
    batch: dict[str, Any] = {}
    for key, entry in level.items():
        batch[key] = _with_masks(entry.column) if isinstance(entry.column, dict) else entry.column
        if f"_{key}" not in level:
            batch[f"_{key}"] = entry.mask
    return batch
