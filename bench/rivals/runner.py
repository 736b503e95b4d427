# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The runner that a library's file returns to sample.py: it steps the envs and counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


class Missing(Exception):
    """The error for a library that is not installed or lacks a feature; the table has its text."""


@dataclass(frozen=True)
class Job:
    """One sample.

    Attributes:
        rival: module in bench/rivals.
        workload: name in envs.MAKERS, or the library's own env.
        copies: number of simultaneous processes, whose steps are summed.
        pufferlib: whether it runs in PufferLib's interpreter (older NumPy and Gymnasium, whose
            CartPole costs less).
        waits: whether it is one of several copies, which begin when all are ready.
    """

    rival: str
    workload: str
    num_envs: int
    settings: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.5
    warmup_s: float = 0.2
    copies: int = 1
    pufferlib: bool = False
    waits: bool = False


@dataclass(frozen=True)
class Count:
    """The counts of some turns.

    Attributes:
        rows: received observations.
        resets: those of them that begin an episode, and so are not transitions.
    """

    rows: int
    resets: int


class Runner:
    """A runner of one vector env.

    In next-step mode a done row is followed by a row that is only the reset; in the others each row
    is a transition. So the done rows of a next-step library are subtracted from its rows.
    """

    def __init__(
        self,
        turn: Callable[[Any], Any],
        actions: Sequence[Any],
        rows: int,
        *,
        next_step: bool = True,
        close: Callable[[], Any] = lambda: None,
    ) -> None:
        """Prepare the runner.

        Args:
            turn: steps with the actions of a turn, and returns its done flags, (rows,) bool.
            actions: the actions, which are repeated.
        """
        self._turn, self._actions, self._rows, self._next_step = turn, actions, rows, next_step
        self.close = close
        self._at = 0

    def run(self, turns: int) -> Count:
        """Step this many turns and count."""
        turn, actions, at, done = self._turn, self._actions, self._at, 0
        count_nonzero, length = np.count_nonzero, len(actions)
        for index in range(at, at + turns):
            done += int(count_nonzero(turn(actions[index % length])))
        self._at += turns
        return Count(turns * self._rows, done if self._next_step else 0)
