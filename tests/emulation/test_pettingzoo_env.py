# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Parallel envs in PufferLib's wrapper (puffervec/compat/pufferlib/emulation.py) against envs
stepped by hand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from puffervec.compat.pufferlib.emulation import PettingZooPufferEnv
from puffervec.errors import APIUsageError, ConfigError, InvalidAgentError, SpaceMismatchError
from puffervec.workers.python.puffer_env import NAMES
from tests.mock_envs import MULTI, make_multi, same_bits, sample

pytest.importorskip("pettingzoo")


def mock(
    observation: str = "mixed", action: str = "dict", crowd: str = "leaving", **kwargs: Any
) -> PettingZooPufferEnv:
    return PettingZooPufferEnv(
        env_creator=make_multi, env_args=(observation, action, crowd), **kwargs
    )


def rows_of(wrapped: PettingZooPufferEnv, actions: dict[str, Any]) -> np.ndarray:
    """Return native actions as the rows that the wrapper takes; those of absent agents are ones."""
    rows = np.ones(
        (wrapped.num_agents, *wrapped.action_plan.row_shape), wrapped.action_plan.row_dtype
    )
    for agent, action in actions.items():
        wrapped.action_plan.encode(action, rows[wrapped.possible_agents.index(agent), ...])
    return rows


def compare(
    wrapped: PettingZooPufferEnv,
    seen: dict[str, Any],
    rewards: dict[str, float],
    ended: Any,
    cut: Any,
) -> None:
    """Compare all rows with what the env by hand gave."""
    for i, agent in enumerate(wrapped.possible_agents):
        row = wrapped.observations[i, ...]
        flags = (
            bool(wrapped.terminals[i]),
            bool(wrapped.truncations[i]),
            bool(wrapped.masks[i]),
            wrapped.mask[agent],
        )
        if agent in seen:
            assert same_bits(wrapped.observation_plan.nativize(row), seen[agent])
            assert wrapped.rewards[i] == rewards.get(agent, 0)
            assert flags == (ended.get(agent, False), cut.get(agent, False), True, True)
        else:
            assert (
                not row.any() and wrapped.rewards[i] == 0 and flags == (True, False, False, False)
            )
        assert same_bits(wrapped.dict_obs[agent], row)


@pytest.mark.parametrize("name", MULTI)
def test_the_trajectory_is_the_one_stepped_by_hand(name: str) -> None:
    """Four episodes bit by bit, actions as dicts and as arrays in turn."""
    wrapped, by_hand = PettingZooPufferEnv(env=MULTI[name]()), MULTI[name]()
    rng = np.random.default_rng(8)
    for seed in (21, None, None, None):
        wrapped.reset(seed=seed)
        compare(wrapped, by_hand.reset(seed=seed)[0], {}, {}, {})
        turn = 0
        while by_hand.agents:
            assert not wrapped.done and wrapped.agents == by_hand.agents
            native = {agent: sample(by_hand.action_space(agent), rng) for agent in by_hand.agents}
            rows = rows_of(wrapped, native)
            turn += 1
            given = rows if turn % 2 else dict(zip(wrapped.possible_agents, rows, strict=True))
            _, rewards, terminals, truncations, infos = wrapped.step(given)
            seen, *expected, expected_infos = by_hand.step(native)
            compare(wrapped, seen, *expected)
            assert infos == expected_infos
            padding = zip(
                (rewards, terminals, truncations), expected, (0, True, False), strict=True
            )
            for found, real, pad in padding:
                assert found == {agent: real.get(agent, pad) for agent in wrapped.possible_agents}
        assert wrapped.done


def test_attributes() -> None:
    wrapped = mock()
    assert wrapped.num_agents == 3 and wrapped.possible_agents == ["agent_0", "agent_1", "agent_2"]
    assert (
        wrapped.agent_ids.tolist() == [0, 1, 2] and wrapped.driver_env is wrapped and wrapped.done
    )
    assert wrapped.is_obs_emulated and wrapped.is_atn_emulated
    assert wrapped.observation_space("agent_1") is wrapped.single_observation_space
    assert (
        wrapped.action_space("agent_1")
        is wrapped.single_action_space
        == spaces.MultiDiscrete([5, 3, 3, 2, 2])
    )
    assert wrapped.observations.shape == (3, 40) and wrapped.actions.shape == (3, 5)
    assert wrapped.emulated == {
        "observation_dtype": np.uint8,
        "emulated_observation_dtype": wrapped.obs_dtype,
    }
    for call in (wrapped.observation_space, wrapped.action_space):
        with pytest.raises(InvalidAgentError, match="there is no agent 'nobody'"):
            call("nobody")


