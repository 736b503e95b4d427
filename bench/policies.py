# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Policies between `recv` and `send`: none, a wait in place of a GPU, or a small torch policy.

A policy is called with the half's index and rows, and returns the half's actions. Runs in the
learner.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import sys
import time
from collections.abc import Callable, Mapping
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
    """A replacement of a policy that returns prepared actions, half by half."""

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
    """A replacement of a GPU that waits without using the CPU, then returns prepared actions.

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


class Torch:
    """An MLP on a torch device, with one hidden layer of 64 and random weights.

    It chooses the most probable action.
    """

    def __init__(self, vec: VectorEnv, device: str, threads: int = 1) -> None:
        """Make the network.

        Raises:
            ConfigError: rows are not one flat array, or the device does not exist.
        """
        import torch

        group = vec.spec.groups[0]
        if (
            len(vec.spec.groups) > 1
            or group.flat_dtype is None
            or group.action_kind == "continuous"
        ):
            raise ConfigError(
                f"--policy torch: {vec.env.name} has rows or actions that the benchmark's small "
                "policy does not take"
            )
        if device.startswith("cuda") and not torch.cuda.is_available():
            raise ConfigError(
                f"--device {device}: torch finds no CUDA device here; use --device cpu"
            )
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        features = group.observation_bytes // group.flat_dtype.itemsize
        self._sizes = list(group.action_sizes)
        self._flat = group.action_kind == "discrete"
        self._torch = torch
        self._device = torch.device(device)
        net = torch.nn.Sequential(
            torch.nn.Linear(features, 64), torch.nn.ReLU(), torch.nn.Linear(64, sum(self._sizes))
        )
        self._net = net.to(self._device).eval()

    def __call__(self, half: int, rows: tuple[Any, ...]) -> Any:
        torch = self._torch
        with torch.inference_mode():
            observations = torch.from_numpy(rows[0]).to(self._device, torch.float32)
            heads = self._net(observations).split(self._sizes, dim=-1)
            chosen = torch.stack([head.argmax(dim=-1) for head in heads], dim=-1)
            actions = chosen[:, 0] if self._flat else chosen
            return np.ascontiguousarray(actions.cpu().numpy())


def time_policy(vec: VectorEnv, make: Callable[[VectorEnv], Policy], calls: int = 30) -> float:
    """Return the median seconds of a call of a policy on a half of `vec`, whose `recv` is due.

    Nothing else runs meanwhile.
    """
    policy = make(vec)
    rows = vec.recv()
    times = []
    for _ in range(calls):
        begin = time.perf_counter()
        policy(vec.half, rows)
        times.append(time.perf_counter() - begin)
    return float(np.median(times))
