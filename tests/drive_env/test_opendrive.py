# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""OpenDRIVE maps (drive_env/scenes/opendrive.py, drive_env/scenes/xodr_lines.py): hand-written
roads whose lanes are known in closed form, and CARLA's towns in py123d's wheel.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import math
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env import cli
from drive_env.config import DriveConfig
from drive_env.prepare import prepare_scenes
from drive_env.scenes import open_scenes, opendrive, xodr_lines
from drive_env.scenes.compile import CompileSettings, compile_scene
from drive_env.scenes.controls import STOP_SIGN, TRAFFIC_LIGHT, controls_of
from drive_env.scenes.logged import MPH_MPS
from drive_env.scenes.reader import parse_scene, read_scene
from drive_env.scenes.schema import CONTROL_KINDS, UNKNOWN, Floats, Road, Scene
from puffervec.errors import SceneError
from puffervec.system import extras
from tests.drive_env import plain_roads

NEEDS = [
    each for each in ("py123d", "shapely", "scipy", "pyquaternion") if not extras.installed(each)
]
needs_py123d = pytest.mark.skipif(
    bool(NEEDS), reason=f"needs {', '.join(NEEDS)}: see docs/scenes.md"
)


@pytest.fixture(params=["plain", pytest.param("py123d", marks=needs_py123d)])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """py123d's parser of roads, or a plain one of straight pieces and arcs."""
    if request.param == "plain":
        monkeypatch.setattr(opendrive, "sections_of", plain_roads.sections_of)
        monkeypatch.setattr(opendrive, "require_parser", lambda name: None)
    return str(request.param)


plainly = pytest.mark.usefixtures("parser")
SLOPE, CURVATURE, STRAIGHT_M, LENGTH_M = 0.01, 0.02, 100.0, 150.0
TOWNS = [f"Town{name}" for name in "01 02 03 04 05 06 07 10HD 11 12 13 15".split()]


def lane(own_id: int, kind: str, width: float, links: str = "", rest: str = "") -> str:
    sized = f'<width sOffset="0" a="{width}" b="0" c="0" d="0"/>' if width else ""
    linked = f"<link>{links}</link>" if links else ""
    return f'<lane id="{own_id}" type="{kind}" level="false">{linked}{sized}{rest}</lane>'


def mark(kind: str, colour: str = "white", offset: float = 0.0) -> str:
    return f'<roadMark sOffset="{offset}" type="{kind}" color="{colour}"/>'


def section(s: float, left: str, center: str, right: str) -> str:
    return (
        f'<laneSection s="{s}"><left>{left}</left><center><lane id="0" type="none">{center}</lane>'
        f"</center><right>{right}</right></laneSection>"
    )


def geometry(s: float, x: float, y: float, hdg: float, length: float, shape: str) -> str:
    return f'<geometry s="{s}" x="{x}" y="{y}" hdg="{hdg}" length="{length}">{shape}</geometry>'


def road(
    own_id: Any,
    length: float,
    plan: str,
    sections: str,
    *,
    link: str = "",
    rest: str = "",
    head: str = "",
    elevation: str = "",
    offset: str = "",
) -> str:
    raised = f"<elevationProfile>{elevation}</elevationProfile>" if elevation else ""
    return (
        f'<road id="{own_id}" length="{length}" {head}><link>{link}</link>'
        f'<type s="0" type="town"><speed max="25" unit="mph"/></type><planView>{plan}</planView>'
        f"{raised}<lanes>{offset}{sections}</lanes>{rest}</road>\n"
    )


def document(*roads: str) -> bytes:
    head = '<?xml version="1.0"?>\n<OpenDRIVE>\n<header revMajor="1" revMinor="6" name="town"/>\n'
    return (head + "".join(roads) + "</OpenDRIVE>\n").encode()


END = (STRAIGHT_M + 50 * math.sin(1), 50 - 50 * math.cos(1))  # of the arc
BEND = geometry(0, 0, 0, 0, STRAIGHT_M, "<line/>") + geometry(
    STRAIGHT_M, STRAIGHT_M, 0, 0, 50, f'<arc curvature="{CURVATURE}"/>'
)
BEFORE, AFTER = '<predecessor id="{}"/>', '<successor id="{}"/>'


