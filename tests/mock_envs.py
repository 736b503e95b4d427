# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Mock envs with nested spaces, for tests of everything that carries Python envs' rows.

An observation, a reward and the end of an episode depend on the seed, the episode, the step and a
checksum over the exact bytes of all actions since the seeded reset, so that one lost, changed or
swapped action changes all that follows.

    SINGLE: name -> factory of a gymnasium.Env
    MULTI: name -> factory of a pettingzoo.ParallelEnv

A factory is a functools.partial of a function of this module: it can be pickled by name.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

Box, Dict, Discrete, Tuple = spaces.Box, spaces.Dict, spaces.Discrete, spaces.Tuple
MultiBinary, MultiDiscrete = spaces.MultiBinary, spaces.MultiDiscrete

# ---- spaces --------------------------------------------------------------------------------------

OBSERVATIONS: dict[str, Callable[[], gymnasium.Space[Any]]] = {
    "box": lambda: Box(-1, 1, (4,)),
    "pixels": lambda: Box(0, 255, (5, 4, 3), np.uint8),
    "scalar": lambda: Box(-2, 2, ()),
    "wide": lambda: Box(-np.inf, np.inf, (2, 3), np.float64),
    "bits": lambda: Box(0, 1, (7,), np.bool_),
    "choice": lambda: Discrete(5),
    "shifted": lambda: Discrete(7, start=-3),
    "many": lambda: MultiDiscrete([3, 9, 2], start=[1, -4, 0]),
    "board": lambda: MultiDiscrete([[2, 3], [4, 5]]),
    "binary": lambda: MultiBinary([2, 3]),
    "floats": lambda: Dict(position=Box(-1, 1, (3,)), speed=Box(-5, 5, ())),
    "ints": lambda: Tuple([Discrete(4), MultiDiscrete([2, 300]), Discrete(2**40, start=2**33)]),
    "mixed": lambda: Dict(
        image=Box(0, 255, (3, 3), np.uint8), gear=Discrete(6), wind=Box(-1, 1, (2,), np.float64)
    ),
    "odd bytes": lambda: Dict(
        a=Box(0, 255, (3,), np.uint8),
        b=Box(-1, 1, (1,)),
        c=Box(-9, 9, (5,), np.int16),
        d=MultiBinary(1),
    ),
    "empty box": lambda: Dict(
        none=Box(-1, 1, (0,)), flat=Box(0, 9, (3, 0), np.int32), some=Box(-1, 1, (2,), np.float16)
    ),
    "only empty": lambda: Box(-1, 1, (0,)),
    "no parts": lambda: Dict(nothing=Dict({}), void=Tuple([]), last=Discrete(3)),
    "odd keys": lambda: Dict(
        {
            "": Discrete(2),
            "f0": Box(-1, 1, (1,)),
            "a b/c.d": MultiBinary(2),
            "é['x']": Box(0, 7, (), np.uint8),
        }
    ),
    "numbered": lambda: Dict({3: Box(-1, 1, (2,)), 20: Discrete(4)}),
    "deep": lambda: Dict(
        a=Dict(
            b=Tuple([Dict(c=Box(0, 255, (3,), np.uint8), d=Discrete(9, start=4)), MultiBinary(3)]),
            e=Box(-1, 1, (2, 2)),
        ),
        f=Tuple([Tuple([Discrete(2)]), Box(-8, 8, (), np.int64)]),
    ),
    "tall": lambda: Tuple(
        [
            Box(-1, 1, (2,), np.float64),
            Box(0, 255, (1,), np.uint8),
            Tuple([Box(0, 2**63, (2,), np.uint64)]),
        ]
    ),
}

