# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Pictures of episodes: what must be in them is, at the right place (drive_env/render/picture.py).

Also drive_env/render/still.py, drive_env/render/tracks.py, drive_env/render/ground.py and
drive_env/render/colours.py.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import math
import sys
from collections.abc import Callable

import numpy as np
import pytest

from drive_env.cli import main
from drive_env.config import DriveConfig
from drive_env.env import recorder
from drive_env.render import raster
from drive_env.render.colours import SIGNS
from drive_env.render.ground import dashes, ground_of, sign_of
from drive_env.render.picture import PEDESTRIAN, PEDESTRIAN_M, body
from drive_env.render.still import middle_of, roads_of, tracks_of
from drive_env.render.tracks import (
    Roads,
    Tracks,
    View,
    fixed_view,
    interesting_points,
    long_axis_rad,
    rotate,
    view_of,
)
from drive_env.scenes.json_scene import scene_from_tree
from puffervec.contract.drawing import Box, Circle, Line, Polygon, Text
from puffervec.errors import MissingExtraError
from tests.drive_env.conftest import make_tree
from tests.drive_env.digests import rounded

LOOKS = ["fa89abac3b5f85ee", "1d8b2a84789a6c20", "f1fb1ef1cbf769d0", "1afa3349b2c7b2f8"]

picture = pytest.importorskip(
    "drive_env.render.picture", reason="Pillow is not installed", exc_type=ImportError
)
Image = pytest.importorskip("PIL.Image")
PX = 0.1


def make_tracks(frames: int = 30) -> Tracks:
    """One agent that drives 60 m along a slanted line and collides half-way, one that stands."""
    way = np.linspace(0.0, 60.0, frames)
    x = np.stack([0.8 * way, np.full(frames, 30.0)], axis=-1)
    y = np.stack([0.6 * way, np.full(frames, 20.0)], axis=-1)
    marks = np.zeros((frames, 2), dtype=bool)
    collided, offroad = marks.copy(), marks.copy()
    collided[frames // 2, 0] = True
    offroad[frames - 3, 0] = True
    return Tracks(
        x_m=x, y_m=y, heading_rad=np.full((frames, 2), np.arctan2(0.6, 0.8)), there=~marks,
        length_m=np.array([4.5, 5.0]), width_m=np.array([2.0, 2.0]), agent=np.array([True, False]),
        kind=np.array([0, 1]), log_x_m=x, log_y_m=y + 3.0, goal_radius_m=2.0,
        goal_m=np.array([[48.0, 36.0], [30.0, 20.0]]), reached=np.array([True, False]),
        collided=collided, offroad=offroad,
    )  # fmt: skip


ROADS = Roads(
    lanes=[np.array([[-20.0, -15.0], [80.0, 60.0]])],
    lines=[
        (9, np.array([[-20.0, -12.0], [80.0, 63.0]])),
        (7, np.array([[-20.0, -18.0], [80.0, 57.0]])),
    ],
    edges=[(15, np.array([[-20.0, -10.0], [80.0, 65.0]]))],
    areas=[("crosswalk", np.array([[5.0, 0.0], [10.0, 0.0], [10.0, 8.0], [5.0, 8.0]]))],
    signals=[("green light", np.array([20.0, 20.0])), ("stop sign", np.array([30.0, 30.0]))],
)


def pixels_of(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)))


def count(pixels: np.ndarray, colour: str) -> int:
    wanted = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)])
    return int((np.abs(pixels.astype(int) - wanted).max(axis=-1) < 8).sum())


@pytest.mark.slow
def test_marks_and_colours_are_in_the_picture() -> None:
    whole = pixels_of(picture.png_of("a scene", ROADS, make_tracks()))
    assert whole.shape[1] == picture.WIDTH_PX + 24
    pixels = whole[160:]  # below the head and its legend
    roles = (
        "road",
        "kerb",
        "collision",
        "off-road",
        "pedestrian",
        "crosswalk",
        "green light",
        "stop sign",
        "0 1.0",
        "0 0.35",
    )
    for role in roles:
        assert count(pixels, picture.COLOURS[role]) > 30, role
    assert count(pixels, "#ff00ff") == 0
    logged = pixels_of(
        picture.png_of("a log", ROADS, dataclasses.replace(make_tracks(), logged=True))
    )
    assert (
        0 < count(logged[160:], picture.COLOURS["0 1.0"]) < count(pixels, picture.COLOURS["0 1.0"])
    ), "the log is a line of its own"


