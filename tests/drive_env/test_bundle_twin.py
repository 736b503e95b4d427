# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Bundles: which scenes fill an env, how many rows stay empty, when the bundle is drawn anew,
tasks, counters, refusals.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import puffervec
from drive_env.config import DriveConfig
from drive_env.prepare import Prepared, prepare_scenes
from drive_env.scenes.sceneset import SceneSet
from drive_env.scenes.schema import Scene, SceneObject
from puffervec.contract.native import EnvData, NativeEnv
from puffervec.errors import ConfigError, PuffervecError, WorkerError
from puffervec.vec.vector_env import VectorEnv
from tests.drive_env.worlds import make_env, moving_object, random_scene, write_world
from tests.helpers import thinned
from tests.twins.drive import SceneTwin, nearest
from tests.twins.drive_bundle import (
    MOST_REPEATS,
    draw_of_sets,
    fill,
    fill_in_turn,
    order_of_pass,
    repeated,
)


def cars(count: int, frames: int = 12) -> Scene:
    """A scene of `count` cars that all move, far from each other, and no road."""
    rng = np.random.default_rng(count)
    items = []
    for number in range(count):
        item = moving_object(rng, frames, 0.0, 0)
        item.valid[:], item.heading_rad[:], item.velocity_mps[:] = True, 0.0, (5.0, 0.0)
        item.position_m[:, 0], item.position_m[:, 1] = 0.5 * np.arange(frames), 100.0 * number
        item.goal_m[:2] = 400.0, 100.0 * number
        object.__setattr__(item, "expert", False)
        items.append(item)
    return Scene(f"{count} cars", "", frames, tuple(items), (), {}, {})


def slots(vec: VectorEnv, env: int = 0) -> list[int]:
    """Scenes of an env's bundle."""
    return [int(scene) for scene in vec.peek(env)["slot_scene"] if scene >= 0]


@pytest.mark.parametrize(
    ("sizes", "rows"),
    [([3, 5, 41, 7, 1], 256), ([41], 256), ([8, 41], 256), ([30, 2, 70], 64), ([64], 64)],
)
def test_bundles_equal_the_twin(tmp_path: Path, sizes: list[int], rows: int) -> None:
    write_world(tmp_path / "set", [cars(size) for size in sizes])
    drawn = set()
    with make_env(tmp_path / "set", num_agents=rows, resample_steps=1, partners=0) as vec:
        vec.reset(seed=9)
        for episode in range(12):
            expected = fill(sizes, rows, 9, episode)
            assert slots(vec) == expected
            state, taken = vec.peek(0), sum(sizes[scene] for scene in expected)
            assert (np.flatnonzero(state["slot"] >= 0) == np.arange(taken)).all()
            assert [int((state["slot"] == slot).sum()) for slot in range(len(expected))] == [
                sizes[s] for s in expected
            ]
            assert (vec.halves[0].groups["agents"].masks == (np.arange(rows) < taken)).all()
            drawn |= set(expected)
            vec.step(np.zeros(rows, int))
            vec.step(np.zeros(rows, int))
    assert drawn == {scene for scene, size in enumerate(sizes) if size <= rows}


def test_scenes_are_drawn_by_their_weights(tmp_path: Path) -> None:
    sizes, weights = [3, 5, 41, 7, 5, 3], [1.0, 0.25, 2.0, 0.5, 3.0, 1.0]
    path = write_world(tmp_path / "set", [cars(size) for size in sizes]).path
    data = EnvData({"scene_weights": np.array(weights, np.float32)}, path)
    env = NativeEnv("drive", DriveConfig, lambda config: data)
    with puffervec.make(
        env, env_kwargs={"num_agents": 64, "partners": 0}, backend="serial", num_envs=40
    ) as vec:
        vec.reset(seed=5)
        found = [slots(vec, number) for number in range(40)]
    assert found == [fill(sizes, 64, 5 + number, 0, weights) for number in range(40)]
    drawn = np.bincount([scene for scenes in found for scene in scenes], minlength=6)
    assert drawn[4] > 5 * drawn[1] > 0, (
        "scenes 1 and 4 are of one size, and one of them weighs twelve times as much"
    )


