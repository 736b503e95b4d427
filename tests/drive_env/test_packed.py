# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The NumPy view of the packed format is what the C compiler made of scene.h."""

from __future__ import annotations

import pytest

from drive_env.scenes import packed
from drive_env.scenes.schema import OBJECT_TYPES, SEGMENT_TYPES
from puffervec._ffi import ffi, lib


@pytest.mark.parametrize("name", packed.STRUCTS)
def test_structs_have_the_same_members_at_the_same_places(name: str) -> None:
    dtype = packed.STRUCTS[name]
    members = {field: entry.offset for field, entry in ffi.typeof(name).fields}
    assert dtype.fields is not None
    assert {field: offset for field, (_, offset, *_) in dtype.fields.items()} == members
    assert dtype.itemsize == ffi.sizeof(name)


def test_constants_are_the_same() -> None:
    assert packed.MAGIC == lib.PV_SCENE_MAGIC
    assert packed.VERSION == lib.PV_SCENE_VERSION
    assert packed.NAME_BYTES == lib.PV_SCENE_NAME_BYTES
    assert (packed.EXPERT, packed.VALID_AT_START, packed.MOVES) == (
        lib.PV_OBJECT_EXPERT, lib.PV_OBJECT_VALID_AT_START, lib.PV_OBJECT_MOVES)  # fmt: skip
    assert packed.FRAME_INVALID == lib.PV_FRAME_INVALID
    assert packed.CELL_EMPTY == lib.PV_CELL_EMPTY
    assert OBJECT_TYPES.index("vehicle") == lib.PV_VEHICLE
    assert OBJECT_TYPES.index("pedestrian") == lib.PV_PEDESTRIAN
    assert OBJECT_TYPES.index("cyclist") == lib.PV_CYCLIST
    assert OBJECT_TYPES.index("other") == lib.PV_OTHER
    assert [lib.PV_LANE, lib.PV_LINE, lib.PV_EDGE] == list(range(len(SEGMENT_TYPES)))
