# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Distances of points from a segment, the slow and obvious way."""

from __future__ import annotations

import numpy as np

from drive_env.scenes.schema import Floats


def segment_distance(points_m: Floats, start_m: Floats, end_m: Floats) -> Floats:
    """Return the distances of points (n, 2) from the segment between two points (2,), (n,) metres;
    it may have no length.
    """
    direction = end_m - start_m
    length2 = float(direction @ direction)
    offset = points_m - start_m
    share = (
        np.clip(offset @ direction / length2, 0.0, 1.0) if length2 > 0 else np.zeros(len(points_m))
    )
    return np.asarray(np.hypot(*(offset - share[:, None] * direction).T))
