# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A walk over shared levels: shared state and continuous actions, as PufferLib 3.0 has it."""

import gymnasium
import numpy as np
import pufferlib
from pufferlib.ocean.three_levels import binding


class Levels(pufferlib.PufferEnv):
    def __init__(self, num_envs=64, num_levels=7, render_mode=None, buf=None, seed=0):
        self.num_agents = num_envs
        self.num_obs = 5
        self.single_observation_space = gymnasium.spaces.Box(
            low=-10, high=10, shape=(self.num_obs,), dtype=np.float32
        )
        self.single_action_space = gymnasium.spaces.Box(
            low=-1, high=1, shape=(2,), dtype=np.float32
        )
        self.render_mode = render_mode
        super().__init__(buf)
        self.state = binding.shared(num_levels=num_levels)
        self.c_envs = binding.vec_init(
            self.observations,
            self.actions,
            self.rewards,
            self.terminals,
            self.truncations,
            num_envs,
            seed,
            num_levels=num_levels,
            state=self.state,
        )

    def reset(self, seed=0):
        binding.vec_reset(self.c_envs, seed)
        return self.observations, []

    def step(self, actions):
        self.actions[:] = actions
        binding.vec_step(self.c_envs)
        return self.observations, self.rewards, self.terminals, self.truncations, []

    def close(self):
        binding.vec_close(self.c_envs)
