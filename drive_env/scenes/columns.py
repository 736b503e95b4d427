# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Parses the JSON text of a scene with its long lists of numbers as arrays: they are read in C
(csrc/drive/compile/columns.c).

Runs in the learner. What is sound and plain becomes an array; other lists stay lists, and a text
that is no JSON stays one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from puffervec._ffi import ffi, lib

MARK = chr(int(lib.PV_LIST_MARK))
LISTS = ("position", "velocity", "heading", "valid", "geometry")


@dataclass(frozen=True)
class Column:
    """A list of the file. values: (n,) bool flags, (n,) float64 numbers, or (n, 2 or 3) float64
    points x y [z].
    """

    values: NDArray[Any]
    largest: float  # magnitude of its numbers

    def __len__(self) -> int:
        return len(self.values)

    @property
    def has_z(self) -> bool:
        """Whether its points have heights."""
        return bool(self.values.shape[1] == 3)

    def points(self, axes: int) -> NDArray[np.float64]:
        """Return its points with so many axes, (n, axes): its own array, or with heights of 0 a new
        one.
        """
        if self.values.shape[1] >= axes:
            return self.values[:, :axes]
        return np.concatenate(
            [self.values, np.zeros((len(self), axes - self.values.shape[1]))], axis=1
        )


def listed(values: Any) -> Any:
    """Return the list that a Column stands for, with all numbers as float; anything else as it is."""
    if not isinstance(values, Column):
        return values
    rows = values.values.tolist()
    return (
        rows if values.values.ndim == 1 else [dict(zip("xyz", row, strict=False)) for row in rows]
    )


def tree_with_columns(data: bytes) -> Any:
    """Parse JSON. Lists of objects and roads under the keys LISTS are Columns where they are sound
    and plain.

    Raises: ValueError, RecursionError: as the module json; or a string in it begins with the mark
        that stands for a list.
    """
    room = len(data)
    out, values = np.empty(room, np.uint8), np.empty(room // 2 + 4)
    lists, count = (
        ffi.new("pv_json_list[]", room // int(lib.PV_LIST_BYTES) + 1),
        ffi.new("uint64_t*"),
    )
    size = lib.pv_drive_json_columns(
        data,
        room,
        ffi.from_buffer("char[]", out),
        ffi.from_buffer("double[]", values),
        lists,
        count,
    )
    if size < 0:
        raise ValueError("a string of the text might be taken for a mark")
    tree = json.loads(out[:size].tobytes().decode("utf-8"))
    columns = [_column(values, lists[index]) for index in range(count[0])]
    for item in _items(tree):
        for name in LISTS:
            mark = item.get(name)
            if type(mark) is str and mark.startswith(MARK):
                item[name] = columns[int(mark[1:])]
    return tree


def _column(values: NDArray[np.float64], found: Any) -> Column:
    first, count, axes = found.first, found.count, found.axes
    these = values[first : first + count * max(1, axes)]
    return Column(
        these.reshape(count, axes) if axes > 1 else these if axes else these.astype(np.bool_),
        found.largest,
    )


def _items(tree: Any) -> list[dict[str, Any]]:
    """Return the objects and roads of a tree, as far as they are what they should be."""
    lists = [tree.get(name) for name in ("objects", "roads")] if isinstance(tree, dict) else []
    return [
        item
        for found in lists
        if isinstance(found, list)
        for item in found
        if isinstance(item, dict)
    ]