ACTIONS: dict[str, Callable[[], gymnasium.Space[Any]]] = {
    "choice": lambda: Discrete(3),
    "shifted": lambda: Discrete(4, start=-2),
    "one": lambda: Discrete(1),
    "many": lambda: MultiDiscrete([3, 4, 5]),
    "shifted many": lambda: MultiDiscrete([3, 200], start=[-1, 7]),
    "board": lambda: MultiDiscrete([[2, 3], [4, 2]]),
    "binary": lambda: MultiBinary(4),
    "continuous": lambda: Box(-1, 1, (3,)),
    "scalar": lambda: Box(-2, 2, (), np.float64),
    "bytes": lambda: Box(0, 255, (2, 2), np.uint8),
    "dict": lambda: Dict(move=Discrete(5), look=MultiDiscrete([3, 3]), jump=MultiBinary(2)),
    "tuple": lambda: Tuple(
        [Discrete(3, start=1), Tuple([Discrete(2), Dict({"x y": MultiDiscrete([[2, 2]])})])]
    ),
    "boxes": lambda: Dict(arm=Box(-1, 1, (2,)), hand=Tuple([Box(0, 1, ()), Box(-3, 3, (1, 2))])),
    "hybrid": lambda: Dict(kind=Discrete(4), amount=Box(-1, 1, (2,)), flags=MultiBinary(3)),
}


def sample(space: gymnasium.Space[Any], rng: np.random.Generator) -> Any:
    """Return a member of `space` drawn from `rng`, with the types that `space.sample()` gives;
    floats include -0.0.
    """
    if isinstance(space, Dict):
        return {key: sample(part, rng) for key, part in space.spaces.items()}
    if isinstance(space, Tuple):
        return tuple(sample(part, rng) for part in space.spaces)
    if isinstance(space, Discrete):
        return space.dtype.type(int(space.start) + int(rng.integers(int(space.n))))
    if isinstance(space, MultiDiscrete):
        return (space.start + rng.integers(space.nvec)).astype(space.dtype).reshape(space.shape)
    if isinstance(space, MultiBinary):
        return rng.integers(0, 2, space.shape).astype(space.dtype)
    assert isinstance(space, Box)
    if space.dtype.kind == "f":
        values = rng.uniform(np.maximum(space.low, -1e3), np.minimum(space.high, 1e3))
        return (
            np.where(rng.random(space.shape) < 0.1, -0.0, values)
            .astype(space.dtype)
            .reshape(space.shape)
        )
    shares = rng.random(space.shape)
    low, high = space.low.astype(object), space.high.astype(object)
    drawn = [
        int(a) + int(share * (int(b) - int(a) + 1))
        for a, b, share in zip(low.flat, high.flat, shares.flat, strict=True)
    ]
    return np.array(drawn, space.dtype).reshape(space.shape)


def checksum(action: Any, start: int = 0) -> int:
    """Return the CRC of a nested value: keys, dtypes, shapes and bytes."""
    if isinstance(action, dict):
        return functools.reduce(
            lambda crc, item: checksum(item[1], zlib.crc32(repr(item[0]).encode(), crc)),
            action.items(),
            start,
        )
    if isinstance(action, tuple):
        return functools.reduce(
            lambda crc, part: checksum(part, crc), action, zlib.crc32(b"tuple", start)
        )
    array = np.asarray(action)
    return zlib.crc32(array.tobytes(), zlib.crc32(f"{array.dtype}{array.shape}".encode(), start))


def same_bits(a: Any, b: Any) -> bool:
    """Whether two nested values have the same structure, shapes, dtypes and bytes."""
    if isinstance(a, dict) or isinstance(b, dict):
        return (
            isinstance(a, dict)
            and isinstance(b, dict)
            and list(a) == list(b)
            and all(same_bits(a[key], b[key]) for key in a)
        )
    if isinstance(a, tuple) or isinstance(b, tuple):
        pair = isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b)
        return pair and all(same_bits(x, y) for x, y in zip(a, b, strict=True))
    x, y = np.asarray(a), np.asarray(b)
    return (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes())


