# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A plain loop over one env or several, without any library, as a bound for one core.

Several envs cost more per step than one: their objects do not all fit into the caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.rivals.envs import MAKERS, SEED, draw_actions
from bench.rivals.runner import Count, Job, Runner

STEPS_PER_TURN = 64  # Steps of a single env.


class Loop(Runner):
    """A runner that steps envs one after another and resets those that are done.

    A reset is not a step, but its time counts.
    """

    def __init__(self, envs: Sequence[Any]) -> None:
        count = STEPS_PER_TURN if len(envs) == 1 else len(envs)
        actions = [list(batch) for batch in draw_actions(envs[0].action_space, count)]
        super().__init__(
            lambda batch: None, actions, count, close=lambda: [env.close() for env in envs]
        )
        self._calls = [(env.step, env.reset) for env in envs] * (count // len(envs))
        for env in envs:
            env.reset(seed=SEED)

    def run(self, turns: int) -> Count:
        """Step every env once per turn, a single one 64 times."""
        calls, actions = self._calls, self._actions
        for index in range(self._at, self._at + turns):
            for (step, reset), action in zip(calls, actions[index % len(actions)], strict=True):
                _, _, terminated, truncated, _ = step(action)
                if terminated or truncated:
                    reset()
        self._at += turns
        return Count(turns * self._rows, 0)


def open_runner(job: Job) -> Runner:
    """Return the loop."""
    return Loop([MAKERS[job.workload]() for _ in range(job.num_envs)])
