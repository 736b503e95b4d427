# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Policies between `recv` and `send`: none, or a wait in place of a GPU.

A policy is called with the half's index and rows, and returns the half's actions. Runs in the
learner.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import sys
import time
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from bench.workloads import half_actions
from puffervec.errors import ConfigError
from puffervec.vec.vector_env import VectorEnv

_PR_SET_TIMERSLACK = 29
_LEAD_STEP_NS = 200


class Policy(Protocol):
    """A function that chooses the actions of a half from its rows, as returned by `recv`."""

    def __call__(self, half: int, rows: tuple[Any, ...]) -> Any: ...


class Replay:
    """A stand-in for a policy that returns prepared actions, half by half."""

    def __init__(self, vec: VectorEnv, actions: Mapping[str, np.ndarray]) -> None:
        self._next = [itertools.cycle(batches).__next__ for batches in half_actions(vec, actions)]

    def __call__(self, half: int, rows: tuple[Any, ...]) -> Any:
        return self._next[half]()


def precise_sleeps() -> None:
    """Make the kernel wake this thread on time; by default it may be 50 us late to save power."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)


class Wait:
    """A stand-in for a GPU: it waits without using the CPU, then returns prepared actions.

    The thread sleeps (clock_nanosleep, no spinning). It would wake some 20 us late, so it sleeps
    shorter by a lead that is adjusted after each wait: half of the waits end too early and half too
    late. `mean_s` is their actual mean.
    """

    def __init__(self, actions: Policy, seconds: float) -> None:
        """Prepare the waits.

        Args:
            actions: returns the actions.
            seconds: seconds per call.

        Raises:
            ConfigError: the time is negative, too long or not finite.
        """
        if not 0 <= seconds < 60:
            raise ConfigError(f"a policy of {seconds} s: give a time from 0 to 60 s")
        precise_sleeps()
        self._actions = actions
        self._wanted_ns = round(seconds * 1e9)
        self._lead_ns = min(20_000, self._wanted_ns // 2)
        self._count = 0
        self._waited_ns = 0

    def __call__(self, half: int, rows: tuple[Any, ...]) -> Any:
        begin = time.monotonic_ns()
        chosen = self._actions(half, rows)
        rest = begin + self._wanted_ns - self._lead_ns - time.monotonic_ns()
        if rest > 0:
            time.sleep(rest * 1e-9)
        waited = time.monotonic_ns() - begin
        self._lead_ns += _LEAD_STEP_NS if waited > self._wanted_ns else -_LEAD_STEP_NS
        self._lead_ns = max(0, min(self._lead_ns, self._wanted_ns))
        self._count += 1
        self._waited_ns += waited
        return chosen

    def forget(self) -> None:
        """Reset `mean_s` after a warm-up, without changing the lead."""
        self._count = self._waited_ns = 0

    @property
    def mean_s(self) -> float:
        """Mean seconds per call since the start or the last `forget`."""
        return self._waited_ns * 1e-9 / max(1, self._count)
