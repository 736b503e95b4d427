# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""csrc/drive/compile/beside.c in NumPy: which lanes are seen beside which."""

from __future__ import annotations

import numpy as np

from drive_env.scenes.lanes import AHEAD_M, BESIDE_M, LEVEL_M, PROBE_M, TURN_RAD
from drive_env.scenes.schema import Floats
from drive_env.scenes.segments import Segments


def sights(segments: Segments, lanes: int) -> Floats:
    """Return (4, n): lane, other lane, offset to the left in metres, metres along the lane for
    which this holds.
    """
    of = slice(0, segments.count[0])
    lane = segments.polyline[of].astype(np.int64)
    x, y, z, ux, uy, half = (
        getattr(segments, name)[of] for name in ("x", "y", "z", "ux", "uy", "half")
    )
    pieces = np.maximum(1, np.ceil(2 * half / PROBE_M)).astype(np.int64)
    seen: list[list[float]] = []
    for own in range(len(x)):
        for piece in range(pieces[own]):
            along = half[own] * ((2 * piece + 1) / pieces[own] - 1)
            dx, dy = x - (x[own] + along * ux[own]), y - (y[own] + along * uy[own])
            lateral = dy * ux - dx * uy  # of the other lane, positive to the left
            near = (ux * ux[own] + uy * uy[own] >= np.cos(TURN_RAD)) & (
                np.abs(dx * ux + dy * uy) <= half + AHEAD_M
            )
            near &= (
                (np.abs(lateral) >= BESIDE_M[0])
                & (np.abs(lateral) <= BESIDE_M[1])
                & (np.abs(z - z[own]) <= LEVEL_M)
            )
            known = set()
            for other in np.flatnonzero(near & (lane != lane[own])):
                if (side := (lane[other], lateral[other] > 0)) not in known:
                    known.add(side)
                    seen.append(
                        [lane[own], lane[other], lateral[other], 2 * half[own] / pieces[own]]
                    )
    return np.array(seen, dtype=np.float64).reshape(-1, 4).T