def sections_of_the_bend() -> str:
    """Two sections: a lane of either direction, then also a sidewalk."""
    first = section(
        0, lane(1, "driving", 3.5, AFTER.format(1)), mark("solid", "yellow"),
        lane(-1, "driving", 3.0, AFTER.format(-1), mark("broken") + mark("none", offset=40)),
    )  # fmt: skip
    speed = '<speed sOffset="0" max="36" unit="km/h"/>'
    right = lane(-1, "driving", 3.0, BEFORE.format(-1) + AFTER.format(-1), speed)
    left = lane(1, "driving", 3.5, BEFORE.format(1))
    second = section(60, left, "", right + lane(-2, "sidewalk", 2.0))
    return first + second


def bend(head: str = "", rest: str = "") -> bytes:
    """A straight road that turns to the left, uphill, and a road that goes on at its end."""
    first = road(
        "a", LENGTH_M, BEND, sections_of_the_bend(), head=head, rest=rest,
        link='<successor elementType="road" elementId="b" contactPoint="start"/>',
        elevation=f'<elevation s="0" a="2" b="{SLOPE}" c="0" d="0"/>',
    )  # fmt: skip
    on = section(0, "", "", lane(-1, "driving", 3.0, BEFORE.format(-1)) + lane(-2, "driving", 3.0))
    second = road(
        "b", 20, geometry(0, *END, 1.0, 20, "<line/>"), on, head=head,
        link='<predecessor elementType="road" elementId="a" contactPoint="end"/>',
        elevation=f'<elevation s="0" a="{2 + SLOPE * LENGTH_M}" b="0" c="0" d="0"/>',
    )  # fmt: skip
    return document(first, second)


def place(s: Floats, t: float) -> Floats:
    """The closed form of a place on the bend, (n, 3)."""
    turn, radius = np.maximum(s - STRAIGHT_M, 0) * CURVATURE, 1 / CURVATURE - t
    x = np.where(s <= STRAIGHT_M, s, STRAIGHT_M + radius * np.sin(turn))
    y = np.where(s <= STRAIGHT_M, t, 1 / CURVATURE - radius * np.cos(turn))
    return np.stack([x, y, 2 + SLOPE * s], axis=-1)


def parsed(data: bytes, name: str = "one.xodr") -> Scene:
    return parse_scene(data, "here", name)


def of_type(scene: Scene, kind: str) -> list[Road]:
    return [each for each in scene.roads if each.type == kind]


def lane_near(scene: Scene, x: float, y: float) -> Road:
    """Return the lane that starts at a place."""
    starts = {
        each.id: np.hypot(*(each.points_m[0, :2] - [x, y])) for each in of_type(scene, "lane")
    }
    best = min(starts, key=lambda number: starts[number])
    assert starts[best] < 1e-6, (x, y, starts)
    return next(each for each in of_type(scene, "lane") if each.id == best)


def length_of(points_m: Floats) -> float:
    return float(np.hypot(*np.diff(points_m[:, :2], axis=0).T).sum())


@plainly
def test_lanes_are_where_the_closed_form_has_them() -> None:
    scene = parsed(bend())
    assert (scene.frame_count, scene.objects, scene.scenario_id) == (1, (), "town")
    assert len(of_type(scene, "lane")) == 6 and scene.has_height
    for begin, end in ((0, 60), (60, 150)):
        s = np.linspace(begin, end, end - begin + 1)
        right = lane_near(scene, *place(s[:1], -1.5)[0, :2])
        np.testing.assert_allclose(right.points_m, place(s, -1.5), atol=1e-9)
        left = lane_near(scene, *place(s[-1:], 1.75)[0, :2])
        np.testing.assert_allclose(left.points_m, place(s[::-1], 1.75), atol=1e-9)


@plainly
def test_lanes_are_linked_in_the_direction_of_travel() -> None:
    scene = parsed(bend())
    first, second = (lane_near(scene, *place(np.array([s]), -1.5)[0, :2]) for s in (0.0, 60.0))
    third = lane_near(scene, *place(np.array([150.0]), -1.5)[0, :2])
    back, on = (lane_near(scene, *place(np.array([s]), 1.75)[0, :2]) for s in (150.0, 60.0))
    links = {each.id: each.links for each in (first, second, third, back, on)}
    assert all(links.values())
    exits = {number: each.exits for number, each in links.items() if each is not None}
    entries = {number: each.entries for number, each in links.items() if each is not None}
    ahead = {first.id: (second.id,), second.id: (third.id,), third.id: ()}
    assert exits == {**ahead, back.id: (on.id,), on.id: ()}
    assert entries[third.id] == (second.id,) and entries[on.id] == (back.id,)
    limits = [each.links.speed_limit_mps for each in (first, second) if each.links is not None]
    assert limits == [pytest.approx(25 * MPH_MPS), pytest.approx(10.0)]
    outer = lane_near(scene, *(np.array(END) + 4.5 * np.array([math.sin(1), -math.cos(1)])))
    assert third.links is not None and outer.links is not None
    assert (third.links.left, third.links.right) == (-1, outer.id)
    assert (outer.links.left, outer.links.right) == (third.id, -1)


