# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""CommonRoad's XML (drive_env/scenes/commonroad.py), compared with commonroad-io where it is
installed.
"""

from __future__ import annotations

import math
import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import puffervec
from drive_env import cli
from drive_env.config import DriveConfig
from drive_env.prepare import prepare_scenes
from drive_env.render.ground import BROKEN_KINDS, YELLOW_KINDS
from drive_env.scenes import packed
from drive_env.scenes.controls import STOP_SIGN, TRAFFIC_LIGHT, controls_of
from drive_env.scenes.reader import parse_scene, read_scene, scene_files
from drive_env.scenes.schema import (
    CONTROL_KINDS,
    GREEN,
    OBJECT_TYPES,
    OFF,
    RED,
    Floats,
    Road,
    Scene,
)
from puffervec.errors import SceneError
from tests.helpers import thinned

SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "data" / "commonroad"


def point(x: float, y: float) -> str:
    return f"<point><x>{x}</x><y>{y}</y></point>"


def exact(tag: str, value: float) -> str:
    return f"<{tag}><exact>{value}</exact></{tag}>"


def bound(side: str, y: float, x0: float, x1: float, mark: str = "") -> str:
    points = "".join(point(x, y) for x in (x0, (x0 + x1) / 2, x1))
    marked = f"<lineMarking>{mark}</lineMarking>" if mark else ""
    return f"<{side}Bound>{points}{marked}</{side}Bound>"


def lanelet(
    own_id: int, y: float, x0: float, x1: float, marks: tuple[str, str] = ("", ""), rest: str = ""
) -> str:
    """A lanelet along +x, 3.5 m wide, whose right bound is at y."""
    left, right = bound("left", y + 3.5, x0, x1, marks[0]), bound("right", y, x0, x1, marks[1])
    return f'<lanelet id="{own_id}">{left}{right}{rest}</lanelet>\n'


def state(
    tag: str, step: int, x: float, y: float, heading: float = 0.0, speed: float = 10.0
) -> str:
    return (
        f"<{tag}><position>{point(x, y)}</position>{exact('orientation', heading)}"
        f"{exact('time', step)}{exact('velocity', speed)}</{tag}>"
    )


def box(length: float, width: float, rest: str = "") -> str:
    return f"<rectangle><length>{length}</length><width>{width}</width>{rest}</rectangle>"


def obstacle(own_id: int, kind: str, shape: str, states: str, tag: str = "dynamicObstacle") -> str:
    return f'<{tag} id="{own_id}"><type>{kind}</type><shape>{shape}</shape>{states}</{tag}>\n'


def moving(own_id: int, frames: int, step_s: float = 0.1) -> str:
    """A car at 10 m/s along +x."""
    later = "".join(state("state", k, 10 * step_s * k, -1.75) for k in range(1, frames))
    states = f"{state('initialState', 0, 0.0, -1.75)}<trajectory>{later}</trajectory>"
    return obstacle(own_id, "car", box(4.5, 2.0), states)


def refs(tag: str, *ids: int) -> str:
    return "".join(f'<{tag} ref="{each}"/>' for each in ids)


GOAL = (
    "<goalState><position><lanelet ref='3'/></position><time><intervalStart>4</intervalStart>"
    "<intervalEnd>9</intervalEnd></time></goalState>"
)
PROBLEM = (
    f'<planningProblem id="40">{state("initialState", 0, 20.0, -1.75, 0.1)}{GOAL}{GOAL}'
    "</planningProblem>\n"
)
ROADS = (
    lanelet(
        1, -3.5, 0, 80, ("dashed", "solid"),
        refs("successor", 3) + '<adjacentLeft ref="2" drivingDir="same"/>'
        "<stopLine><lineMarking>solid</lineMarking></stopLine><laneletType>highway</laneletType>"
        + refs("trafficSignRef", 5) + refs("trafficLightRef", 100),
    )
    + lanelet(
        2, 0, 0, 80, ("no_marking", "dashed"),
        '<adjacentRight ref="1" drivingDir="same"/><laneletType>urban</laneletType>'
        + refs("trafficSignRef", 6),
    )
    + lanelet(3, -3.5, 80, 120, ("", "curb"),
              refs("predecessor", 1) + "<laneletType>urban</laneletType>")
    + lanelet(4, 20, 0, 5, rest="<laneletType>sidewalk</laneletType>")
    + lanelet(7, -9, 50, 53, rest="<laneletType>crosswalk</laneletType>")
    + '<trafficSign id="5"><trafficSignElement><trafficSignID>274</trafficSignID>'
    "<additionalValue>15</additionalValue></trafficSignElement>"
    "<trafficSignElement><trafficSignID>306</trafficSignID></trafficSignElement>"
    f"<position>{point(70, -4)}</position></trafficSign>\n"
    '<trafficSign id="6"><trafficSignElement><trafficSignID>206</trafficSignID>'
    f"</trafficSignElement><position>{point(79, 4)}</position></trafficSign>\n"
    '<trafficLight id="100"><cycle>'
    "<cycleElement><duration>3</duration><color>red</color></cycleElement>"
    "<cycleElement><duration>2</duration><color>green</color></cycleElement>"
    f"<timeOffset>1</timeOffset></cycle><position>{point(80, -4)}</position></trafficLight>\n"
)  # fmt: skip
PARKED = obstacle(
    31, "parkedVehicle", box(5.0, 2.0), state("initialState", 0, 30.0, 1.75, 0.3, 0.0),
    "staticObstacle"
)  # fmt: skip
WALL = obstacle(
    32, "roadBoundary", box(10.0, 2.0, "<orientation>0.5</orientation>"),
    state("initialState", 0, 50.0, 30.0, 0.0, 0.0), "staticObstacle",
)  # fmt: skip


def scenario(content: str, version: str = "2020a", step: float = 0.1, tags: str = "") -> bytes:
    head = (
        f'<commonRoad commonRoadVersion="{version}" benchmarkID="ZAM_Test-1_1_T-1" author="a" '
        f'affiliation="b" source="c" date="2026-01-01" timeStepSize="{step}"{tags}>\n'
    )
    if version == "2020a":
        head += (
            "<location><geoNameId>-999</geoNameId><gpsLatitude>999</gpsLatitude>"
            "<gpsLongitude>999</gpsLongitude></location><scenarioTags><urban/></scenarioTags>\n"
        )
    return f"<?xml version='1.0' encoding='UTF-8'?>\n{head}{content}</commonRoad>\n".encode()


WHOLE = scenario(ROADS + PARKED + WALL + moving(30, 6) + PROBLEM)


def parsed(data: bytes) -> Scene:
    return parse_scene(data, "here", "one.xml")


def of_type(scene: Scene, kind: str) -> list[Road]:
    return [road for road in scene.roads if road.type == kind]


def length_of(points_m: Floats) -> float:
    return float(np.hypot(*np.diff(points_m[:, :2], axis=0).T).sum())


def test_all_of_a_scenario_is_read() -> None:
    scene = parsed(WHOLE)
    assert (scene.scenario_id, scene.frame_count, scene.has_height) == (
        "ZAM_Test-1_1_T-1",
        6,
        False,
    )
    parked, car, ego = scene.objects
    assert [OBJECT_TYPES[item.type] for item in scene.objects] == ["vehicle"] * 3
    assert [item.id for item in scene.objects] == [31, 30, 40]
    assert parked.valid.all() and parked.position_m[5].tolist() == [30.0, 1.75, 0.0]
    assert (parked.length_m, parked.width_m, parked.heading_rad[3]) == (5.0, 2.0, 0.3)
    assert car.valid.all() and car.position_m[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert car.velocity_mps[2].tolist() == [10.0, 0.0] and car.goal_m.tolist() == [5.0, -1.75, 0.0]
    assert ego.valid.tolist() == [True] + [False] * 5 and ego.goal_m.tolist() == [100, -1.75, 0]
    assert ego.velocity_mps[0] == pytest.approx([10 * math.cos(0.1), 10 * math.sin(0.1)])
    assert scene.sdc == 2 and scene.metadata["tags"] == ["urban"]


def test_the_road_network() -> None:
    scene = parsed(WHOLE)
    first, second, third = of_type(scene, "lane")
    ids = [(road.id, road.map_element_id) for road in (first, second, third)]
    assert ids == [(1, 1), (2, 2), (3, 2)]
    assert first.points_m.tolist() == [[0, -1.75, 0], [40, -1.75, 0], [80, -1.75, 0]]
    assert first.links is not None and second.links is not None and third.links is not None
    assert (first.links.exits, first.links.left, first.links.right) == ((3,), 2, -1)
    assert (second.links.left, second.links.right, third.links.entries) == (-1, 1, (1,))
    assert (first.links.speed_limit_mps, second.links.speed_limit_mps) == (15.0, 0.0)
    lines = of_type(scene, "road_line")
    assert [(road.map_element_id, road.points_m[0, 1]) for road in lines] == [(6, 0.0), (7, -3.5)]
    (walk,) = of_type(scene, "crosswalk")
    assert (walk.id, walk.map_element_id, len(walk.points_m)) == (7, 18, 6)
    # Edges: bounds without a lanelet beside them, the curb, and the wall.
    edges = [road.points_m for road in of_type(scene, "road_edge")]
    curb, wall, *others = edges
    assert curb[:, 1].tolist() == [-3.5] * 3 and curb[[0, -1], 0].tolist() == [80, 120]
    assert length_of(wall) == pytest.approx(24) and len(wall) == 5
    assert wall[0] == pytest.approx(
        [50 + 5 * math.cos(0.5) - math.sin(0.5), 30 + 5 * math.sin(0.5) + math.cos(0.5), 0]
    )
    found = sorted((float(edge[0, 1]), length_of(edge)) for edge in others)
    assert found == [(-3.5, 40), (-3.5, 80), (0, 40), (3.5, 80)]


def test_signs_and_lights() -> None:
    scene = parsed(WHOLE)
    light, stop = controls_of(scene)
    assert (light.kind, light.lane_id, light.id) == (TRAFFIC_LIGHT, 1, 100)
    assert light.states.tolist() == [GREEN, RED, RED, RED, GREEN, GREEN]
    assert light.position_m.tolist() == [80, -1.75, 0]
    assert light.stop_line_m is not None
    assert light.stop_line_m[:, 1].tolist() == [0, -3.5]  # left, right
    assert (stop.kind, stop.lane_id, stop.position_m.tolist()) == (STOP_SIGN, 2, [79, 4, 0])
    assert scene.left_out == {
        "traffic signs 306": 1,
        "lanelets of type sidewalk": 1,
        "further goal regions": 1,
        "times, speeds and headings of goals": 2,
    }


@pytest.mark.parametrize("step, frames", [(0.04, 26), (0.05, 21), (0.2, 6)])
def test_other_frame_times(step: float, frames: int) -> None:
    scene = parsed(scenario(ROADS + moving(30, frames, step) + PROBLEM, step=step))
    car, ego = scene.objects
    assert scene.frame_count == 11 and car.valid.all() and ego.valid[0]
    np.testing.assert_allclose(car.position_m[:, 0], np.arange(11), atol=1e-9)
    assert all(len(item.states) in (1, 11) for item in controls_of(scene))


def test_the_older_version() -> None:
    roads = lanelet(1, -3.5, 0, 80, rest="<speedLimit>12.5</speedLimit>")
    still = state("initialState", 0, 9.0, 1.0)
    old = (
        f'<obstacle id="9"><role>static</role><type>unknown</type><shape>{box(6, 3)}</shape>{still}'
        "</obstacle>\n"
    )
    region = f"<position>{box(4, 2, '<center><x>60</x><y>-2</y></center>')}</position>"
    time = "<time><intervalStart>0</intervalStart><intervalEnd>30</intervalEnd></time>"
    problem = (
        f'<planningProblem id="1">{state("initialState", 0, 0, -1.75)}<goalState>{region}{time}'
        "</goalState></planningProblem>\n"
    )
    scene = parsed(scenario(roads + old + problem, "2018b", tags=' tags="rural two_lane"'))
    other, ego = scene.objects
    assert scene.frame_count == 31 and other.valid.all() and OBJECT_TYPES[other.type] == "other"
    assert ego.goal_m.tolist() == [60, -2, 0] and scene.metadata["tags"] == ["rural", "two_lane"]
    (lane,) = of_type(scene, "lane")
    assert lane.links is not None and lane.links.speed_limit_mps == 12.5


def test_shapes_and_uncertain_states() -> None:
    polygon = f"<polygon>{point(0, 0)}{point(4, 0)}{point(4, 2)}{point(0, 2)}</polygon>"
    between = "<intervalStart>1</intervalStart><intervalEnd>3</intervalEnd>"
    unsure = (
        f"<initialState><position><circle><radius>1</radius>{'<center><x>5</x><y>6</y></center>'}"
        f"</circle></position><orientation><exact>{math.pi / 2}</exact></orientation>"
        f"<time><exact>0</exact></time><velocity>{between}</velocity></initialState>"
    )
    slow = "".join(
        f"<state><position>{point(5 * k, 5 * k)}</position>{exact('time', k)}"
        f"{exact('acceleration', 1)}</state>"
        for k in (1, 2, 4)
    )
    first = f"<initialState><position>{point(0, 0)}</position>{exact('time', 0)}</initialState>"
    path = f"{first}<trajectory>{slow}</trajectory>"
    content = (
        obstacle(1, "car", polygon, unsure)
        + obstacle(2, "pedestrian", "<circle><radius>0.4</radius></circle>", path)
        + obstacle(3, "bicycle", box(2, 1) + polygon, state("initialState", 0, 0, 0))
        + obstacle(4, "truck", box(8, 2, "<originXShift>-3</originXShift>"),
                   state("initialState", 0, 0, 0))
        + '<phantomObstacle id="5"/>'
    )  # fmt: skip
    scene = parsed(scenario(ROADS + content))
    car, walker, rider, truck = scene.objects
    # The polygon's middle is (2, 1) in a frame that is turned to the left.
    assert car.position_m[0] == pytest.approx([5 - 1, 6 + 2, 0])
    assert (car.length_m, car.width_m) == (4, 2)
    assert car.velocity_mps[0] == pytest.approx([0, 2])
    assert OBJECT_TYPES[walker.type] == "pedestrian" and walker.width_m == 0.8
    assert walker.valid.tolist() == [True, True, True, False, True]
    assert walker.heading_rad[walker.valid] == pytest.approx(math.pi / 4)
    assert walker.velocity_mps[[0, 1, 4]] == pytest.approx(50)
    assert (rider.length_m, rider.width_m) == (5, 2.5)  # the box around both
    assert truck.position_m[0].tolist() == [3, 0, 0] and truck.height_m == 1.5
    for name in (
        "intervals of states (their middle is used)",
        "regions of positions and goals (their middle is used)",
        "shapes of several parts (the box around them is used)",
        "elements phantomObstacle",
    ):
        assert scene.left_out[name] == 1
    assert scene.left_out["states without a heading (the direction of motion is used)"] == 4
    assert scene.left_out["acceleration of states"] == 3


def test_what_a_scenario_may_also_have() -> None:
    """Stop lines with points, arrows, lights that are off, signs without a place, heights, sideways
    motion, and obstacles that bound the road.
    """
    line = f"<stopLine>{point(78, -3.4)}{point(78, -0.1)}{refs('trafficSignRef', 6)}</stopLine>"
    kinds = "".join(f"<laneletType>{kind}</laneletType>" for kind in ("urban", "exitRamp"))
    held = refs("trafficSignRef", 5) + refs("trafficLightRef", 100, 101)
    limit = "<speedLimit>20</speedLimit>"
    signs = "".join(
        f'<trafficSign id="{own_id}">'
        + "".join(
            f"<trafficSignElement><trafficSignID>{each}</trafficSignID>{rest}</trafficSignElement>"
            for each, rest in parts
        )
        + "</trafficSign>"
        for own_id, parts in (
            (5, (("R2-1", "<additionalValue>25</additionalValue>"), ("R1-2", ""))),
            (6, (("206", ""),)),
        )
    )
    cycle = "".join(
        f"<cycleElement><duration>{steps}</duration><color>{colour}</color></cycleElement>"
        for colour, steps in (("red", 2), ("inactive", 1))
    )
    lights = (
        f'<trafficLight id="100"><cycle>{cycle}<timeOffset>4</timeOffset></cycle>'
        "<direction>left</direction></trafficLight>"
        f'<trafficLight id="101"><cycle>{cycle}</cycle><active>false</active></trafficLight>'
    )
    drifting = (
        f"<initialState><position>{point(3, 4)}</position>{exact('positionZ', 2.5)}"
        f"{exact('orientation', math.pi / 2)}{exact('time', 0)}{exact('velocity', 3)}"
        f"{exact('velocityY', 1)}</initialState>"
    )
    house = [(60.0, 40.0), (70.0, 40.0), (65.0, 50.0)]
    polygon = f"<polygon>{''.join(point(*corner) for corner in house)}</polygon>"
    bounds = obstacle(50, "building", polygon, "", "environmentObstacle") + obstacle(
        51, "median_strip", box(4, 2), state("initialState", 0, 50.0, 30.0, math.pi / 2, 0.0),
        "staticObstacle",
    )  # fmt: skip
    roads = lanelet(1, -3.5, 0, 80, ("solid_solid", "broad_dashed"), line + kinds + limit + held)
    roads += lanelet(2, 10, 0, 80, ("solid_dashed", "lowered_curb"),
                     "<laneletType>bicycleLane</laneletType>")  # fmt: skip
    scene = parsed(
        scenario(
            roads
            + signs
            + lights
            + bounds
            + moving(30, 6)
            + obstacle(31, "bus", box(9, 2), drifting)
        )
    )
    first, second = of_type(scene, "lane")
    assert (first.map_element_id, second.map_element_id) == (1, 3)
    assert first.links is not None and first.links.speed_limit_mps == 20.0
    lines = {(road.map_element_id, road.points_m[0, 1]) for road in of_type(scene, "road_line")}
    assert lines == {(8, 0.0), (6, -3.5), (5, 13.5)}
    turning, off, gives_way, stops = controls_of(scene)
    arrow = RED | packed.STATE_ARROW
    assert turning.states.tolist() == [OFF, arrow, arrow, OFF, arrow, arrow]
    assert off.states.tolist() == [OFF] * 6 and off.position_m.tolist() == [78, -1.75, 0]
    assert turning.stop_line_m is not None and turning.stop_line_m[:, 1].tolist() == [-0.1, -3.4]
    assert (gives_way.kind, stops.kind) == (CONTROL_KINDS.index("yield_sign"), STOP_SIGN)
    assert gives_way.position_m.tolist() == stops.position_m.tolist() == [80, -3.5, 0]
    bus = scene.objects[1]
    assert bus.position_m[0].tolist() == [3, 4, 2.5] and scene.has_height
    assert bus.velocity_mps[0] == pytest.approx([-1, 3])
    edges = {road.map_element_id: road.points_m for road in of_type(scene, "road_edge")
             if road.points_m[:, 1].min() > 20}  # fmt: skip
    assert edges[15][:, :2].tolist() == [list(corner) for corner in (*house, house[0])]
    assert np.concatenate([edges[16].min(axis=0), edges[16].max(axis=0)]) == pytest.approx(
        [49, 28, 0, 51, 32, 0]
    )
    assert any(
        road.map_element_id == 15 and road.points_m[:, 1].tolist() == [10, 10, 10]
        for road in of_type(scene, "road_edge")
    )


@pytest.mark.parametrize("mark", ["dashed_dashed", "dashed", "broad_solid", "dashed_solid"])
def test_marks_that_begin_dashed_are_drawn_so(mark: str) -> None:
    """Two marks of which only the first is dashed are one of their own."""
    (line,) = of_type(parsed(scenario(lanelet(1, 0, 0, 9, (mark, "")))), "road_line")
    mixed = mark == "dashed_solid"
    assert (line.map_element_id in BROKEN_KINDS) == ("solid" not in mark)
    assert line.map_element_id not in YELLOW_KINDS and (line.map_element_id not in (6, 7)) == mixed


def test_intersections_have_no_edges_inside() -> None:
    """Two lanelets that leave a gap of 2 m between them, in an intersection or not."""
    content = lanelet(1, 0, 0, 40) + lanelet(2, 5.5, 0, 40)
    inside = "".join(
        f'<incoming id="{k}"><successorsStraight ref="{k}"/></incoming>' for k in (1, 2)
    )
    for rest, count in (("", 4), (f'<intersection id="9">{inside}</intersection>', 2)):
        assert len(of_type(parsed(scenario(content + rest)), "road_edge")) == count


@pytest.mark.parametrize(
    "data, message",
    [
        (scenario("", "2017a"), "line 2: commonRoadVersion: expected one of 2018b, 2020a, got"),
        (scenario("", step=0.7), "line 2: timeStepSize: expected steps of 0.02 to 0.5 s, got 0.7"),
        (scenario("", step=-1), "line 2: timeStepSize"),
        (
            scenario('<lanelet id="1"><leftBound/></lanelet>'),
            "line 4: lanelet '1': rightBound: expected this element, got nothing",
        ),
        (
            scenario('\n\n<lanelet id="1"><leftBound/><rightBound/></lanelet>'),
            "line 6: lanelet '1': rightBound: expected 2 points, as leftBound, got 0",
        ),
        (scenario(lanelet(1, 0, 0, math.nan)), "leftBound.point[1].x: expected a finite number"),
        (scenario(lanelet(1, 0, 0, 1e6)), "leftBound.point[1].x: expected a number between"),
        (scenario(lanelet(1, 0, 0, 9) * 2), "lanelet '1': id: expected an id that no other"),
        (scenario(lanelet(2**40, 0, 0, 9)), "id: expected a whole number of at most 32 bits"),
        (scenario(ROADS.replace("green", "pink")), "cycleElement[1].color: expected one of red"),
        (scenario(ROADS.replace(">3<", ">0<")), "cycleElement[0].duration: expected at least 1"),
        (scenario(moving(30, 4).replace(exact("time", 2), exact("time", 1))),
         "state[1].time: expected a step after 1, got 1"),
        (scenario(moving(30, 4).replace(exact("time", 2), exact("time", 10**6))),
         "state[1].time: expected a step from 0"),
        (scenario(moving(30, 4).replace("4.5", "0")), "obstacle 30: length: expected 0.01 to 100"),
        (scenario(moving(30, 4) * 2), "objects[1].id: expected an id"),
        (scenario(obstacle(1, "car", "<blob/>", "")), "shape.blob[0]: expected a rectangle"),
        (scenario(obstacle(1, "car", "", "")), "dynamicObstacle '1': shape: expected a rectangle"),
        (scenario(PROBLEM),
         "planningProblem '40': goalState.position.lanelet[0].ref: expected a lanelet"),
        (WHOLE[:900], "not XML, or cut off"),
    ],
)  # fmt: skip
def test_a_bad_value_is_named_with_its_line(data: bytes, message: str) -> None:
    with pytest.raises(SceneError) as error:
        parsed(data)
    assert (
        str(error.value).startswith("here: line ") or "obstacle" in message or "objects" in message
    )
    assert message in str(error.value) and "\n" not in str(error.value)


def test_few_states_do_not_fill_the_memory() -> None:
    many = "".join(
        obstacle(n, "car", box(4, 2), state("initialState", 9000 if n == 1 else 0, 0, 0))
        for n in range(1, 1000)
    )
    with pytest.raises(SceneError, match="trajectory.state: expected at most"):
        parsed(scenario(many))


@pytest.mark.slow
def test_mutated_files_are_scenes_or_scene_errors() -> None:
    rng = random.Random(11)
    read = refused = 0
    for _ in range(300):
        data = bytearray(WHOLE)
        for _ in range(rng.randint(1, 2)):
            digits = [at for at in range(300, len(data)) if 48 <= data[at] <= 57]
            at = rng.choice(digits) if rng.random() < 0.7 else rng.randrange(60, len(data))
            data[at] = rng.choice(b"0123456789-.<>/\"' axnd\xff\0")
        cut = bytes(data[: rng.randrange(60, len(data))] if rng.random() < 0.1 else data)
        try:
            assert isinstance(parsed(cut), Scene)
            read += 1
        except SceneError as error:
            assert str(error).startswith("here: ") and "\n" not in str(error)
            refused += 1
    assert read > 20 and refused > 50


# ---- as scenes -----------------------------------------------------------------------------------


def test_a_planning_problem_is_driven(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "one.xml"
    path.write_bytes(scenario(ROADS + PARKED + moving(30, 60) + PROBLEM))
    settings = {"scenes": str(path), "control": "sdc", "num_agents": 4}
    with puffervec.make("drive", env_kwargs=settings, backend="serial", num_envs=1) as vec:
        vec.reset(seed=1)
        for _ in range(130):
            vec.step(np.zeros(vec.num_agents, dtype=np.int64))
    prepared = prepare_scenes(DriveConfig(scenes=str(path)))
    assert prepared.scenes.agents(DriveConfig(scenes=str(path))).tolist() == [2]


def test_converting_says_what_was_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "one.xml").write_bytes(WHOLE)
    (tmp_path / "cut.xml").write_bytes(WHOLE[:900])
    out = tmp_path / "out"
    assert cli.main(["convert", str(tmp_path), "--out", str(out), "--to", "json"]) == 1
    shown = capsys.readouterr()
    assert "1 scenes converted" in shown.out and "1 lanelets of type sidewalk" in shown.out
    assert "cut.xml: line" in shown.err and [path.name for path in out.iterdir()] == ["one.json"]
    one, other = read_scene(tmp_path / "one.xml"), read_scene(out / "one.json")
    assert len(other.objects) == 3 and len(of_type(other, "lane")) == 3
    np.testing.assert_array_equal(one.objects[1].position_m, other.objects[1].position_m)


# ---- commonroad-io -------------------------------------------------------------------------------


def commonroad_io() -> Any:
    """Return commonroad-io's modules, or skip; it cannot be in the requirements of the tests, since
    it needs an old protobuf.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("commonroad", reason="needs commonroad-io: pip install --no-deps")
        try:
            from commonroad.common.reader.file_reader_xml import XMLFileReader
            from commonroad.common.writer.file_writer_interface import OverwriteExistingFile
            from commonroad.common.writer.file_writer_xml import XMLFileWriter
        except ImportError as error:
            pytest.skip(f"commonroad-io cannot be imported: {error}")
    return XMLFileReader, XMLFileWriter, OverwriteExistingFile


