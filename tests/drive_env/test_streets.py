# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Generated streets: their logs touch nobody and no kerb, obey lights and signs, and the maps are
what the reader expects.

Also of drive_env/generate/families.py, drive_env/generate/network.py, drive_env/generate/nodes.py,
drive_env/generate/links.py and drive_env/generate/ramps.py.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from drive_env.config import DriveConfig
from drive_env.evaluate.baselines import baseline
from drive_env.evaluate.evaluate import evaluate, held_out
from drive_env.generate import streets
from drive_env.generate.families import FAMILIES, FAST, FAST_SHARE, TOWN, Draw, Plan
from drive_env.generate.layouts import Profile, arc_length
from drive_env.generate.links import build, link_line
from drive_env.generate.network import Lane, Streets
from drive_env.generate.place import lanes_of
from drive_env.generate.streets import draw_lights, street_scene
from drive_env.scenes.geometry import box_crosses_segment, boxes_overlap, simplify
from drive_env.scenes.json_scene import json_bytes, parse_json
from drive_env.scenes.schema import (
    CYCLIST,
    GREEN,
    PEDESTRIAN,
    RED,
    VEHICLE,
    YELLOW,
    Floats,
    Scene,
    SceneObject,
)
from drive_env.sources import sources_of
from puffervec.errors import SceneError
from tests.drive_env import digests
from tests.helpers import thinned

EVERY = list(FAMILIES)


@pytest.fixture(scope="module")
def scenes() -> dict[str, Scene]:
    """A scene of each family; every other one is wide."""
    return {
        name: street_scene(7, number, wide=number % 2 == 1, family=name)
        for number, name in enumerate(EVERY)
    }


def maps(name: str, count: int = 1) -> Iterator[tuple[Plan, Streets]]:
    """Plans of a family, and the streets that become of them."""
    found = 0
    for seed in itertools.count():
        rng = np.random.default_rng([seed, 5])
        plan = FAMILIES[name][0](Draw(rng, 0.5, seed % 2 == 1))
        made = build(rng, plan.nodes, plan.links)
        if made is not None:
            yield plan, made
            found += 1
            if found == count:
                return


@pytest.mark.slow
def test_the_same_seed_gives_the_same_scene_and_others_differ() -> None:
    first = json_bytes(street_scene(5, 3))
    assert json_bytes(street_scene(5, 3)) == first
    others = [json_bytes(street_scene(*key)) for key in ((5, 4), (6, 3), (5, 3, True))]
    assert len({first, *others, json_bytes(street_scene(5, 3, family="levels"))}) == 5


@pytest.mark.slow
def test_scenes_of_this_version_stay_what_they_are() -> None:
    assert streets.STREETS_VERSION == 3, (
        "new version: renew the list, and the table in docs/scenes.md"
    )
    found = [street_scene(1, index) for index in range(4)]
    assert [
        (item.metadata["family"], item.agent_counts[0], len(item.objects), len(item.roads))
        for item in found
    ] == PINNED


@pytest.mark.slow
@pytest.mark.cpus
@pytest.mark.parametrize("name", digests.NAMES)
def test_families_of_this_version_stay_what_they_are(name: str) -> None:
    """`make cpus` runs this with the kernels of other CPUs. A new version of the families, of
    drive_env/generate/generate.py or place.py, or of drive_env/scenes/windows.py, renews the file:
    python -m tests.drive_env.digests
    """
    assert digests.digests_of(name) == digests.kept()[name]


PINNED = [
    ("rural", 6, 6, 87),
    ("tee", 6, 21, 197),
    ("merge", 5, 8, 65),
    ("signal", 12, 39, 331),
]