def test_everything_is_where_it_was() -> None:
    """Goal, way, ticks and poses of the agent; the pedestrian at its start; marks where and when
    contacts began.
    """
    tracks = make_tracks()
    shapes = [shape for _, found in picture.objects_of(tracks, PX) for shape in found]
    boxes = [shape for shape in shapes if isinstance(shape, Box)]
    assert [(box.x, box.y) for box in boxes] == [(0.0, 0.0), (48.0, 36.0), (48.0, 36.0)]
    assert (
        {box.angle_rad for box in boxes} == {math.atan2(0.6, 0.8)}
        and boxes[0].role == "0 0.35"
        and boxes[2].role == "edge"
    )
    circles = {
        (shape.x, shape.y, shape.role): shape for shape in shapes if isinstance(shape, Circle)
    }
    assert (
        circles[48.0, 36.0, f"0 {picture.AREA}"].radius == 2.0
        and (30.0, 20.0, "pedestrian") in circles
    )
    ticks = sorted((x, y) for x, y, role in circles if role == "paper")
    np.testing.assert_allclose(
        ticks, [(tracks.x_m[frame, 0], tracks.y_m[frame, 0]) for frame in (10, 20)]
    )
    lines = [shape for shape in shapes if isinstance(shape, Line)]
    way = [line for line in lines if line.role.startswith("0 ") and line.width == picture.WAY_M]
    assert [line.role for line in way] == [f"0 {share}" for share in picture.SHADES]
    assert way[0].points[0] == (0.0, 0.0) and way[-1].points[-1] == (48.0, 36.0)
    log = np.concatenate(
        [line.points for line in lines if line.width == pytest.approx(picture.LOG_PX * PX)]
    )
    np.testing.assert_allclose(log[:, 1] - 3.0, 0.75 * log[:, 0], atol=1e-9)
    crosses = [np.mean(line.points, axis=0) for line in lines if line.role == "collision"]
    np.testing.assert_allclose(crosses, [(tracks.x_m[15, 0], tracks.y_m[15, 0])] * 2)
    (triangle,) = [
        shape for shape in shapes if isinstance(shape, Polygon) and shape.role == "off-road"
    ]
    low, high = np.min(triangle.points, axis=0), np.max(triangle.points, axis=0)
    assert (low < (tracks.x_m[27, 0], tracks.y_m[27, 0])).all() and (
        high > (tracks.x_m[27, 0], tracks.y_m[27, 0])
    ).all()


def test_every_third_second_has_its_number() -> None:
    frames = np.arange(91)
    way = [(float(frame), 0.0) for frame in frames]
    ticks, words = picture.seconds_of(frames, way, "0 1.0", PX)
    assert len(ticks) == 2 * 9
    assert [(word.text, word.x) for word in words if isinstance(word, Text)] == [
        ("3 s", 30.0),
        ("6 s", 60.0),
    ]
    assert picture.seconds_of(frames, [(frame / 20, 0.0) for frame in frames], "0 1.0", PX)[1] == []


def test_legends_have_what_is_shown() -> None:
    tracks = make_tracks()
    labels = [sample.label for sample in picture.legend_of_agents(tracks)]
    assert labels == ["driven", "each second", "logged", "goal", "collision", "off-road"]
    assert [sample.label for sample in picture.legend_of_others(ROADS, tracks)] == [
        "pedestrian", "crosswalk", "green light", "stop sign",
    ]  # fmt: skip
    log = dataclasses.replace(tracks, logged=True)
    assert "green light at the start" in [
        sample.label for sample in picture.legend_of_others(ROADS, log)
    ]
    assert (
        picture.caption_of(tracks)
        == "1 agents: 1 at the goal (0 of them without contact), 1 collided, 1 off-road"
    )