@pytest.mark.filterwarnings("ignore")
def test_files_of_another_writer(tmp_path: Path) -> None:
    reader, writer, overwriting = commonroad_io()
    first, second = tmp_path / "first.xml", tmp_path / "second.xml"
    first.write_bytes(WHOLE)
    content = reader(str(first)).open()
    writer(*content, "a", "b", "c", set(), 6).write_to_file(str(second), overwriting.ALWAYS)
    one, other = read_scene(first), read_scene(second)
    assert one.frame_count == other.frame_count
    by_id = {item.id: item for item in other.objects}
    assert set(by_id) == {30, 31, 40}  # the wall is an edge
    for item in one.objects:
        twin = by_id[item.id]
        np.testing.assert_allclose(item.position_m, twin.position_m, atol=1e-5)
        np.testing.assert_allclose(item.goal_m, twin.goal_m, atol=1e-5)
    lanes = {road.id: road for road in of_type(other, "lane")}
    for lane in of_type(one, "lane"):
        np.testing.assert_allclose(lane.points_m, lanes[lane.id].points_m, atol=1e-5)
        assert lane.links == lanes[lane.id].links
    assert sorted(item.kind for item in controls_of(one)) == sorted(
        item.kind for item in controls_of(other)
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not SAMPLES.is_dir(), reason="needs ../shared/data/commonroad")
@pytest.mark.parametrize("number", thinned(20, range(130)))
def test_scenes_are_those_that_commonroad_io_reads(number: int) -> None:
    """Every file of the folder, up to 130 (the sdist of commonroad-reach on PyPI has so many)."""
    reader, _, _ = commonroad_io()
    paths = scene_files(SAMPLES)
    if number >= len(paths):
        pytest.skip(f"the folder has {len(paths)} files")
    compare(paths[number], reader)