@plainly
def test_marks_edges_and_what_is_left_out() -> None:
    scene = parsed(bend())
    lines = of_type(scene, "road_line")
    found = {(each.map_element_id, round(length_of(each.points_m))) for each in lines}
    assert found == {(11, 60), (6, 40)}
    edges = of_type(scene, "road_edge")
    # Both sides of the bend, those of the road after it, and its left side.
    expected = LENGTH_M + 50 * 0.06 + LENGTH_M - 50 * 0.07 + 20 + 20
    assert sum(length_of(each.points_m) for each in edges) == pytest.approx(expected, abs=1.0)
    assert {each.map_element_id for each in edges} == {15}
    assert scene.left_out == {"lanes of type sidewalk": 1}


@plainly
def test_left_hand_traffic_drives_on_the_left() -> None:
    scene = parsed(bend('rule="LHT"'))
    s = np.arange(61.0)
    start, end = place(s[:1], 1.75)[0, :2], place(s[-1:], -1.5)[0, :2]
    np.testing.assert_allclose(lane_near(scene, *start).points_m, place(s, 1.75), atol=1e-9)
    np.testing.assert_allclose(lane_near(scene, *end).points_m, place(s[::-1], -1.5), atol=1e-9)
    lanes = {each.id: each for each in of_type(scene, "lane")}
    for each in lanes.values():
        assert each.links is not None
        for other in each.links.exits:
            np.testing.assert_allclose(each.points_m[-1], lanes[other].points_m[0], atol=1e-6)
    assert sum(len(each.links.exits) for each in lanes.values() if each.links is not None) == 3
    pair = [each for each in lanes.values() if each.links is not None and each.links.left >= 0]
    assert len(pair) == 1
    other = lanes[pair[0].links.left] if pair[0].links is not None else pair[0]
    step = pair[0].points_m[-1] - pair[0].points_m[0]
    beside = other.points_m[0] - pair[0].points_m[0]
    assert step[0] * beside[1] - step[1] * beside[0] > 0


@needs_py123d
@pytest.mark.parametrize("ends", [(-0.02, 0.02), (0.0, -0.03), (0.05, 0.01)])
def test_spirals_and_cubics(ends: tuple[float, float]) -> None:
    """Compared with the integral of their heading, in small steps."""
    length = 40.0
    s = np.linspace(0, length, 40_001)
    heading = 0.3 + ends[0] * s + (ends[1] - ends[0]) * s**2 / (2 * length)
    step = s[1]
    x = np.concatenate([[5.0], 5.0 + np.cumsum(np.cos((heading[1:] + heading[:-1]) / 2)) * step])
    y = np.concatenate([[7.0], 7.0 + np.cumsum(np.sin((heading[1:] + heading[:-1]) / 2)) * step])
    shape = f'<spiral curvStart="{ends[0]}" curvEnd="{ends[1]}"/>'
    only = section(0, "", "", lane(-1, "driving", 4.0))
    scene = parsed(document(road(1, length, geometry(0, 5, 7, 0.3, length, shape), only)))
    (made,) = of_type(scene, "lane")
    at = np.linspace(0, 40_000, len(made.points_m)).astype(int)
    expected = np.stack([x + 2 * np.sin(heading), y - 2 * np.cos(heading)], axis=-1)[at]
    np.testing.assert_allclose(made.points_m[:, :2], expected, atol=1e-5)


