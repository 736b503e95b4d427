# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The runner that a library's file returns to sample.py: it takes turns and counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


class Missing(Exception):
    """A library that is not installed, or cannot do what is asked. The text goes into the table."""


@dataclass(frozen=True)
class Job:
    """One sample.

    Attributes:
        rival: module in bench/rivals. workload: name in envs.MAKERS, or what the library makes of
        it.
        copies: processes that do the same at the same time, whose steps are added up.
        pufferlib: runs in PufferLib's interpreter (older NumPy and Gymnasium, whose CartPole costs
        less).
        waits: one of several copies, which begins when all are ready.
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
    """rows: observations received. resets: those of them that are no transition but the begin of an
    episode.
    """

    rows: int
    resets: int


class Runner:
    """Takes turns with one vector env.

    In next-step mode a done row is followed by a row that is only the reset; in the others each row
    is a transition. So that all are counted alike, a next-step library's done rows are taken off
    its rows.
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
        """Args: turn: takes the actions of a turn and returns its done flags, (rows,) bool.
        actions: taken over and over.
        """
        self._turn, self._actions, self._rows, self._next_step = turn, actions, rows, next_step
        self.close = close
        self._at = 0

    def run(self, turns: int) -> Count:
        """Take that many turns."""
        turn, actions, at, done = self._turn, self._actions, self._at, 0
        count_nonzero, length = np.count_nonzero, len(actions)
        for index in range(at, at + turns):
            done += int(count_nonzero(turn(actions[index % length])))
        self._at += turns
        return Count(turns * self._rows, done if self._next_step else 0)