def compare(path: Path, reader: Any) -> None:
    """Compare a scene with what commonroad-io reads."""
    scene = read_scene(path)
    other, problems = reader(str(path)).open()
    network = other.lanelet_network
    lanes = {road.id: road for road in of_type(scene, "lane")}
    for each in network.lanelets:
        if each.lanelet_id not in lanes:
            continue
        lane = lanes[each.lanelet_id]
        np.testing.assert_allclose(lane.points_m[:, :2], each.center_vertices[:, :2], atol=1e-6)
        assert lane.links is not None
        assert set(lane.links.exits) == set(each.successor)
        assert set(lane.links.entries) == set(each.predecessor)
        same = each.adj_left if each.adj_left_same_direction else None
        assert lane.links.left == (-1 if same is None else same)
    objects = {item.id: item for item in scene.objects}
    compared = 0
    for each in other.obstacles:
        item = objects.get(each.obstacle_id)
        if item is None or other.dt != 0.1:
            continue
        states = [each.initial_state]
        if getattr(each, "prediction", None) is not None and hasattr(each.prediction, "trajectory"):
            states += each.prediction.trajectory.state_list
        for one in states:
            if isinstance(one.time_step, int) and isinstance(one.position, np.ndarray):
                assert item.valid[one.time_step]
                at = item.position_m[one.time_step, :2]
                np.testing.assert_allclose(at, one.position[:2], atol=1e-6)
                compared += 1
    assert compared or other.dt != 0.1 or not other.obstacles
    assert len(problems.planning_problem_dict) == sum(
        each in objects for each in problems.planning_problem_dict
    )
