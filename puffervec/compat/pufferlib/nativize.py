# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The functions of PufferLib's emulation module that a user's script may call, over the plans of this package."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from puffervec.errors import ConfigError
from puffervec.python.emulation.actions import ActionPlan
from puffervec.python.emulation.layout import Leaf, Node, leaves, plan
from puffervec.python.emulation.rows import ObservationPlan, native


def emulate_observation_space(space: gymnasium.Space[Any]) -> tuple[gymnasium.Space[Any], np.dtype[Any]]:
    """Return the flat Box of one row (a plain Box: the same object) and the dtype of one native row.

    Raises:
        ConfigError: a space without a fixed size.
    """
    found = ObservationPlan(space)
    return found.emulated_space, found.dtype


def emulate_action_space(space: gymnasium.Space[Any]) -> tuple[gymnasium.Space[Any], np.dtype[Any]]:
    """Return the flat space of one action row and the dtype that `nativize` takes.

    Box, Discrete and MultiDiscrete of one dimension come back as the same object with their own dtype; nested discrete spaces
    become a MultiDiscrete.

    Raises:
        ConfigError: a space without a fixed size.
    """
    found = ActionPlan(space)
    return found.emulated_space, found.row_dtype if found.emulated_space is space else found.dtype


def nativize(arr: Any, space: gymnasium.Space[Any], struct_dtype: Any) -> Any:
    """Return the native value of one row.

    Args:
        arr: one row in any shape: the bytes of `struct_dtype`, or its elements where all leaves have one dtype (integers
            of another width are converted).
        space: the env's own space. struct_dtype: as `emulate_observation_space` or `emulate_action_space` returned it.
    Returns:
        dicts, tuples and arrays as in the space; arrays are views on `arr` where it needs no conversion; Discrete gives a
        NumPy integer.
    Raises:
        ConfigError: an array that is not one row of this space.
    """
    dtype = np.dtype(struct_dtype)
    tree = plan(space, dtype)
    return native(tree, _row_bytes(np.ascontiguousarray(arr).reshape(-1), tree, dtype)[None])


def _row_bytes(row: np.ndarray, tree: Node | Leaf, dtype: np.dtype[Any]) -> np.ndarray:
    """Return `row` as a view of bytes; its integers are converted where the row has one integer type."""
    found = list(leaves(tree))
    dtypes = {leaf.dtype for leaf in found}
    common = dtypes.pop() if len(dtypes) == 1 else np.dtype(np.uint8)
    if row.dtype != common and {row.dtype.kind, common.kind} <= {"i", "u"} and row.size == sum(leaf.size for leaf in found):
        row = row.astype(common)
    wanted = tree.size * tree.dtype.itemsize if isinstance(tree, Leaf) else dtype.itemsize
    if row.nbytes != wanted or row.dtype not in (common, np.dtype(np.uint8)):
        raise ConfigError(f"{row.size} elements of {row.dtype} are not one row: give {wanted} bytes, as {common} or uint8")
    return row.view(np.uint8)


def make_buffer(arr_dtype: Any, struct_dtype: Any, struct: np.ndarray, n: int | None = None) -> np.ndarray:
    """Return structured rows as flat ones, a view: (n, elements), or (elements,) of the only row where n is None.

    Args:
        arr_dtype: of the elements. struct_dtype: of `struct`. struct: (rows,) contiguous.
    Raises:
        ConfigError: `struct` has another dtype, or other than n rows.
    """
    if struct.dtype != np.dtype(struct_dtype) or struct.size != (1 if n is None else n):
        raise ConfigError(f"struct has {struct.size} rows of {struct.dtype}: give {n or 1} of {np.dtype(struct_dtype)}")
    flat: np.ndarray = struct.reshape(-1).view(arr_dtype)
    return flat if n is None else flat.reshape(n, -1)


def emulate(struct: Any, sample: Any) -> None:
    """Write a nested value into a structured array or record, field by field.

    Args:
        struct: one record (or arrays of one) of the dtype from `emulate_observation_space`.
        sample: dicts by field name, tuples, arrays and numbers.
    """
    if not isinstance(sample, (dict, tuple)):
        struct[...] = sample
        return
    for key, value in sample.items() if isinstance(sample, dict) else ((f"f{i}", part) for i, part in enumerate(sample)):
        if isinstance(value, (dict, tuple)):
            emulate(struct[key], value)
        else:
            struct[key] = value  # through the parent: a number in a record has no view of its own
