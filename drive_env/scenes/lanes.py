# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The lane graph of a scene: which lanes go on from a lane, which lead to it, and which lie beside it.

Runs in the learner. Connections are those of the file where it has some (`Road.links`); otherwise they follow from geometry:

- lane B goes on from lane A if B starts within JOIN_M of A's end, at most TURN_RAD off its direction and LEVEL_M off its
  height;
- B lies to the left (right) of A if it runs in the same direction, at most TURN_RAD off, 1.5 to 5.5 m to that side, along at
  least half of the shorter of the two; of several such lanes the one beside most of A, then the nearest.

In the data sets, lanes that belong together meet within a millimetre.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes import packed
from drive_env.scenes.check import MAX_LINKS, MAX_PAIRS
from drive_env.scenes.schema import Floats
from drive_env.scenes.segments import Polyline, Segments, kind_of
from puffervec.errors import SceneError

JOIN_M = 0.1
TURN_RAD = 0.5
LEVEL_M = 2.0
BESIDE_M = (1.5, 5.5)
PROBE_M = 5.0  # spacing of the points of a lane at which its neighbours are looked for
AHEAD_M = 0.5  # a probe this far before or behind a segment is still beside it
CHUNK = 32  # probes that are compared at once

Links = list[list[int]]


def pack_lanes(name: str, lanes: list[Polyline], segments: Segments) -> tuple[NDArray[Any], NDArray[np.uint16], bool]:
    """Return the records of all lanes, the list that their exits and entries point into, and whether these are inferred.

    Args: name: of the scene, for messages.
    Raises: SceneError: so many lanes lie in one spot, or so many are connected, that it would take long to compare them.
    """
    known = any(item.road.links is not None for item in lanes)
    exits, entries = _links_of(name, lanes) if known else _meeting(name, lanes)
    left, right = _beside(name, segments, len(lanes))
    records = np.zeros(len(lanes), dtype=packed.LANE)
    number = _numbers(lanes)
    links: list[int] = []
    first = 0
    for index, (record, item) in enumerate(zip(records, lanes, strict=True)):
        record["first_segment"], record["segment_count"] = first, len(item.points_m) - 1
        first += len(item.points_m) - 1
        record["length_m"] = np.hypot(*np.diff(item.points_m[:, :2], axis=0).T).sum()
        record["id"], record["kind"] = item.road.id, kind_of(item.road)
        for side, found in (("exit", exits[index]), ("entry", entries[index])):
            record["exits" if side == "exit" else "entries"], record[f"{side}_count"] = len(links), len(found)
            links += found
        given = item.road.links
        record["speed_limit_mps"] = given.speed_limit_mps if given else 0.0
        record["left"] = number.get(given.left, left[index]) if given else left[index]
        record["right"] = number.get(given.right, right[index]) if given else right[index]
    return records, np.array(links, dtype=np.uint16), not known


def _numbers(lanes: Iterable[Polyline]) -> dict[int, int]:
    """Return the index of each lane by its id in the file; -1 is no id."""
    return {item.road.id: index for index, item in enumerate(lanes) if item.road.id != -1}


def _links_of(scene: str, lanes: list[Polyline]) -> tuple[Links, Links]:
    """Return exits and entries as the file has them. Each is listed on both sides, even if the file does so on one."""
    number = _numbers(lanes)
    pairs: dict[tuple[int, int], None] = {}
    _check_links(scene, sum(len(item.road.links.exits) + len(item.road.links.entries) for item in lanes if item.road.links))
    for index, item in enumerate(lanes):
        given = item.road.links
        if given is None:
            continue
        pairs |= dict.fromkeys((index, number[road]) for road in given.exits if road in number)
        pairs |= dict.fromkeys((number[road], index) for road in given.entries if road in number)
    return _both_ways(pairs, len(lanes))


def _both_ways(pairs: Iterable[tuple[int, int]], count: int) -> tuple[Links, Links]:
    exits: Links = [[] for _ in range(count)]
    entries: Links = [[] for _ in range(count)]
    for before, after in pairs:
        exits[before].append(after)
        entries[after].append(before)
    return exits, entries


def _meeting(scene: str, lanes: list[Polyline]) -> tuple[Links, Links]:
    """Return exits and entries of lanes that end where others start."""
    if not lanes:
        return [], []
    starts = np.array([item.points_m[0] for item in lanes])
    ends = np.array([item.points_m[-1] for item in lanes])
    leaving = np.array([_heading(item.points_m[:2]) for item in lanes])
    arriving = np.array([_heading(item.points_m[-2:]) for item in lanes])
    order = np.argsort(starts[:, 0], kind="stable")
    low = np.searchsorted(starts[order, 0], ends[:, 0] - JOIN_M, "left")
    high = np.searchsorted(starts[order, 0], ends[:, 0] + JOIN_M, "right")
    pairs: list[tuple[int, int]] = []
    _check_pairs(scene, int((high - low).sum()), "ends and starts of lanes")
    for before in range(len(lanes)):
        near = np.sort(order[low[before] : high[before]])
        gap = starts[near] - ends[before]
        meets = np.hypot(gap[:, 0], gap[:, 1]) <= JOIN_M
        meets &= (np.abs(gap[:, 2]) <= LEVEL_M) & (np.abs(_wrapped(leaving[near] - arriving[before])) <= TURN_RAD)
        pairs += [(before, int(after)) for after in near[meets]]
        _check_links(scene, len(pairs))
    return _both_ways(pairs, len(lanes))


