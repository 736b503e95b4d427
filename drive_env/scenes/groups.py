# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Groups of 16 neighbouring road segments, each with a box around it, for searches.

Runs in the learner when a scene is compiled. A search around a point skips the groups whose box is
too far away, and tests the others 16 segments at a time (csrc/drive/search/roads.c), whatever their
type. The groups are the leaves of an R-tree, packed by sort-tile-recursive (Leutenegger, Lopez and
Edgington 1997): vertical strips of equal size, cut into groups from bottom to top.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes import packed

LANES = packed.GROUP_LANES
FAR_M = 1e6  # unused places of a group are this far from everything


def group_count(segments: int) -> int:
    """Return the number of groups for a number of segments."""
    return -(-segments // LANES)


def box_stride(segments: int) -> int:
    """Return the number of places for boxes: `group_count`, rounded up to whole vectors."""
    return -(-group_count(segments) // LANES) * LANES


def tile(x: NDArray[np.float32], y: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the order (S,) of midpoints in which 16 consecutive ones lie close together.

    Equal places keep their order.
    """
    count = group_count(len(x))
    if not count:
        return np.zeros(0, np.int64)
    per_strip = LANES * math.ceil(count / math.ceil(math.sqrt(count)))
    by_x = np.argsort(x, kind="stable")
    strip = np.arange(len(x)) // per_strip
    return np.asarray(by_x[np.lexsort((y[by_x], strip))])


def build_groups(
    segments: Mapping[str, NDArray[np.float32]], per_type: tuple[int, int, int]
) -> dict[str, NDArray[Any]]:
    """Return the sections `boxes` (4 * stride,), `groups` (n,) and `rows` (n * 16 * 8,).

    csrc/drive/scene/scene.h describes them.

    Args:
        segments: x, y, ux, uy, half, (S,) each.
        per_type: number of lanes, lines, edges.
    """
    order = tile(segments["x"], segments["y"])
    size, count = len(order), group_count(len(order))
    kinds = np.repeat(np.arange(3, dtype=np.uint8), per_type)
    groups = np.zeros(count, packed.GROUP)
    rows = np.zeros((count * LANES, 8), np.float32)
    flat = {name: np.zeros(count * LANES, np.float32) for name in ("x", "y", "ux", "uy", "half")}
    for name, values in flat.items():
        values[:size] = segments[name][order]
    reach = np.abs(np.stack([flat["ux"], flat["uy"]])) * flat["half"]
    flat["half"][size:] = -FAR_M
    for name, values in flat.items():
        groups[name] = values.reshape(count, LANES)
    fill = (0, count * LANES - size)
    groups["segment"] = np.pad(order, fill).reshape(count, LANES)
    groups["type"] = np.pad(
        kinds[order].astype(np.int32), fill, constant_values=packed.KIND_NONE
    ).reshape(count, LANES)
    x, y, ux, uy, half = (flat[name][:size] for name in ("x", "y", "ux", "uy", "half"))
    rows[:size] = np.stack(
        [x, y, half, np.ones(size), ux, uy, kinds[order], np.arctan2(uy, ux)], axis=1
    )
    return {
        "boxes": _boxes(flat, reach, size).reshape(-1),
        "groups": groups,
        "rows": rows.reshape(-1),
    }


def _boxes(
    flat: dict[str, NDArray[np.float32]], reach: NDArray[np.float32], size: int
) -> NDArray[np.float32]:
    """Return low x, low y, high x, high y (4, stride) around whole segments.

    Unused places are far away.
    """
    count = group_count(size)
    boxes = np.full((4, box_stride(size)), 2 * FAR_M, np.float32)
    used = np.arange(count * LANES) < size
    for axis, name in enumerate(("x", "y")):
        low = np.where(used, flat[name] - reach[axis], np.inf).reshape(count, LANES)
        high = np.where(used, flat[name] + reach[axis], -np.inf).reshape(count, LANES)
        boxes[axis, :count], boxes[2 + axis, :count] = (
            low.min(1, initial=np.inf),
            high.max(1, initial=-np.inf),
        )
    return boxes
