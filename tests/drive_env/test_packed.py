# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The NumPy view of the packed format: C's structs, and the numbers of the schema's types."""

from __future__ import annotations

import numpy as np

from drive_env.scenes import packed
from drive_env.scenes.schema import OBJECT_TYPES, SEGMENT_TYPES
from puffervec._ffi import ffi, lib


def test_numpy_reads_what_c_wrote() -> None:
    entry = ffi.new("pv_scene_entry*", {"bytes": 2**40, "moving_vehicles": 7, "name": b"one.json"})
    scene = ffi.new(
        "pv_scene*",
        {"origin_x": -1.5, "dt_s": 0.1, "segment_count": [1, 2, 3], "sections": [(64, 5)]},
    )
    frame = ffi.new("pv_frame*", {"y_m": 2.5, "heading": -3, "speed": lib.PV_FRAME_INVALID})
    entry, scene, frame = (
        np.frombuffer(ffi.buffer(item), dtype)[0]
        for item, dtype in ((entry, packed.ENTRY), (scene, packed.SCENE), (frame, packed.FRAME))
    )
    assert (entry["bytes"], entry["moving_vehicles"], entry["name"]) == (2**40, 7, b"one.json")
    assert (scene["origin_x"], scene["dt_s"], scene["sections"][0].item()) == (
        -1.5,
        np.float32(0.1),
        (64, 5),
    )
    assert scene["segment_count"].tolist() == [1, 2, 3]
    assert (frame["y_m"], frame["heading"], frame["speed"]) == (2.5, -3, packed.FRAME_INVALID)


def test_types_have_the_numbers_of_c() -> None:
    in_c = {
        "vehicle": lib.PV_VEHICLE,
        "pedestrian": lib.PV_PEDESTRIAN,
        "cyclist": lib.PV_CYCLIST,
        "other": lib.PV_OTHER,
    }
    assert in_c == {name: number for number, name in enumerate(OBJECT_TYPES)}
    assert list(range(len(SEGMENT_TYPES))) == [lib.PV_LANE, lib.PV_LINE, lib.PV_EDGE]
