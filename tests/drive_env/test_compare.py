# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-scenes compare`: what it measures of hand-made scenes, and the distance of two sets."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env import compare
from drive_env.cli import main
from drive_env.scenes.schema import CYCLIST, INVALID, PEDESTRIAN, VEHICLE, Road, Scene, SceneObject

FRAMES = 91


def lane(offset_m: float, number: int) -> Road:
    x = np.arange(-100.0, 101.0)
    return Road(
        "lane", 2, number, np.stack([x, np.full(len(x), offset_m), np.zeros(len(x))], axis=-1)
    )


def thing(
    x: Any, y: Any = 0.0, heading: Any = 0.0, kind: int = VEHICLE, first: int = 0
) -> SceneObject:
    """An object whose path is given by frame; it appears in frame `first`."""
    x, y, heading = (
        np.broadcast_to(np.asarray(value, dtype=np.float64), (FRAMES,)) for value in (x, y, heading)
    )
    valid = np.arange(FRAMES) >= first
    place = np.where(valid[:, None], np.stack([x, y, np.zeros(FRAMES)], axis=-1), INVALID)
    speed = np.stack([np.gradient(x, 0.1), np.gradient(y, 0.1)], axis=-1)
    return SceneObject(
        kind, -1, 2.0, 4.0, 1.5, False, place, speed, heading.copy(), valid, place[-1]
    )


def scene(*objects: SceneObject, roads: tuple[Road, ...] = ()) -> Scene:
    return Scene("made.json", "", FRAMES, objects, roads or (lane(0.0, 1), lane(3.5, 2)), {}, {})


T = 0.1 * np.arange(FRAMES)


def test_who_stands_beside_the_lanes_is_parked_and_who_stands_on_one_waits() -> None:
    stops = 20 + 5 * np.minimum(T, 4.0)
    found = compare.measure(
        scene(
            thing(0.0, -3.0), thing(9.0, -3.0, first=60), thing(0.0, 0.5), thing(0.0, 0.5, np.pi),
            thing(5 * T), thing(stops), thing(0.0, -9.0, kind=PEDESTRIAN),
            thing(T, 9.0, kind=CYCLIST),
        )
    )  # fmt: skip
    assert found["objects"] == 8 and found["vehicles"] == 6 and found["walkers"] == 2
    assert found["parked"] == pytest.approx(3 / 6), "beside the lane, and against its direction"
    assert found["waiting"] == pytest.approx(2 / 6), "all the time, and after driving"
    assert found["at start"] == pytest.approx(7 / 8) and found["agents"] == 2


def test_motion_of_agents() -> None:
    found = compare.measure(scene(thing(2.0 * T * T / 2 + 3 * T)))
    assert found["speed"] == pytest.approx(3 + 2 * 4.5, abs=0.1) and found[
        "speeding up"
    ] == pytest.approx(2.0, abs=0.05)
    assert found["braking"] == pytest.approx(-2.0, abs=0.05) and found["sideways"] == 0
    assert found["steps to goal"] == 90 and found["way to goal"] == pytest.approx(
        3 * 9 + 9 * 9, rel=0.01
    )
    radius = 20.0
    circle = thing(radius * np.sin(0.3 * T), radius - radius * np.cos(0.3 * T), 0.3 * T)
    found = compare.measure(scene(circle, thing(4 * T)))
    assert found["turning"] == 0.5 and found["sideways"] == pytest.approx(6.0 * 0.3, rel=0.02)


def test_goals_that_are_passed_early_count_from_then() -> None:
    assert compare.way_to_goal(thing(np.minimum(5 * T, 20.0))) == (36.0, pytest.approx(18.0))


