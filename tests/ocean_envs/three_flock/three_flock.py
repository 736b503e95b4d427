# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Birds on a torus: several agents per env, as PufferLib 3.0 has it."""

import gymnasium
import numpy as np
import pufferlib
from pufferlib.ocean.three_flock import binding


class Flock(pufferlib.PufferEnv):
    def __init__(
        self,
        num_envs=16,
        num_birds=5,
        crowding=0.25,
        report_interval=64,
        render_mode=None,
        buf=None,
        seed=0,
    ):
        self.single_observation_space = gymnasium.spaces.Box(
            low=0, high=255, shape=(6,), dtype=np.uint8
        )
        self.single_action_space = gymnasium.spaces.MultiDiscrete([3, 3])
        self.num_agents = num_envs * num_birds
        self.render_mode = render_mode
        self.report_interval = report_interval

        super().__init__(buf=buf)
        c_envs = []
        for i in range(num_envs):
            part = slice(i * num_birds, (i + 1) * num_birds)
            c_envs.append(
                binding.env_init(
                    self.observations[part],
                    self.actions[part],
                    self.rewards[part],
                    self.terminals[part],
                    self.truncations[part],
                    i + seed * num_envs,
                    num_birds=num_birds,
                    crowding=crowding,
                )
            )
        self.c_envs = binding.vectorize(*c_envs)

    def reset(self, seed=0):
        binding.vec_reset(self.c_envs, seed)
        self.tick = 0
        return self.observations, []

    def step(self, actions):
        self.actions[:] = actions
        binding.vec_step(self.c_envs)
        self.tick += 1
        info = []
        if self.tick % self.report_interval == 0:
            log = binding.vec_log(self.c_envs)
            if log:
                info.append(log)
        return self.observations, self.rewards, self.terminals, self.truncations, info

    def render(self):
        binding.vec_render(self.c_envs, 0)

    def close(self):
        binding.vec_close(self.c_envs)