class History:
    """What an observation depends on: seed, episode, step and the checksum of the actions since the
    seeded reset.
    """

    def __init__(self) -> None:
        self.seed, self.episode, self.step, self.crc = 0, 0, 0, 0

    def reset(self, seed: int | None) -> None:
        """Begin an episode; with a seed, begin from nothing."""
        if seed is not None:
            self.seed, self.episode, self.crc = seed, -1, 0
        self.episode, self.step = self.episode + 1, 0

    def rng(self, *extra: int) -> np.random.Generator:
        """Return the generator of this moment."""
        return np.random.default_rng([self.seed, self.episode, self.step, self.crc, *extra])

    def plan(self, *extra: int) -> np.random.Generator:
        """Return the generator of this episode's lengths."""
        return np.random.default_rng([self.seed, self.episode, self.crc, 1 << 20, *extra])


def reward_of(rng: np.random.Generator) -> float:
    """Return a reward that float32 holds exactly."""
    return float(rng.integers(-500, 500)) / 64.0


# ---- single-agent envs ---------------------------------------------------------------------------


class MockEnv(gymnasium.Env[Any, Any]):
    """An env whose next observation tells every action before it. Episodes last 1 to 9 steps and
    end in either way.

    Infos: empty after a reset; {"turn": int} every third step; at the end {"episode_length": int,
        "nested": {"score": float}}.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, observation: str, action: str, render_mode: str | None = None) -> None:
        self.observation_space, self.action_space = OBSERVATIONS[observation](), ACTIONS[action]()
        self.render_mode = render_mode
        self.history = History()
        self.length, self.score = 0, 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.history.reset(seed)
        self.length, self.score = int(self.history.plan().integers(1, 10)), 0.0
        return sample(self.observation_space, self.history.rng()), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.history.step >= self.length:
            raise RuntimeError("the episode is over: reset")
        # A number of a Box without axes is no array, as in Gymnasium's own vector envs, and its
        # `contains` warns of that.
        if not self.action_space.contains(
            np.asarray(action) if isinstance(action, np.generic) else action
        ):
            raise ValueError(f"{action!r} is not in {self.action_space}")
        history = self.history
        history.crc, history.step = checksum(action, history.crc), history.step + 1
        rng = history.rng()
        observation, reward, over = (
            sample(self.observation_space, rng),
            reward_of(rng),
            history.step >= self.length,
        )
        self.score += reward
        info: dict[str, Any] = {"turn": history.step} if history.step % 3 == 0 else {}
        if over:
            info |= {"episode_length": history.step, "nested": {"score": self.score}}
        terminated = over and history.episode % 2 == 0
        return observation, reward, terminated, over and not terminated, info

    def render(self) -> Any:
        """Return a picture of one colour that depends on the history."""
        if self.render_mode != "rgb_array":
            return None
        return np.full((4, 4, 3), self.history.crc % 256, np.uint8)


def make_single(observation: str, action: str, **kwargs: Any) -> MockEnv:
    """Return the mock env with these spaces (keys of OBSERVATIONS and ACTIONS)."""
    return MockEnv(observation, action, **kwargs)


# ---- multi-agent envs ----------------------------------------------------------------------------

# How agents come and go: number of possible agents, chance of being absent for an episode, whether
# some join late.
CROWDS: dict[str, tuple[int, float, bool]] = {
    "stable": (2, 0.0, False),
    "leaving": (3, 0.0, False),
    "absent": (4, 0.4, False),
    "late": (3, 0.2, True),
    "alone": (1, 0.0, False),
}


class _Crowd:
    """The parallel env of `make_multi`, without its base class (pettingzoo is optional)."""

    metadata = {"name": "mock_v0", "render_modes": ["rgb_array"]}

    def __init__(
        self, observation: str, action: str, crowd: str, render_mode: str | None = None
    ) -> None:
        self._observation, self._action = OBSERVATIONS[observation](), ACTIONS[action]()
        self.crowd, self.render_mode = crowd, render_mode
        self.possible_agents = [f"agent_{i}" for i in range(CROWDS[crowd][0])]
        self.agents: list[str] = []
        self.history = History()
        self.joins: dict[str, int] = {}
        self.leaves: dict[str, int] = {}

    def observation_space(self, agent: str) -> gymnasium.Space[Any]:
        return self._observation

    def action_space(self, agent: str) -> gymnasium.Space[Any]:
        return self._action

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        self.history.reset(seed)
        self._schedule()
        self.agents = [agent for agent in self.possible_agents if self.joins[agent] == 0]
        return {agent: self._observe(agent)[0] for agent in self.agents}, {
            agent: {} for agent in self.agents
        }

    def _schedule(self) -> None:
        """Draw at which step each agent joins (never: -1) and leaves."""
        count, absent, late = CROWDS[self.crowd]
        rng = self.history.plan()
        together = int(rng.integers(2, 8))
        joins = [0 if rng.random() >= absent else -1 for _ in range(count)]
        if late:
            joins = [int(rng.integers(0, 3)) if join == 0 else join for join in joins]
        joins[int(rng.integers(count))] = 0
        stays = [
            together if self.crowd == "stable" else int(rng.integers(1, 8)) for _ in range(count)
        ]
        self.joins = dict(zip(self.possible_agents, joins, strict=True))
        self.leaves = {
            agent: self.joins[agent] + stay
            for agent, stay in zip(self.possible_agents, stays, strict=True)
        }

    def _observe(self, agent: str) -> tuple[Any, float]:
        rng = self.history.rng(self.possible_agents.index(agent))
        return sample(self._observation, rng), reward_of(rng)

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        if not self.agents or set(actions) != set(self.agents):
            raise ValueError(f"actions for {sorted(actions)}, but {self.agents} are alive")
        history = self.history
        for agent in self.agents:
            if not self._action.contains(actions[agent]):
                raise ValueError(f"{actions[agent]!r} is not in {self._action}")
            history.crc = checksum(actions[agent], zlib.crc32(agent.encode(), history.crc))
        history.step += 1
        now = history.step
        seen = [
            agent
            for agent in self.possible_agents
            if agent in self.agents or self.joins[agent] == now
        ]
        pairs = {agent: self._observe(agent) for agent in seen}
        over = {agent: now >= self.leaves[agent] for agent in seen}
        early = {
            agent: (index + history.episode) % 2 == 0
            for index, agent in enumerate(self.possible_agents)
        }
        terminations = {agent: over[agent] and early[agent] for agent in seen}
        truncations = {agent: over[agent] and not early[agent] for agent in seen}
        infos = {agent: {"turn": now, "left": True} if over[agent] else {} for agent in seen}
        self.agents = [agent for agent in seen if not over[agent]]
        observations = {agent: pair[0] for agent, pair in pairs.items()}
        return (
            observations,
            {agent: pair[1] for agent, pair in pairs.items()},
            terminations,
            truncations,
            infos,
        )

    def render(self) -> Any:
        """Return a picture of one colour that depends on the history."""
        return np.full((4, 4, 3), self.history.crc % 256, np.uint8)

    def close(self) -> None:
        """Nothing is held."""


@functools.cache
def _parallel_class() -> type:
    from pettingzoo import ParallelEnv

    return type("MockParallelEnv", (_Crowd, ParallelEnv), {})


def make_multi(observation: str, action: str, crowd: str, **kwargs: Any) -> Any:
    """Return the mock parallel env with these spaces and agents (keys of OBSERVATIONS, ACTIONS and
    CROWDS).
    """
    return _parallel_class()(observation, action, crowd, **kwargs)


# ---- the lists -----------------------------------------------------------------------------------


def _pairs() -> list[tuple[str, str]]:
    """Return each observation space with three action spaces; every action space is used."""
    actions = list(ACTIONS)
    return [
        (name, actions[(3 * i + k) % len(actions)])
        for i, name in enumerate(OBSERVATIONS)
        for k in range(3)
    ]


SINGLE: dict[str, Callable[[], MockEnv]] = {
    f"{observation}-{action}": functools.partial(make_single, observation, action)
    for observation, action in _pairs()
}
MULTI: dict[str, Callable[[], Any]] = {
    f"{observation}-{action}-{crowd}": functools.partial(make_multi, observation, action, crowd)
    for i, (observation, action) in enumerate(_pairs())
    for crowd in [list(CROWDS)[i % len(CROWDS)]]
}
