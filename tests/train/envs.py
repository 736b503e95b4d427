# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Small Python envs whose best returns are known, for the tests of the trainer; and makers that
fail.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

STEPS = 4  # of an episode, unless said otherwise


class Guess(gymnasium.Env[Any, Any]):
    """Reward 1 for each number of the action that is the one shown; the best return is STEPS x
    numbers.

    Its observation is a Dict of all kinds of leaves with starts and a float64 Box; its actions
    begin at 1.
    """

    def __init__(self, numbers: int = 2, choices: int = 3, nested: bool = True) -> None:
        self.shown = spaces.MultiDiscrete([choices] * numbers, start=[1] * numbers)
        self.action_space = spaces.MultiDiscrete([choices] * numbers, start=[1] * numbers)
        self.observation_space: spaces.Space[Any] = spaces.Dict(
            shown=self.shown,
            clock=spaces.Discrete(STEPS + 1, start=5),
            rest=spaces.Tuple(
                [
                    spaces.Box(-5, 5, (3,), np.float64),
                    spaces.MultiBinary(2),
                    spaces.Box(0, 255, (2, 2), np.uint8),
                ]
            ),
        )
        if not nested:
            self.observation_space = spaces.Box(1, choices, (numbers,), np.float64)
        self.nested = nested

    def _observe(self) -> Any:
        self.right = self.np_random.integers(self.shown.start, self.shown.start + self.shown.nvec)
        if not self.nested:
            return self.right.astype(np.float64)
        noise = (
            self.np_random.uniform(-5, 5, 3),
            self.np_random.integers(0, 2, 2, np.int8),
            np.full((2, 2), 9, np.uint8),
        )
        return {"shown": self.right, "clock": 5 + self.clock, "rest": noise}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.clock = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        hits = int((action == self.right).sum())
        self.clock += 1
        info: dict[str, Any] = {"hits": hits, "word": "no number"}
        return self._observe(), float(hits), self.clock == STEPS, False, info


class Reports(gymnasium.Env[Any, Any]):
    """Three steps; infos hold the step's number, and at the end whether the episode was solved:
    every second one is.
    """

    observation_space, action_space = spaces.Box(0, 3, (1,), np.float32), spaces.Discrete(2)
    episodes = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.clock = 0
        self.episodes += 1
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.clock += 1
        info: dict[str, Any] = {"nested": {"step": self.clock}}
        if self.clock == 3:
            info["solved"] = self.episodes % 2 == 0
        return np.full(1, self.clock, np.float32), 0.0, self.clock == 3, False, info


class Aim(gymnasium.Env[Any, Any]):
    """Reward minus the square of the distance between the action and what is shown, in bounds
    -2..4; the best return is 0.

    Episodes are truncated. dtype: of the Boxes.
    """

    def __init__(self, dtype: str = "float32") -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (1,), np.dtype(dtype).type)
        self.action_space = spaces.Box(-2, 4, (1,), np.dtype(dtype).type)

    def _observe(self) -> Any:
        self.right = self.np_random.uniform(-1, 3, 1)
        return (100 + 10 * self.right).astype(self.observation_space.dtype)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.clock = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        reward = -float((action[0] - self.right[0]) ** 2)
        self.clock += 1
        return self._observe(), reward, False, self.clock == STEPS, {}


class Leavers:
    """A PettingZoo ParallelEnv, by shape: agent i leaves after i + 1 steps and gets reward 1 for
        the number that it sees.

    The best return is 2 on the mean over the three agents, and 1, 2, 3 for each.
    """

    metadata: dict[str, Any] = {}
    render_mode = None
    possible_agents = ["first", "second", "third"]

    def __init__(self) -> None:
        self.observation_spaces = {agent: spaces.Discrete(2) for agent in self.possible_agents}
        self.action_spaces = {agent: spaces.Discrete(2, start=3) for agent in self.possible_agents}
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> Any:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        return self.action_spaces[agent]

    def _observe(self, agents: list[str]) -> dict[str, int]:
        self.right = {agent: int(self.random.integers(2)) for agent in agents}
        return dict(self.right)

    def reset(
        self, seed: int | None = None, options: Any = None
    ) -> tuple[dict[str, int], dict[str, Any]]:
        if seed is not None or not hasattr(self, "random"):
            self.random = np.random.default_rng(seed)
        self.agents, self.clock = list(self.possible_agents), 0
        return self._observe(self.agents), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, int]) -> tuple[Any, ...]:
        assert set(actions) == set(self.agents)
        before, self.clock = self.agents, self.clock + 1
        rewards = {agent: float(actions[agent] - 3 == self.right[agent]) for agent in before}
        over = {agent: self.possible_agents.index(agent) < self.clock for agent in before}
        self.agents = [agent for agent in before if not over[agent]]
        infos = {agent: {"hit": rewards[agent]} for agent in before}
        return self._observe(before), rewards, over, dict.fromkeys(before, False), infos

    def close(self) -> None:
        pass


class Pictures(gymnasium.Env[Any, Any]):
    """A picture that is bright or dark; reward 1 for saying which."""

    observation_space = spaces.Box(0, 255, (40, 40, 3), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.right = int(self.np_random.integers(2))
        return np.full((40, 40, 3), 200 * self.right, np.uint8), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros((40, 40, 3), np.uint8), float(action == self.right), True, False, {}


class Endless(Aim):
    """Never ends an episode."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, *_ = super().step(action)
        return observation, reward, False, False, {}


class Spike(Aim):
    """Shows an infinite number once, at its `at`-th observation."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at, self.seen = at, 0

    def _observe(self) -> Any:
        self.seen += 1
        return super()._observe() * np.float32(np.inf if self.seen == self.at else 1)


class Odd(Guess):
    """Spaces that no policy fits: `Odd("mixed")` and so on."""

    SPACES = {
        "mixed": spaces.Tuple([spaces.Discrete(2), spaces.Box(-1, 1, (2,))]),
        "integers": spaces.Box(0, 9, (2,), np.int32),
        "nothing": spaces.Box(-1, 1, (0,)),
        "many": spaces.Discrete(10**6),
        "text": spaces.Text(3),
    }

    def __init__(self, kind: str) -> None:
        super().__init__()
        if kind == "blind":
            self.observation_space = spaces.Box(-1, 1, (0,))
        else:
            self.action_space = self.SPACES[kind]


def fails() -> Any:
    raise RuntimeError("no engine\nfound")


def no_env() -> Any:
    return 3


class Turns:
    """Looks like a PettingZoo AEC env."""

    possible_agents = ["one"]

    def agent_iter(self) -> Any:
        return iter(self.possible_agents)


NOT_CALLABLE = 3