def test_lanes() -> None:
    found = compare.measure(scene(thing(T)))
    assert found["lane spacing"] == pytest.approx(3.5) and found["lanes"] == pytest.approx(
        400, rel=0.01
    )
    assert found["curvature"] == pytest.approx(0.0, abs=1e-9) and found["rise"] == 0
    assert found["extent"] == pytest.approx(math.hypot(200, 3.5)) and found[
        "segments"
    ] == 2 * math.ceil(200 / 15)
    angle = np.linspace(0, np.pi, 200)
    bend = Road(
        "lane", 2, 1, np.stack([25 * np.cos(angle), 25 * np.sin(angle), 0.1 * angle], axis=-1)
    )
    alone = compare.measure(scene(thing(T), roads=(bend,)))
    assert alone["curvature"] == pytest.approx(1 / 25, rel=0.01) and math.isnan(
        alone["lane spacing"]
    )
    assert math.isnan(compare.measure(scene(roads=(bend,)))["parked"])


def test_the_distance_is_the_largest_gap_between_the_shares_below_a_value() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        a, b = (
            np.sort(rng.integers(0, 9, int(rng.integers(1, 12)))).astype(float) for _ in range(2)
        )
        slow = max(abs(np.mean(a <= x) - np.mean(b <= x)) for x in np.arange(-1, 10, 0.5))
        assert compare.kolmogorov(a, b) == pytest.approx(slow)
    assert math.isnan(compare.kolmogorov(np.zeros(0), np.zeros(2)))
    same = np.sort(
        [compare.kolmogorov(np.sort(rng.random(40)), np.sort(rng.random(30))) for _ in range(400)]
    )
    assert np.mean(same < compare.chance(40, 30)) == pytest.approx(0.95, abs=0.03)


def test_rows_say_which_medians_are_near() -> None:
    row = dict.fromkeys(compare.MEASURES, 1.0)
    one = compare.MeasuredSet("one", {"x": {**row, "walkers": 0.0, "agents": 10.0}}, ())
    other = compare.MeasuredSet(
        "other", {"y": {**row, "walkers": 0.0, "agents": 7.9}, "z": {**row, "speed": math.nan}}, ()
    )
    rows = {item["measure"]: item for item in compare.rows_of(one, other)}
    assert (
        rows["walkers"]["a"]["50%"] == 0
        and rows["walkers"]["b"]["50%"] == 0.5
        and not rows["walkers"]["near"]
    )
    assert rows["agents"]["ratio"] == pytest.approx(10 / 4.45) and not rows["agents"]["near"]
    assert (
        rows["speed"]["b"]["scenes"] == 1
        and rows["speed"]["near"]
        and rows["speed"]["distance"] == 0
    )
    said = compare.table(one, other, list(rows.values()))
    assert (
        len(said.splitlines()) == 1 + len(rows) + 5
        and "A: one, 1 scenes; B: other, 2 scenes" in said
    )


