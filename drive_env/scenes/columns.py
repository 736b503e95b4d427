# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Parses the JSON text of a scene, with its long lists of numbers as arrays.

Runs in the learner; csrc/drive/compile/columns.c reads the lists. A list that is valid and plain
becomes an array; other lists stay lists, and text that is not JSON is refused.
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
    """A list of numbers, flags or points in the file, as an array.

    Attributes:
        values: (n,) bool flags, (n,) float64 numbers, or (n, 2 or 3) float64 points x y [z].
        largest: largest magnitude of its numbers.
    """

    values: NDArray[Any]
    largest: float

    def __len__(self) -> int:
        return len(self.values)

    @property
    def has_z(self) -> bool:
        """Return whether its points have heights."""
        return bool(self.values.shape[1] == 3)

    def points(self, axes: int) -> NDArray[np.float64]:
        """Return its points with this number of axes, (n, axes).

        It is a view of `values`, or a copy with heights of 0.
        """
        if self.values.shape[1] >= axes:
            return self.values[:, :axes]
        return np.concatenate(
            [self.values, np.zeros((len(self), axes - self.values.shape[1]))], axis=1
        )


def as_list(values: Any) -> Any:
    """Return the list for which a Column stands, with all numbers as float.

    Other values are returned unchanged.
    """
    if not isinstance(values, Column):
        return values
    rows = values.values.tolist()
    return (
        rows if values.values.ndim == 1 else [dict(zip("xyz", row, strict=False)) for row in rows]
    )


def tree_with_columns(data: bytes) -> Any:
    """Parse JSON, with Columns for the lists under the keys LISTS of objects and roads.

    Lists that are not valid and plain stay lists.

    Raises:
        ValueError, RecursionError: as the module json; or a string begins with the mark that stands
            for a list.
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


def _column(values: NDArray[np.float64], record: Any) -> Column:
    first, count, axes = record.first, record.count, record.axes
    these = values[first : first + count * max(1, axes)]
    return Column(
        these.reshape(count, axes) if axes > 1 else these if axes else these.astype(np.bool_),
        record.largest,
    )


def _items(tree: Any) -> list[dict[str, Any]]:
    """Return the objects and roads of a tree, as far as they are valid."""
    lists = [tree.get(name) for name in ("objects", "roads")] if isinstance(tree, dict) else []
    return [
        item
        for entries in lists
        if isinstance(entries, list)
        for item in entries
        if isinstance(item, dict)
    ]