@pytest.mark.parametrize("turn", [0.4, 0.9, 1.3])
def test_links_bend_no_more_sharply_than_their_width_allows(turn: float) -> None:
    """The radius, of circles through three points, leaves room for all of the road; sharper ones
    are refused.
    """
    profile = Profile(lanes=2, width_m=3.5, median_m=0.0, shoulder_m=1.0, parking_m=0.0)
    leaving = np.array([1.0, 0.0])
    coming = -np.array([np.cos(turn), np.sin(turn)])
    made = {}
    for length in (8.0, 12.0, 16.0, 24.0, 40.0, 80.0, 160.0):
        end = length * np.array([np.cos(turn / 2), np.sin(turn / 2)])
        middle = link_line((np.zeros(2), leaving), (end, coming), profile)
        made[length] = middle is not None
        if middle is None:
            continue
        np.testing.assert_allclose(middle[[0, -1]], [np.zeros(2), end], atol=1e-9)
        steps = np.diff(middle, axis=0)
        headings = np.unwrap(np.arctan2(steps[:, 1], steps[:, 0]))
        bends = np.abs(np.diff(headings)) / np.hypot(*steps[1:].T)
        assert 1 / bends.max() > 0.97 * (profile.edge_m + 6.0)
        assert headings[0] == pytest.approx(0.0, abs=0.05) and headings[-1] == pytest.approx(
            turn, abs=0.05
        )
    assert (
        made[160.0] and list(made.values()) == sorted(made.values()) and made[8.0] == (turn < 0.5)
    )


@pytest.mark.parametrize(
    ("end", "fits"),
    [((6.1, 0.0), True), ((5.9, 0.0), False), ((-20.0, 0.0), False), ((5.0, 40.0), False)],
)
def test_links_are_straight_where_their_ends_face_each_other(
    end: tuple[float, float], fits: bool
) -> None:
    profile = Profile(lanes=1, width_m=3.5, median_m=0.0, shoulder_m=1.0, parking_m=0.0)
    ahead = np.array([1.0, 0.0])
    middle = link_line((np.zeros(2), ahead), (np.array(end), -ahead), profile)
    assert (middle is not None) == fits
    if middle is not None:
        assert (
            not middle[:, 1].any()
            and (np.diff(middle[:, 0]) > 0).all()
            and middle[-1].tolist() == list(end)
        )


@pytest.mark.slow
def test_files_say_the_same(scenes: dict[str, Scene]) -> None:
    for name in ("signal", "levels", "occluded"):
        scene = scenes[name]
        again = parse_json(json_bytes(scene), "t", scene.name)
        assert json_bytes(again) == json_bytes(scene) and again.metadata["family"] == name
        for one, other in zip(scene.objects, again.objects, strict=True):
            np.testing.assert_array_equal(one.position_m[one.valid], other.position_m[other.valid])


def test_bad_input_is_refused() -> None:
    with pytest.raises(SceneError, match="seed -1 and index 0 must be 0 or more"):
        street_scene(-1, 0)
    with pytest.raises(SceneError, match="family is 'airport'; it must be one of straight, curve"):
        street_scene(1, 0, family="airport")


def test_sets_are_found_by_name() -> None:
    for name, count, seed, wide in (
        ("streets", 200, 1, False),
        ("streets:3", 3, 1, False),
        ("held-out-streets", 100, 1_000_003, True),
    ):
        (source,) = sources_of(name)
        assert len(source.items) == count and source.items[0].identity == [
            "streets",
            streets.STREETS_VERSION,
            seed,
            0,
            wide,
        ]
    assert held_out(DriveConfig(scenes="streets:50")).scenes == "held-out-streets"
    assert (
        held_out(DriveConfig(scenes="streets:50=2,generated,streets")).scenes
        == "held-out-streets,held-out"
    )


# ---- logs ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", thinned(3, EVERY))
def test_no_log_of_an_agent_touches_anybody(scenes: dict[str, Scene], name: str) -> None:
    scene = scenes[name]
    agents = [item for item in scene.objects if item.controllable]
    assert len(agents) >= streets.LEAST_AGENTS
    for agent in agents:
        for other in scene.objects:
            if other is not agent:
                assert not touching(agent, other)