def test_broken_lines_are_broken() -> None:
    bend = np.array([[0.0, 0.0], [3.0, 0.0], [3.0, 0.0], [3.0, 4.0]])
    assert dashes(bend, 2.0, 2.0) == [[(0.0, 0.0), (2.0, 0.0)], [(3.0, 1.0), (3.0, 3.0)]]
    assert dashes(bend, 4.0, 1.0)[0] == [(0.0, 0.0), (3.0, 0.0), (3.0, 1.0)]
    assert dashes(bend[:1], 2.0, 2.0) == [] and dashes(bend[1:3], 2.0, 2.0) == []
    lines = {
        dashed: [s for s in ground_of(ROADS, dashed) if s.role.endswith("line")]
        for dashed in (False, True)
    }
    assert [line.role for line in lines[False]] == ["yellow line", "white line"]
    yellow = [line for line in lines[True] if line.role == "yellow line"]
    assert (
        len(yellow) == 32 and [line.role for line in lines[True]].count("white line") == 1
    )  # 125 m; kind 7 is solid


def test_signs_are_told_apart_by_their_shapes() -> None:
    (stop,), (yields,), (light,) = (
        sign_of(name, (3.0, 4.0), 0.5, "one") for name in (*SIGNS, "red light")
    )
    assert isinstance(stop, Polygon) and isinstance(yields, Polygon) and isinstance(light, Circle)
    assert (len(stop.points), len(yields.points)) == (8, 3)
    assert min(yields.points, key=lambda point: point[1]) == pytest.approx((3.0, 3.5)), (
        "it stands on its tip"
    )
    assert {stop.name, yields.name, light.name} == {"one"}


