# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/tag.py: the plain loop plays the same game as the env, and what is made of samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench import plain_grid, tag_rates, tag_training
from bench.tag_rates import C_LOOP, CASES, FILL, NUMPY, PLAIN, PROCESSES, SERIAL
from bench.workloads import Shares, Workload, actions_of, half_actions
from tests.helpers import serial

SMALL = {"num_taggers": 4, "grid_length": 6, "episode_length": 25}


@pytest.mark.parametrize("settings", [{}, {"use_full_observation": False}, {"num_taggers": 10}])
def test_the_plain_loop_plays_the_same_game(settings: dict[str, Any]) -> None:
    """So both are timed at the same work: rows are equal after each of many turns, with tags, time
    limits and resets.
    """
    kwargs, envs = {**SMALL, **settings}, 8
    drawn = actions_of(Workload("small", "tag_grid", kwargs, envs))
    ended = 0
    with (
        serial("tag_grid", kwargs, num_envs=envs) as vec,
        plain_grid.plain_game(kwargs, envs) as game,
    ):
        vec.reset(seed=0)
        for turn, actions in enumerate(half_actions(vec, drawn)[0]):
            observations, rewards, terminals, truncations, _ = vec.step(actions)
            game.play(drawn["agents"][turn : turn + 1], 1)
            np.testing.assert_array_equal(game.observations, observations)
            np.testing.assert_array_max_ulp(game.rewards, rewards, maxulp=2)
            np.testing.assert_array_equal(game.dones.astype(bool), terminals | truncations)
            ended += int(terminals.sum())
    assert ended > 0


def test_rates_and_ratios_of_a_case() -> None:
    seconds = {
        C_LOOP: [1e-3, 2e-3],
        FILL: [5e-4, 1e-3],
        PLAIN: [4e-3, 8e-3],
        SERIAL: [3e-3, 3e-3],
        PROCESSES: [1.5e-3, 1.5e-3],
        NUMPY: [1e-2, 1e-2],
    }
    found = tag_rates.rates(seconds, Shares(90.0, 450.0), agents=5)
    assert found["env_steps_per_s"][SERIAL].median == pytest.approx(30_000)
    assert found["agent_steps_per_s"][PROCESSES].median == pytest.approx(300_000)
    assert (found["env_steps_per_s"][NUMPY].median, found["agent_steps_per_s"][NUMPY].median) == (
        100.0,
        500.0,
    )
    keys = ("c_loop_over_plain", "fill_share", "processes_over_serial", "processes_over_c_loop")
    assert [found[key].median for key in keys] == pytest.approx([4.0, 0.5, 2.0, 1.0])
    assert tag_rates.rates({C_LOOP: [1.0]}, Shares(1.0, 1.0), 5)["c_loop_over_plain"] is None


def test_rows_that_do_not_fit_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["grid, 1000 agents, partial"]
    monkeypatch.setattr(
        tag_rates.psutil, "virtual_memory", lambda: type("", (), {"available": 2**30})()
    )
    assert tag_rates.too_large(case.workload("few", 100)) == ""
    assert "GiB" in tag_rates.too_large(case.workload("many", 100_000))


def test_training_takes_fewer_envs_of_many_agents() -> None:
    sizes = {name: tag_training.training_config(name, 2000) for name in CASES}
    assert sizes["grid, 5 agents, full"].vec.num_envs == 2000
    for name, config in sizes.items():
        rows = config.vec.num_envs * CASES[name].agents
        assert (
            config.vec.num_envs % 2 == 0
            and rows * config.train.horizon <= 2 * tag_training.ROLLOUT_SAMPLES
        ), name


def test_returns_by_side() -> None:
    episodes = np.array(
        [[4.0, 500, 1, 2], [8.0, 500, 1, 2], [-3.0, 500, 1, 10]]
    )  # return, length, tags, agents
    assert tag_training.by_side(episodes, ("tags", "agents")) == {"taggers": 6.0, "runners": -3.0}
    assert tag_training.by_side(episodes[:0], ("tags", "agents")) == {}
