# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The packed scene format in NumPy; structs and constants are those of csrc/drive/scene/scene.h.

Runs in the learner.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from puffervec._ffi import ffi, lib

MAGIC, VERSION, NAME_BYTES = (
    int(lib.PV_SCENE_MAGIC),
    int(lib.PV_SCENE_VERSION),
    int(lib.PV_SCENE_NAME_BYTES),
)
MOST_SCENE_BYTES = int(lib.PV_MOST_SCENE_BYTES)
MAGIC_BYTES = MAGIC.to_bytes(4, "little")
HAS_HEIGHT, LEVELS = int(lib.PV_SCENE_HAS_HEIGHT), int(lib.PV_SCENE_LEVELS)
LANES_INFERRED = int(lib.PV_SCENE_LANES_INFERRED)
EXPERT, VALID_AT_START, MOVES = (
    int(lib.PV_OBJECT_EXPERT),
    int(lib.PV_OBJECT_VALID_AT_START),
    int(lib.PV_OBJECT_MOVES),
)
TO_PREDICT, OF_INTEREST = int(lib.PV_OBJECT_TO_PREDICT), int(lib.PV_OBJECT_OF_INTEREST)
SDC = int(lib.PV_OBJECT_SDC)
FRAME_INVALID, CELL_EMPTY, NO_LANE = (
    int(lib.PV_FRAME_INVALID),
    int(lib.PV_CELL_EMPTY),
    int(lib.PV_NO_LANE),
)
STATE_COLOUR, STATE_ARROW, STATE_FLASHING = (
    int(lib.PV_STATE_COLOUR),
    int(lib.PV_STATE_ARROW),
    int(lib.PV_STATE_FLASHING),
)

ALIGNMENT = 64  # scenes, and the arrays in them, start on multiples of this
HEADING_SCALE = 32768.0 / np.pi  # stored heading = radians * this
SPEED_SCALE = 100.0  # stored speed = m/s * this
KIND_NONE = 255
MAX_SEGMENTS = 65_535  # candidates are 16-bit

_FLOATS = {"float": "float32", "double": "float64"}


def dtype_of(struct: str) -> np.dtype[Any]:
    """Return the NumPy dtype of a C struct."""
    members = ffi.typeof(struct).fields
    return np.dtype(
        {
            "names": [name for name, _ in members],
            "formats": [_format(member.type) for _, member in members],
            "offsets": [member.offset for _, member in members],
            "itemsize": ffi.sizeof(struct),
        }
    )


def _format(kind: Any) -> Any:
    if kind.kind == "struct":
        return dtype_of(kind.cname)
    if kind.kind != "array":
        return _FLOATS.get(kind.cname) or kind.cname.removesuffix("_t")  # uint32_t is uint32
    return f"S{kind.length}" if kind.item.cname == "char" else (_format(kind.item), kind.length)


SET, ENTRY, SECTION, SCENE = (
    dtype_of("pv_scene_set"),
    dtype_of("pv_scene_entry"),
    dtype_of("pv_section"),
    dtype_of("pv_scene"),
)
OBJECT, FRAME, CELL = dtype_of("pv_object"), dtype_of("pv_frame"), dtype_of("pv_cell")
LANE, CONTROL, AREA, GROUP = (
    dtype_of("pv_lane"),
    dtype_of("pv_control"),
    dtype_of("pv_area"),
    dtype_of("pv_road_group"),
)
GROUP_LANES = int(lib.PV_GROUP_LANES)


def _sections() -> tuple[str, ...]:
    """Return the names of a scene's sections in the order of pv_scene.sections.

    Their sizes are checked.
    """
    count = ffi.new("uint32_t*")
    listed = [
        (ffi.string(item.name).decode(), item.element_bytes)
        for item in lib.pv_drive_sections(count)[0 : count[0]]
    ]
    assert {name: SECTIONS[name].itemsize for name in SECTIONS} == dict(listed)
    return tuple(name for name, _ in listed)


# Element type of each section of a scene.
SECTIONS = {
    "objects": OBJECT, "frames": FRAME, "cells": CELL, "lanes": LANE, "controls": CONTROL,
    "areas": AREA, "groups": GROUP,
    **dict.fromkeys(("kind", "states", "text"), np.dtype("u1")),
    **dict.fromkeys(("polyline", "candidates", "links"), np.dtype("<u2")),
    **dict.fromkeys(("x", "y", "z", "ux", "uy", "slope", "half"), np.dtype("<f4")),
    **dict.fromkeys(("points_x", "points_y", "points_z", "boxes", "rows"), np.dtype("<f4")),
}  # fmt: skip
ORDER = _sections()


def align_up(value: int) -> int:
    """Return the next multiple of ALIGNMENT.

    >>> align_up(0), align_up(1), align_up(64)
    (0, 64, 64)
    """
    return -(-value // ALIGNMENT) * ALIGNMENT
