# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The lane graph of a scene: the successors, predecessors and neighbours of each lane.

Runs in the learner. Connections are those of the file if it has some (`Road.links`); otherwise they
follow from geometry:

- lane B follows lane A if B starts within JOIN_M of A's end, at most TURN_RAD off its direction and
  LEVEL_M off its height;
- B lies to the left (right) of A if it runs in the same direction, at most TURN_RAD off, 1.5 to 5.5
  m to that side, along at least half of the shorter of the two; of several such lanes the one along
  most of A, then the nearest.

In the data sets, connected lanes meet within a millimetre.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes import packed
from drive_env.scenes.check import MAX_LINKS, MAX_PAIRS
from drive_env.scenes.schema import Floats
from drive_env.scenes.segments import Polyline, Segments, kind_of
from puffervec._ffi import ffi, lib
from puffervec.errors import SceneError

JOIN_M = 0.1
TURN_RAD = 0.5
LEVEL_M = 2.0
BESIDE_M = (1.5, 5.5)
PROBE_M = 5.0  # spacing of the points of a lane at which its neighbours are searched
AHEAD_M = 0.5  # a probe this far before or after a segment is still next to it
NO_MEMORY = -2
SIGHT = packed.dtype_of("pv_lane_sight")

Links = list[list[int]]


def pack_lanes(
    name: str, lanes: list[Polyline], segments: Segments
) -> tuple[NDArray[Any], NDArray[np.uint16], bool]:
    """Return the records of all lanes, the list of links to which they refer, and its origin.

    Args:
        name: name of the scene, for messages.

    Returns:
        The last value is True if the links are inferred from geometry.

    Raises:
        SceneError: so many lanes lie in one spot, or so many are connected, that comparing them
            would take too long.
    """
    known = has_links(lanes)
    exits, entries = connect(name, lanes)
    left, right = _neighbours(name, segments, len(lanes))
    records = np.zeros(len(lanes), dtype=packed.LANE)
    number = _numbers(lanes)
    records["segment_count"] = [len(item.points_m) - 1 for item in lanes]
    records["first_segment"] = np.cumsum(records["segment_count"]) - records["segment_count"]
    records["length_m"] = _lengths(lanes)
    records["id"], records["kind"] = (
        [item.road.id for item in lanes],
        [kind_of(item.road) for item in lanes],
    )
    records["exit_count"], records["entry_count"] = (
        [len(found) for found in exits],
        [len(found) for found in entries],
    )
    both = (records["exit_count"].astype(np.int64) + records["entry_count"]).cumsum()
    records["entries"] = both - records["entry_count"]
    records["exits"] = records["entries"] - records["exit_count"]
    links = list(
        itertools.chain.from_iterable(
            one + other for one, other in zip(exits, entries, strict=True)
        )
    )
    records["left"], records["right"] = left, right
    for record, item in zip(records, lanes, strict=True):
        if item.road.links:
            record["speed_limit_mps"] = item.road.links.speed_limit_mps
            for side in ("left", "right"):
                record[side] = number.get(getattr(item.road.links, side), record[side])
    return records, np.array(links, dtype=np.uint16), not known


def has_links(lanes: list[Polyline]) -> bool:
    """Return whether the file has connections of these lanes."""
    return any(item.road.links is not None for item in lanes)


def connect(name: str, lanes: list[Polyline]) -> tuple[Links, Links]:
    """Return the exits and the entries of each lane, as indices of lanes.

    Arguments and errors are those of `pack_lanes`.
    """
    return _links_of(name, lanes) if has_links(lanes) else _match_ends(name, lanes)


def _lengths(lanes: list[Polyline]) -> list[float]:
    """Return the length of each lane in the plane, metres."""
    points = np.concatenate([np.zeros((0, 3)), *(item.points_m for item in lanes)])
    steps = np.hypot(*np.diff(points[:, :2], axis=0).T)
    first = list(itertools.accumulate((len(item.points_m) for item in lanes), initial=0))
    return [float(steps[begin : end - 1].sum()) for begin, end in itertools.pairwise(first)]


def _numbers(lanes: Iterable[Polyline]) -> dict[int, int]:
    """Return the index of each lane by its id in the file; -1 means no id."""
    return {item.road.id: index for index, item in enumerate(lanes) if item.road.id != -1}


def _links_of(scene: str, lanes: list[Polyline]) -> tuple[Links, Links]:
    """Return exits and entries as the file has them.

    A connection counts for both lanes even if the file lists it for only one of them.
    """
    number = _numbers(lanes)
    pairs: dict[tuple[int, int], None] = {}
    _check_links(
        scene,
        sum(
            len(item.road.links.exits) + len(item.road.links.entries)
            for item in lanes
            if item.road.links
        ),
    )
    for index, item in enumerate(lanes):
        links = item.road.links
        if links is None:
            continue
        pairs |= dict.fromkeys((index, number[road]) for road in links.exits if road in number)
        pairs |= dict.fromkeys((number[road], index) for road in links.entries if road in number)
    return _both_ways(pairs, len(lanes))


def _both_ways(pairs: Iterable[tuple[int, int]], count: int) -> tuple[Links, Links]:
    exits: Links = [[] for _ in range(count)]
    entries: Links = [[] for _ in range(count)]
    for before, after in pairs:
        exits[before].append(after)
        entries[after].append(before)
    return exits, entries


