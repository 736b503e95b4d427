# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Every mock env through Serial and Multiprocessing: the same trajectories as stepping the envs by
hand, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

import puffervec
from puffervec.vec.vector_env import VectorEnv
from tests.mock_envs import MULTI, SINGLE, same_bits, sample

pytestmark = pytest.mark.usefixtures("no_leaks")

ENVS, STEPS, SEED = 3, 20, 100
# Workers are forked, which is fast; how the envs travel to workers that are not is the business of
# test_python_faults.py.
WAYS = {
    "serial": {"backend": "serial"},
    "multiprocessing": {"backend": "multiprocessing", "num_workers": 2, "start_method": "fork"},
}


class SingleByHand:
    """One gymnasium.Env, stepped with next-step autoreset."""

    def __init__(self, env: Any) -> None:
        self.env, self.over = env, False

    def reset(self, seed: int | None = None) -> list[Any]:
        """Return one row (observation, reward, terminal, truncation, mask), and the info."""
        self.over = False
        observation, info = self.env.reset(seed=seed)
        return [[(observation, 0.0, False, False, True)], info]

    def step(self, actions: list[Any]) -> list[Any]:
        if self.over:
            return self.reset()
        observation, reward, terminated, truncated, info = self.env.step(actions[0])
        self.over = terminated or truncated
        return [[(observation, reward, terminated, truncated, True)], info]


class MultiByHand:
    """One parallel env, stepped with next-step autoreset; a row per possible agent, None for one
    that is not there.
    """

    def __init__(self, env: Any) -> None:
        self.env = env

    def reset(self, seed: int | None = None) -> list[Any]:
        observations, infos = self.env.reset(seed=seed)
        return self._rows(observations, {}, {}, {}, infos)

    def step(self, actions: list[Any]) -> list[Any]:
        if not self.env.agents:
            return self.reset()
        alive = zip(self.env.possible_agents, actions, strict=True)
        return self._rows(
            *self.env.step({agent: action for agent, action in alive if agent in self.env.agents})
        )

    def _rows(
        self, observations: Any, rewards: Any, terminals: Any, truncations: Any, infos: Any
    ) -> list[Any]:
        rows = [
            (
                observations.get(agent),
                rewards.get(agent, 0.0),
                terminals.get(agent, False),
                truncations.get(agent, False),
                agent in observations,
            )
            for agent in self.env.possible_agents
        ]
        return [rows, {agent: info for agent, info in infos.items() if info}]


def draw_actions(
    vec: VectorEnv, rng: np.random.Generator, step: int
) -> tuple[np.ndarray, list[Any]]:
    """Return (rows to send, the native action of each row): members of the flat space, and encoded
    native ones, in turn.
    """
    plan = vec.spec.groups[0].action_plan
    assert plan is not None
    rows = np.zeros((vec.num_agents, *plan.row_shape), plan.row_dtype)
    native = []
    for row in range(vec.num_agents):
        if (
            step % 2 and plan.kind != "bytes"
        ):  # the bytes of hybrid actions are no space to draw from
            rows[row] = sample(vec.single_action_space, rng)
            native.append(plan.decode(rows[row]))
        else:
            native.append(sample(plan.space, rng))
            plan.encode(native[-1], rows[row, ...])
    return rows, native


def trajectory(vec: VectorEnv) -> Iterator[tuple[Any, list[Any]]]:
    """Yield (result of recv, native actions that led to it) for a reset and STEPS steps."""
    rng = np.random.default_rng(1)
    vec.async_reset(SEED)
    yield vec.recv(), []
    for step in range(STEPS):
        rows, native = draw_actions(vec, rng, step)
        vec.send(rows)
        yield vec.recv(), native


def compare(factory: Callable[[], Any], by_hand: type[Any], settings: dict[str, Any]) -> None:
    hands = [by_hand(factory()) for _ in range(ENVS)]
    ends = 0
    with puffervec.make(factory, num_envs=ENVS, **settings) as vec:
        plan, agents = vec.spec.groups[0].observation_plan, vec.spec.agents
        assert plan is not None and vec.single_observation_space == plan.emulated_space
        for step, (result, native) in enumerate(trajectory(vec)):
            observations, rewards, terminals, truncations, infos, ids, masks = result
            assert observations.dtype == plan.row_dtype and observations.shape == (
                ENVS * agents,
                *plan.row_shape,
            )
            assert ids.tolist() == list(range(ENVS * agents))
            shares = [native[agents * i : agents * (i + 1)] for i in range(ENVS)]
            expected = [
                hand.step(shares[i]) if step else hand.reset(SEED + i)
                for i, hand in enumerate(hands)
            ]
            assert infos.per_env(ENVS) == [info for _, info in expected]
            assert list(infos) == [info for _, info in expected if info]
            rows = [row for env_rows, _ in expected for row in env_rows]
            for i, (observation, reward, terminal, truncation, there) in enumerate(rows):
                assert (rewards[i], terminals[i], truncations[i], masks[i]) == (
                    reward,
                    terminal,
                    truncation,
                    there,
                ), (step, i)
                ends += terminal or truncation
                if there:
                    assert same_bits(plan.nativize(observations[i]), observation), (step, i)
                else:
                    assert not observations[i, ...].any(), (step, i)
    assert ends >= ENVS  # the trajectories went over ends of episodes


def cases(names: Iterable[str]) -> list[Any]:
    """Every fourth in this process, every twelfth in worker processes, where the same code writes
    the rows; with slow tests all of them in this process, and every fourth in worker processes.
    """
    return [
        pytest.param(
            name,
            way,
            id=f"{name}-{way}",
            marks=[pytest.mark.slow] if i % (4 if way == "serial" else 12) else [],
        )
        for i, name in enumerate(names)
        for way in WAYS
        if way == "serial" or i % 4 == 0
    ]


@pytest.mark.parametrize(("name", "way"), cases(SINGLE))
def test_single_agent_envs(name: str, way: str) -> None:
    compare(SINGLE[name], SingleByHand, WAYS[way])


@pytest.mark.parametrize(("name", "way"), cases(MULTI))
def test_multi_agent_envs(name: str, way: str) -> None:
    pytest.importorskip("pettingzoo")
    compare(MULTI[name], MultiByHand, WAYS[way])
