# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Observations of a Python env as flat rows: workers write them (`writers`), learners see them natively (`views`)."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from puffervec.python.emulation.layout import Leaf, Node, get_dtype_bounds, leaves, plan, struct_dtype
from puffervec.python.emulation.rows import RowPlan, leaf_view


class ObservationPlan(RowPlan):
    """How observations of one space stand in rows. A plain Box stays as it is (`is_flat`); anything else becomes a vector:
    of the leaves' dtype if all agree, else of bytes.

    >>> plan = ObservationPlan(spaces.Dict(speed=spaces.Box(-1, 1, (2,)), gear=spaces.Discrete(5)))
    >>> plan.emulated_space
    Box(0, 255, (16,), uint8)
    >>> rows = np.zeros((3, *plan.row_shape), plan.row_dtype)
    >>> plan.writers(rows)[1]({"speed": np.ones(2, np.float32), "gear": 4})
    >>> plan.views(rows)["gear"]
    array([0, 4, 0])
    """

    noun = "observation"

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        dtype = struct_dtype(space)
        self.is_flat = isinstance(space, spaces.Box)
        super().__init__(space, space if self.is_flat else _flat_box(space, dtype), dtype)

    def nativize(self, row: np.ndarray) -> Any:
        """Return the observation that stands in `row`, (*row_shape) row_dtype.

        Arrays are views on the row. Discrete gives a NumPy integer (a copy).
        """
        return native(self.tree, self.as_bytes(np.asarray(row)[None]))


def native(tree: Node | Leaf, raw: np.ndarray) -> Any:
    """Return the native value of the one row in `raw`, (1, row_bytes) uint8; arrays are views where dtypes allow it."""
    if isinstance(tree, Leaf):
        view = leaf_view(tree, raw)[0, ...].astype(tree.space.dtype, copy=False)
        return view[()] if tree.is_number else view
    parts = [native(child, raw) for child in tree.children]
    return dict(zip(tree.keys, parts, strict=True)) if tree.is_dict else tuple(parts)


def _flat_box(space: gymnasium.Space[Any], dtype: np.dtype[Any]) -> spaces.Box:
    """Return the Box of one emulated row: as PufferLib shows it, with the bounds of the row's dtype."""
    dtypes = {leaf.dtype for leaf in leaves(plan(space, dtype))}
    common = dtypes.pop() if len(dtypes) == 1 else np.dtype(np.uint8)
    low, high = get_dtype_bounds(common)
    return spaces.Box(low, high, (dtype.itemsize // common.itemsize,), common)
