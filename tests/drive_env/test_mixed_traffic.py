# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Agents that are traffic for an episode (traffic_idm, traffic_log) are what they would be if they
were no agents.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.config import DriveConfig
from drive_env.evaluate.envs import evaluation_config
from puffervec.errors import ConfigError
from puffervec.vec.vector_env import VectorEnv
from tests.drive_env.worlds import lit, make_env, random_scene, write_world

STEPS = 22
SETTINGS: dict[str, Any] = {
    "num_agents": 40,
    "lines": 4,
    "goal_radius_m": 0.5,
    "resample_steps": 1000,
    "control": "valid",
}


@pytest.fixture
def world(tmp_path: Path) -> Path:
    write_world(
        tmp_path / "set", [lit(random_scene(5, objects=60, spread_m=50.0, frames=STEPS + 2), 5)]
    )
    return tmp_path / "set"


def drive(vec: VectorEnv, row: int, steps: int, seed: int) -> Iterator[tuple[bytes, ...]]:
    """Yield what a row shows, whose agent does the same things wherever it is."""
    actions, rows = (
        np.random.default_rng(seed).integers(0, 91, steps),
        vec.halves[0].groups["agents"],
    )
    for action in actions:
        vec.step(np.full(vec.num_agents, action))
        yield tuple(
            getattr(rows, part)[row].tobytes() for part in ("observations", "rewards", "masks")
        )


@pytest.mark.parametrize("kind", ["traffic_idm", "traffic_log"])
def test_the_last_agent_sees_what_it_sees_alone(world: Path, kind: str) -> None:
    """With a share of 1 one agent is left. Where it is the only one by its id, the others are the
    same without being agents.
    """
    others = {"others": "idm" if kind == "traffic_idm" else "log"}
    for seed in range(4):
        with make_env(world, **SETTINGS, **others, **{kind: 1.0}) as vec:
            vec.reset(seed)
            state = vec.peek(0)
            rows = np.flatnonzero((state["slot"] == 0) & (state["active"] == 1))
            vehicles = np.flatnonzero(state["slot"] == 0)
            assert len(rows) == 1 and len(vehicles) > 5
            assert set(state["traffic"][np.setdiff1d(vehicles, rows)]) == {
                1 if kind == "traffic_idm" else 2
            }
            shown = list(drive(vec, rows[0], STEPS, seed))
            driven = int(state["object"][rows[0]])
        number = (
            lit(random_scene(5, objects=60, spread_m=50.0, frames=STEPS + 2), 5).objects[driven].id
        )
        with make_env(
            world,
            **{**SETTINGS, "control": "ids", "control_ids": (number,), "num_agents": 1},
            **others,
        ) as vec:
            vec.reset(seed)
            assert vec.peek(0)["object"].tolist() == [driven]
            assert list(drive(vec, 0, STEPS, seed)) == shown


def test_shares_are_drawn_for_each_episode(world: Path) -> None:
    drawn, agents = [], []
    with make_env(
        world, **{**SETTINGS, "max_steps": 2}, traffic_idm=0.5, traffic_log=0.2, num_envs=3
    ) as vec:
        vec.reset(0)
        rows = vec.halves[0].groups["agents"]
        for _ in range(200):
            state = vec.peek(1)
            own = slice(vec.num_agents // 3, 2 * vec.num_agents // 3)
            traffic = state["traffic"] > 0
            assert not rows.masks[own][traffic].any() and not rows.observations[own][traffic].any()
            assert rows.masks[own][(state["slot"] == 0) & ~traffic & (state["active"] == 1)].all()
            drawn.append(state["traffic"][state["slot"] == 0])
            infos = vec.step(np.zeros(vec.num_agents, np.int32))[4]
            for record in infos.episodes:
                if (record["env"], record["slot"]) == (1, 0):
                    agents.append(int(record["values"][vec.spec.record_names.index("agents")]))
                    assert agents[-1] == int((drawn[-1] == 0).sum())
    table = np.array(drawn)
    assert 0.45 < (table == 1).mean() < 0.55 and 0.15 < (table == 2).mean() < 0.25
    assert len(set(agents)) > 3 and len(np.unique(table, axis=0)) > 30
    assert (table == 0).any(axis=1).all() and (table.std(axis=0) > 0).all()


def test_a_state_can_be_set_across_episodes(world: Path) -> None:
    """Who is driven by whom belongs to the readable state; so do its rules."""
    settings = {**SETTINGS, "max_steps": 5, "traffic_idm": 0.4, "traffic_log": 0.2}
    with make_env(world, **settings) as vec:
        table = np.random.default_rng(0).integers(0, 91, (60, vec.num_agents))
        vec.reset(3)
        vec.step(table[0])
        state, rows = vec.peek(0), vec.halves[0].groups["agents"]
        expected = [vec.step(actions)[0].tobytes() for actions in table[1:9]]
        while not (vec.peek(0)["traffic"] != state["traffic"]).any():
            vec.step(table[-1])
        vec.poke(0, state)
        assert not rows.masks[state["traffic"] > 0].any()
        assert [vec.step(actions)[0].tobytes() for actions in table[1:9]] == expected
        vec.poke(0, state)
        traffic = (state["slot"] >= 0).astype(np.uint8)
        nobody = {
            name: np.zeros_like(state[name])
            for name in ("active", "collided", "offroad", "reached", "ended")
        }
        with pytest.raises(
            ConfigError, match="is nowhere 0: each scene needs an agent that the policy drives"
        ):
            vec.poke(0, {**state, **nobody, "traffic": traffic})
        with pytest.raises(
            ConfigError, match=r"active, collided, offroad, reached, ended and alone must be 0"
        ):
            vec.poke(0, {**state, "traffic": traffic})


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(
        ConfigError, match="traffic_idm is 0.7 and traffic_log 0.4; their sum must be at most 1"
    ):
        DriveConfig(traffic_idm=0.7, traffic_log=0.4)
    with pytest.raises(ConfigError, match="traffic_log is 0.1, but under others=static"):
        DriveConfig(traffic_log=0.1, others="static")


def test_evaluations_leave_all_agents_to_the_policy() -> None:
    config = evaluation_config(DriveConfig(traffic_idm=0.2, traffic_log=0.3), {})
    assert (config.traffic_idm, config.traffic_log) == (0.0, 0.0)