@pytest.mark.slow
def test_weighted_sets_take_turns_in_passes(tmp_path: Path) -> None:
    """Each set has passes of its own; one in which nothing can be drawn is passed over."""
    sizes, ends, weights = [3, 5, 2, 7, 90, 3, 90], [2, 6, 7], [3.0, 1.5, 1.0]
    path = write_world(tmp_path / "set", [cars(size) for size in sizes]).path
    prepared = Prepared(
        path, SceneSet(path), (), tuple(np.diff([0, *ends]).tolist()), tuple(weights)
    )
    env = NativeEnv("drive", DriveConfig, lambda config: EnvData(prepared.set_params, path))
    settings = {"num_agents": 64, "partners": 0, "resample_steps": 1, "scene_draws": "passes"}
    with puffervec.make(env, env_kwargs=settings, backend="serial", num_envs=2) as vec:
        vec.reset(seed=5)
        found: list[list[int]] = [[], []]
        for _ in range(9):
            for number in range(2):
                found[number] += slots(vec, number)
            vec.step(np.zeros(128, int))
            vec.step(np.zeros(128, int))
    for number, scenes in enumerate(found):
        drawn = [
            draw_of_sets([[0, 1], [2, 3, 5], [6]], weights, 5 + number, draw)
            for draw in range(2 * len(scenes))
        ]
        assert scenes == [scene for scene in drawn if scene != 6][: len(scenes)]
        first = [scene for scene in scenes if scene < 2]
        assert len(scenes) > 60 and abs(len(first) / len(scenes) - 2 / 3) < 0.05
        assert all({*first[at : at + 2]} == {0, 1} for at in range(0, len(first) - 1, 2))
    assert found[0] != found[1]


