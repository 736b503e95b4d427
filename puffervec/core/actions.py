# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The Python half of action checking: kind, count and shape.

C checks the values, casts and copies (csrc/core/action.h).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from puffervec._ffi import ffi, lib
from puffervec.core.slab import GroupRows, Half
from puffervec.core.spec import DTYPE_CODE, EnvSpec, GroupSpec
from puffervec.errors import ActionError

if TYPE_CHECKING:
    from puffervec.workers.python.emulation import ActionPlan


@dataclass(frozen=True)
class Native:
    """Actions that rows cannot hold; each Python env gets its own unchanged.

    An entry may be of any type. The actions travel through the mailboxes in the same turn. With
    worker processes that costs pickling.

    Attributes:
        entries: a list with one action per row, or an array (rows, ...) of one action per row.
    """

    entries: Any


def _kinds(group: GroupSpec) -> str:
    return "f" if group.action_kind == "continuous" else "iu"


def batch_shape(group: GroupSpec, rows: int) -> tuple[int, ...]:
    """Return the shape of the actions of a batch of C envs."""
    return (rows,) if group.action_kind == "discrete" else (rows, group.action_dims)


def _read(given: Any, wanted: str) -> np.ndarray:
    try:
        return np.asarray(given)
    except (
        ValueError,
        TypeError,
        RuntimeError,
    ) as error:  # RuntimeError: a tensor needs a gradient
        raise ActionError(f"actions are not an array ({error}): {wanted}") from None


def _as_array(group: GroupSpec, rows: GroupRows, given: Any) -> np.ndarray:
    """Return `given` as a contiguous array of the group's kind and shape.

    Raises:
        ActionError: the values have another kind or shape.
    """
    expected = batch_shape(group, rows.rows)
    wanted = "floats" if group.action_kind == "continuous" else "integers"
    array = _read(given, f"give {wanted} of shape {expected} for {group.name!r}")
    if group.action_kind == "continuous" and array.dtype.kind in "iu":
        array = array.astype(np.float32)
    if array.dtype == np.float16:
        array = array.astype(np.float32)
    if array.dtype.kind not in _kinds(group) or array.dtype not in DTYPE_CODE:
        raise ActionError(
            f"actions of {group.name!r} have dtype {array.dtype}: give {wanted} of shape {expected}"
        )
    if array.shape != expected and array.shape != (rows.rows, group.action_dims):
        raise ActionError(
            f"actions of {group.name!r} have shape {array.shape}: give {wanted} of shape {expected}"
        )
    return np.ascontiguousarray(array)


def _as_raw(group: GroupSpec, rows: GroupRows, given: Any) -> np.ndarray:
    """Return `given` as an array that can be assigned to the action rows of a Python env.

    Values are not changed: the env decides what to do with those out of range. Integers may be
    wider or narrower than the rows as long as the values fit.

    Raises:
        ActionError: the values have another kind or shape, or do not fit the row dtype.
    """
    shape, dtype = rows.actions.shape, rows.actions.dtype
    wanted = f"give {'floats' if dtype.kind == 'f' else 'integers'} of shape {shape}"
    array = _read(given, wanted)
    if group.action_kind == "discrete" and array.shape == (rows.rows, 1):
        array = array[:, 0]
    if array.shape != shape:
        raise ActionError(f"actions have shape {array.shape}: {wanted}")
    if array.dtype.kind not in ("biuf" if dtype.kind == "f" else "biu"):
        raise ActionError(f"actions have dtype {array.dtype}: {wanted}")
    if (
        array.dtype.kind in "iu"
        and array.dtype.itemsize > dtype.itemsize
        and (array.astype(dtype) != array).any()
    ):
        limits = f"{array.min()} to {array.max()}"
        raise ActionError(f"actions of {limits} do not fit the env's {dtype}: {wanted} in range")
    return array


