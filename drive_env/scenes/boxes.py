# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Oriented boxes in NumPy: overlap of two, and of a box with a road edge. Used to check generated logs, never per step.

Runs in the learner. All functions take arrays that broadcast against each other. The separating-axis test is the textbook one
(Ericson, Real-Time Collision Detection, 4.4), in the plane.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes.schema import Floats


def boxes_overlap(
    offset_m: Floats, heading: Floats, other_heading: Floats, half: tuple[Floats, Floats], other_half: tuple[Floats, Floats]
) -> NDArray[np.bool_]:
    """Whether boxes overlap.

    Args:
        offset_m: (..., 2) centre of the other box minus centre of this one.
        heading, other_heading: (...) radians.
        half, other_half: half length and half width of each, (...) metres.
    """
    dx, dy = offset_m[..., 0], offset_m[..., 1]
    cos, sin = np.cos(heading), np.sin(heading)
    other_cos, other_sin = np.cos(other_heading), np.sin(other_heading)
    along, across = np.abs(cos * other_cos + sin * other_sin), np.abs(cos * other_sin - sin * other_cos)
    (length, width), (other_length, other_width) = half, other_half
    apart = np.abs(dx * cos + dy * sin) > length + other_length * along + other_width * across
    apart |= np.abs(-dx * sin + dy * cos) > width + other_length * across + other_width * along
    apart |= np.abs(dx * other_cos + dy * other_sin) > other_length + length * along + width * across
    apart |= np.abs(-dx * other_sin + dy * other_cos) > other_width + length * across + width * along
    return np.asarray(~apart)


def box_crosses_segment(
    centre_m: Floats, heading: Floats, half_length_m: float, half_width_m: float, start_m: Floats, end_m: Floats
) -> NDArray[np.bool_]:
    """Whether segments touch or enter boxes: (P, 2) centres and (P,) headings against (S, 2) ends give (P, S).

    The segment is clipped against the box in the box's own frame (Liang and Barsky 1984).
    """
    cos, sin = np.cos(heading)[:, None], np.sin(heading)[:, None]

    def local(points: Floats) -> tuple[Floats, Floats]:
        dx, dy = points[None, :, 0] - centre_m[:, None, 0], points[None, :, 1] - centre_m[:, None, 1]
        return dx * cos + dy * sin, -dx * sin + dy * cos

    (x0, y0), (x1, y1) = local(start_m), local(end_m)
    enter, leave = np.zeros_like(x0), np.ones_like(x0)
    with np.errstate(divide="ignore", invalid="ignore"):
        for first, last, half in ((x0, x1, half_length_m), (y0, y1, half_width_m)):
            step = last - first
            near, far = (-half - first) / step, (half - first) / step
            flat = step == 0  # parallel to this side: either always between the two or never
            inside = np.abs(first) <= half
            enter = np.maximum(enter, np.where(flat, np.where(inside, -np.inf, np.inf), np.minimum(near, far)))
            leave = np.minimum(leave, np.where(flat, np.where(inside, np.inf, -np.inf), np.maximum(near, far)))
    return np.asarray(enter <= leave)
