# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""NumPy's view of the packed scene format: the structs of csrc/drive/scene.h, member by member.

Runs in the learner. tests/drive_env/test_packed.py compares sizes and offsets with what the C compiler says.
"""

from __future__ import annotations

import numpy as np

MAGIC = 0x53565650  # "PVVS"
VERSION = 1
NAME_BYTES = 64
ALIGNMENT = 64  # scenes, and the arrays in them, start on multiples of this

EXPERT = 1  # object flags
VALID_AT_START = 2
MOVES = 4

FRAME_INVALID = -32768  # speed of a frame in which the object is not there
HEADING_SCALE = 32768.0 / np.pi  # stored heading = radians * this
SPEED_SCALE = 100.0  # stored speed = m/s * this
CELL_EMPTY = 0xFFFFFFFF
KIND_NONE = 255
MAX_SEGMENTS = 65_535  # candidates are 16-bit

SET = np.dtype(
    [("magic", "<u4"), ("version", "<u4"), ("bytes", "<u8"), ("crc32", "<u4"), ("scene_count", "<u4"), ("index_k", "<u4", 3),
     ("index_range_m", "<f4"), ("unused", "<u4", 6)], align=True)  # fmt: skip
ENTRY = np.dtype(
    [("offset", "<u8"), ("bytes", "<u8"), ("moving_vehicles", "<u4"), ("valid_vehicles", "<u4"), ("object_count", "<u4"),
     ("unused", "<u4"), ("name", f"S{NAME_BYTES}")], align=True)  # fmt: skip
OFFSETS = ("objects", "frames", "x", "y", "ux", "uy", "half", "kind", "polyline", "cells", "candidates")
SCENE = np.dtype(
    [("origin_x", "<f8"), ("origin_y", "<f8"), ("dt_s", "<f4"), ("frame_count", "<u4"), ("object_count", "<u4"),
     ("segment_count", "<u4", 3), ("grid_x0_m", "<f4"), ("grid_y0_m", "<f4"), ("cell_m", "<f4"), ("grid_nx", "<u4"),
     ("grid_ny", "<u4"), ("candidate_count", "<u4"), *((f"{name}_offset", "<u8") for name in OFFSETS)], align=True)  # fmt: skip
OBJECT = np.dtype(
    [("width_m", "<f4"), ("length_m", "<f4"), ("height_m", "<f4"), ("goal_x_m", "<f4"), ("goal_y_m", "<f4"),
     ("frames_index", "<u4"), ("frame_first", "<u2"), ("frame_count", "<u2"), ("type", "u1"), ("flags", "u1"),
     ("unused", "<u2"), ("id", "<i4")], align=True)  # fmt: skip
FRAME = np.dtype([("x_m", "<f4"), ("y_m", "<f4"), ("heading", "<i2"), ("speed", "<i2")], align=True)
CELL = np.dtype([("first", "<u4"), ("count", "<u2", 3), ("unused", "<u2")], align=True)
STRUCTS = {"pv_scene_set": SET, "pv_scene_entry": ENTRY, "pv_scene": SCENE, "pv_object": OBJECT, "pv_frame": FRAME,
           "pv_cell": CELL}  # fmt: skip
# Element type of each array of a scene, by the name of its offset.
ARRAYS = {"objects": OBJECT, "frames": FRAME, **{name: np.dtype("<f4") for name in ("x", "y", "ux", "uy", "half")},
          "kind": np.dtype("u1"), "polyline": np.dtype("<u2"), "cells": CELL, "candidates": np.dtype("<u2")}  # fmt: skip


def align_up(value: int) -> int:
    """The next multiple of ALIGNMENT.

    >>> align_up(0), align_up(1), align_up(64)
    (0, 64, 64)
    """
    return -(-value // ALIGNMENT) * ALIGNMENT
