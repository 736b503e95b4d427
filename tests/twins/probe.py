# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Twin of one probe env with one group of rows (mode 0), written from the description at the head
of csrc/envs/probe.c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from puffervec.testing.reference import philox


@dataclass
class ProbeRows:
    """(A, 8) float32 observations, (A,) float32 rewards, (A,) bool flags."""

    observations: np.ndarray
    rewards: np.ndarray
    terminals: np.ndarray
    truncations: np.ndarray
    masks: np.ndarray


class ProbeTwin:
    """One env of the probe. Keywords as in ProbeConfig."""

    def __init__(
        self,
        seed: int,
        num_agents: int = 1,
        episode_length: int = 3,
        end_kind: int = 0,
        leave: int = 0,
        task: int = -1,
    ) -> None:
        """`seed` is the env's own seed; `task` is what set_tasks gave it before the reset."""
        self.seed, self.agents, self.episode_length = seed, num_agents, episode_length
        self.end_kind, self.leave, self.task = end_kind, leave, task
        self.episode = -1
        self.clock = 0

    def begin(self) -> ProbeRows:
        """Start the next episode and show its reset rows."""
        self.episode += 1
        self.t = 0
        self.over = False
        self.last_action = [0] * self.agents
        return self._show(
            np.zeros(self.agents),
            [False] * self.agents,
            [False] * self.agents,
            [True] * self.agents,
        )

    def step(self, actions: Sequence[int]) -> ProbeRows:
        """Take a step, or begin the next episode where this one is over."""
        self.clock += 1
        if self.over:
            return self.begin()
        self.t += 1
        self.over = self.t == self.episode_length
        by_time_limit = {0: False, 1: True, 2: self.episode % 2 == 1}[self.end_kind]
        rewards, terminals, truncations, masks = [], [], [], []
        for agent in range(self.agents):
            gone = bool(self.leave) and 0 < agent < self.t
            leaves = bool(self.leave) and 0 < agent == self.t
            if not gone:
                self.last_action[agent] = int(actions[agent])
            rewards.append(0.0 if gone else self.t + 0.25 * agent + int(actions[agent]) / 16)
            terminals.append(not gone and (leaves or (self.over and not by_time_limit)))
            truncations.append(not gone and not leaves and self.over and by_time_limit)
            masks.append(not gone)
        return self._show(rewards, terminals, truncations, masks)

    def _show(
        self,
        rewards: Sequence[float],
        terminals: list[bool],
        truncations: list[bool],
        masks: list[bool],
    ) -> ProbeRows:
        observations = np.zeros((self.agents, 8), np.float32)
        for agent in range(self.agents):
            if masks[agent]:
                observations[agent] = [
                    self.seed % 4096, self.episode, self.t, agent, self.last_action[agent],
                    philox.uniform(self.seed, self.episode, self.t, agent), self.task, self.clock,
                ]  # fmt: skip
        return ProbeRows(
            observations,
            np.array(rewards, np.float32),
            np.array(terminals),
            np.array(truncations),
            np.array(masks),
        )