def touching(one: SceneObject, other: SceneObject) -> bool:
    both = one.valid & other.valid & (np.abs(one.position_m[:, 2] - other.position_m[:, 2]) < 3.0)
    gap = (other.position_m - one.position_m)[both, :2]
    half = (np.array(one.length_m / 2 + 0.05), np.array(one.width_m / 2 + 0.05))
    other_half = (np.array(other.length_m / 2), np.array(other.width_m / 2))
    return bool(
        boxes_overlap(gap, one.heading_rad[both], other.heading_rad[both], half, other_half).any()
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_no_log_of_an_agent_touches_a_kerb(scenes: dict[str, Scene], name: str) -> None:
    scene = scenes[name]
    edges = [simplify(road.points_m, 0.02) for road in scene.roads if road.type == "road_edge"]
    start, end = np.concatenate([p[:-1] for p in edges]), np.concatenate([p[1:] for p in edges])
    for agent in (item for item in scene.objects if item.controllable):
        level = float(np.median(agent.position_m[agent.valid, 2])) - agent.height_m / 2
        near = (
            np.abs(start[:, 2] - level) < 3.0
            if name == "levels"
            else np.ones(len(start), dtype=bool)
        )
        place, heading = agent.position_m[agent.valid, :2], agent.heading_rad[agent.valid]
        half = (agent.length_m / 2 + 0.1, agent.width_m / 2 + 0.1)
        assert not box_crosses_segment(place, heading, *half, start[near, :2], end[near, :2]).any()


@pytest.mark.slow
@pytest.mark.parametrize(("count", "least"), thinned(2, [(7, 25), (20, 80)]))
def test_the_log_scores_one_and_passes_no_red_light(cache: object, count: int, least: int) -> None:
    """As the env judges it; all families come up in 20 scenes but one or two."""
    outcome = evaluate(baseline("log"), DriveConfig(scenes=f"streets:{count}", metrics=1))
    total = outcome.total
    assert total.agents > least and total.counts["score"] == total.counts["goal"] == total.agents
    red = total.more["red_light"]
    assert red is not None and red.value == 0.0


def test_goals_are_where_logs_end_and_velocities_are_those_of_the_positions(
    scenes: dict[str, Scene],
) -> None:
    for scene in scenes.values():
        for item in scene.objects:
            frames = np.flatnonzero(item.valid)
            np.testing.assert_array_equal(item.goal_m, item.position_m[frames[-1]])
            if len(frames) > 3 and item.type == VEHICLE:
                moved = (item.position_m[frames[2:], :2] - item.position_m[frames[:-2], :2]) / 0.2
                assert np.abs(moved - item.velocity_mps[frames[1:-1]]).max() < 0.5


def test_cars_speed_up_and_brake_as_cars_do(scenes: dict[str, Scene]) -> None:
    hardest = []
    for scene in scenes.values():
        for item in (item for item in scene.objects if item.controllable):
            speed = np.hypot(*np.diff(item.position_m[item.valid, :2], axis=0).T) / 0.1
            change = (speed[2:] - speed[:-2]) / 0.2
            assert change.max(initial=0.0) < 2.5 and change.min(initial=0.0) > -8.0
            hardest.append(-change.min(initial=0.0))
    assert np.quantile(hardest, 0.9) < 4.5


def test_they_hold_who_real_scenes_hold(scenes: dict[str, Scene]) -> None:
    kinds = [item.type for scene in scenes.values() for item in scene.objects]
    assert kinds.count(PEDESTRIAN) > 20 and kinds.count(CYCLIST) > 2 and kinds.count(VEHICLE) > 200
    standing = [
        item
        for scene in scenes.values()
        for item in scene.objects
        if item.type == VEHICLE and np.ptp(item.position_m[item.valid, 0]) < 0.1
    ]
    assert len(standing) > 60
    assert any(not item.valid_at_start for item in standing) and any(
        item.valid.all() for item in standing
    )


# ---- maps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERY)
def test_lanes_lead_on_without_a_gap_or_a_kink(name: str) -> None:
    for _, made in maps(name):
        starts: dict[object, list[Lane]] = {}
        for lane in made.lanes:
            starts.setdefault(lane.start, []).append(lane)
        joints = 0
        for lane in made.lanes:
            for following in starts.get(lane.end, []):
                assert np.hypot(*(lane.points_m[-1] - following.points_m[0])) < 0.03
                before, after = (
                    np.diff(lane.points_m[-2:], axis=0)[0],
                    np.diff(following.points_m[:2], axis=0)[0],
                )
                turned = np.arctan2(before[0] * after[1] - before[1] * after[0], before @ after)
                assert abs(turned) < 0.25
                joints += 1
        assert joints > (2 if name in ("motorway", "ramps") else 10)


@pytest.mark.parametrize("name", thinned(3, EVERY))
def test_the_road_is_on_the_left_of_every_kerb(name: str) -> None:
    for _, made in maps(name):
        for level in set(made.levels):
            lanes = np.concatenate([lane.points_m for lane in made.lanes if lane.level == level])
            pieces = zip(made.pieces, made.levels, strict=True)
            for points in (
                piece.points_m
                for piece, own in pieces
                if piece.type == "road_edge" and own == level
            ):
                step = np.diff(points, axis=0)
                keep = np.hypot(*step.T) > 0.05
                step, middle = step[keep][::9], ((points[1:] + points[:-1]) / 2)[keep][::9]
                left = np.stack([-step[:, 1], step[:, 0]], axis=-1) / np.hypot(*step.T)[:, None]
                on_left, on_right = (nearest(middle + side * left, lanes) for side in (1.0, -1.0))
                assert (on_left < on_right).mean() > 0.9


def nearest(points: Floats, lanes: Floats) -> Floats:
    return np.array([np.hypot(*(lanes - point).T).min() for point in points])


@pytest.mark.parametrize("name", thinned(3, EVERY))
def test_lanes_keep_away_from_kerbs(name: str) -> None:
    for _, made in maps(name):
        edges = streets.edges_of(made)
        for lane in made.lanes:
            start, end = edges[lane.level]
            assert not box_crosses_segment(
                lane.points_m[::3], np.zeros(len(lane.points_m[::3])), 0.6, 0.6, start, end
            ).any()


@pytest.mark.slow
def test_families_are_what_they_say() -> None:
    for kind in (TOWN, FAST):
        shares = [share for _, share in kind.values()]
        assert sum(shares) == pytest.approx(1.0) and min(shares) > 0
    has: dict[str, Callable[[Plan, Streets], bool]] = {
        "roundabout": lambda plan, made: any(lane.start[2] == "ring" for lane in made.lanes),
        "merge": lambda plan, made: sum(lane.end[2] == "merge" for lane in made.lanes) == 2,
        "lane-drop": lambda plan, made: any(link.narrow is not None for link in plan.links),
        "lot": lambda plan, made: len(made.parking) > 20,
        "signal": lambda plan, made: made.groups >= 2,
        "stop": lambda plan, made: sum(lane.stop for lane in made.lanes) >= 6,
        "crosswalk": lambda plan, made: (
            any(link.crossing_at > 0 for link in plan.links) and len(made.crossings) > 0
        ),
        "narrow": lambda plan, made: plan.links[0].profile.width_m < 3.0 and len(made.parking) > 20,
        "dead-end": lambda plan, made: any(lane.start[:2] == lane.end[:2] for lane in made.lanes),
        "levels": lambda plan, made: {lane.level for lane in made.lanes} == {0, 1},
        "driveways": lambda plan, made: len(plan.nodes) > 11,
        "ramps": lambda plan, made: sum(lane.start[2] == "ramp" for lane in made.lanes) == 2,
        "motorway": lambda plan, made: min(lane.limit_mps for lane in made.lanes) > 18.0,
        "arterial": lambda plan, made: len({lane.limit_mps for lane in made.lanes}) == 2,
        "rural": lambda plan, made: max(lane.limit_mps for lane in made.lanes) > 20.0,
    }
    for name, holds in has.items():
        assert all(holds(plan, made) for plan, made in maps(name)), name


def test_a_share_of_the_scenes_is_fast_and_the_others_stay_what_they_were() -> None:
    drawn = [streets.draw_family(np.random.default_rng(seed)) for seed in range(2000)]
    share = sum(family in FAST for family, _ in drawn) / len(drawn)
    assert share == pytest.approx(FAST_SHARE, abs=0.03)
    shares = np.array([share for _, share in TOWN.values()])
    for seed, (family, difficulty) in enumerate(drawn[:300]):
        rng = np.random.default_rng(seed)
        before = tuple(TOWN)[int(rng.choice(len(TOWN), p=shares / shares.sum()))]
        assert family in FAST or (family, difficulty) == (before, rng.random())


@pytest.mark.parametrize("name", FAST)
def test_fast_roads_have_limits_that_traffic_drives(scenes: dict[str, Scene], name: str) -> None:
    lanes = [road for road in scenes[name].roads if road.type == "lane"]
    limits = [road.links.speed_limit_mps for road in lanes if road.links is not None]
    assert len(limits) == len(lanes) and min(limits) > 11.0 and max(limits) > 15.0
    speeds = [
        np.hypot(*item.velocity_mps[item.valid].T)
        for item in scenes[name].objects
        if item.controllable
    ]
    top = float(np.quantile(np.concatenate(speeds), 0.9))
    assert 0.5 * max(limits) < top < 1.06 * max(limits)
    length = sum(arc_length(road.points_m[:, :2])[-1] for road in lanes)
    assert length > 1500.0


def test_connections_with_limits_are_those_that_geometry_finds(scenes: dict[str, Scene]) -> None:
    """Also where ramps join and leave."""
    for name in FAST:
        scene = scenes[name]
        bare = dataclasses.replace(
            scene, roads=tuple(dataclasses.replace(road, links=None) for road in scene.roads)
        )
        known, found = (
            [(lane.points_m[0].tolist(), sorted(lane.exits)) for lane in lanes_of(item)]
            for item in (scene, bare)
        )
        assert known == found, name


def test_a_bridge_is_above_the_road(scenes: dict[str, Scene]) -> None:
    heights = np.concatenate(
        [road.points_m[:, 2] for road in scenes["levels"].roads if road.type == "lane"]
    )
    assert np.ptp(heights) > 5.0
    assert all(
        np.ptp(np.concatenate([r.points_m[:, 2] for r in scenes[n].roads])) < 20.0 for n in EVERY
    )


# ---- lights --------------------------------------------------------------------------------------


def test_roads_that_cross_never_have_green_together() -> None:
    states = draw_lights(np.random.default_rng(3), 400)
    moves = states != RED
    assert not (moves[::2] & moves[1::2]).any() and {RED, YELLOW, GREEN} == set(np.unique(states))
    after = [
        (row[t], row[t + 1]) for row in states for t in range(len(row) - 1) if row[t] != row[t + 1]
    ]
    assert set(after) == {(GREEN, YELLOW), (YELLOW, RED), (RED, GREEN)}
    yellow = [
        len(list(run)) for row in states for state, run in itertools.groupby(row) if state == YELLOW
    ]
    assert max(yellow) == 30


def test_lights_stand_where_their_lanes_begin(scenes: dict[str, Scene]) -> None:
    scene = scenes["signal"]
    assert len(scene.traffic_lights) >= 8
    for key, light in scene.traffic_lights.items():
        road = scene.roads[int(key)]
        assert road.type == "lane" and len(light["state"]) == scene.frame_count
        assert (light["x"][0], light["y"][0]) == tuple(road.points_m[0, :2])


@pytest.mark.slow
def test_stops_are_kept_at_signs(scenes: dict[str, Scene]) -> None:
    """Whoever passes the start of a lane that has a stop sign has stood for a second before it."""
    passed = 0
    for index in range(6):
        rng = np.random.Generator(np.random.PCG64([index, 8]))
        plan = dataclasses.replace(FAMILIES["stop"][0](Draw(rng, 1.0, False)), cyclists=(0.0, 0.0))
        made = build(rng, plan.nodes, plan.links)
        if made is None:
            continue
        actors = streets.populate(rng, plan, made, draw_lights(rng, made.groups), 1.0)
        lines = [
            lane.points_m[0]
            for lane in made.lanes
            if lane.stop and arc_length(lane.points_m)[-1] > 4
        ]
        directions = [
            np.diff(lane.points_m[:2], axis=0)[0]
            for lane in made.lanes
            if lane.stop and arc_length(lane.points_m)[-1] > 4
        ]
        for actor in actors:
            span = slice(actor.first, actor.last + 1)
            place = np.stack([actor.x_m[span], actor.y_m[span]], axis=-1)
            speed = np.hypot(actor.vx_mps, actor.vy_mps)[span]
            if actor.kind != VEHICLE or speed.max() < 2.0:
                continue
            for line, direction in zip(lines, directions, strict=True):
                ahead = (place - line) @ direction / np.hypot(*direction)
                beside = np.abs(
                    (place - line) @ np.array([-direction[1], direction[0]])
                ) / np.hypot(*direction)
                crosses = np.flatnonzero((ahead[:-1] < 0) & (ahead[1:] >= 0) & (beside[1:] < 1.0))
                if len(crosses) and ahead[0] < -6.0:
                    passed += 1
                    before = speed[: crosses[0] + 1][ahead[: crosses[0] + 1] > -9.0]
                    assert (before < 0.5).sum() >= 8
    assert passed > 2


def test_walkers_do_not_walk_through_each_other(scenes: dict[str, Scene]) -> None:
    for scene in scenes.values():
        walkers = [item for item in scene.objects if item.type == PEDESTRIAN]
        for one, other in itertools.combinations(walkers, 2):
            both = one.valid & other.valid
            assert (
                not both.any()
                or np.hypot(*(one.position_m - other.position_m)[both, :2].T).min() > 0.5
            )
