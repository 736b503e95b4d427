# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Every entry of every observation row equals the twin's: the exact k nearest, in order, also off
the map, tied, too few.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.config import DriveConfig
from drive_env.prepare import prepare_scenes
from drive_env.scenes.sceneset import SceneSet
from puffervec.vec.vector_env import VectorEnv
from tests.drive_env.worlds import agents_of, make_env, no_index, pose_of, random_scene, write_world
from tests.helpers import slow_but
from tests.twins.drive import SceneTwin, ego_block, partner_block, previous_action_block

BLOCKS = ("lanes", "lines", "edges")
TOLERANCE = 2e-5  # float32 sines and products of the C side against float64, in units of the scales


def split(vec: VectorEnv, obs: np.ndarray) -> dict[str, np.ndarray]:
    """Rows by block, (rows, k, columns)."""
    return {
        f.name: obs[:, f.offset // 4 :][:, : int(np.prod(f.shape))].reshape(len(obs), *f.shape)
        for f in vec.spec.groups[0].fields
    }


def compare_rows(
    vec: VectorEnv, scenes: SceneSet, obs: np.ndarray, actions: np.ndarray | None = None
) -> int:
    """Compare all live rows with the twin. actions: of the last step, if any. Returns how many rows
    there were.
    """
    config, state, blocks = vec.config, vec.peek(0), split(vec, obs)
    masks = vec.halves[0].groups["agents"].masks
    bound = max(8.0, config.range_m / 20 + 1)
    compared = 0
    for slot, scene in enumerate(state["slot_scene"]):
        if scene < 0:
            continue
        twin = SceneTwin(scenes, int(scene))
        rows = {o: row for o, row in agents_of(state, slot).items() if masks[row]}
        clock = int(state["slot_clock"][slot])
        bodies = twin.bodies(clock, {o: pose_of(state, row) for o, row in rows.items()}, config)
        for o, row in rows.items():
            own = bodies.at(o)
            x, y, heading = float(bodies.x[own]), float(bodies.y[own]), float(bodies.heading[own])
            goal = float(state["goal_x"][row]), float(state["goal_y"][row])
            steps = config.max_steps or twin.steps
            ego = ego_block(bodies, own, goal, max(steps - clock, 0), steps, twin.dt_s)
            np.testing.assert_allclose(
                blocks["ego"][row, :11], ego, atol=TOLERANCE * 20, rtol=TOLERANCE
            )
            flags = state["collided"][row], state["offroad"][row]
            assert tuple(blocks["ego"][row, 11:]) == flags
            if config.partners:
                expected = np.clip(
                    partner_block(bodies, own, config.partners, config.range_m), -bound, bound
                )
                np.testing.assert_allclose(
                    blocks["partners"][row],
                    expected,
                    atol=TOLERANCE,
                    err_msg=f"row {row} at {x, y}",
                )
            for name, k in zip(BLOCKS, config.segment_k, strict=True):
                if k:
                    expected = np.clip(
                        twin.segment_block(name, x, y, heading, k, config.range_m), -bound, bound
                    )
                    np.testing.assert_allclose(
                        blocks[name][row], expected, atol=TOLERANCE, err_msg=f"{name} of {row}"
                    )
            if config.observe_previous_action:
                chosen = (
                    (0.0, 0.0)
                    if clock == 0 or actions is None
                    else previous_action_block(int(actions[row]))
                )
                assert tuple(blocks["previous_action"][row]) == tuple(np.float32(chosen))
            compared += 1
    return compared


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"partners": 40, "range_m": 30.0, "control": 1},
        {"partners": 0, "lanes": 64, "lines": 0, "edges": 3},  # more lanes than the index holds
        {
            "range_m": 200.0,
            "lines": 1,
            "observe_previous_action": 1,
        },  # farther than the index reaches
        {
            "lanes": 0,
            "edges": 0,
            "partners": 1,
            "range_m": 5.0,
            "observe_previous_action": 1,
            "max_steps": 4,
        },
    ],
    ids=str,
)
@pytest.mark.parametrize("copies", slow_but([3], [1, 3]))
def test_rows_equal_the_twin(tmp_path: Path, settings: dict[str, Any], copies: int) -> None:
    seeds = (1, 2, 3)
    scenes = write_world(
        tmp_path / "set",
        [random_scene(seed, copies=copies, spread_m=40.0 * seed) for seed in seeds],
    )
    rng = np.random.default_rng(0)
    with make_env(tmp_path / "set", **settings) as vec:
        obs, _ = vec.reset(0)
        compared = compare_rows(vec, scenes, obs)
        for _ in range(6):
            actions = rng.integers(0, 91, vec.num_agents)
            obs, *_ = vec.step(actions)
            compared += compare_rows(vec, scenes, obs, actions)
    assert compared > 100