@needs_py123d
def test_param_poly3_and_lane_offsets() -> None:
    cubic = (
        '<paramPoly3 aU="0" bU="30" cU="0" dU="0" aV="0" bV="0" cV="6" dV="-4" '
        'pRange="normalized"/>'
    )
    only = section(0, "", "", lane(-1, "driving", 4.0))
    offset = '<laneOffset s="0" a="1.5" b="0" c="0" d="0"/>'
    plan = geometry(0, 10, 20, 0.0, 30.2, cubic)
    (made,) = of_type(parsed(document(road(1, 30.2, plan, only, offset=offset))), "lane")
    p = np.linspace(0, 1, len(made.points_m))
    u, v, dv = 30 * p, 6 * p**2 - 4 * p**3, 12 * p - 12 * p**2
    turn = np.arctan2(dv, 30)
    t = 1.5 - 2.0
    expected = np.stack([10 + u - t * np.sin(turn), 20 + v + t * np.cos(turn)], axis=-1)
    np.testing.assert_allclose(made.points_m[:, :2], expected, atol=1e-9)


JUNCTION = (
    road(
        "in", 20, geometry(0, 0, 0, 0, 20, "<line/>"),
        section(0, lane(1, "driving", 3.0), "", lane(-1, "driving", 3.0)),
        link='<successor elementType="junction" elementId="j"/>',
    )
    + road(
        "through", 10, geometry(0, 20, 0, 0, 10, "<line/>"),
        section(0, "", "", lane(-1, "driving", 3.0, BEFORE.format(-1) + AFTER.format(-1))),
        head='junction="j"',
        link='<predecessor elementType="road" elementId="in" contactPoint="end"/>'
        '<successor elementType="road" elementId="out" contactPoint="start"/>',
        rest='<objects><object id="w" type="crosswalk" s="5" t="0" zOffset="0.1" '
        'hdg="1.5707963267948966" length="8" width="3"/>'
        '<object id="t" type="tree" s="1" t="9"/></objects>'
        '<signals><signal id="L" s="0" t="-4" dynamic="yes" type="1000001" orientation="+">'
        '<validity fromLane="-1" toLane="-1"/></signal>'
        '<signal id="X" s="0" t="-4" dynamic="no" type="274"/></signals>',
    )
    + road(
        "back", 10, geometry(0, 30, 0, math.pi, 10, "<line/>"),
        section(0, "", "", lane(-1, "driving", 3.0)), head='junction="j"',
        rest='<signals><signalReference id="L" s="0" t="0" orientation="+"/>'
        '<signalReference id="X" s="0" t="0"/></signals>',
    )
    + road(
        "out", 20, geometry(0, 30, 0, 0, 20, "<line/>"),
        section(0, lane(1, "driving", 3.0), "", lane(-1, "driving", 3.0)),
        link='<predecessor elementType="junction" elementId="j"/>',
        rest='<signals><signal id="S" s="2" t="4" zOffset="1" dynamic="no" type="206" '
        'orientation="-"/></signals>',
    )
    + '<junction id="j"><connection id="0" incomingRoad="in" connectingRoad="through" '
    'contactPoint="start"><laneLink from="-1" to="-1"/></connection>'
    '<connection id="1" incomingRoad="out" connectingRoad="back" contactPoint="start">'
    '<laneLink from="1" to="-1"/></connection></junction><controller id="9"/>\n'
)  # fmt: skip


@plainly
def test_a_junction_with_signals_and_a_crosswalk() -> None:
    scene = parsed(document(JUNCTION))
    inwards, through = lane_near(scene, 0, -1.5), lane_near(scene, 20, -1.5)
    out, backwards = lane_near(scene, 30, -1.5), lane_near(scene, 50, 1.5)
    back = lane_near(scene, 30, 1.5)
    links = {each.id: each.links for each in of_type(scene, "lane")}
    exits = {number: each.exits for number, each in links.items() if each is not None}
    assert exits[inwards.id] == (through.id,) and exits[through.id] == (out.id,)
    assert exits[backwards.id] == (back.id,)
    assert links[through.id] is not None and links[through.id].speed_limit_mps > 0  # type: ignore[union-attr]
    lights = [each for each in controls_of(scene) if each.kind == TRAFFIC_LIGHT]
    assert {each.lane_id for each in lights} == {through.id, back.id}
    for each in lights:
        start = through if each.lane_id == through.id else back
        assert each.position_m.tolist() == start.points_m[0].tolist()
        assert each.states.tolist() == [UNKNOWN] and each.stop_line_m is not None
    (stop,) = [each for each in controls_of(scene) if each.kind == STOP_SIGN]
    assert stop.lane_id == backwards.id and stop.position_m == pytest.approx([32, 4, 1])
    (walk,) = of_type(scene, "crosswalk")
    assert np.ptp(walk.points_m, axis=0) == pytest.approx([3, 8, 0])
    assert walk.points_m.mean(axis=0) == pytest.approx([25, 0, 0.1])
    assert scene.left_out == {
        "objects of type tree": 1,
        "signals of type 274": 1,
        "references to signals that are not read": 1,
        "elements controller": 1,
    }


