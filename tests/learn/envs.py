# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Tiny envs, each with one difficulty and a best return that is known: `best` per episode, rewards
of 0 to 1 per step.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from torch import Tensor

from puffervec.train.policies.leaves import Observations
from puffervec.train.policies.mlp import MLPPolicy

Step = tuple[Any, float, bool, bool, dict[str, Any]]


class Task(gymnasium.Env[Any, Any]):
    """Episodes of `steps` steps. A subclass says in `observe` what is shown next, and in `reward`
    what an action is worth.
    """

    best: ClassVar[float]
    steps: ClassVar[int] = 8
    clock: int

    def observe(self) -> Any:
        raise NotImplementedError

    def reward(self, action: Any) -> float:
        raise NotImplementedError

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.clock = 0
        return self.observe(), {}

    def step(self, action: Any) -> Step:
        assert self.action_space.contains(action), action
        reward = self.reward(action)
        self.clock += 1
        return self.observe(), reward, self.clock == self.steps, False, {}


class Bandit(Task):
    """Four arms that pay their mean with much noise. Nothing is to be seen."""

    steps, best = 1, 0.9
    MEANS = (0.3, 0.5, 0.9, 0.1)
    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(len(MEANS))

    def observe(self) -> Any:
        return np.zeros(1, np.float32)

    def reward(self, action: Any) -> float:
        return self.MEANS[action] + float(self.np_random.normal(0, 0.4))


class Copy(Task):
    """1 for the choice that is shown."""

    best = 8.0
    observation_space = action_space = spaces.Discrete(5)

    def observe(self) -> Any:
        self.shown = int(self.np_random.integers(5))
        return self.shown

    def reward(self, action: Any) -> float:
        return float(action == self.shown)


class DelayedCopy(Task):
    """1 for the choice that was shown four steps ago, when asked for it: a policy without memory
    gets a third.

    Episodes are no multiple of any usual rollout, so that what is remembered has to cross from one
    into the next.
    """

    CHOICES, ROUND = 3, 5
    BLANK, ASKED = CHOICES, CHOICES + 1
    steps, best = 2 * ROUND, 2.0
    observation_space = spaces.Discrete(CHOICES + 2)
    action_space = spaces.Discrete(CHOICES)

    def observe(self) -> Any:
        at = self.clock % self.ROUND
        if at == 0:
            self.shown = int(self.np_random.integers(self.CHOICES))
            return self.shown
        return self.ASKED if at == self.ROUND - 1 else self.BLANK

    def reward(self, action: Any) -> float:
        return float(self.clock % self.ROUND == self.ROUND - 1 and action == self.shown)


class Echo(Task):
    """1 for the choice that was shown two steps ago, at every step: three things are under way at
    once. A third without memory.

    Unlike DelayedCopy, no gate can hold one thing and shut the others out.
    """

    CHOICES, DELAY = 3, 2
    steps, best = 11, 9.0
    observation_space = action_space = spaces.Discrete(CHOICES)

    def observe(self) -> Any:
        self.shown = [] if self.clock == 0 else self.shown[-self.DELAY :]
        self.shown.append(int(self.np_random.integers(self.CHOICES)))
        return self.shown[-1]

    def reward(self, action: Any) -> float:
        return float(self.clock >= self.DELAY and action == self.shown[0])


class Target(Task):
    """1 less the mean square distance between two numbers and one and a half times those that are
    shown.
    """

    best = 8.0
    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Box(-2, 2, (2,), np.float32)

    def observe(self) -> Any:
        self.shown = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.shown

    def reward(self, action: Any) -> float:
        return 1.0 - float(np.square(action - 1.5 * self.shown).mean())


class Parts(Task):
    """The share of three choices among 2, 3 and 4 that are those shown: credit for each part comes
    in one number.
    """

    best = 8.0
    observation_space = action_space = spaces.MultiDiscrete([2, 3, 4])

    def observe(self) -> Any:
        self.shown = self.np_random.integers(0, [2, 3, 4])
        return self.shown

    def reward(self, action: Any) -> float:
        return float((action == self.shown).mean())


class Spot(Task):
    """1 for the quarter of 16 x 16 points with a bright spot of 2 x 2 in noise."""

    best = 8.0
    observation_space = spaces.Box(0, 255, (16, 16, 1), np.uint8)
    action_space = spaces.Discrete(4)

    def observe(self) -> Any:
        picture = self.np_random.integers(0, 120, (16, 16, 1), dtype=np.uint8)
        y, x = self.np_random.integers(0, 15, 2)
        picture[y : y + 2, x : x + 2] = 255
        self.quarter = 2 * int(y >= 8) + int(x >= 8)
        return picture

    def reward(self, action: Any) -> float:
        return float(action == self.quarter)


class Dodge(Task):
    """1 where both choices are the same one of four, and not the one that the first of them was a
    step ago.

    Nothing is to be seen, so the best is to draw one of four at random, for both: 1 in the first
    step, 3/4 in each other one. If each is drawn on its own, the first with probabilities p and the
    second with q, a step pays the sum of p (1 - p) q, which is at most 1/4.
    """

    best, alone = 1 + 7 * 3 / 4, 1 + 7 / 4
    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.MultiDiscrete([4, 4])

    def observe(self) -> Any:
        if self.clock == 0:
            self.before = -1
        return np.zeros(1, np.float32)

    def reward(self, action: Any) -> float:
        first, second = map(int, action)
        dodged, self.before = first != self.before, first
        return float(first == second and dodged)


class CutShort(gymnasium.Env[Any, Any]):
    """In the yard one may take 2 and end, or go into the house, where each step pays 1 for ever;
    half of all steps are cut.

    With a discount of 0.9 the house is worth 10 and the yard 9. A trainer for which a cut is an end
    finds less than 1 for going in and takes the 2; one that goes on with the next episode's yard
    finds 5.5 for the house; one for which an end is a cut takes the 2 too.
    """

    DISCOUNT = 0.9
    YARD, HOUSE = 0, 1
    VALUES = (9.0, 10.0)
    observation_space = spaces.Discrete(2)
    action_space = spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = self.YARD
        return self.place, {}

    def step(self, action: Any) -> Step:
        cut = bool(self.np_random.random() < 0.5)
        if self.place == self.HOUSE:
            return self.place, 1.0, False, cut, {}
        if action == 0:
            return self.place, 2.0, True, False, {"went_in": 0.0}
        self.place = self.HOUSE
        return self.place, 0.0, False, cut, {"went_in": 1.0}


class Squashed(MLPPolicy):
    """For the probe, whose observations are counters up to 4,096: sees their logarithms."""

    def features(self, obs: Observations) -> Tensor:
        return super().features(
            {name: part.float().clamp_min(0).log1p() for name, part in obs.items()}
        )
