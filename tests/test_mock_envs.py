# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The mock envs themselves (tests/mock_envs.py): many, honest about their spaces, and sensitive to every action."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from tests.mock_envs import ACTIONS, MULTI, OBSERVATIONS, SINGLE, make_multi, make_single, same_bits, sample


def test_there_are_enough_of_them_and_every_space_is_used() -> None:
    assert len(SINGLE) >= 54 and len(MULTI) >= 54
    assert {name.split("-")[0] for name in SINGLE} == set(OBSERVATIONS)
    assert {name.split("-")[1] for name in SINGLE} == set(ACTIONS)


@pytest.mark.parametrize("name", [*OBSERVATIONS, *ACTIONS])
def test_samples_are_members(name: str) -> None:
    rng = np.random.default_rng(0)
    for space in [make()[name]() for make in (lambda: OBSERVATIONS, lambda: ACTIONS) if name in make()]:
        assert all(space.contains(sample(space, rng)) for _ in range(30))


@pytest.mark.parametrize("factories", [SINGLE, MULTI], ids=["single", "multi"])
def test_factories_can_be_pickled_by_name(factories: dict[str, Any]) -> None:
    text = pickle.dumps(factories)
    assert len(text) < 200 * len(factories)
    assert list(pickle.loads(text)) == list(factories)


def rollout(actions: list[int], seed: int = 0) -> list[Any]:
    """Return what 60 steps give, episodes joined, with `actions` in turn."""
    env, trace = make_single("mixed", "many"), []
    trace.append(env.reset(seed=seed))
    for turn in range(60):
        outcome = env.step(np.array([0, actions[turn % len(actions)], 0]))
        trace.append(outcome)
        if outcome[2] or outcome[3]:
            trace.append(env.reset())
    return trace


def test_a_trajectory_is_fixed_by_seed_and_actions() -> None:
    first = rollout([1, 2])
    assert same_bits(tuple(step[0] for step in first), tuple(step[0] for step in rollout([1, 2])))
    for other in (rollout([2, 1]), rollout([1, 2], seed=1)):
        assert not same_bits(first[10][0], other[10][0])
    ends = {(step[2], step[3]) for step in first if len(step) == 5}
    assert ends == {(False, False), (True, False), (False, True)}


def test_the_dtype_of_an_action_counts() -> None:
    env, other = make_single("box", "many"), make_single("box", "many")
    env.reset(seed=0), other.reset(seed=0)
    assert not same_bits(env.step(np.zeros(3, np.int64))[0], other.step(np.zeros(3, np.int32))[0])


def test_agents_swapped_or_lost_are_noticed() -> None:
    pytest.importorskip("pettingzoo")
    traces = []
    for actions in ((0, 1), (1, 0)):
        env = make_multi("box", "choice", "stable")
        env.reset(seed=0)
        traces.append(env.step({agent: np.int64(action) for agent, action in zip(env.agents, actions, strict=True)})[0])
    assert not same_bits(traces[0]["agent_0"], traces[1]["agent_0"])
    with pytest.raises(ValueError, match="are alive"):
        env.step({"agent_0": np.int64(0)})