@plainly
def test_types_marks_and_corners_of_a_motorway() -> None:
    """From 30 m on the road is a street; the lanes are for cars, for bicycles, and beside them."""
    center = mark("solid solid", "yellow")
    marks = mark("broken") + mark("none", offset=10) + mark("solid", offset=20)
    right = (
        lane(-1, "onRamp", 3.0, rest=marks + mark("solid", offset=29.95))
        + lane(-2, "biking", 1.5, rest=mark("grass"))
        + lane(-3, "shoulder", 1.0, rest=mark("curb"))
        + lane(-4, "none", 1.0)
    )
    plan = geometry(0, 0, 0, 0, 60, "<line/>")
    sections = section(0, lane(1, "driving", 3.0), center, right) + section(
        30, lane(1, "driving", 3.0), "", lane(-1, "driving", 3.0, BEFORE.format(-1))
    )
    walk = (
        '<object type="crosswalk" s="{}" t="1" zOffset="0.5" hdg="{}">'
        "<outline>{}</outline></object>"
    )
    local = '<cornerLocal u="1" v="0" z="0.25"/><cornerLocal u="0" v="2" z="0"/>'
    along = '<cornerRoad s="5" t="-2" dz="0.25"/><cornerRoad s="8" t="-3"/>'
    rest = (
        '<type s="30" type="town"><speed max="30" unit="mph"/></type>'
        '<type s="0" type="motorway"><speed max="120" unit="km/h"/></type>'
        f"<objects>{walk.format(20, math.pi / 2, local)}{walk.format(6, 0.3, along)}</objects>"
    )
    scene = parsed(document(road(1, 60, plan, sections, rest=rest)))
    lanes = {(*each.points_m[0, :2].round(6).tolist(),): each for each in of_type(scene, "lane")}
    expected = {
        (0.0, -1.5): (1, 120 / 3.6), (0.0, -3.75): (3, 120 / 3.6), (30.0, 1.5): (1, 120 / 3.6),
        (30.0, -1.5): (2, 30 * MPH_MPS), (60.0, 1.5): (2, 30 * MPH_MPS),
    }  # fmt: skip
    found = {
        key: (each.map_element_id, each.links.speed_limit_mps)
        for key, each in lanes.items()
        if each.links is not None
    }
    assert found == {key: (kind, pytest.approx(limit)) for key, (kind, limit) in expected.items()}
    cars, bicycles = lanes[0.0, -1.5], lanes[0.0, -3.75]
    assert cars.links is not None and bicycles.links is not None
    assert (cars.links.left, cars.links.right) == (-1, bicycles.id)
    assert (bicycles.links.left, bicycles.links.right) == (cars.id, -1)
    lines = {
        (
            each.map_element_id,
            *each.points_m[0, :2].round(6).tolist(),
            round(length_of(each.points_m), 6),
        )
        for each in of_type(scene, "road_line")
    }
    assert lines == {(12, 0.0, 0.0, 30.0), (6, 0.0, -3.0, 10.0), (7, 20.0, -3.0, 9.95)}
    curb = of_type(scene, "road_edge")[0].points_m
    assert curb[0].round(9).tolist() == [0, -5.5, 0] and length_of(curb) == pytest.approx(30)
    assert scene.left_out == {"lanes of type none": 1, "road marks of type grass": 1}
    turned, straight = (each.points_m for each in of_type(scene, "crosswalk"))
    np.testing.assert_allclose(turned, [[20, 2, 0.75], [18, 1, 0.5]], atol=1e-9)
    np.testing.assert_allclose(straight, [[5, -2, 0.75], [8, -3, 0.5]], atol=1e-9)


