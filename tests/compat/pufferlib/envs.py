# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Small envs whose numbers are all known beforehand, for tests of puffervec/compat/pufferlib/."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from puffervec.compat.pufferlib.emulation import GymnasiumPufferEnv
from puffervec.compat.pufferlib.postprocess import EpisodeStats
from puffervec.workers.python.puffer_env import PufferEnv

IMAGE = np.arange(24, dtype=np.uint8).reshape(4, 6)


class Counter(gymnasium.Env[Any, Any]):
    """Counts steps to `length`; the reward is the step, the info has numbers, a nested one, an
    array and a text.
    """

    def __init__(self, length: int = 3, box_action: bool = False) -> None:
        self.observation_space = spaces.Box(0, 255, (4, 6), np.uint8)
        self.action_space = (
            spaces.Box(-1, 1, (2,), np.float32) if box_action else spaces.Discrete(2)
        )
        self.length, self.count, self.resets = length, 0, 0
        self.last_action: Any = None
        self.last_options: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self.count, self.last_options = 0, options
        self.resets += 1
        return IMAGE, {"resets": self.resets}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        self.last_action = action
        info = {
            "n": self.count, "deep": {"half": 0.5, "deeper": {"yes": True}},
            "array": np.full(2, self.count), "text": "none",
        }  # fmt: skip
        return IMAGE, float(self.count), self.count == self.length, False, info


class NestedCounter(gymnasium.Env[Any, Any]):
    """A Dict observation of mixed dtypes that tells the step and the last action."""

    observation_space = spaces.Dict(
        image=spaces.Box(0, 255, (3,), np.uint8),
        inner=spaces.Tuple((spaces.Discrete(100), spaces.Box(-np.inf, np.inf, (2,), np.float32))),
    )

    def __init__(self, length: int = 5, action_space: spaces.Space[Any] | None = None) -> None:
        self.action_space = action_space or spaces.MultiDiscrete([3, 4])
        self.length, self.count = length, 0

    def _observe(self) -> dict[str, Any]:
        level = np.array([self.count / 4, -self.count], np.float32)
        return {"image": np.full(3, self.count, np.uint8), "inner": (np.int64(self.count), level)}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self.count = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        return self._observe(), float(np.sum(action)), self.count == self.length, False, {}


class TwoAgents:
    """A ParallelEnv without PettingZoo: "b" leaves after step 2, "a" is cut off after step 3.
    Reward: step times 1 or 10.
    """

    metadata: dict[str, Any] = {}
    render_mode = None
    possible_agents = ["a", "b"]
    _hidden = 1

    def __init__(self) -> None:
        self.agents: list[str] = []
        self.count, self.closed = 0, False
        self.last_reset: dict[str, Any] = {}
        self._spaces = spaces.Box(0, 9, (1,), np.float32), spaces.Discrete(2)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self._spaces[0]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self._spaces[1]

    def _by_agent(self, *values: Any) -> dict[str, Any]:
        return {agent: values[self.possible_agents.index(agent)] for agent in self.agents}

    def reset(self, **arguments: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        self.agents, self.count, self.last_reset = ["a", "b"], 0, arguments
        ones = np.zeros(1, np.float32)
        return self._by_agent(ones, ones), self._by_agent({"start": 1}, {"start": 3})

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        self.count += 1
        now = np.full(1, self.count, np.float32)
        result = (
            self._by_agent(now, now), self._by_agent(float(self.count), 10.0 * self.count),
            self._by_agent(False, self.count == 2), self._by_agent(self.count == 3, False),
            self._by_agent({"n": 2, "word": "x"}, {"n": 4, "deep": {"m": 1}}),
        )  # fmt: skip
        self.agents = [agent for agent in self.agents if not (result[2][agent] or result[3][agent])]
        return result

    def render(self) -> str:
        return "drawn"

    @property
    def unwrapped(self) -> TwoAgents:
        return self

    def close(self) -> None:
        self.closed = True


def make_counter(length: int = 3, buf: Any = None, seed: int | None = 0) -> GymnasiumPufferEnv:
    """A creator as PufferLib's users write them."""
    return GymnasiumPufferEnv(env=EpisodeStats(Counter(length)), buf=buf, seed=seed)


class Native(PufferEnv):
    """Three agents in one env: observation (agent + seed, step); an agent's reward is its action;
    done after 4 steps.
    """

    def __init__(self, agents: int = 3, buf: Any = None, seed: int | None = 0) -> None:
        self.single_observation_space = spaces.Box(-100, 100, (2,), np.float32)
        self.single_action_space = spaces.Discrete(5)
        self.num_agents, self.seed, self.count = agents, seed or 0, 0
        super().__init__(buf)

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, list[dict[str, Any]]]:
        self.seed, self.count = self.seed if seed is None else seed, 0
        self.observations[:, 0] = np.arange(self.num_agents) + self.seed
        self.observations[:, 1] = 0
        return self.observations, []

    def step(self, actions: Any) -> tuple[Any, ...]:
        self.count += 1
        self.observations[:, 1] = self.count
        self.rewards[:] = actions
        self.terminals[:] = self.count % 4 == 0
        infos = [{"count": self.count}] if self.count % 4 == 0 else []
        return self.observations, self.rewards, self.terminals, self.truncations, infos

    def close(self) -> None:
        pass
