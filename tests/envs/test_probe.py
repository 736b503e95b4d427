# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The teaching env (csrc/envs/probe.c, puffervec/envs/probe.py): all that it writes, its two modes,
faults that show in rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from puffervec.envs.probe import FAULTS
from puffervec.errors import ConfigError
from puffervec.testing.reference import philox
from tests.helpers import action_table, serial
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
        np.testing.assert_array_equal(
            getattr(rows, name)[mine], getattr(expected, name), err_msg=name
        )


@pytest.mark.parametrize("settings", CASES, ids=str)
def test_equals_the_twin(settings: dict[str, Any]) -> None:
    seeds = [5, 4100, 2**40 + 17]
    agents = settings.get("num_agents", 1)
    with serial("probe", settings, num_envs=3) as vec:
        vec.set_tasks([0, 1, 2], [7, -1, 2])
        rows = vec.halves[0].groups["agents"]
        known = {name: value for name, value in settings.items() if name != "obs_size"}
        twins = [
            ProbeTwin(seed, task=task, **known)
            for seed, task in zip(seeds, (7, -1, 2), strict=True)
        ]
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
        assert observations[0].tolist() == [
            9,
            1,
            0,
            0,
            0,
            np.float32(philox.uniform(9, 1, 0, 0)),
            -1,
            1,
        ]


# ---- settings ------------------------------------------------------------------------------------


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
