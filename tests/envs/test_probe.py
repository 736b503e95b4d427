# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The teaching env (csrc/probe.c, puffervec/envs/probe.py): all that it writes, its two modes, faults that show in rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from puffervec.envs.probe import FAULTS
from puffervec.errors import ConfigError
from tests.helpers import action_table, serial
from tests.twins import philox
from tests.twins.probe import ProbeRows, ProbeTwin

CASES: list[dict[str, Any]] = [
    {},
    {"end_kind": 1},
    {"end_kind": 2},
    {"episode_length": 1},
    {"num_agents": 4, "leave": 1},
    {"num_agents": 4, "leave": 1, "end_kind": 1},
    {"num_agents": 4, "leave": 1, "end_kind": 2, "episode_length": 5},
    {"num_agents": 3, "leave": 1, "episode_length": 1},
    {"num_agents": 2, "episode_length": 7, "obs_size": 20},
]


def assert_equal(rows: Any, mine: slice, expected: ProbeRows) -> None:
    np.testing.assert_array_equal(rows.observations[mine, :8], expected.observations)
    assert not rows.observations[mine, 8:].any()
    for name in ("rewards", "terminals", "truncations", "masks"):
        np.testing.assert_array_equal(getattr(rows, name)[mine], getattr(expected, name), err_msg=name)


@pytest.mark.parametrize("settings", CASES, ids=str)
def test_equals_the_twin(settings: dict[str, Any]) -> None:
    seeds = [5, 4100, 2**40 + 17]
    agents = settings.get("num_agents", 1)
    with serial("probe", settings, num_envs=3) as vec:
        vec.set_tasks([0, 1, 2], [7, -1, 2])
        rows = vec.halves[0].groups["agents"]
        known = {name: value for name, value in settings.items() if name != "obs_size"}
        twins = [ProbeTwin(seed, task=task, **known) for seed, task in zip(seeds, (7, -1, 2), strict=True)]
        vec.reset(seed=seeds)
        for env, twin in enumerate(twins):
            assert_equal(rows, slice(env * agents, (env + 1) * agents), twin.begin())
        table = action_table(vec, 40)["agents"]
        for actions in table[..., 0]:
            vec.step(actions)
            for env, twin in enumerate(twins):
                mine = slice(env * agents, (env + 1) * agents)
                assert_equal(rows, mine, twin.step(actions[mine]))


def test_a_reset_without_a_seed_begins_the_next_episode() -> None:
    with serial("probe", {}) as vec:
        vec.reset(seed=9)
        vec.step([1])
        observations, _ = vec.reset()
        assert observations[0].tolist() == [9, 1, 0, 0, 0, np.float32(philox.uniform(9, 1, 0, 0)), -1, 1]


# ---- two groups --------------------------------------------------------------------------------------------


def test_two_groups_by_hand() -> None:
    with serial("probe", {"mode": 1, "num_agents": 2}, num_envs=2) as vec:
        vec.set_tasks([0, 1], [3, 4])
        observations, _ = vec.reset(seed=[300, 600])
        scouts, towers = vec.halves[0].groups["scouts"], vec.halves[0].groups["towers"]
        assert scouts.action_masks is not None
        assert (scouts.rows, towers.rows, towers.action_masks) == (4, 2, None)
        assert observations["scouts"][:, :5].tolist() == [
            [300, 0, 0, 0, 0],
            [300, 0, 0, 1, 0],
            [600, 0, 0, 0, 0],
            [600, 0, 0, 1, 0],
        ]
        assert observations["towers"]["lights"].tolist() == [[300 % 256, 0, 0, 2], [600 % 256, 0, 0, 2]]
        vec.step({"scouts": [0, 1, 2, 1], "towers": [[1, 3], [0, 2]]})
        assert observations["scouts"][:, 4].tolist() == [0, 1, 2, 1]
        # gauges: last action of the tower as one number, a uniform number, the task
        gauges = [[7, np.float32(philox.uniform(300, 0, 1, 2)), 3], [2, np.float32(philox.uniform(600, 0, 1, 2)), 4]]
        assert observations["towers"]["gauges"].tolist() == gauges
        assert scouts.rewards.tolist() == [1, 1.25 + 1 / 16, 1 + 2 / 16, 1.25 + 1 / 16]
        assert towers.rewards.tolist() == [1.5 + 7 / 16, 1.5 + 2 / 16]
        assert scouts.action_masks.tolist() == [
            [True, True, True],  # doing nothing may be repeated
            [True, False, True],
            [True, True, False],
            [True, False, True],
        ]
        assert (scouts.agent_types.tolist(), towers.agent_types.tolist()) == ([0] * 4, [1] * 2)


def test_a_scout_that_left_is_masked_and_the_tower_stays() -> None:
    with serial("probe", {"mode": 1, "num_agents": 2, "leave": 1}) as vec:
        vec.reset(seed=1)
        scouts, towers = vec.halves[0].groups["scouts"], vec.halves[0].groups["towers"]
        nothing = {"scouts": [0, 0], "towers": [[0, 0]]}
        vec.step(nothing)
        assert (scouts.terminals.tolist(), scouts.masks.tolist(), towers.terminals.tolist()) == (
            [False, True],
            [True, True],
            [False],
        )
        vec.step(nothing)
        assert (scouts.terminals.tolist(), scouts.masks.tolist(), towers.masks.tolist()) == (
            [False, False],
            [True, False],
            [True],
        )
        assert (scouts.rewards.tolist(), scouts.observations[1].any()) == ([2.0, 0.0], False)
        vec.step(nothing)
        assert (scouts.terminals.tolist(), towers.terminals.tolist()) == ([True, False], [True])


# ---- settings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num_agents": 0}, ["num_agents", "0", "1 to 1024"]),
        ({"num_agents": 1025}, ["num_agents", "1025"]),
        ({"episode_length": 0}, ["episode_length", "0", "at least 1"]),
        ({"obs_size": 7}, ["obs_size", "7", "8 to"]),
        ({"mode": 2}, ["mode", "2", "0 (one group)"]),
        ({"end_kind": -1}, ["end_kind", "-1", "0, 1 or 2"]),
        ({"fault": len(FAULTS)}, ["fault", str(len(FAULTS)), f"0 to {len(FAULTS) - 1}"]),
    ],
)
def test_unusable_settings_are_refused(settings: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        serial("probe", settings)
    for word in words:
        assert word in str(caught.value)