def _match_ends(scene: str, lanes: list[Polyline]) -> tuple[Links, Links]:
    """Return exits and entries of lanes that end where others start."""
    if not lanes:
        return [], []
    starts = np.array([item.points_m[0] for item in lanes])
    ends = np.array([item.points_m[-1] for item in lanes])
    leaving = _headings(np.array([item.points_m[1] for item in lanes]) - starts)
    arriving = _headings(ends - np.array([item.points_m[-2] for item in lanes]))
    order = np.argsort(starts[:, 0], kind="stable")
    low = np.searchsorted(starts[order, 0], ends[:, 0] - JOIN_M, "left")
    high = np.searchsorted(starts[order, 0], ends[:, 0] + JOIN_M, "right")
    near = high - low
    _check_pairs(scene, int(near.sum()), "ends and starts of lanes")
    before = np.repeat(np.arange(len(lanes)), near)
    after = order[np.arange(len(before)) - np.repeat(np.cumsum(near) - near - low, near)]
    gap = starts[after] - ends[before]
    meets = (np.hypot(gap[:, 0], gap[:, 1]) <= JOIN_M) & (np.abs(gap[:, 2]) <= LEVEL_M)
    meets &= np.abs(_wrap_angle(leaving[after] - arriving[before])) <= TURN_RAD
    before, after = before[meets], after[meets]
    _check_links(scene, len(before))
    in_order = np.lexsort((after, before))
    return _both_ways(
        zip(before[in_order].tolist(), after[in_order].tolist(), strict=True), len(lanes)
    )


def _headings(steps_m: Floats) -> Floats:
    return np.arctan2(steps_m[:, 1], steps_m[:, 0])


def _wrap_angle(angle: Floats) -> Floats:
    return (angle + np.pi) % (2 * np.pi) - np.pi


def _neighbours(
    scene: str, segments: Segments, lanes: int
) -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
    """Return the left and the right neighbour of each lane, (lanes,); packed.NO_LANE for none."""
    half = segments.half[: segments.count[0]]
    length = np.bincount(segments.polyline[: len(half)], 2 * half, lanes)
    return _best(sights(scene, segments, lanes), np.asarray(length, dtype=np.float64), lanes)


def sights(scene: str, segments: Segments, lanes: int) -> NDArray[Any]:
    """Return records of SIGHT: which lanes lie next to which (csrc/drive/compile/beside.c).

    They are taken at points of lanes at most PROBE_M apart.

    Raises:
        SceneError: see `pack_lanes`.
    """
    count = segments.count[0]
    arrays = [
        ffi.from_buffer("float[]", getattr(segments, name))
        for name in ("x", "y", "z", "ux", "uy", "half")
    ]
    query = ffi.new(
        "pv_lane_segments*",
        (
            *arrays,
            ffi.from_buffer("uint16_t[]", segments.polyline),
            count,
            lanes,
            AHEAD_M,
            LEVEL_M,
            np.cos(TURN_RAD),
            *BESIDE_M,
        ),
    )
    pieces = np.maximum(1, np.ceil(2 * segments.half[:count] / PROBE_M)).astype(np.uint32)
    count_found, room = 2 * int(pieces.sum()), -1
    while count_found > room:
        room = count_found
        records = np.empty(room, SIGHT)
        out = ffi.from_buffer("pv_lane_sight[]", records)
        count_found = lib.pv_drive_lanes_beside(
            query, ffi.from_buffer("uint32_t[]", pieces), MAX_PAIRS, out, room
        )
    if count_found == NO_MEMORY:
        raise MemoryError(
            f"{scene}: the neighbours of its {lanes} lanes cannot be searched: out of memory"
        )
    _check_pairs(scene, MAX_PAIRS + 1 if count_found < 0 else 0, "pieces of lanes")
    return records[:count_found]


def _check_pairs(scene: str, count: int, what: str) -> None:
    if count > MAX_PAIRS:
        raise SceneError(
            f"{scene}: more than {MAX_PAIRS} pairs of {what} lie close together: cut the scene"
        )


def _check_links(scene: str, count: int) -> None:
    if count > MAX_LINKS:
        raise SceneError(f"{scene}: more than {MAX_LINKS} connections between lanes: cut the scene")


def _best(
    records: NDArray[Any], length: Floats, lanes: int
) -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
    """Return the best neighbour per side.

    Args:
        records: records of SIGHT.
        length: (lanes,) metres.
    """
    sides = []
    for side in (1, -1):
        mine = records[records["offset_m"] * side > 0]
        pair, inverse = np.unique(
            mine["lane"].astype(np.int64) * lanes + mine["other"], return_inverse=True
        )
        metres = np.bincount(inverse, mine["metres"], len(pair))
        offset = np.bincount(
            inverse, np.abs(mine["offset_m"]) * mine["metres"], len(pair)
        ) / np.maximum(metres, 1e-9)
        lane, other = np.divmod(pair, max(1, lanes))
        keep = metres >= 0.5 * np.minimum(length[lane], length[other])
        order = np.lexsort((offset[keep], -metres[keep], lane[keep]))
        lane, other = lane[keep][order], other[keep][order]
        first = np.unique(lane, return_index=True)
        neighbour = np.full(lanes, packed.NO_LANE, dtype=np.uint16)
        neighbour[first[0]] = other[first[1]]
        sides.append(neighbour)
    return sides[0], sides[1]
