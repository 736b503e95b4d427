# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The packed scene format in NumPy. Structs and constants are those of csrc/drive/scene.h. Runs in the learner."""

from __future__ import annotations

from typing import Any

import numpy as np

from puffervec._ffi import ffi, lib

MAGIC, VERSION, NAME_BYTES = int(lib.PV_SCENE_MAGIC), int(lib.PV_SCENE_VERSION), int(lib.PV_SCENE_NAME_BYTES)
EXPERT, VALID_AT_START, MOVES = int(lib.PV_OBJECT_EXPERT), int(lib.PV_OBJECT_VALID_AT_START), int(lib.PV_OBJECT_MOVES)
FRAME_INVALID, CELL_EMPTY = int(lib.PV_FRAME_INVALID), int(lib.PV_CELL_EMPTY)

ALIGNMENT = 64  # scenes, and the arrays in them, start on multiples of this
HEADING_SCALE = 32768.0 / np.pi  # stored heading = radians * this
SPEED_SCALE = 100.0  # stored speed = m/s * this
KIND_NONE = 255
MAX_SEGMENTS = 65_535  # candidates are 16-bit

_FLOATS = {"float": "float32", "double": "float64"}


def _dtype(struct: str) -> np.dtype[Any]:
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
    if kind.kind != "array":
        return _FLOATS.get(kind.cname) or kind.cname.removesuffix("_t")  # uint32_t is uint32
    return f"S{kind.length}" if kind.item.cname == "char" else (_format(kind.item), kind.length)


SET, ENTRY, SCENE = _dtype("pv_scene_set"), _dtype("pv_scene_entry"), _dtype("pv_scene")
OBJECT, FRAME, CELL = _dtype("pv_object"), _dtype("pv_frame"), _dtype("pv_cell")
OFFSETS = tuple(name.removesuffix("_offset") for name in SCENE.names or () if name.endswith("_offset"))
# Element type of each array of a scene, by the name of its offset.
ARRAYS = {"objects": OBJECT, "frames": FRAME, **{name: np.dtype("<f4") for name in ("x", "y", "ux", "uy", "half")},
          "kind": np.dtype("u1"), "polyline": np.dtype("<u2"), "cells": CELL, "candidates": np.dtype("<u2")}  # fmt: skip


def align_up(value: int) -> int:
    """Return the next multiple of ALIGNMENT.

    >>> align_up(0), align_up(1), align_up(64)
    (0, 64, 64)
    """
    return -(-value // ALIGNMENT) * ALIGNMENT