@plainly
def test_signals_hold_for_the_lanes_that_they_name() -> None:
    """By their numbers, else by their direction, in the section where they stand."""
    both = lane(1, "driving", 3.0) + lane(2, "driving", 3.0)
    right = lane(-1, "driving", 3.0) + lane(-2, "driving", 3.0) + lane(-3, "shoulder", 3.0)
    sections = section(0, both, "", right) + section(30, both, "", right)

    def signal(
        own_id: str, kind: str, s: float, direction: str, lanes: str = "", **more: str
    ) -> str:
        attributes = {"id": own_id, "type": kind, "s": str(s), "t": "-9", **more}
        listed = " ".join(f'{name}="{value}"' for name, value in attributes.items())
        first, _, last = lanes.partition(":")
        valid = f'<validity fromLane="{first}" toLane="{last}"/>' if lanes else ""
        return f'<signal {listed} orientation="{direction}">{valid}</signal>'

    signals = (
        signal("a", "R1-1", 10.2, "-", "-2:-1") + signal("b", "205", 29.9, "+")
        + signal("c", "206", 30.0, "-", zOffset="2.5")
        + signal("d", "1000001", 40, "none", dynamic="yes")
        + signal("e", "1000001", 5, "+", "5:6", dynamic="yes") + signal("f", "R1-2", 5, "+", "4:5")
        + signal("g", "1000002", 5, "+", dynamic="yes")
    )  # fmt: skip
    plan = geometry(0, 0, 0, 0, 60, "<line/>")
    scene = parsed(document(road(1, 60, plan, sections, rest=f"<signals>{signals}</signals>")))
    starts = {
        each.id: (*each.points_m[0, :2].round(9).tolist(),) for each in of_type(scene, "lane")
    }
    found = {
        (CONTROL_KINDS[each.kind], each.id, starts.get(each.lane_id)) for each in controls_of(scene)
    }
    stop, give_way, light = "stop_sign", "yield_sign", "traffic_light"
    assert found == {
        (stop, 0, (0.0, -1.5)), (stop, 0, (0.0, -4.5)),
        (give_way, 1, (0.0, -1.5)), (give_way, 1, (0.0, -4.5)),
        (stop, 2, (60.0, 1.5)), (stop, 2, (60.0, 4.5)),
        *((light, 3, (x, y)) for x, y in ((30.0, -1.5), (30.0, -4.5), (60.0, 1.5), (60.0, 4.5))),
        (give_way, 5, None),
    }  # fmt: skip
    assert scene.left_out == {"signals of type 1000002": 1, "traffic lights without a lane": 1}
    places = {each.id: each.position_m.round(9).tolist() for each in controls_of(scene)}
    assert places[2] == [30, -9, 2.5] and places[5] == [5, -9, 0]
    for each in controls_of(scene):
        if each.id == 0 and starts[each.lane_id] == (0.0, -4.5):
            assert each.stop_line_m is not None
            assert each.stop_line_m.round(9).tolist() == [[10, -3, 0], [10, -6, 0]]
        if each.id == 3 and starts[each.lane_id] == (60.0, 1.5):
            assert each.position_m.round(9).tolist() == [40, 1.5, 0]


@plainly
@pytest.mark.parametrize(("gap_m", "linked"), [(0.9, True), (1.1, False)])
def test_lanes_that_do_not_meet_are_not_linked(gap_m: float, linked: bool) -> None:
    ahead = section(0, "", "", lane(-1, "driving", 3.0, AFTER.format(-1)))
    first = road(
        1, 20, geometry(0, 0, 0, 0, 20, "<line/>"), ahead,
        link='<successor elementType="road" elementId="2" contactPoint="start"/>',
    )  # fmt: skip
    second = road(2, 20, geometry(0, 20 + gap_m, 0, 0, 20, "<line/>"), ONE)
    scene = parsed(document(first, second))
    exits = [each.links.exits for each in of_type(scene, "lane") if each.links is not None]
    assert exits == ([(1,), ()] if linked else [(), ()])
    assert scene.left_out == ({} if linked else {"links of lanes that do not meet": 1})