@pytest.mark.slow
def test_padding_on_the_real_scenes(
    real_scenes: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUFFERVEC_CACHE", str(shared_cache))
    prepared = prepare_scenes(DriveConfig(scenes=str(real_scenes)))
    for control in ("moving", "valid"):
        sizes = prepared.scenes.agents(DriveConfig(control=control)).tolist()
        drawn = np.zeros(len(sizes), int)
        with make_env(
            prepared.path,
            num_envs=16,
            num_agents=256,
            control=control,
            partners=0,
            lanes=0,
            lines=0,
            edges=0,
        ) as vec:
            for seed in range(0, 64, 16):
                vec.reset(seed=seed)
                for env in range(16):
                    drawn += np.bincount(slots(vec, env), minlength=len(sizes))
            counters = vec.counters()
        rows = sum(counters[name] for name in ("active_rows", "idle_rows", "padding_rows"))
        assert rows == 4 * 16 * 256 and counters["padding_rows"] < 0.02 * rows
        fitting = drawn[np.array(sizes) > 0]
        assert fitting.min() > 0.4 * fitting.mean()  # no scene is forgotten, whatever its size


def test_the_bundle_is_drawn_anew_and_open_episodes_are_cut(tmp_path: Path) -> None:
    write_world(tmp_path / "set", [cars(3, frames=6), cars(4, frames=9)])
    with make_env(tmp_path / "set", num_agents=11, resample_steps=14) as vec:
        vec.reset(seed=1)
        rows = vec.halves[0].groups["agents"]
        for episode in range(3):
            scenes = slots(vec)
            length = [6 - 1 if scene == 0 else 9 - 1 for scene in scenes]
            slot_of = vec.peek(0)["slot"].copy()
            for step in range(1, 15):
                *_, terminals, truncations, infos = vec.step(np.full(11, 45))
                assert not terminals.any()
                records = infos.episodes
                for slot, steps in enumerate(length):
                    # An episode takes `steps` steps and one more turn, in which the scene starts
                    # again.
                    clock, live = step % (steps + 1), slot_of == slot
                    ends = clock == steps or (step == 14 and clock > 0)
                    begins_too_late = step == 14 and clock == 0
                    assert (rows.masks[live] != begins_too_late).all() and (
                        truncations[live] == ends
                    ).all()
                    mine = [record for record in records if record["slot"] == slot]
                    assert len(mine) == ends and all(
                        r["length"] == clock and r["episode"] == episode for r in mine
                    )
                    assert all(r["values"][6] == (clock == steps) for r in mine)
            assert vec.peek(0)["episode"] == episode
            *_, truncations, _ = vec.step(np.full(11, 45))
            assert (
                vec.peek(0)["episode"] == episode + 1
                and vec.peek(0)["step"] == 0
                and not truncations.any()
            )
            assert not rows.rewards.any() and (rows.masks == (vec.peek(0)["slot"] >= 0)).all()


def test_an_env_with_a_task_holds_that_scene_alone(tmp_path: Path) -> None:
    write_world(tmp_path / "set", [cars(3), cars(2), cars(9)])
    with make_env(tmp_path / "set", num_envs=3, num_agents=8) as vec:
        vec.set_tasks([0, 1], [1, 0])
        obs, _ = vec.reset(seed=0)
        assert slots(vec, 0) == [1] and slots(vec, 1) == [0] and len(slots(vec, 2)) > 1
        masks = vec.halves[0].groups["agents"].masks.reshape(3, 8)
        assert (
            masks[0].sum() == 2 and masks[1].sum() == 3 and not obs.reshape(3, 8, -1)[0, 2:].any()
        )
        vec.set_tasks([2], [2])  # nine cars do not fit
        with pytest.raises(WorkerError, match="9 cars.*num_agents = 8"):
            vec.reset(seed=0)


def test_a_task_that_is_not_there(tmp_path: Path) -> None:
    write_world(tmp_path / "set", [cars(3)])
    no_task = pytest.raises(ConfigError, match="drive has no task 5: its only task is 0")
    with make_env(tmp_path / "set", num_agents=8) as vec, no_task:
        vec.set_tasks([0], [5])


@pytest.mark.parametrize(
    ("scenes", "settings", "text"),
    [
        ([cars(9), cars(12)], {"num_agents": 8}, "num_agents is 8.*up to 12"),
        ([random_scene(1, 0, 3)], {"num_agents": 1}, "up to 2"),
    ],
)
def test_sets_that_cannot_be_drawn_are_refused(
    tmp_path: Path, scenes: Any, settings: dict[str, Any], text: str
) -> None:
    for scene in scenes:
        if scene.name.startswith("random"):
            object.__setattr__(scene, "objects", scene.objects + cars(1).objects)
    write_world(tmp_path / "set", scenes)
    with pytest.raises(PuffervecError, match=text):
        make_env(tmp_path / "set", **settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "rows"),
    thinned(2, [([3, 5, 41, 7, 1], 64), ([41], 256), ([8, 41, 300, 2], 43), ([1] * 40, 7)]),
)
def test_bundles_of_passes_equal_the_twin(tmp_path: Path, sizes: list[int], rows: int) -> None:
    write_world(tmp_path / "set", [cars(size) for size in sizes if size <= rows])
    sizes = [size for size in sizes if size <= rows]
    drawn: list[int] = []
    with make_env(
        tmp_path / "set", num_agents=rows, resample_steps=1, partners=0, scene_draws="passes"
    ) as vec:
        vec.reset(seed=4)
        for _ in range(12):
            assert slots(vec) == fill_in_turn(sizes, rows, 4, len(drawn)) and slots(vec)
            drawn += slots(vec)
            assert vec.peek(0)["drawn"] == len(drawn)
            for _ in range(2):
                vec.step(np.zeros(rows, int))
    passes = [
        drawn[at : at + len(sizes)] for at in range(0, len(drawn) - len(sizes) + 1, len(sizes))
    ]
    assert passes and all(
        sorted(part) == list(range(len(sizes))) for part in passes
    )  # each scene once


