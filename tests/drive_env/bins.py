# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Writes PufferDrive's binary scenes of version 3, for tests: nothing in the product needs to."""

from __future__ import annotations

from typing import Any

import numpy as np

from drive_env.scenes.bin_v3 import PHASES, WIDTHS, Variant
from drive_env.scenes.schema import Road, Scene, SceneObject


def ints(*values: int) -> bytes:
    return np.array(values, dtype="<i4").tobytes()


def floats(values: Any) -> bytes:
    return np.ascontiguousarray(values, dtype="<f4").tobytes()


def listed(*values: int) -> bytes:
    return ints(len(values), *values)


def v3_bytes(scene: Scene, variant: Variant, tails: bytes = b"") -> bytes:
    """A scene with a stop sign and a light at the end of its first road, whose successor is the
    second.
    """
    parts = [ints(len(scene.objects), len(scene.roads), 2, 1)]
    parts += [agent(index, item, variant) for index, item in enumerate(scene.objects)]
    parts += [road(index, item, variant) for index, item in enumerate(scene.roads)]
    x, y, z = scene.roads[0].points_m[-1]
    for index, (kind, states) in enumerate(
        ((2, []), (1, [1] * 10 + [3] * (scene.frame_count - 10)))
    ):
        line = floats([x, y - 2.0, z, x, y + 2.0, z, 0.0])
        parts += [ints(index, kind), line, listed(*states), listed(0)]
    parts.append(ints(77, 5, 2) + floats(np.ones(18)) + ints(1, 1))
    lanes = [index for index, item in enumerate(scene.roads) if item.type == "lane"]
    parts += [
        listed(*lanes),
        floats(np.ones(len(lanes))) if variant.graph_lengths else b"",
        floats(np.ones(len(lanes) ** 2)),
    ]
    parts += [
        b"scenario 7".ljust(128, b"\0"),
        ints(7) if variant.map_id else b"",
        b"made-up".ljust(32, b"\0"),
    ]
    parts += [ints(scene.frame_count), floats(0.1), listed(1), listed(0, 1), tails]
    return b"".join(parts)


def agent(index: int, item: SceneObject, variant: Variant) -> bytes:
    sizes = np.repeat([[item.length_m], [item.width_m], [item.height_m]], len(item.valid), axis=1)
    arrays = np.concatenate([item.position_m.T, item.heading_rad[None], item.velocity_mps.T, sizes])
    head = ints(index, item.type + 1, len(item.valid))
    route = listed(0, 1) + (ints(1) if variant.route_count else b"")
    return (
        head + floats(arrays) + ints(*item.valid) + route + floats(item.goal_m) + ints(item.expert)
    )


def road(index: int, item: Road, variant: Variant) -> bytes:
    shift = {"lane": 0, "road_line": 5, "road_edge": 6}.get(item.type)
    code = 30 if shift is None else item.map_element_id + shift
    head = (
        ints(index, code, len(item.points_m))
        + floats(item.points_m.T)
        + floats(np.zeros(len(item.points_m)))
    )
    if item.type != "lane":
        return head
    links = listed() + listed(1) if index == 0 else listed(0) + listed()
    lengths = (
        floats(np.linspace(0.0, 140.0, 1 + len(item.points_m))) if variant.lane_lengths else b""
    )
    return head + links + floats(13.5) + lengths


def tails(scene: Scene) -> bytes:
    """Both tagged parts that may stand behind the end."""
    points = sum(len(item.points_m) for item in scene.roads if item.type == "lane")
    return WIDTHS + floats(np.full(points, 3.5)) + PHASES + ints(-1, -1, 0, 1)
