# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Groups of neighbouring segments: each segment is in one place, its box holds it, and the places
lie together.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.drive_env.worlds import random_scene, write_world


@pytest.mark.parametrize("roads", [0, 1, 7, 200])
def test_groups_hold_each_segment_once(tmp_path: Path, roads: int) -> None:
    head, arrays = write_world(tmp_path / "set", [random_scene(3, roads=roads)]).scene(0)
    groups, boxes = arrays["groups"], arrays["boxes"].reshape(4, -1)
    used = groups["type"] != 255
    assert sorted(groups["segment"][used]) == list(range(int(head["segment_count"].sum())))
    for name in ("x", "y", "ux", "uy", "half"):
        np.testing.assert_array_equal(groups[name][used], arrays[name][groups["segment"][used]])
    kinds = np.repeat(np.arange(3), head["segment_count"])
    np.testing.assert_array_equal(groups["type"][used], kinds[groups["segment"][used]])
    for sign in (-1, 1):
        ends = np.stack(
            [
                groups["x"] + sign * groups["half"] * groups["ux"],
                groups["y"] + sign * groups["half"] * groups["uy"],
            ]
        )
        low, high = boxes[:2, : len(groups), None], boxes[2:, : len(groups), None]
        assert ((ends >= low - 1e-3) & (ends <= high + 1e-3))[:, used].all()
    if roads == 200:
        extent = np.ptp(arrays["x"]) * np.ptp(arrays["y"])
        area = np.prod(np.ptp(np.stack([groups["x"], groups["y"]]), axis=2), axis=0)[:-1].mean()
        assert area < 4 * extent / len(groups)  # the least possible is about once


def test_rows_are_what_the_entries_are_made_of(tmp_path: Path) -> None:
    _, arrays = write_world(tmp_path / "set", [random_scene(3)]).scene(0)
    rows, groups = arrays["rows"].reshape(-1, 8), arrays["groups"]
    used = (groups["type"] != 255).reshape(-1)
    for column, name in ((0, "x"), (1, "y"), (2, "half"), (4, "ux"), (5, "uy"), (6, "type")):
        np.testing.assert_array_equal(rows[used, column], groups[name].reshape(-1)[used])
    assert (rows[used, 3] == 1).all() and not rows[~used].any()
    np.testing.assert_allclose(np.cos(rows[used, 7]), rows[used, 4], atol=1e-6)