@pytest.mark.slow
def test_orders_of_passes_differ_and_favour_no_scene() -> None:
    orders = [tuple(order_of_pass(seed, number, 3)) for seed in range(40) for number in range(30)]
    counts = [orders.count(order) for order in set(orders)]
    assert len(counts) == 6 and min(counts) > 150  # 200 of each
    assert sorted(order_of_pass(1, 0, 300)) == list(range(300))


@pytest.mark.slow
def test_passes_are_the_same_on_every_backend(cache: Path) -> None:
    settings = {
        "scenes": "generated:9",
        "num_agents": 40,
        "resample_steps": 2,
        "scene_draws": "passes",
        "partners": 0,
    }
    seen = []
    for backend in (
        {"backend": "serial"},
        {"num_workers": 2},
        {"backend": "threading", "num_workers": 3},
    ):
        with puffervec.make("drive", env_kwargs=settings, num_envs=6, **backend) as vec:
            vec.reset(seed=20)
            found = []
            for _ in range(8):
                found.append([slots(vec, env) for env in range(6)])
                for _ in range(3):
                    vec.step(np.zeros(240, int))
            seen.append(found)
    assert seen[0] == seen[1] == seen[2]
    drawn = [scene for bundles in seen[0] for scene in bundles[3]]
    assert len(drawn) >= 9 and len(set(drawn[:9])) == 9


def test_a_pass_goes_on_after_save_and_load_and_begins_anew_with_a_seed(tmp_path: Path) -> None:
    write_world(tmp_path / "set", [cars(size) for size in (1, 2, 3, 4)])
    with make_env(
        tmp_path / "set", num_agents=4, resample_steps=1, scene_draws="passes", partners=0
    ) as vec:

        def bundles(count: int) -> list[list[int]]:
            found = []
            for _ in range(count):
                for _ in range(2):
                    vec.step(np.zeros(4, int))
                found.append(slots(vec))
            return found

        vec.reset(seed=1)
        first = [slots(vec), *bundles(3)]
        saved = vec.save()
        after = bundles(4)
        vec.load(saved)
        vec.recv()
        assert bundles(4) == after
        vec.reset(seed=1)
        assert [slots(vec), *bundles(3)] == first


@pytest.mark.slow
def test_weighted_passes_of_sets_that_are_named(cache: Path) -> None:
    """What `scenes` says arrives in the env."""
    settings = {"scenes": "generated:2=3,streets:2=1", "scene_draws": "passes", "partners": 0}
    with puffervec.make("drive", env_kwargs=settings, backend="serial", num_envs=1) as vec:
        vec.reset(seed=3)
        drawn = slots(vec)
    assert len(drawn) > 8 and all(
        0.7 < np.mean([scene < 2 for scene in drawn[:count]]) <= 0.8 for count in (8, 12)
    )


def test_counters_add_up(tmp_path: Path) -> None:
    scenes = write_world(tmp_path / "set", [random_scene(seed, roads=120) for seed in (1, 2)])
    with make_env(tmp_path / "set", num_agents=64, lanes=5, lines=40, edges=2, partners=3) as vec:
        vec.reset(seed=0)
        found, state = vec.counters(), vec.peek(0)
        expected = dict.fromkeys(found, 0)
        for row in np.flatnonzero(state["active"]):
            twin = SceneTwin(scenes, int(state["slot_scene"][state["slot"][row]]))
            x, y = state["x"][row], state["y"][row]
            expected["sampled_rows"] += 1
            for block, k in zip(("lanes", "lines", "edges"), vec.config.segment_k, strict=True):
                squares = twin.squares(block, x, y)
                seen, everything = nearest(squares, k, 50.0), nearest(squares, len(squares), 50.0)
                expected[f"{block}_seen"] += len(seen)
                expected[f"{block}_cut"] += len(everything) - len(seen)
                expected[f"{block}_reach_cm"] += (
                    int(100 * np.sqrt(squares[seen[-1]]) + 0.5) if len(seen) else 0
                )
        names = [name for name in found if name[:4] in ("lane", "line", "edge", "samp")]
        assert {name: found[name] for name in names} == pytest.approx(
            {name: expected[name] for name in names}, abs=2
        )
        assert (
            found["lanes_cut"] > 0
            and found["edges_cut"] > 0
            and 0 < found["partners_seen"] <= 3 * found["sampled_rows"]
        )
        for _ in range(50):
            vec.step(np.zeros(64, int))
        after = vec.counters()
        assert sum(after[name] for name in ("active_rows", "idle_rows", "padding_rows")) == 51 * 64