def native(group: GroupSpec, rows: GroupRows, given: Any, strict: bool) -> Native | None:
    """Return the actions of a group of Python envs as Native if rows cannot hold them, else None.

    Rows cannot hold floats that they would round, so an env gets these in their original precision.
    Entries of an array are copied; entries of a list are passed on as the same objects.

    Raises:
        ActionError: a wrong number of entries; an array of another shape or not of numbers; with
            `strict`, a value out of range.
    """
    plan = group.action_plan
    assert plan is not None
    if not isinstance(given, Native):
        if not plan.is_plain or getattr(given, "dtype", None) == rows.actions.dtype:
            return None
        array = _as_raw(group, rows, given)
        if array.dtype.kind != "f" or _fits(array, rows.actions.dtype):
            return None
        found = Native(array.copy())
    elif len(given.entries) != rows.rows:
        raise ActionError(
            f"actions have {len(given.entries)} entries for {rows.rows} rows: give one per row"
        )
    else:
        found = given
    if strict and plan.is_plain:
        _check_raw_strict(plan, np.asarray(found.entries))
    return found


def _fits(array: np.ndarray, dtype: np.dtype[Any]) -> bool:
    """Return whether `dtype` holds the floats of `array` without rounding."""
    with np.errstate(over="ignore"):
        return np.array_equal(array.astype(dtype), array, equal_nan=True)


def _check_raw_strict(plan: ActionPlan, array: np.ndarray) -> None:
    bad = ~((array >= plan.low) & (array <= plan.high))
    if bad.any():
        first = np.unravel_index(int(np.argmax(bad)), bad.shape)
        allowed = (
            f"{np.broadcast_to(plan.low, array.shape)[first]} to "
            f"{np.broadcast_to(plan.high, array.shape)[first]}"
        )
        raise ActionError(
            f"{int(bad.sum())} action value(s) are out of range, first row {first[0]}: "
            f"{array[first]}; use {allowed} (strict=True; nothing was sent)"
        )


def _check_strict(slab: Any, group: GroupSpec, half: int, g: int, array: np.ndarray) -> None:
    first = ffi.new("uint64_t*")
    bad = lib.pv_actions_check(
        slab, half, g, ffi.from_buffer(array), DTYPE_CODE[array.dtype], first
    )
    if bad:
        row, dim = divmod(int(first[0]), group.action_dims)
        allowed = (
            "a finite number"
            if group.action_kind == "continuous"
            else f"0 to {group.action_sizes[dim] - 1}"
        )
        raise ActionError(
            f"{bad} action value(s) of {group.name!r} are out of range, first row {row}: "
            f"{array.reshape(-1)[first[0]]}; use {allowed} (strict=True; nothing was sent)"
        )


def check(
    slab: Any, spec: EnvSpec, half: Half, index: int, actions: Any, strict: bool
) -> list[np.ndarray]:
    """Check a batch of actions of all groups.

    Args:
        actions: an array or list for one group, a mapping by group name for several, None for the
            actions that the rows already hold.

    Returns:
        One array per group that can be copied into its action rows.

    Raises:
        ActionError: another kind, count or shape; with `strict`, a value out of range.
    """
    groups = spec.groups
    if actions is None:
        given = {name: rows.actions for name, rows in half.groups.items()}
    elif len(groups) == 1:
        given = {groups[0].name: actions}
    elif isinstance(actions, Mapping) and set(actions) == set(half.groups):
        given = dict(actions)
    else:
        found = sorted(actions) if isinstance(actions, Mapping) else type(actions).__name__
        raise ActionError(f"actions are {found}: give a dict with the groups {sorted(half.groups)}")
    arrays = []
    for g, group in enumerate(groups):
        border = _as_raw if group.action_plan is not None else _as_array
        arrays.append(border(group, half.groups[group.name], given[group.name]))
        if strict:
            if group.action_plan is None:
                _check_strict(slab, group, index, g, arrays[g])
            else:
                _check_raw_strict(group.action_plan, arrays[g])
    return arrays


def write(slab: Any, spec: EnvSpec, half: Half, index: int, actions: Any, strict: bool) -> int:
    """Check a batch of actions like `check` and copy it into the slab's action rows.

    Returns:
        The number of values that were replaced by the no-op.

    Raises:
        ActionError: as in `check`; nothing was written.
    """
    replaced = 0
    for g, array in enumerate(check(slab, spec, half, index, actions, strict)):
        group = spec.groups[g]
        if group.action_plan is not None:
            half.groups[group.name].actions[...] = array
        else:
            replaced += int(
                lib.pv_actions_write(
                    slab, index, g, ffi.from_buffer(array), DTYPE_CODE[array.dtype]
                )
            )
    return replaced