def test_a_cubic_and_the_heights_of_a_line() -> None:
    """In their closed forms, with the parameter as a share or as a length."""
    rng = np.random.default_rng(2)
    u, v = (0.0, 20.0, 2.0, -1.0), (0.0, 0.5, 6.0, -4.0)
    s, t, hdg = np.linspace(0, 25, 26), rng.uniform(-4, 4, 26), 0.7
    for normalized in (True, False):
        curve = xodr_lines.ParamPoly(0.0, 3.0, 4.0, hdg, 25.0, u, v, normalized)
        p = s / 25 if normalized else s
        along, across = (sum(a * p**n for n, a in enumerate(each)) for each in (u, v))
        slopes = [sum(n * a * p ** (n - 1) for n, a in enumerate(each) if n) for each in (u, v)]
        turn = hdg + np.arctan2(slopes[1], slopes[0])
        x = 3 + math.cos(hdg) * along - math.sin(hdg) * across - t * np.sin(turn)
        y = 4 + math.sin(hdg) * along + math.cos(hdg) * across + t * np.cos(turn)
        np.testing.assert_allclose(
            curve.interpolate_se2_batch(s, t), np.stack([x, y, turn], axis=-1), atol=1e-9
        )
    pieces = np.array([[10.0, 5.0, 0.1, 0.2, -0.01], [0.0, 2.0, 0.3, 0.0, 0.001]])
    line = xodr_lines.Line(plain_roads.Plan([]), pieces)
    first = 2 + 0.3 * s + 0.001 * s**3
    second = 5 + 0.1 * (s - 10) + 0.2 * (s - 10) ** 2 - 0.01 * (s - 10) ** 3
    np.testing.assert_allclose(line.heights(s), np.where(s < 10, first, second))
    assert line.heights(np.array([-2.0])) == pytest.approx(2 - 0.6 - 0.008)
    assert not xodr_lines.Line(plain_roads.Plan([]), pieces[:0]).heights(s).any()


FLAT = geometry(0, 0, 0, 0, 20, "<line/>")
ONE = section(0, "", "", lane(-1, "driving", 3.0))
MANY = "".join(lane(-k, "driving", 1) for k in range(1, 300))
BAD_SIGNAL = '<signals><signal id="1" s="x"/></signals>'


@needs_py123d
@pytest.mark.parametrize(
    "data, message",
    [
        (document(), "road: expected a road with lanes for cars"),
        (document(road(1, 20, "", ONE)), "line 4: road '1': planView: expected a length"),
        (document(road(1, 20, FLAT.replace("20", "nan"), ONE)),
         "planView.geometry[0].length: expected a finite"),
        (document(road(1, 20, FLAT.replace('"20"', '"1e9"'), ONE)),
         "geometry[0].length: expected a length of at most"),
        (document(road(1, "no", FLAT, ONE)), "length: expected a number, got the string 'no'"),
        (document(road(1, 20, FLAT.replace("<line/>", "<poly3/>"), ONE)),
         "geometry[0]: expected a line, arc, spiral or"),
        (document(road(1, 20, FLAT, ONE) * 2),
         "line 5: road '1': id: expected an id that no other road has"),
        (document(road(1, 20, FLAT, ONE.replace("<width", "<border"))),
         "lane[-1].width: expected a width"),
        (document(road(1, 20, FLAT, ONE.replace('a="3.0"', 'a="1e9"'))),
         "laneSection[0].lane[-1][0]: expected a number"),
        (document(road(1, 20, FLAT, ONE.replace('a="3.0"', 'a="x"'))),
         "line 4: road '1': cannot be read: ValueError"),
        (document(road(1, 20, FLAT, ONE.replace('id="-1"', 'id="one"'))),
         "cannot be read: ValueError"),
        (document(road(1, 20, FLAT, section(0, "", "", MANY))), "at most 200 lanes"),
        (document(road(1, 20, FLAT, ONE, rest=BAD_SIGNAL)),
         "signals.signal[0].s: expected a number"),
        (document(road(1, 20, FLAT, ONE).replace('"mph"', '"parsec"')),
         "type[0].speed.unit: expected m/s, km/h or mph"),
        (bend()[:700], "not XML, or cut off"),
    ],
)  # fmt: skip
def test_a_bad_value_is_named_with_its_line(data: bytes, message: str) -> None:
    with pytest.raises(SceneError) as error:
        parsed(data)
    assert str(error.value).startswith("here: ") and message in str(error.value)
    assert "\n" not in str(error.value)


@needs_py123d
def test_mutated_files_are_maps_or_scene_errors() -> None:
    rng = random.Random(5)
    sound = document(JUNCTION)
    read = refused = 0
    for _ in range(200):
        data = bytearray(sound)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(60, len(data))] = rng.choice(b"0123456789-.<>/\"' eanx\xff\0")
        try:
            assert isinstance(parsed(bytes(data)), Scene)
            read += 1
        except SceneError as error:
            assert str(error).startswith("here: ") and "\n" not in str(error)
            refused += 1
    assert read > 20 and refused > 20


