# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Train your own env with puffervec's trainer.

Run it as a script, or from the command line in this folder:

python train_any_env.py
puffer-train train_any_env:Thermostat --env.target 23.5 --total-timesteps 60000
puffer-train eval latest --env train_any_env:Thermostat
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

Observation = dict[str, Any]


class Thermostat(gymnasium.Env[Observation, np.ndarray]):
    """Keep a room at a temperature while the weather changes and a window opens now and then.

    Observation: degrees inside and outside, and whether the window is open. Action: heating (above
    0) or cooling, -1 to 1.
    Reward: minus the distance to the target in degrees, at each of 100 steps. No action at all
        gives about -1,000.
    """

    def __init__(self, target: float = 21.0) -> None:
        self.target = target
        self.observation_space = spaces.Dict(
            degrees=spaces.Box(-np.inf, np.inf, (2,), np.float64), window=spaces.Discrete(2)
        )
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def _observe(self) -> Observation:
        return {"degrees": np.array([self.inside, self.outside]), "window": self.window}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin a day."""
        super().reset(seed=seed)
        self.clock, self.window = 0, 0
        self.inside, self.outside = self.np_random.uniform(10, 30), self.np_random.uniform(-10, 20)
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Heat or cool for a while. puffer-train shows the means of the numbers in the info."""
        self.clock += 1
        if self.np_random.random() < 0.05:
            self.window = 1 - self.window
        self.outside += self.np_random.normal(0, 0.5)
        leak = 0.2 if self.window else 0.05
        self.inside += leak * (self.outside - self.inside) + 4.0 * float(action[0])
        away = abs(self.inside - self.target)
        return (
            self._observe(),
            -away,
            False,
            self.clock == 100,
            {"power": abs(float(action[0])), "away": away},
        )


if __name__ == "__main__":
    from puffervec.train import TrainConfig, Trainer, load_policy

    config = TrainConfig.of(Thermostat, env={"target": 23.5}, train={"total_timesteps": 60_000})
    with Trainer(config) as trainer:
        print(trainer.describe())
        metrics = trainer.train()
    print(
        f"return {metrics['episode/return']:.0f}, {metrics['env/away']:.1f} degrees from the target"
    )

    # Use the trained policy in one env.
    policy = load_policy(trainer.folder, env=Thermostat)
    env = Thermostat(target=23.5)
    observation, _ = env.reset(seed=0)
    away, over = [], False
    while not over:
        observation, _, _, over, info = env.step(policy.act(observation))
        away.append(info["away"])
    print(f"one day with the trained policy: {np.mean(away):.1f} degrees from the target")
