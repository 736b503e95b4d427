# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Turns the infos of a batch into Gymnasium's form: a dict of arrays over the envs, each with a mask `_key`.

Runs in the learner. Numbers come as ready columns and need no loop over the envs; only arrays, texts and objects do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from puffervec.infos import Infos

# Always an object array, whatever the observations are.
OBJECT_KEYS = frozenset(("final_obs",))


def batch_infos(infos: Infos, num_envs: int) -> dict[str, Any]:
    """Return the infos of `num_envs` envs as Gymnasium batches them; {} where no env reported anything.

    Numbers become (num_envs,) int64, float64 or bool, 0 where an env has none; arrays (num_envs, *shape), or an object array
    where shapes differ; dicts are batched in depth; anything else stands in an object array with None for envs without it.
    Each key k comes with `_k`, (num_envs,) bool. All arrays are new.
    """
    batch: dict[str, Any] = {}
    if not infos:
        return batch
    for path, (values, present) in infos.numeric.items():
        _place_column(batch, path, values, present)
    for position, info in infos.others:
        add_info(batch, info, position, num_envs)
    return batch


def _place_column(batch: dict[str, Any], path: tuple[str, ...], values: NDArray[Any], present: NDArray[np.bool_]) -> None:
    """Put one column of numbers under its path, with a mask at each level."""
    for key in path[:-1]:
        mask = batch.get(f"_{key}")
        batch[f"_{key}"] = present.copy() if mask is None else mask | present
        batch = batch.setdefault(key, {})
    batch[path[-1]], batch[f"_{path[-1]}"] = values, present


def add_info(batch: dict[str, Any], info: Mapping[str, Any], position: int, num_envs: int) -> None:
    """Add the info of the env at `position` to a batch. Arrays whose shapes disagree end up as objects."""
    for key, value in info.items():
        mask = batch.setdefault(f"_{key}", np.zeros(num_envs, np.bool_))
        if isinstance(value, Mapping) and isinstance(batch.get(key, {}), dict):
            add_info(batch.setdefault(key, {}), value, position, num_envs)
        else:
            if key not in batch:
                batch[key] = _column(key, value, num_envs)
            batch[key] = _put(batch[key], mask, position, value, num_envs)
        mask[position] = True


def _column(key: str, value: Any, num_envs: int) -> NDArray[Any]:
    """Return an empty column for values of this kind."""
    if key in OBJECT_KEYS:
        return np.full(num_envs, None, object)
    if isinstance(value, np.ndarray) and value.dtype != object:
        return np.zeros((num_envs, *value.shape), value.dtype)
    if type(value) in (int, float, bool) or isinstance(value, (np.number, np.bool_)):
        return np.zeros(num_envs, type(value))
    return np.full(num_envs, None, object)


def _put(column: Any, mask: NDArray[np.bool_], position: int, value: Any, num_envs: int) -> NDArray[Any]:
    """Store a value, in an object column if it does not fit the one that is there, and return the column."""
    if not _fits(column, value):
        objects = np.full(num_envs, None, object)
        for index in np.flatnonzero(mask).tolist():
            objects[index] = _entry(column, index)
        column = objects
    column[position] = value
    return column  # type: ignore[no-any-return]


def _fits(column: Any, value: Any) -> bool:
    """True where `value` can stand in the column without being changed."""
    if not isinstance(column, np.ndarray) or column.dtype == object:
        return isinstance(column, np.ndarray)
    if not isinstance(value, (int, float, np.generic, np.ndarray)) or np.shape(value) != column.shape[1:]:
        return False
    return bool(np.result_type(value, column) == column.dtype)


def _entry(column: Any, index: int) -> Any:
    """Return what env `index` reported: an entry of an array, or its part of batched dicts."""
    if not isinstance(column, dict):
        return column[index]
    return {key: _entry(value, index) for key, value in column.items() if not key.startswith("_") and column[f"_{key}"][index]}