def test_rows_are_adopted_and_written_in_place() -> None:
    donor = mock()
    given = {name: getattr(donor, name) for name in NAMES}
    given["observations"][...] = 77
    wrapped = mock(buf=given)
    observations, _ = wrapped.reset(seed=3)
    assert (
        np.shares_memory(observations["agent_1"], given["observations"])
        and wrapped.masks is given["masks"]
    )
    assert same_bits(wrapped.dict_obs, mock().reset(seed=3)[0])


def test_the_order_of_calls_and_wrong_actions() -> None:
    wrapped = mock("box", "choice", "stable")
    with pytest.raises(APIUsageError, match=r"step\(\) was called before reset\(\)"):
        wrapped.step([0, 0])
    wrapped.reset(seed=1)
    for actions, error, message in (
        ([0, 0, 0], APIUsageError, r"actions have shape \(3,\): this env has 2 agents"),
        ({"agent_0": 0}, APIUsageError, r"actions are missing for the live agents \['agent_1'\]"),
        ({"agent_0": 0, "agent_1": 0, "x": 0}, InvalidAgentError, "there is no agent 'x'"),
        ([0.0, 0.0], APIUsageError, "actions have dtype float64"),
        ([3, 0], APIUsageError, "is not in Discrete"),
    ):
        with pytest.raises(error, match=message):
            wrapped.step(actions)
    for _ in range(9):
        if not wrapped.done:
            wrapped.step([0, 0])
    with pytest.raises(APIUsageError, match=r"step\(\) was called after the episode ended"):
        wrapped.step([0, 0])


class Small:
    """A parallel env by hand: `script` lists what each step returns."""

    render_mode = None

    def __init__(self, script: list[Any], spaces_by_agent: dict[str, Any] | None = None) -> None:
        self.script, self.possible_agents, self.agents = script, ["a", "b"], ["a", "b"]
        self.spaces = spaces_by_agent or {}

    def observation_space(self, agent: str) -> Any:
        return self.spaces.get(agent, spaces.Box(-1, 1, (1,)))

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None) -> Any:
        return {agent: np.ones(1, np.float32) for agent in self.agents}, {}

    def step(self, actions: Any) -> Any:
        observations, rewards, terminations, truncations, self.agents = self.script.pop(0)
        return observations, rewards, terminations, truncations, {}


def test_an_agent_that_ends_without_an_observation_keeps_its_reward_and_flag() -> None:
    last = np.full(1, 0.5, np.float32)
    script = [
        ({"a": last}, {"a": 1, "b": 2}, {"a": False, "b": True}, {"a": False, "b": False}, ["a"]),
        ({"a": last}, {"a": 1, "b": 9}, {"a": True, "b": True}, {"a": False, "b": False}, []),
    ]
    wrapped = PettingZooPufferEnv(env=Small(script))
    wrapped.reset()
    wrapped.step([0, 0])
    assert wrapped.rewards.tolist() == [1, 2] and wrapped.terminals.tolist() == [False, True]
    assert wrapped.masks.all() and wrapped.observations.ravel().tolist() == [0.5, 0]
    wrapped.step([0, 0])
    assert wrapped.rewards.tolist() == [1, 0] and wrapped.terminals.tolist() == [True, True]
    assert wrapped.masks.tolist() == [True, False] and wrapped.done


def test_an_episode_is_over_when_all_have_ended_in_one_way_or_the_other() -> None:
    """Also where the env leaves the names in `agents`."""
    seen = {agent: np.ones(1, np.float32) for agent in "ab"}
    wrapped = PettingZooPufferEnv(
        env=Small(
            [(seen, {"a": 0, "b": 0}, {"a": True, "b": False}, {"a": False, "b": True}, ["a", "b"])]
        )
    )
    wrapped.reset()
    wrapped.step([0, 0])
    assert wrapped.done


def test_envs_that_cannot_have_rows_are_refused() -> None:
    with pytest.raises(ConfigError, match="observation_space of 'b' is Discrete.*, that of 'a' "):
        PettingZooPufferEnv(env=Small([], {"b": spaces.Discrete(3)}))
    nobody = Small([])
    nobody.possible_agents = []
    with pytest.raises(ConfigError, match="no possible_agents"):
        PettingZooPufferEnv(env=nobody)


def test_a_wrong_or_unknown_observation_is_named() -> None:
    for seen, error, message in (
        ({"a": np.zeros(2, np.float32)}, SpaceMismatchError, r"observation has shape \(2,\)"),
        ({"c": np.zeros(1, np.float32)}, InvalidAgentError, "there is no agent 'c'"),
    ):
        env = Small([])
        env.reset = lambda seen=seen, **_: (seen, {})  # type: ignore[method-assign]
        with pytest.raises(error, match=message):
            PettingZooPufferEnv(env=env).reset()
