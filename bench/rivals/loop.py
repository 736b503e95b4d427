# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A plain loop over one env, without any library: what one core could do."""

from __future__ import annotations

from typing import Any

from bench.rivals.envs import MAKERS, SEED, draw_actions
from bench.rivals.runner import Count, Job, Runner

STEPS_PER_TURN = 64


class Loop(Runner):
    """Steps one env and resets it where it is done. A reset is no step, but its time counts."""

    def __init__(self, env: Any) -> None:
        actions = [list(batch) for batch in draw_actions(env.action_space, STEPS_PER_TURN)]
        super().__init__(lambda batch: None, actions, STEPS_PER_TURN, close=env.close)
        self._env = env
        env.reset(seed=SEED)

    def run(self, turns: int) -> Count:
        """Take 64 steps per turn."""
        step, reset, actions = self._env.step, self._env.reset, self._actions
        for index in range(self._at, self._at + turns):
            for action in actions[index % len(actions)]:
                _, _, terminated, truncated, _ = step(action)
                if terminated or truncated:
                    reset()
        self._at += turns
        return Count(turns * self._rows, 0)


def open_runner(job: Job) -> Runner:
    """Return the loop."""
    return Loop(MAKERS[job.workload]())