# ---- as scenes -----------------------------------------------------------------------------------


def test_without_the_extra_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # As if it were missing, whether it is installed or not.
    monkeypatch.setitem(sys.modules, "py123d.parser.opendrive.utils.lane_helper", None)
    (tmp_path / "town.xodr").write_bytes(bend())
    assert cli.main(["info", str(tmp_path / "town.xodr")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "town.xodr" in line and "pip install 'puffervec[opendrive]'" in line


@needs_py123d
def test_a_map_is_converted_and_drawn_but_not_driven(
    tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = tmp_path / "maps", tmp_path / "out"
    folder.mkdir()
    (folder / "town.xodr.gz").write_bytes(gzip.compress(bend()))
    assert cli.main(["convert", str(folder), "--out", str(out)]) == 0
    assert "1 lanes of type sidewalk" in capsys.readouterr().out
    assert cli.main(["convert", str(folder), "--out", str(out), "--to", "json"]) == 0
    (packed,) = out.glob("*.pvs")
    (plain,) = out.glob("*.json")
    assert open_scenes(packed)[0].counts["lanes"] == 6
    assert len(of_type(read_scene(plain), "lane")) == 6
    capsys.readouterr()
    assert cli.main(["check", str(folder), "--json"]) == 1
    (reason,) = json.loads(capsys.readouterr().out)["failed"].values()
    assert "a map without agents is driven with --env.placements" in reason
    for path in (folder, folder / "town.xodr.gz", packed, plain):
        with pytest.raises(
            SceneError, match="a map without agents is driven with --env.placements"
        ) as error:
            prepare_scenes(DriveConfig(scenes=str(path)))
        assert "\n" not in str(error.value)


@needs_py123d
def test_a_map_among_scenes_is_left_out(tmp_path: Path, cache: Path, tiny_tree: Any) -> None:
    (tmp_path / "town.xodr").write_bytes(bend())
    (tmp_path / "log.json").write_text(json.dumps(tiny_tree()))
    prepared = prepare_scenes(DriveConfig(scenes=str(tmp_path)))
    assert prepared.scenes.names == ["log.json"]
    (left_out,) = prepared.left_out
    assert left_out.path.name == "town.xodr" and "a map without agents" in left_out.reason


def town(name: str) -> Path:
    """Return a town of py123d's wheel, or skip."""
    spec = importlib.util.find_spec("py123d")
    assert spec is not None and spec.origin is not None
    path = Path(spec.origin).parent / "parser" / "opendrive" / "carla_maps" / f"{name}.xodr.gz"
    if not path.is_file():
        pytest.skip(f"py123d's wheel has no {path.name}")
    return path


@needs_py123d
@pytest.mark.slow
@pytest.mark.parametrize("name", TOWNS)
def test_towns(name: str) -> None:
    try:
        scene = read_scene(town(name))
    except SceneError as error:
        assert name in ("Town11", "Town12", "Town13") and "at most" in str(error)
        return
    lanes = {each.id: each for each in of_type(scene, "lane")}
    assert len(lanes) > 80 and len(of_type(scene, "road_edge")) > 50
    linked = [(each, each.links) for each in lanes.values() if each.links]
    exits = [(each, lanes[number]) for each, links in linked for number in links.exits]
    assert len(exits) > 0.8 * len(lanes)
    gaps = [np.hypot(*(after.points_m[0] - before.points_m[-1])[:2]) for before, after in exits]
    rises = [abs(after.points_m[0, 2] - before.points_m[-1, 2]) for before, after in exits]
    assert np.quantile(gaps, 0.98) < 0.1 and np.quantile(rises, 0.98) < 0.1
    turns = []
    for before, after in exits:
        one, other = (
            before.points_m[-1] - before.points_m[-2],
            after.points_m[1] - after.points_m[0],
        )
        turn = math.atan2(one[1], one[0]) - math.atan2(other[1], other[0])
        turns.append(abs(math.remainder(turn, math.tau)))
    assert np.quantile(turns, 0.98) < 0.2
    dead = len(lanes) - sum(bool(links.exits or links.entries) for _, links in linked)
    assert dead < 0.1 * len(lanes)
    assert any(each.links and each.links.speed_limit_mps > 3 for each in lanes.values())
    try:
        compile_scene(scene, CompileSettings((16, 8, 16), 50.0))
    except SceneError as error:
        assert name == "Town15" and "road segments" in str(error)