def test_the_same_seed_gives_the_same_scenes_in_any_env(tmp_path: Path) -> None:
    write_world(tmp_path / "set", [cars(size) for size in (1, 2, 3, 4)])
    with (
        make_env(tmp_path / "set", num_envs=4, num_agents=20) as many,
        make_env(tmp_path / "set", num_agents=20) as one,
    ):
        many.reset(seed=10)
        one.reset(seed=13)
        assert (
            slots(many, 3) == slots(one) and len({tuple(slots(many, env)) for env in range(4)}) > 1
        )


@pytest.mark.parametrize("share", [0.6, 1.0])
@pytest.mark.parametrize("autoreset", ["next_step", "same_step"])
def test_scenes_that_failed_are_drawn_again(tmp_path: Path, share: float, autoreset: str) -> None:
    """The first in each bundle, as many bundles in a row as is allowed; a scene whose cars all
    arrive is not.
    """
    sizes, rows, steps = [3, 5, 4, 6, 2], 21, 9
    near = dataclasses.replace(cars(4), objects=tuple(at_hand(item) for item in cars(4).objects))
    write_world(tmp_path / "set", [cars(3), cars(5), near, cars(6), cars(2)])
    settings = {
        "num_agents": rows,
        "max_steps": 4,
        "resample_steps": steps,
        "replay_failed": share,
        "partners": 0,
    }
    most = 0
    with make_env(tmp_path / "set", autoreset=autoreset, **settings) as vec:
        vec.reset(seed=6)
        again: list[tuple[int, int]] = []
        for episode in range(40):
            taken = sum(sizes[scene] for scene, _ in again)
            expected = [scene for scene, _ in again] + fill(sizes, rows, 6, episode, taken=taken)
            assert slots(vec) == expected
            repeats = [times for _, times in again] + [0] * (len(expected) - len(again))
            assert vec.peek(0)["slot_repeats"][: len(expected)].tolist() == repeats
            most = max(most, *repeats)
            for _ in range(steps + (autoreset == "next_step")):
                before = vec.peek(0)
                vec.step(np.full(rows, 45))
            assert before["slot_failed"][: len(expected)].tolist() == [
                scene != 2 for scene in expected
            ]
            again = repeated(
                [(s, s != 2, n) for s, n in zip(expected, repeats, strict=True)],
                share,
                6,
                episode + 1,
            )
            assert vec.peek(0)["episode"] == episode + 1
    assert most == MOST_REPEATS


def at_hand(item: SceneObject) -> SceneObject:
    """The object; its goal is 2.5 m ahead."""
    goal = item.goal_m.copy()
    goal[:2] = item.position_m[0, 0] + 2.5, item.position_m[0, 1]
    return dataclasses.replace(item, goal_m=goal)


def test_reset_and_tasks_keep_nothing(tmp_path: Path) -> None:
    sizes = [3, 5, 4]
    write_world(tmp_path / "set", [cars(size) for size in sizes])
    settings = {
        "num_agents": 12,
        "max_steps": 2,
        "resample_steps": 4,
        "replay_failed": 1.0,
        "partners": 0,
    }
    with make_env(tmp_path / "set", **settings) as vec:
        vec.reset(seed=2)
        for _ in range(4):
            vec.step(np.full(12, 45))
        vec.reset()
        assert slots(vec) == fill(sizes, 12, 2, 1) and not vec.peek(0)["slot_repeats"].any()
        vec.set_tasks([0], [1])
        for _ in range(10):
            vec.step(np.full(12, 45))
        assert slots(vec) == [1] and not vec.peek(0)["slot_repeats"].any()