@pytest.mark.slow
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--out", str(tmp_path), "--count", "2"]) == 0
    (tmp_path / "broken.json").write_text("{")
    capsys.readouterr()
    assert main(["compare", "generated:2", str(tmp_path), "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert not err and found["b"]["left_out"][str(tmp_path / "broken.json")].startswith("not JSON")
    assert [row["distance"] for row in found["rows"]].count(0.0) >= len(found["rows"]) - 2
    assert all(row["near"] or row["measure"] == "segments" for row in found["rows"]), (
        "files keep kerbs more exactly"
    )
    assert len(found["a"]["scenes"]) == len(found["b"]["scenes"]) == 2
    assert main(["compare", "generated:1", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("objects")
    assert main(["compare", "generated:1", str(tmp_path / "nowhere")]) == 2
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "broken.json").write_text("{")
    assert main(["compare", "generated:1", str(tmp_path / "bad")]) == 2
    assert "none of its 1 scenes can be compared" in capsys.readouterr().err


def slanted(angle: float, offset_m: float = 0.0, ends: tuple[float, float] = (-50.0, 50.0)) -> Road:
    """A straight lane in some direction, at a distance to the left of the origin."""
    along = np.linspace(*ends, 201)
    ahead, left = (
        np.array([np.cos(angle), np.sin(angle)]),
        np.array([-np.sin(angle), np.cos(angle)]),
    )
    points = along[:, None] * ahead + offset_m * left
    return Road("lane", 2, 1, np.column_stack([points, np.zeros(len(points))]))


def kind_of(item: SceneObject, road: Road) -> str:
    return compare.standing_kind(item, compare.sample_lanes(scene(roads=(road,))))


@pytest.mark.parametrize("angle", [0.0, 0.7, 2.5])
def test_a_vehicle_is_on_a_lane_up_to_limits(angle: float) -> None:
    """1.5 m and 0.5 rad off, as docs/scenes.md says, and no farther beyond its end than between two
    samples of it.
    """
    road = slanted(angle)

    def stands(along: float, across: float, turned: float) -> str:
        x = along * np.cos(angle) - across * np.sin(angle)
        y = along * np.sin(angle) + across * np.cos(angle)
        return kind_of(thing(x, y, angle + turned), road)

    for place, kind in (
        ((0.0, 1.45, 0.0), "waiting"), ((0.0, -1.45, 0.0), "waiting"),
        ((0.0, 1.55, 0.0), "parked"), ((0.0, -1.55, 0.0), "parked"),
        ((0.0, 0.0, 0.48), "waiting"), ((0.0, 0.0, -0.48), "waiting"),
        ((0.0, 0.0, 0.52), "parked"), ((0.0, 0.0, -0.52), "parked"),
        ((50.9, 0.0, 0.0), "waiting"), ((51.2, 0.0, 0.0), "parked"),
    ):  # fmt: skip
        assert stands(*place) == kind, place


def test_standing_is_to_stay_within_a_metre_or_to_be_slow_for_a_second() -> None:
    aside, road = -9.0, lane(0.0, 1)
    assert kind_of(thing(0.95 * T / 9, aside), road) == "parked"
    assert kind_of(thing(1.05 * T / 9, aside), road) == "waiting"
    assert kind_of(thing(0.48 * T), road) == "waiting" and kind_of(thing(0.52 * T), road) == ""
    for pauses, kind in ((11, "waiting"), (10, "")):  # frames between them have a speed of 0
        steps = np.where((np.arange(FRAMES) >= 40) & (np.arange(FRAMES) < 40 + pauses), 0.0, 0.5)
        assert kind_of(thing(np.cumsum(steps)), road) == kind


def test_turning_begins_at_30_degrees() -> None:
    for degrees, share in ((29.0, 0.0), (31.0, 1.0), (-29.0, 0.0), (-31.0, 1.0)):
        turns = thing(T, 0.0, np.radians(degrees) * T / 9)
        assert compare.measure(scene(turns))["turning"] == share
    over_pi = thing(T, 0.0, np.where(T < 4.0, 3.0, -3.0))
    assert compare.heading_change(over_pi) == pytest.approx(2 * np.pi - 6.0)


def test_accelerations_are_those_of_half_a_second() -> None:
    """A jitter with that period does not show."""
    jitter = thing(6.0 * T + 0.1 * np.sin(2 * np.pi * T / 0.5))
    _, gain, _ = compare.motion_of(jitter)
    assert np.abs(gain[1:-1]).max() < 1e-6
    jerk = thing(T**3 / 6)
    found = compare.measure(scene(jerk))
    middle = 0.25 + 8.5 * 0.95  # of the window that has the 95 % quantile
    assert found["speeding up"] == pytest.approx(middle, abs=0.15)
    assert found["top speed"] == pytest.approx((0.25 + 8.5 * 0.9) ** 2 / 2, rel=0.03)


def test_ways_to_goals_are_medians_over_agents() -> None:
    early, late = thing(np.minimum(5 * T, 20.0)), thing(2.0 * T * T / 2 + 3 * T)
    found = compare.measure(scene(early, late))
    assert found["steps to goal"] == (36 + 90) / 2
    assert found["way to goal"] == pytest.approx((18.0 + 3 * 9 + 9 * 9) / 2, rel=0.01)


@pytest.mark.parametrize(
    ("other", "spacing"),
    [
        (slanted(0.7, 1.6), 1.6), (slanted(0.7, 1.4), None),
        (slanted(0.7, -5.4), 5.4), (slanted(0.7, 5.6), None),
        (slanted(0.7 + np.pi, 3.0), None),
        (slanted(0.7, 3.0, (-49.1, 50.9)), 3.0), (slanted(0.7, 3.0, (50.0, 90.0)), None),
        (slanted(1.02, 0.0), None),
    ],
)  # fmt: skip
def test_adjacent_lanes_are_beside_each_other_in_one_direction(
    other: Road, spacing: float | None
) -> None:
    found = compare.lane_spacing(compare.sample_lanes(scene(roads=(slanted(0.7), other))))
    assert math.isnan(found) if spacing is None else found == pytest.approx(spacing, abs=1e-6)


def test_lanes_may_differ_a_little_in_direction() -> None:
    """By 0.3 rad; as far as they are adjacent, these lie from 1.5 to 5.5 m apart."""
    found = compare.lane_spacing(compare.sample_lanes(scene(roads=(slanted(0.7), slanted(0.98)))))
    assert 1.5 <= found <= 5.5


def test_what_stands_on_a_map_is_counted() -> None:
    square = np.array([[0.0, 0.0, 0.0], [3.0, 0.0, 0.0], [3.0, 3.0, 0.0], [0.0, 3.0, 0.0]])
    roads = (
        lane(0.0, 1), Road("crosswalk", 18, 2, square), Road("crosswalk", 18, 3, square + 9.0),
        Road("stop_sign", 17, 4, square[:1] + [0.0, -1.0, 0.0]),
    )  # fmt: skip
    found = compare.measure(scene(thing(T), roads=roads))
    assert found["crosswalks"] == 2 and found["lights and signs"] == 1
    slope = Road("lane", 2, 1, np.linspace([0.0, 0.0, 2.0], [100.0, 0.0, 7.0], 101))
    assert compare.measure(scene(thing(T), roads=(slope,)))["rise"] == pytest.approx(5.0, rel=0.03)


def test_quantiles_of_rows_and_how_they_are_shown() -> None:
    row = dict.fromkeys(compare.MEASURES, 1.0)
    spread = compare.MeasuredSet(
        "x" * 61, {str(n): {**row, "agents": float(n)} for n in range(11)}, ()
    )
    others = {"1": {**row, "agents": 5.0, "speed": 1 / 1.24, "lanes": 1 / 1.26}}
    other = compare.MeasuredSet("y" * 60, others, ())
    rows = {item["measure"]: item for item in compare.rows_of(spread, other)}
    assert rows["agents"]["a"] == {"scenes": 11, "10%": 1.0, "50%": 5.0, "90%": 9.0}
    assert rows["agents"]["ratio"] == 1.0 and rows["agents"]["distance"] == pytest.approx(5 / 11)
    assert rows["speed"]["near"] and not rows["lanes"]["near"]
    lines = compare.table(spread, other, list(rows.values())).splitlines()
    assert [line.split()[0] for line in lines[1:] if line.endswith("*") or "  *  " in line] == [
        "lanes"
    ]
    assert f"A: {'x' * 60}..., 11" in lines[-4] and f"B: {'y' * 60}, 1" in lines[-4]
    assert [compare.short(value) for value in (0.12345, 999.4, 1234.5, -4321.0, math.nan)] == [
        "0.123", "999", "1,234", "-4,321", "-",
    ]  # fmt: skip


def test_scenes_of_one_name_are_all_counted() -> None:
    found = compare.collect_measures("set", [("one", {"a": 1.0}), ("one", {"a": 2.0})])
    assert [row["a"] for row in found.scenes.values()] == [1.0, 2.0] and "one" in found.scenes
