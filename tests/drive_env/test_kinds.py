# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Kinds of drivers drive as they are described, and are drawn for each vehicle and episode. Also of
drive_env/entries.py, by which their weights are read.
"""

from __future__ import annotations

import dataclasses
import doctest
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env import kinds as module
from drive_env.config import DriveConfig
from drive_env.evaluate.envs import evaluation_config
from drive_env.kinds import NUMBERS, kind_params, kinds, parse_kinds
from drive_env.scenes.schema import LaneLinks, Road, Scene
from puffervec.errors import ConfigError
from puffervec.vec.vector_env import VectorEnv
from tests.drive_env.test_follow_twin import drive_on, on_a_road
from tests.drive_env.worlds import lit, make_env, moving_object, random_scene, write_world
from tests.twins.drive_follow import KINDS

ALL = "plain varied hasty timid inattentive late"
IDM: dict[str, Any] = {"others": "idm", "control": "ids", "control_ids": (99,)}
BRAKE, HOLD = 6, 45  # -4 m/s^2 and 0 m/s^2, straight ahead


# ---- the setting ----


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hsty=1", "has 'hsty=1'; the kinds are plain, varied, hasty"),
        ("hasty=", "has 'hasty='; write hasty=WEIGHT, as in hasty=1"),
        ("hasty=a", "write hasty=WEIGHT"),
        ("hasty=1:2", "write hasty=WEIGHT"),
        ("hasty=0", "the weight must be above 0 and at most 1000"),
        ("hasty=-1", "the weight must be above 0"),
        ("hasty=nan", "the weight must be above 0"),
        ("hasty=inf", "at most 1000"),
        ("hasty late hasty=2", "hasty occurs twice"),
        (3, "traffic_kinds is 3; it must be text like"),
    ],
)
def test_bad_kinds_are_named(text: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=f"drive: traffic_kinds .*{words}|drive: {words}"):
        DriveConfig(traffic_kinds=text)


def test_weights_reach_the_env_as_sums_of_shares() -> None:
    assert parse_kinds("timid=3, plain") == {"timid": 3.0, "plain": 1.0}
    sums = kind_params("timid=3, plain")["traffic_kinds"]
    assert sums.tolist() == [0.25, 0.25, 0.25, 1.0, 1.0, 1.0] and sums.dtype == np.float32
    assert kind_params("") == kind_params(" ") == {}
    assert doctest.testmod(module).failed == 0


def test_the_numbers_are_the_twins() -> None:
    found = {kind: tuple(ranges[name] for name in NUMBERS) for kind, ranges in kinds().items()}
    assert list(found) == list(KINDS) == ALL.split()
    for kind, ranges in KINDS.items():
        np.testing.assert_allclose(found[kind], ranges, rtol=1e-6)


# ---- how each kind drives ----


def final_speed(tmp_path: Path, **settings: Any) -> float:
    track = drive_on(on_a_road(tmp_path, {1: 0.0}), 200, idm_speed_mps=12.0, **settings)
    return float(track[-1, 1])


def test_hasty_drivers_are_faster_and_timid_ones_slower(tmp_path: Path) -> None:
    plain = final_speed(tmp_path)
    assert plain == pytest.approx(12, abs=0.1) == final_speed(tmp_path, traffic_kinds="plain")
    assert 12 * 1.09 < final_speed(tmp_path, traffic_kinds="hasty") < 12 * 1.31
    assert 12 * 0.69 < final_speed(tmp_path, traffic_kinds="timid") < 12 * 0.91
    assert final_speed(tmp_path, traffic_kinds="inattentive") == plain


def test_hasty_drivers_exceed_limits(tmp_path: Path) -> None:
    """After 10 s of its log a car is on a lane with a limit of 9 m/s."""

    def speed(kind: str) -> float:
        scene = road({1: 0.0}, frames=100)
        limited = dataclasses.replace(scene.roads[0], links=LaneLinks(speed_limit_mps=9.0))
        scenes = write_world(tmp_path / kind, [dataclasses.replace(scene, roads=(limited,))])
        return float(
            drive_on(scenes, 250, idm_speed_mps=20.0, traffic_kinds=kind, max_steps=300)[-1, 1]
        )

    assert speed("plain") == pytest.approx(9, abs=0.05) and 9 * 1.09 < speed("hasty") < 9 * 1.31


def test_timid_drivers_keep_larger_gaps(tmp_path: Path) -> None:
    """Behind a cyclist who leads at 5 m/s; see the test of plain drivers in test_follow_twin."""
    gaps = {}
    for kind in ("hasty", "plain", "timid"):
        scenes = on_a_road(tmp_path, {1: 0.0, 2: 30.0}, kinds={2: 2})
        track = drive_on(scenes, 298, idm_speed_mps=9.0, traffic_kinds=kind)
        gaps[kind] = 30.0 + 0.5 * 298 - track[-1, 0] - 4.0
    assert gaps["hasty"] < gaps["plain"] - 2 and gaps["timid"] > gaps["plain"] + 2


def test_late_drivers_brake_later_and_harder(tmp_path: Path) -> None:
    """A light 150 m ahead stays red."""
    count = 300
    light = {
        "state": ["stop"] * count,
        "x": [150.0] * count,
        "y": [0.0] * count,
        "z": [0.0] * count,
        "time_index": list(range(count)),
    }
    hardest, begins = {}, {}
    for kind in ("plain", "late"):
        scenes = on_a_road(tmp_path, {1: 0.0}, lights={"30": light})
        track = drive_on(scenes, 290, idm_speed_mps=14.0, traffic_kinds=kind)
        braking = -np.diff(track[:, 1]) / 0.1
        hardest[kind] = float(braking.max())
        begins[kind] = float(track[np.argmax(braking > 0.05), 0])
        assert track[-1, 1] < 0.1 and 145.0 < track[-1, 0] + 2.0 < 150.0
    assert hardest["plain"] < 3.0 and 3.4 < hardest["late"] <= 8.0
    assert begins["late"] > begins["plain"] + 10


def road(start_m: dict[int, float], frames: int = 150) -> Scene:
    """Cars on one lane along +x at 5 m/s, by id and start."""
    rng, items = np.random.default_rng(0), []
    for number, x in {99: 1000.0, **start_m}.items():
        item = moving_object(rng, frames, 0.0, 0)
        item.valid[:], item.heading_rad[:], item.velocity_mps[:] = True, 0.0, (5.0, 0.0)
        item.position_m[:, 0], item.position_m[:, 1] = x + 0.5 * np.arange(frames), 0.0
        item.goal_m[:2] = x + 1000.0, 0.0
        items.append(dataclasses.replace(item, id=number, length_m=4.0, width_m=2.0, expert=False))
    lane = Road("lane", 2, 30, np.array([[-50.0, 0.0, 0.0], [2500.0, 0.0, 0.0]]))
    return Scene("road", "", frames, tuple(items), (lane,), {}, {})


def share_of_hits(path: Path, kind: str, envs: int = 48) -> float:
    """Share of the envs in which the car behind runs into an agent that stops."""
    settings = {**IDM, "num_agents": 1, "max_reverse_mps": 0.0, "metrics": 1}
    with make_env(path, num_envs=envs, traffic_kinds=kind, **settings) as vec:
        vec.reset(7)
        for _ in range(140):
            vec.step(np.full(vec.num_agents, BRAKE))
        return float(np.mean([vec.peek(env)["contacts"][0] > 0 for env in range(envs)]))


def test_only_inattentive_drivers_run_into_a_car_that_stops(tmp_path: Path) -> None:
    """Each is blind to it with a probability from 0.1 to 0.5."""
    write_world(tmp_path / "set", [road({1: 0.0, 99: 40.0})])
    hits = {kind: share_of_hits(tmp_path / "set", kind) for kind in ALL.split()}
    assert 0.1 < hits.pop("inattentive") < 0.5 and set(hits.values()) == {0.0}


# ---- how drivers are drawn ----


def speeds(vec: VectorEnv, env: int) -> list[float]:
    return [float(speed) for speed in vec.peek(env)["follower_speed"]]


def test_drivers_are_drawn_for_each_vehicle_and_episode(tmp_path: Path) -> None:
    """Two cars far apart in each of 16 envs, over three episodes."""
    write_world(tmp_path / "set", [road({1: 0.0, 2: 400.0})])
    settings = {**IDM, "num_agents": 1, "idm_speed_mps": 12.0}
    kind = "hasty=1 timid=3"
    with make_env(tmp_path / "set", num_envs=16, traffic_kinds=kind, **settings) as vec:
        vec.reset(0)
        found = []
        for _ in range(3):
            for _ in range(148):
                vec.step(np.full(vec.num_agents, HOLD))
            found.append([speeds(vec, env) for env in range(16)])
            for _ in range(2):  # the last step, and the reset row
                vec.step(np.full(vec.num_agents, HOLD))
    table = np.array(found)  # (episodes, envs, cars)
    assert table.shape == (3, 16, 2) and len(np.unique(table)) == table.size
    assert 0.1 < (table > 12).mean() < 0.4 and not ((table > 11.3) & (table < 12.7)).any()


def play(vec: VectorEnv, first: int, end: int) -> list[bytes]:
    table = np.random.default_rng(5).integers(0, 91, (60, vec.num_agents))
    return [vec.step(actions)[0].tobytes() for actions in table[first:end]]


MIXED: dict[str, Any] = {
    "num_agents": 40,
    "control": "valid",
    "max_steps": 12,
    "traffic_idm": 0.6,
    "traffic_kinds": ALL,
}


@pytest.fixture
def world(tmp_path: Path) -> Path:
    write_world(tmp_path / "set", [lit(random_scene(5, objects=60, spread_m=40.0, frames=30), 5)])
    return tmp_path / "set"


def test_a_seed_has_the_same_bytes_and_a_saved_env_goes_on(world: Path) -> None:
    with make_env(world, **MIXED) as vec:
        vec.reset(3)
        before = play(vec, 0, 17)  # into the second episode
        saved, state = vec.save(), vec.peek(0)
        after = play(vec, 17, 40)
    with make_env(world, **MIXED) as vec:
        vec.reset(3)
        assert play(vec, 0, 17) == before
        vec.reset(4)
        assert play(vec, 0, 17) != before
        vec.load(saved)
        vec.recv()
        assert play(vec, 17, 40) == after
        vec.load(saved)
        vec.recv()
        play(vec, 0, 9)
        vec.poke(0, state)
        assert play(vec, 17, 40) == after
    with make_env(world, **{**MIXED, "traffic_kinds": ""}) as vec:
        vec.reset(3)
        assert play(vec, 0, 17) != before


def test_a_state_brings_its_drivers_until_the_next_bundle(world: Path) -> None:
    with make_env(world, **{**MIXED, "resample_steps": 40}) as vec:
        vec.reset(3)
        play(vec, 0, 17)  # into the second episode
        state = vec.peek(0)
        after = play(vec, 17, 30)  # into the third
        vec.reset(4)
        own = vec.peek(0)["bundle_seed"]
        play(vec, 0, 9)
        vec.poke(0, {**state, "bundle_seed": own})
        assert play(vec, 17, 30) != after
        vec.poke(0, state)
        assert play(vec, 17, 30) == after
        saved = vec.save()
        rest = play(vec, 30, 36)
        vec.load(saved)
        vec.recv()
        assert play(vec, 30, 36) == rest
        assert vec.peek(0)["bundle_seed"] == state["bundle_seed"] != own
        play(vec, 36, 42)  # into the next bundle
        assert vec.peek(0)["bundle_seed"] == own


def played(path: Path, **settings: Any) -> tuple[list[bytes], list[bytes]]:
    with make_env(path, **settings) as vec:
        vec.reset(3)
        return play(vec, 0, 30), vec.save()


def test_plain_drivers_are_those_without_kinds(world: Path) -> None:
    assert played(world, **{**MIXED, "traffic_kinds": ""}) == played(
        world, **{**MIXED, "traffic_kinds": "plain=5"}
    )


def test_agents_under_idm_are_plain(tmp_path: Path) -> None:
    write_world(tmp_path / "set", [road({1: 0.0, 2: 20.0, 99: 40.0})])
    settings = {"num_agents": 3, "idm_agents": 1, "others": "idm", "control": "valid"}
    assert played(tmp_path / "set", **settings) == played(
        tmp_path / "set", **settings, traffic_kinds="hasty late"
    )


def test_kinds_without_such_vehicles_are_refused() -> None:
    with pytest.raises(ConfigError, match="traffic_kinds is 'late', but no vehicle is driven by"):
        DriveConfig(traffic_kinds="late")
    assert DriveConfig(traffic_kinds="late", others="idm").traffic_kinds == "late"
    trained = DriveConfig(traffic_kinds="late", traffic_idm=0.1)
    assert evaluation_config(trained, {}).traffic_kinds == ""
    named = dataclasses.replace(trained, others="idm")
    assert evaluation_config(named, {}).traffic_kinds == "late"
