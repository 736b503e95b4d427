# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Envs with constant or random step times, for the stragglers of bench/bottlenecks.py.

Runs in workers, so it does not import torch.
"""

from __future__ import annotations

from typing import Any

import gymnasium

from bench.rivals.envs import LogNormal

# Factor on the step times of bench/peers.py: with 2 ms the trainer's own work is small.
SLOWER = 10.0


class Sleeper(LogNormal):
    """An env that sleeps in its steps, as if waiting for another machine.

    So the wait does not depend on the number of cores.
    """

    def __init__(self, even: bool) -> None:
        """Make the env. Args: even: whether every step takes the mean time."""
        super().__init__(busy=False)
        self._even = even

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Draw the step times."""
        result = super().reset(seed=seed, options=options)
        mean = sum(self._times) / len(self._times)
        self._times = [SLOWER * (mean if self._even else seconds) for seconds in self._times]
        return result


def uneven_env(even: bool, steps: int = 128) -> gymnasium.Env[Any, Any]:
    """Make an env for the rows of stragglers."""
    return gymnasium.wrappers.TimeLimit(Sleeper(even), steps)