def test_agents_far_from_everything_see_what_is_in_range(tmp_path: Path) -> None:
    scenes = write_world(tmp_path / "set", [random_scene(5, objects=40, roads=12, spread_m=400.0)])
    with make_env(tmp_path / "set", control=1) as vec:
        obs, _ = vec.reset(0)
        assert compare_rows(vec, scenes, obs) > 20
        assert any(
            (split(vec, obs)[name][0] == 0).all() for name in BLOCKS
        )  # someone has nothing around


def test_more_ties_than_fit(tmp_path: Path) -> None:
    scenes = write_world(
        tmp_path / "set", [random_scene(7, roads=6, copies=100, spread_m=15.0)], build=no_index
    )
    with make_env(tmp_path / "set") as vec:
        obs, _ = vec.reset(0)
        assert compare_rows(vec, scenes, obs) > 0


def test_a_scene_without_roads_or_others(tmp_path: Path) -> None:
    scenes = write_world(tmp_path / "set", [random_scene(9, objects=0, roads=0)])
    with make_env(tmp_path / "set", num_agents=2) as vec:
        obs, _ = vec.reset(0)
        assert compare_rows(vec, scenes, obs) == 2
        assert not any(split(vec, obs)[name].any() for name in (*BLOCKS, "partners"))


def test_the_index_changes_no_byte(tmp_path: Path) -> None:
    made = [random_scene(seed) for seed in (11, 12)]
    write_world(tmp_path / "with", made)
    write_world(tmp_path / "without", made, build=no_index)
    rng = np.random.default_rng(1)
    with make_env(tmp_path / "with") as a, make_env(tmp_path / "without") as b:
        first, second = a.reset(4)[0], b.reset(4)[0]
        for _ in range(60):
            assert first.tobytes() == second.tobytes()
            actions = rng.integers(0, 91, a.num_agents)
            (first, *rest), (second, *other) = a.step(actions), b.step(actions)
            assert all(np.array_equal(x, y) for x, y in zip(rest[:3], other[:3], strict=True))


def test_real_scenes(
    real_scenes: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUFFERVEC_CACHE", str(shared_cache))
    prepared = prepare_scenes(DriveConfig(scenes=str(real_scenes)))
    rng = np.random.default_rng(2)
    compared = 0
    with make_env(prepared.path, num_agents=128, control=1) as vec:
        vec.reset(1)
        for step in range(40):
            obs, *_ = vec.step(rng.integers(0, 91, vec.num_agents))
            if step % 20 == 3:
                compared += compare_rows(vec, prepared.scenes, obs)
    assert compared > 100


def test_rows_of_states_that_were_set(tmp_path: Path) -> None:
    scenes = write_world(
        tmp_path / "set", [random_scene(seed, objects=8, roads=9) for seed in (1, 2)]
    )
    rng = np.random.default_rng(3)
    with make_env(tmp_path / "set", num_agents=16, partners=3, observe_previous_action=1) as vec:
        observations, _ = vec.reset(seed=1)
        actions = rng.integers(0, 91, 16)
        vec.step(actions)
        state = vec.peek(0)
        agents, slots = state["slot"] >= 0, state["slot_scene"] >= 0
        for _ in range(20):
            for name, spread in (("x", 30.0), ("y", 30.0), ("speed", 10.0)):
                state[name][agents] += rng.normal(0.0, spread, agents.sum())
            state["heading"][agents] = rng.uniform(-3.1, 3.1, agents.sum())
            for name in ("collided", "offroad"):
                state[name][agents] = rng.integers(0, 2, agents.sum())
            state["slot_clock"][slots] = rng.integers(0, 19, slots.sum())
            vec.poke(0, state)
            assert compare_rows(vec, scenes, observations, actions) == agents.sum()
