# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Border checks of compiled scene sets (csrc/drive/scene/scene.c): whatever the bytes say, nothing
outside them is read.

A set under test ends exactly where unreadable memory begins, so that reading past its end kills the
test.
"""

from __future__ import annotations

import ctypes
import dataclasses
import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.scenes import packed
from drive_env.scenes.schema import LaneLinks, Road
from puffervec._ffi import ffi, lib
from tests.drive_env.worlds import lit, make_env, random_scene, write_world

PAGE = mmap.PAGESIZE
SECTIONS = int(packed.SCENE.fields["sections"][1])  # type: ignore[index]
OFFSETS = {
    name: SECTIONS + packed.SECTION.itemsize * index for index, name in enumerate(packed.ORDER)
}
CANDIDATE_COUNT = OFFSETS["candidates"] + 8


def section(head: np.void, name: str) -> int:
    """Where a section starts, in bytes from the start of its scene."""
    return int(head["sections"]["offset"][packed.ORDER.index(name)])


class Fenced:
    """Room for `size` bytes whose last one stands before a page that nobody may touch."""

    def __init__(self, size: int) -> None:
        self.pages = -(-size // PAGE)
        self.map = mmap.mmap(-1, (self.pages + 1) * PAGE)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        assert libc.mprotect(self.start + self.pages * PAGE, PAGE, 0) == 0

    def check(self, data: bytes) -> tuple[int, str]:
        """(code, text) of the check of `data`, placed so that it ends at the fence (as far as
        alignment allows).
        """
        begin = (self.pages * PAGE - len(data)) // 8 * 8
        ctypes.memmove(self.start + begin, data, len(data))
        text = ffi.new("char[]", lib.PV_ERROR_TEXT)
        given = ffi.cast("uint8_t*", self.start + begin)
        code = lib.pv_drive_scenes_check(given, len(data), text)
        scene = 0
        while not code and scene < np.frombuffer(data, packed.SET, 1)["scene_count"][0]:
            code = lib.pv_drive_scene_check(given, len(data), scene, 0, text)
            scene += 1
        return int(code), ffi.string(text).decode()


@pytest.fixture
def data(tmp_path: Path) -> bytes:
    write_world(
        tmp_path / "set",
        [random_scene(seed, objects=3, roads=5, frames=6, spread_m=15.0) for seed in (1, 2)],
        k=(4, 4, 4),
    )
    return (tmp_path / "set").read_bytes()


def test_a_sound_set_passes(data: bytes) -> None:
    assert Fenced(len(data)).check(data) == (lib.PV_OK, "")


def test_every_cut_is_refused(data: bytes) -> None:
    fenced = Fenced(len(data))
    for length in range(len(data)):
        code, text = fenced.check(data[:length])
        assert code == lib.PV_ERROR_DATA and "compile the scenes again" in text
        if length >= 64:  # and with a head that agrees with the cut
            shorter = np.frombuffer(data[:length], np.uint8).copy()
            shorter[8:16] = np.frombuffer(np.uint64(length).tobytes(), np.uint8)
            code, text = fenced.check(shorter.tobytes())
            # what is cut may be nothing but the padding behind the last array
            assert code == lib.PV_ERROR_DATA or len(data) - length < 64


@pytest.mark.slow
def test_any_word_may_be_anything(data: bytes) -> None:
    fenced = Fenced(len(data))
    words = (0, 1, 64, 1000, 2**16 - 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 0x7F800000, 0x7FC00000)
    refused = 0
    for at in range(len(data) // 4):
        for word in words:
            broken = np.frombuffer(data, np.uint32).copy()
            broken[at] = word
            code, text = fenced.check(broken.tobytes())
            assert code in (lib.PV_OK, lib.PV_ERROR_DATA)
            assert (code == lib.PV_OK) == (text == "")
            refused += code != lib.PV_OK
    assert refused > len(data) // 4


def test_any_bit_may_flip(data: bytes) -> None:
    fenced = Fenced(len(data))
    for bit in range(0, 8 * len(data), 3):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        assert fenced.check(bytes(broken))[0] in (lib.PV_OK, lib.PV_ERROR_DATA)


def test_messages_name_byte_and_field(data: bytes) -> None:
    fenced = Fenced(len(data))
    entry = np.frombuffer(data, packed.ENTRY, 1, packed.SET.itemsize)[0]
    base = int(entry["offset"])

    def changed(at: int, value: np.generic) -> str:
        broken = bytearray(data)
        broken[at : at + value.nbytes] = value.tobytes()
        code, text = fenced.check(bytes(broken))
        assert code == lib.PV_ERROR_DATA
        return text

    assert (
        "magic" in changed(0, np.uint32(7))
        and "version" in changed(4, np.uint32(9))
        and "byte 8 " in changed(8, np.uint64(5))
    )
    assert "scene_count" in changed(20, np.uint32(2**31))
    for name, offset in OFFSETS.items():
        text = changed(base + offset, np.uint64(2**63))
        assert (
            f"byte {base + offset} (scene 0, {name})" in text
            and "found 9.2233720368547758e+18" in text
        )
        assert "64" in changed(
            base + offset, np.uint64(int(np.frombuffer(data, np.uint64, 1, base + offset)[0]) + 4)
        )
    x_at = base + int(np.frombuffer(data, np.uint64, 1, base + OFFSETS["x"])[0])
    assert (
        f"byte {x_at} (scene 0, x): expected a magnitude of at most 1000000, found nan"
        in changed(x_at, np.float32("nan"))
    )
    assert "valid_vehicles" in changed(64 + 24, np.uint32(99)) and "object_count" in changed(
        64 + 28, np.uint32(99)
    )
    candidates_at = base + int(np.frombuffer(data, np.uint64, 1, base + OFFSETS["candidates"])[0])
    assert "candidates" in changed(candidates_at, np.uint16(65535))
    swapped = np.frombuffer(data, np.uint16, 2, candidates_at)[::-1].copy().view(np.uint32)[0]
    assert "ascending indices of the cell's type" in changed(candidates_at, swapped)


def test_messages_give_the_number_that_is_wrong(tmp_path: Path) -> None:
    """The end of a list, not its start; the second of two links; the coordinate that is out of
    bounds, not the first one.
    """
    write_world(tmp_path / "set", [lit(random_scene(1, objects=3, roads=9, frames=6), 1)])
    data = (tmp_path / "set").read_bytes()
    fenced = Fenced(len(data))
    base = int(np.frombuffer(data, packed.ENTRY, 1, packed.SET.itemsize)[0]["offset"])
    head = np.frombuffer(data, packed.SCENE, 1, base)[0]

    def said(name: str, dtype: np.dtype, **changes: float) -> str:
        broken = bytearray(data)
        item = np.frombuffer(broken, dtype, 1, base + section(head, name))
        for field, value in changes.items():
            item[field] = value
        code, text = fenced.check(bytes(broken))
        assert code == lib.PV_ERROR_DATA
        return text

    def at(name: str, dtype: np.dtype, field: str) -> str:
        assert dtype.fields is not None
        return f"byte {base + section(head, name) + dtype.fields[field][1]} "

    links = int(head["sections"]["count"][packed.ORDER.index("links")])
    lanes = int(head["sections"]["count"][packed.ORDER.index("lanes")])
    text = said("lanes", packed.LANE, exits=0, exit_count=0, entries=links, entry_count=3)
    assert at("lanes", packed.LANE, "entries") in text
    assert f"lane.entries): expected links that end at most at {links}, found {links + 3};" in text
    text = said("lanes", packed.LANE, exits=1, exit_count=links, entries=0, entry_count=0)
    assert f"lane.exits): expected links that end at most at {links}, found {links + 1};" in text
    text = said("lanes", packed.LANE, left=0, right=lanes + 4)
    assert at("lanes", packed.LANE, "right") in text
    assert f"lane.right): expected 65535 or less than {lanes}, found {lanes + 4};" in text

    text = said("controls", packed.CONTROL, z_m=2e6)
    assert at("controls", packed.CONTROL, "z_m") in text
    assert "control): expected a magnitude of at most 1000000, found 2000000;" in text
    assert "control.heading): expected a magnitude of at most 3.2" in (
        text := said("controls", packed.CONTROL, heading=4.0)
    )
    assert "found 4;" in text
    states = int(head["sections"]["count"][packed.ORDER.index("states")])
    text = said("controls", packed.CONTROL, states=states)
    assert (
        f"control.states): expected states that end at most at {states}, found {states + 6};"
        in text
    )
    frames = int(head["sections"]["count"][packed.ORDER.index("frames")])
    text = said(
        "objects", packed.OBJECT, frames_index=frames, frame_first=0, frame_count=2, flags=0
    )
    assert (
        f"object.frames_index): expected frames that end at most at {frames}, found {frames + 2};"
        in text
    )


def test_an_array_may_end_with_the_scene_and_not_behind_it(data: bytes) -> None:
    """The last 64 bytes of the set as its candidates: 32 of two bytes each, and not one more."""
    fenced = Fenced(len(data))
    entry = np.frombuffer(data, packed.ENTRY, 2, packed.SET.itemsize)[1]
    base, size = int(entry["offset"]), int(entry["bytes"])
    assert base + size == len(data)
    start = (size - 1) // 64 * 64
    counts = {count: bytearray(data) for count in ((size - start) // 2, (size - start) // 2 + 1)}
    for count, changed in counts.items():
        np.frombuffer(changed, np.uint64, 1, base + OFFSETS["candidates"])[0] = start
        np.frombuffer(changed, np.uint64, 1, base + CANDIDATE_COUNT)[0] = count
    said = [fenced.check(bytes(changed))[1] for changed in counts.values()]
    assert "a count of elements" not in said[0]
    assert "candidates)" in said[1] and "a count of elements of at most" in said[1]


def test_parts_belong_to_one_scene_object_or_cell_each(data: bytes) -> None:
    """Else a small file could ask for any number of looks at the same bytes: checking would take
    time by its square.
    """
    fenced = Fenced(len(data))
    entries = np.frombuffer(data, packed.ENTRY, 2, packed.SET.itemsize)
    base = int(entries["offset"][0])
    head = np.frombuffer(data, packed.SCENE, 1, base)[0]

    def refused(change: Callable[[bytearray], None]) -> str:
        broken = bytearray(data)
        change(broken)
        code, text = fenced.check(bytes(broken))
        assert code == lib.PV_ERROR_DATA
        return text

    def same_scene(broken: bytearray) -> None:
        at, size = packed.SET.itemsize, packed.ENTRY.itemsize
        broken[at + size : at + 2 * size] = broken[at : at + size]

    def same_candidates(broken: bytearray) -> None:
        at = base + section(head, "cells")
        cells = np.frombuffer(broken, packed.CELL, int(head["grid_nx"]) * int(head["grid_ny"]), at)
        full = cells[cells["first"] != packed.CELL_EMPTY]
        cells[:] = full[full["count"].sum(axis=1).argmax()]

    assert "entry.offset" in refused(same_scene)
    assert "candidates of its own, up to here at most" in refused(same_candidates)


def test_frames_belong_to_one_object_each(data: bytes) -> None:
    """All objects of the last scene claim the same frames, which stand at its end, so that there is
    no room for more.
    """
    entry = np.frombuffer(data, packed.ENTRY, 1, packed.SET.itemsize + packed.ENTRY.itemsize)[0]
    base = int(entry["offset"])
    head = np.frombuffer(data, packed.SCENE, 1, base)[0]
    first = base + section(head, "frames")
    frames = 16
    longer = bytearray(data + data[first : first + frames * packed.FRAME.itemsize])  # 256 bytes
    np.frombuffer(longer, packed.SET, 1)["bytes"] = len(longer)
    np.frombuffer(longer, packed.ENTRY, 1, packed.SET.itemsize + packed.ENTRY.itemsize)["bytes"] = (
        len(longer) - base
    )
    changed = np.frombuffer(longer, packed.SCENE, 1, base)
    changed["sections"][0, packed.ORDER.index("frames")] = len(data) - base, frames
    changed["frame_count"] = frames
    objects = np.frombuffer(
        longer, packed.OBJECT, int(head["object_count"]), base + section(head, "objects")
    )
    objects["frames_index"], objects["frame_first"], objects["flags"] = 0, 0, 0
    objects["frame_count"] = frames
    code, text = Fenced(len(longer)).check(bytes(longer))
    assert (
        code == lib.PV_ERROR_DATA
        and "expected the frames behind those of the object before, from 16, found 0" in text
    )


def test_no_frame_belongs_to_nobody(data: bytes) -> None:
    """Readers in Python go through the frames object by object and rely on it."""
    entry = np.frombuffer(data, packed.ENTRY, 1, packed.SET.itemsize)[0]
    base = int(entry["offset"])
    head = np.frombuffer(data, packed.SCENE, 1, base)[0]
    shorter = bytearray(data)
    objects = np.frombuffer(
        shorter, packed.OBJECT, int(head["object_count"]), base + section(head, "objects")
    )
    frames = int(objects["frame_count"].sum())
    objects["frame_count"][-1] -= 1
    code, text = Fenced(len(shorter)).check(bytes(shorter))
    assert code == lib.PV_ERROR_DATA
    assert (
        f"(scene 0, frames): expected a count of elements of {frames - 1}, found {frames}" in text
    )


def test_a_broken_set_is_refused_when_the_env_is_made(tmp_path: Path, data: bytes) -> None:
    broken = bytearray(data)
    broken[-70:] = b"\xff" * 70
    broken[4] = 99
    (tmp_path / "broken").write_bytes(broken)
    with pytest.raises(Exception, match="version"):
        make_env(tmp_path / "broken")


# ---- bounds --------------------------------------------------------------------------------------


def above(value: float) -> float:
    """Return the next float32."""
    return float(np.nextafter(np.float32(value), np.float32(np.inf)))


def beyond(most: float) -> list[float]:
    """Return what a number of that magnitude at most may not be."""
    return [above(most), -above(most), np.nan]


OBJECTS, FRAMES = 4, 6  # of the scene under test
LEAST = float(np.float32(1e-3))
SIZES = ("width_m", "length_m", "height_m")
# Of each part and field, or of a list of numbers: what it may be, what it may not be, and the name
# in the error. The first and the last item of a list are changed.
BOUNDS: list[tuple[str, str, list[Any], list[Any], str]] = [
    *(("head", f"origin_{axis}", [1e300], [np.nan, np.inf], "origin") for axis in "xyz"),
    ("head", "dt_s", [LEAST, 10.0], [-above(-LEAST), above(10), np.nan], "dt_s"),
    ("head", "frame_count", [1, 65535], [0, 65536], "frame_count"),
    ("head", "object_count", [65535], [65536], "object_count"),
    ("head", "sdc", [-1, OBJECTS - 1], [-2, OBJECTS], "sdc"),
    ("head", "segment_count", [(65535, 0, 0), (0, 0, 65535)],
     [(0, 0, 65536), (21846, 21846, 21844)], "segment_count"),
    ("head", "grid_x0_m", [1e30], [np.nan, np.inf], "cell_m"),
    ("head", "grid_y0_m", [1e30], [np.nan, np.inf], "cell_m"),
    ("head", "cell_m", [1e-30], [0.0, -1.0, np.nan, np.inf], "cell_m"),
    ("head", "grid_nx", [65536], [65537], "grid_nx, grid_ny"),
    ("head", "grid_ny", [65536], [65537], "grid_nx, grid_ny"),
    ("entry", "offset", [], [0, 64, 2**40], "entry.offset"),
    ("entry", "bytes", [packed.SCENE.itemsize], [packed.SCENE.itemsize - 1], "entry.bytes"),
    ("entry", "name", [b"x" * 63], [b"x" * 64], "entry.name"),
    *((name, "", [1e6, -1e6], beyond(1e6), name)
      for name in ("x", "y", "z", "points_x", "points_y", "points_z")),
    ("rows", "", [1e6, -1e6], beyond(1e6), "rows): expected a magnitude"),
    ("half", "", [0.0, 100.0], [-above(0), above(100), np.nan], "half"),
    ("slope", "", [1e5, -1e5], beyond(1e5), "slope"),
    *((name, "", [1.01, -1.01], [1.02, -1.02, np.nan], name) for name in ("ux", "uy")),
    *((name, "", [], [0.0], "ux, uy") for name in ("ux", "uy")),
    ("boxes", "", [3e6, -3e6], beyond(3e6), "boxes): expected a magnitude"),
    *(("objects", name, [LEAST, 1e3], [-above(-LEAST), above(1e3), np.nan], f"object.{name}")
      for name in SIZES),
    *(("objects", f"goal_{axis}_m", [1e6, -1e6], beyond(1e6), "object.goal") for axis in "xyz"),
    ("objects", "type", [3], [4], "object.type"),
    *(("frames", f"{axis}_m", [1e6, -1e6], beyond(1e6), "frame.x_m, y_m, z_m") for axis in "xyz"),
    ("lanes", "length_m", [0.0, 1e7], [-above(0), above(1e7), np.nan], "lane.length_m"),
    ("lanes", "speed_limit_mps", [0.0, 1e3], [-above(0), above(1e3), np.nan],
     "lane.speed_limit_mps"),
    ("lanes", "segment_count", [], [0, 2**31], "lane.first_segment"),
    ("lanes", "first_segment", [], [9999], "lane.first_segment"),
    ("lanes", "left", [65535, "lanes - 1"], ["lanes", 65534], "lane.left"),
    ("lanes", "right", [65535, "lanes - 1"], ["lanes", 65534], "lane.right"),
    ("links", "", [0, "lanes - 1"], ["lanes", 65535], "links"),
    *(("controls", name, [1e6, -1e6], beyond(1e6), "control")
      for name in ("x_m", "y_m", "z_m", "line_x0_m", "line_y0_m", "line_x1_m", "line_y1_m")),
    ("controls", "heading", [3.19, -3.19], [3.21, -3.21], "control.heading"),
    ("controls", "state_count", [1, FRAMES], [0, 2, FRAMES + 1], "control.state_count"),
    ("controls", "lane", [65535, "lanes - 1"], ["lanes", 65534], "control.lane"),
    ("controls", "kind", [0, 2], [3], "control.kind"),
    ("states", "", [4, 4 | 8 | 16], [5, 7, 13, 32], "states"),
    ("areas", "kind", [0, 2], [3], "area.kind"),
    ("areas", "count", [0, "points"], ["points + 1"], "area.first"),
    ("areas", "first", [0], ["points"], "area.first"),
]  # fmt: skip


class World:
    """Return a set of one scene with all sections, and its check after a change."""

    def __init__(self, path: Path) -> None:
        scene = lit(random_scene(1, objects=3, roads=9, frames=FRAMES), 1)
        square = np.array([[0, 0, 0], [4, 0, 0], [4, 4, 0], [0, 4, 0]], float)
        lane = np.array([[30, 30, 0], [40, 30, 0], [50, 30, 0]], float)
        roads = (
            Road("crosswalk", 18, 90, square),
            Road("lane", 2, 91, lane, LaneLinks(exits=(92,))),
            Road("lane", 2, 92, lane + [20, 0, 0], LaneLinks(entries=(91,))),
        )
        write_world(path, [dataclasses.replace(scene, roads=scene.roads + roads)])
        self.data = path.read_bytes()
        self.fenced = Fenced(len(self.data))
        self.base = int(np.frombuffer(self.data, packed.ENTRY, 1, packed.SET.itemsize)["offset"][0])
        self.head = np.frombuffer(self.data, packed.SCENE, 1, self.base)[0]

    def count(self, name: str) -> int:
        return int(self.head["sections"]["count"][packed.ORDER.index(name)])

    def items(self, data: bytearray, name: str) -> np.ndarray:
        """Return a view of the items of a section, or of the head or entry."""
        if name == "head":
            return np.frombuffer(data, packed.SCENE, 1, self.base)
        if name == "entry":
            return np.frombuffer(data, packed.ENTRY, 1, packed.SET.itemsize)
        kind = packed.SECTIONS[name]
        return np.frombuffer(data, kind, self.count(name), self.base + section(self.head, name))

    def says(self, change: Callable[[bytearray], None]) -> str:
        """Return the error after a change; "" if there is none."""
        data = bytearray(self.data)
        change(data)
        return self.fenced.check(bytes(data))[1]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("bounds") / "set")


def test_all_sections_have_items(world: World) -> None:
    assert world.says(lambda data: None) == ""
    assert min(world.count(name) for name in packed.ORDER if name != "text") > 0
    assert (world.head["object_count"], world.head["frame_count"]) == (OBJECTS, FRAMES)


@pytest.mark.parametrize(("name", "field", "good", "bad", "label"), BOUNDS)
def test_numbers_have_these_bounds_and_no_others(
    world: World, name: str, field: str, good: list[Any], bad: list[Any], label: str
) -> None:
    words = label if ")" in label else f"{label}):"
    lanes, points = world.count("lanes"), world.count("points_x")
    known = {"lanes": lanes, "lanes - 1": lanes - 1, "points": points, "points + 1": points + 1}
    for at in (-1,) if name == "frames" else (0, -1):  # the first frame may be none
        for value, refused in (*((one, False) for one in good), *((one, True) for one in bad)):

            def change(data: bytearray, at: int = at, value: Any = value) -> None:
                items = world.items(data, name)
                number = known[value] if isinstance(value, str) else value
                (items[field] if field else items)[at] = number

            text = world.says(change)
            assert (f"(scene 0, {words}" in text) == refused, (at, value, text)


def test_the_wrong_one_of_three_coordinates_is_named(world: World) -> None:
    for name in ("objects", "frames"):
        kind = packed.SECTIONS[name]
        for axis in "xyz":
            field = f"goal_{axis}_m" if name == "objects" else f"{axis}_m"

            def change(data: bytearray, name: str = name, field: str = field) -> None:
                world.items(data, name)[field][-1] = 2e6

            assert kind.fields is not None
            at = world.base + section(world.head, name) + kind.itemsize * (world.count(name) - 1)
            assert f"byte {at + kind.fields[field][1]} " in world.says(change)


def test_frames_of_nobody_and_objects_without_a_start(world: World) -> None:
    def nobody(data: bytearray) -> None:
        frame = world.items(data, "frames")[-1:]
        frame["speed"], frame["x_m"] = packed.FRAME_INVALID, np.nan

    def late(data: bytearray) -> None:
        last = world.items(data, "objects")[-1:]
        last["frame_first"] = 1

    def absent(data: bytearray) -> None:
        last = world.items(data, "objects")[-1:]
        first = int(last["frames_index"][0])
        world.items(data, "frames")["speed"][first] = packed.FRAME_INVALID

    assert world.says(nobody) == ""
    assert "object.frame_count): expected an end of at most 6, found 7;" in world.says(late)
    assert "(scene 0, object.flags)" in world.says(absent)


def test_sections_have_as_many_items_as_the_head_says(world: World) -> None:
    counted = [name for name in packed.ORDER
               if name not in ("text", "frames", "candidates", "lanes", "links", "controls",
                               "states", "areas", "points_x")]  # fmt: skip
    for name in counted:
        place, count = packed.ORDER.index(name), world.count(name)

        def fewer(data: bytearray, place: int = place) -> None:
            world.items(data, "head")["sections"]["count"][0, place] -= 1

        said = f"{name}): expected a count of elements of {count}, found {count - 1};"
        assert said in world.says(fewer)

        def outside(data: bytearray, place: int = place) -> None:
            world.items(data, "head")["sections"]["offset"][0, place] = 0

        assert f"{name}): expected an offset within the scene" in world.says(outside)
    for field in ("valid_vehicles", "moving_vehicles", "object_count"):

        def more(data: bytearray, field: str = field) -> None:
            world.items(data, "entry")[field] += 1

        assert f"(scene 0, entry.{field})" in world.says(more)


def test_groups_rows_and_boxes_are_copies_of_their_segments(world: World) -> None:
    def change_group(field: str, lane: int, value: Any) -> str:
        def change(data: bytearray) -> None:
            numbers = world.items(data, "groups")[field]
            numbers[0 if lane == 0 else -1, lane] = value

        return world.says(change)

    group = world.items(bytearray(world.data), "groups")[0]
    for field in ("x", "y", "ux", "uy", "half"):
        assert "(scene 0, group)" in change_group(field, 0, group[field][0] + 0.5)
    lanes = int(world.head["segment_count"][0])
    kind, segment = int(group["type"][0]), int(group["segment"][0])
    other = 0 if kind else lanes
    assert "(scene 0, group.segment)" in change_group("type", 0, 3)
    assert "(scene 0, group.segment)" in change_group("segment", 0, other)
    same = segment + 1 if segment + 1 != lanes and kind == 0 else segment - 1
    assert "(scene 0, group" in change_group("segment", 0, same)
    unused = world.items(bytearray(world.data), "groups")["type"][-1]
    assert unused[-1] == 255
    assert "(scene 0, group.type)" in change_group("type", -1, 0)
    assert "(scene 0, group)" in change_group("half", -1, 1.0)

    def change_row(column: int, by: float) -> str:
        def change(data: bytearray) -> None:
            world.items(data, "rows").reshape(-1, 8)[0, column] += by

        return world.says(change)

    for column in range(7):
        assert "rows): expected a copy of a segment's" in change_row(column, 0.5)
    assert "rows): expected an angle of at most" in change_row(7, 10.0)
    for by, words in ((0.5, "its cosine to it"), (-0.5, "its cosine to it"), (0.01, "")):
        angle = float(world.items(bytearray(world.data), "rows").reshape(-1, 8)[0, 7])
        found = change_row(7, by if abs(angle + by) < 3.1 else -by)
        assert words in found and bool(words) == bool(found)
    stride = world.count("boxes") // 4
    for side in range(4):
        for by, words in (
            (100.0, "boxes" if side < 2 else ""),
            (-100.0, "" if side < 2 else "boxes"),
        ):

            def move(data: bytearray, place: int = side * stride, by: float = by) -> None:
                world.items(data, "boxes")[place] += by

            found = world.says(move)
            assert words in found and bool(words) == bool(found)


def test_a_set_has_room_for_its_entries(world: World) -> None:
    most = (len(world.data) - packed.SET.itemsize) // packed.ENTRY.itemsize
    for field, good, bad in (("scene_count", [most], [most + 1]),
                             ("index_range_m", [0.0], [-1.0, np.nan, np.inf])):  # fmt: skip
        for value, refused in (*((one, False) for one in good), *((one, True) for one in bad)):

            def change(data: bytearray, field: str = field, value: Any = value) -> None:
                np.frombuffer(data, packed.SET, 1)[field] = value

            assert (f"(head, {field})" in world.says(change)) == refused