def test_the_action_is_turned_across_and_stays_what_it_was() -> None:
    tracks = make_tracks()
    angle = long_axis_rad(interesting_points(tracks))
    assert angle == pytest.approx(np.arctan2(0.6, 0.8))
    roads, flat = rotate(ROADS, tracks, -angle)
    assert np.ptp(flat.y_m[:, 0]) < 1e-9 and np.ptp(flat.x_m[:, 0]) == pytest.approx(60.0)
    np.testing.assert_allclose(flat.heading_rad, 0.0, atol=1e-12)
    np.testing.assert_allclose(flat.goal_m[0], [60.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(np.hypot(*np.diff(roads.lanes[0], axis=0).T), 125.0)


def test_scenes_without_agents_can_be_drawn() -> None:
    nobody = dataclasses.replace(make_tracks(), agent=np.array([False, False]))
    picture.png_of("nobody", Roads([], [], []), nobody)
    gone = dataclasses.replace(nobody, there=np.zeros_like(nobody.there))
    view = view_of(gone)
    assert (
        pixels_of(picture.png_of("gone", Roads([], [], []), gone)).shape[1] == 1524
        and (view.low_m < view.high_m).all()
    )


def test_missing_pillow_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from drive_env.evaluate.evaluate import drawings
    from puffervec.train.act.evaluate import RandomActor

    monkeypatch.setitem(sys.modules, "PIL", None)
    for draw in (
        lambda: next(drawings(RandomActor(0), DriveConfig(), [None])),
        lambda: recorder(None),
    ):  # type: ignore[arg-type, return-value]
        with pytest.raises(MissingExtraError, match=r"pip install 'puffervec\[video\]'"):
            draw()
    assert (
        main(["draw", "x.json", "--out", "x.png"]) == 2
        and "puffervec[video]" in capsys.readouterr().err
    )


def test_a_goal_that_nothing_leads_to_is_not_in_the_view() -> None:
    """It lies 10 km away: the picture shows what the agents do, as if they had no goal."""
    tracks = make_tracks()
    far = dataclasses.replace(tracks, goal_m=np.array([[8000.0, 6000.0], [30.0, 20.0]]))
    without = dataclasses.replace(
        tracks, goal_m=np.stack([tracks.x_m[-1], tracks.y_m[-1]], axis=-1)
    )
    for view in (view_of, fixed_view):
        np.testing.assert_allclose(
            view(far).high_m - view(far).low_m, view(without).high_m - view(without).low_m, atol=0.1
        )


def test_a_pedestrian_is_a_circle_as_wide_as_its_longer_side() -> None:
    """But not smaller than one that can be seen."""
    tracks = dataclasses.replace(make_tracks(), kind=np.array([PEDESTRIAN, PEDESTRIAN]))
    tracks = dataclasses.replace(
        tracks, length_m=np.array([1.9, 0.1]), width_m=np.array([0.5, 0.1])
    )
    radii = []
    for index in range(2):
        (circle,) = body(tracks, index, 0, "pedestrian")
        assert isinstance(circle, Circle)
        radii.append(circle.radius)
    assert radii == pytest.approx([0.95, PEDESTRIAN_M / 2])


def busy(scale: float, logged: bool) -> Tracks:
    """Eleven agents and one of each other kind, on circles; one comes late and one never."""
    frames, count = 61, 16
    at = np.linspace(0.0, 1.0, frames)[:, None]
    number = np.arange(count)
    x = scale * (number + (9.0 + number) * np.cos(at + number))
    y = scale * (0.3 * number + (9.0 + number) * np.sin(at + number))
    there = np.ones((frames, count), dtype=bool)
    there[:20, 12], there[:, 13] = False, False
    contacts = (np.arange(frames)[:, None] + 7 * number) % 41 == 0
    kind = np.where(number < 11, 0, number % 4)
    return Tracks(
        x_m=x, y_m=y, heading_rad=at + number + np.pi / 2, there=there,
        length_m=3.0 + 0.2 * number, width_m=1.0 + 0.1 * number, agent=number < 11, kind=kind,
        log_x_m=np.where(there, x, np.nan), log_y_m=np.where(there, y + scale, np.nan),
        goal_radius_m=2.0, goal_m=np.stack([x[-1] + 1.0, y[-1] - 2.0], axis=-1),
        reached=number % 2 == 0, collided=contacts & (number < 12), offroad=contacts[::-1],
        logged=logged,
    )  # fmt: skip


def test_pictures_look_as_they_did(monkeypatch: pytest.MonkeyPatch) -> None:
    """All shapes with their places, sizes and colours, near and far, and the legend. A new look is
    a decision, and renews the digests.
    """
    seen: list[object] = []
    monkeypatch.setattr(picture, "world_of", lambda *parts: seen.append(parts))
    monkeypatch.setattr(picture, "add_head", lambda world, *parts: seen.append(parts))
    names = ("red light", "yellow light", "green light", "light that is off", *SIGNS)
    places = [(name, np.array([9.0 * n, 4.0 * n])) for n, name in enumerate(names)]
    roads = dataclasses.replace(
        ROADS, signals=places, areas=[*ROADS.areas, ("speed bump", ROADS.areas[0][1] + 20.0)]
    )
    digests = []
    for scale, logged in ((1.0, False), (1.0, True), (12.0, False)):
        seen.clear()
        picture.picture_of("a scene", roads, busy(scale, logged))
        view = View(0.3, np.array([-40.0, -10.0]), np.array([70.0, 60.0]))
        picture.picture_of("a scene", roads, busy(scale, logged), view)
        assert len(seen) == 4
        digests.append(hashlib.sha256(json.dumps(rounded(seen)).encode()).hexdigest()[:16])
    colours = [raster.GROUND, raster.COLOURS]
    digests.append(hashlib.sha256(json.dumps(colours).encode()).hexdigest()[:16])
    assert digests == LOOKS


@pytest.mark.parametrize("make", [view_of, fixed_view])
def test_views_hold_what_matters_with_a_margin(make: Callable[[Tracks], View]) -> None:
    """14 m around the agents and their goals, on one axis no more. Frames of a film have one shape;
    pictures are at most three times as wide as high.
    """
    shapes = []
    for tracks in (make_tracks(), busy(1.0, False), busy(3.0, False)):
        view = make(tracks)
        turned = rotate(Roads([], [], []), tracks, -view.angle_rad)[1]
        x, y = (turned.x_m, turned.y_m) if make is view_of else (turned.log_x_m, turned.log_y_m)
        own = tracks.there & tracks.agent
        points = np.concatenate([np.stack([x[own], y[own]], -1), turned.goal_m[tracks.agent]])
        gaps = np.stack([points.min(axis=0) - view.low_m, view.high_m - points.max(axis=0)])
        assert gaps.min(axis=0).min() == pytest.approx(14.0)
        np.testing.assert_allclose(gaps[0], gaps[1])
        shapes.append((view.high_m - view.low_m)[0] / (view.high_m - view.low_m)[1])
    if make is fixed_view:
        assert shapes == pytest.approx([1.7] * 3)
    else:
        assert shapes[0] == pytest.approx(3.0) and all(1.0 <= shape <= 3.0 for shape in shapes)


def test_a_log_is_drawn_around_the_middle_of_all_its_points() -> None:
    """Each thing where the file has it, less the middle; areas of two corners are not drawn."""
    tree = make_tree(cars=3)
    tree["objects"][1] |= {"type": "pedestrian", "valid": [False] * 5 + [True] * 25}
    tree["objects"][2]["mark_as_expert"] = True
    corners = [{"x": x, "y": y, "z": 0.0} for x, y in ((5.0, 0.0), (8.0, 0.0), (8.0, 3.0))]
    point = [{"x": 9.0, "y": -3.0, "z": 0.0}]
    for kind, geometry in (
        ("crosswalk", corners), ("speed_bump", corners[:2]), ("lane", point), ("stop_sign", point),
    ):  # fmt: skip
        tree["roads"].append({"type": kind, "map_element_id": 18, "id": -1, "geometry": geometry})
    scene = scene_from_tree(tree, "t", "t")
    origin = middle_of(scene)
    points = [road.points_m[:, :2] for road in scene.roads]
    points += [item.position_m[item.valid, :2] for item in scene.objects]
    np.testing.assert_allclose(origin, np.concatenate(points).mean(axis=0))
    assert middle_of(dataclasses.replace(scene, roads=(), objects=())).tolist() == [0, 0]
    roads = roads_of(scene, origin)
    assert (len(roads.lanes), [kind for kind, _ in roads.lines]) == (2, [6])
    assert [kind for kind, _ in roads.edges] == [15, 15]
    np.testing.assert_allclose(roads.edges[1][1] + origin, scene.roads[4].points_m[:, :2])
    ((name, outline),), ((sign, place),) = roads.areas, roads.signals
    assert (name, sign) == ("crosswalk", "stop sign")
    np.testing.assert_allclose(outline + origin, [[5, 0], [8, 0], [8, 3]])
    np.testing.assert_allclose(place + origin, [9, -3])
    tracks = tracks_of(scene, origin)
    assert tracks.agent.tolist() == [True, False, False] and tracks.kind.tolist() == [0, 1, 0]
    assert tracks.there[:, 1].tolist() == [False] * 5 + [True] * 25 and tracks.logged
    assert np.isnan(tracks.log_x_m[:5, 1]).all() and np.isnan(tracks.log_y_m[:5, 1]).all()
    for number, item in enumerate(scene.objects):
        at = item.valid
        for x, y in ((tracks.x_m, tracks.y_m), (tracks.log_x_m, tracks.log_y_m)):
            moved = np.stack([x[at, number], y[at, number]], axis=-1) + origin
            np.testing.assert_allclose(moved, item.position_m[at, :2])
        np.testing.assert_array_equal(tracks.heading_rad[at, number], item.heading_rad[at])
        np.testing.assert_allclose(tracks.goal_m[number] + origin, item.goal_m[:2])
    assert not (tracks.collided.any() or tracks.offroad.any() or tracks.reached.any())