def _heading(ends_m: Floats) -> float:
    step = ends_m[1] - ends_m[0]
    return float(np.arctan2(step[1], step[0]))


def _wrapped(angle: Floats) -> Floats:
    return (angle + np.pi) % (2 * np.pi) - np.pi


def _beside(scene: str, segments: Segments, lanes: int) -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
    """Return the left and the right neighbour of each lane, (lanes,), packed.NO_LANE where there is none."""
    of = slice(0, segments.count[0])
    lane = segments.polyline[of].astype(np.int64)
    x, y, z, ux, uy, half = (getattr(segments, name)[of] for name in ("x", "y", "z", "ux", "uy", "half"))
    # probes: points along each segment, at most PROBE_M apart, with the length that each stands for
    pieces = np.maximum(1, np.ceil(2 * half / PROBE_M)).astype(np.int64)
    probe = np.repeat(np.arange(len(x)), pieces)
    within = np.arange(len(probe)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    along = half[probe] * ((2 * within + 1) / pieces[probe] - 1)
    px, py, weight = x[probe] + along * ux[probe], y[probe] + along * uy[probe], 2 * half[probe] / pieces[probe]
    length = np.bincount(lane, 2 * half, lanes)
    seen: list[Floats] = [np.zeros((4, 0))]
    reach = half + AHEAD_M + BESIDE_M[1]  # no probe farther from the midpoint is beside the segment
    compared = 0
    for begin in range(0, len(probe), CHUNK):
        rows = slice(begin, begin + CHUNK)  # consecutive, so close together
        left, right, low, high = px[rows].min(), px[rows].max(), py[rows].min(), py[rows].max()
        some = np.flatnonzero((x + reach >= left) & (x - reach <= right) & (y + reach >= low) & (y - reach <= high))
        compared += len(px[rows]) * len(some)
        _check_pairs(scene, compared, "pieces of lanes")
        dx, dy = x[some] - px[rows, None], y[some] - py[rows, None]
        own = probe[rows]
        same = ux[some] * ux[own, None] + uy[some] * uy[own, None] >= np.cos(TURN_RAD)
        lateral = dy * ux[some] - dx * uy[some]  # of the other lane, positive to the left
        near = (
            same
            & (np.abs(dx * ux[some] + dy * uy[some]) <= half[some] + AHEAD_M)
            & (np.abs(lateral) >= BESIDE_M[0])
            & (np.abs(lateral) <= BESIDE_M[1])
        )
        at, found = np.nonzero(near & (np.abs(z[some] - z[own, None]) <= LEVEL_M) & (lane[some] != lane[own, None]))
        other, offset = some[found], lateral[at, found]
        # of each probe and side, every lane once
        key = ((at + begin) * lanes + lane[other]) * 2 + (offset > 0)
        _, first = np.unique(key, return_index=True)
        seen.append(np.array([lane[own[at]], lane[other], offset, weight[begin + at]], dtype=np.float64)[:, first])
    return _best(np.concatenate(seen, axis=1), np.asarray(length, dtype=np.float64), lanes)


def _check_pairs(scene: str, count: int, what: str) -> None:
    if count > MAX_PAIRS:
        raise SceneError(f"{scene}: more than {MAX_PAIRS} pairs of {what} lie close together; cut the scene")


def _check_links(scene: str, count: int) -> None:
    if count > MAX_LINKS:
        raise SceneError(f"{scene}: more than {MAX_LINKS} connections between lanes; cut the scene")


def _best(seen: Floats, length: Floats, lanes: int) -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
    """Return the best neighbour per side. seen: (4, n) lane, other lane, lateral offset, metres that this holds for."""
    found = []
    for side in (1, -1):
        mine = seen[:, seen[2] * side > 0]
        pair, inverse = np.unique(mine[0].astype(np.int64) * lanes + mine[1].astype(np.int64), return_inverse=True)
        metres = np.bincount(inverse, mine[3], len(pair))
        offset = np.bincount(inverse, np.abs(mine[2]) * mine[3], len(pair)) / np.maximum(metres, 1e-9)
        lane, other = np.divmod(pair, max(1, lanes))
        keep = metres >= 0.5 * np.minimum(length[lane], length[other])
        order = np.lexsort((offset[keep], -metres[keep], lane[keep]))
        lane, other = lane[keep][order], other[keep][order]
        first = np.unique(lane, return_index=True)
        beside = np.full(lanes, packed.NO_LANE, dtype=np.uint16)
        beside[first[0]] = other[first[1]]
        found.append(beside)
    return found[0], found[1]
