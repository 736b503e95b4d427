# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The compared modes of stepping a workload, and the timed loop.

Runs in the learner; each measurement starts new workers.

An iteration is one step of every env: one turn (`recv`, policy, `send`) with one buffer, two turns
with two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from bench.policies import Policy, Replay, Wait
from bench.workloads import Workload
from puffervec.system.cores import usable_cores
from puffervec.vec.vector_env import VectorEnv

SHORTEST_ITERATION_S = 10e-6  # Lower bound of an iteration, for planning.


@dataclass(frozen=True)
class Mode:
    """A mode of stepping envs.

    Attributes:
        workers: number of workers per half, None for serial.
        cores: usable cores that its workers can keep busy simultaneously.
    """

    name: str
    backend: str
    workers: int | None = None
    num_buffers: int = 1
    split: str = "workers"

    @property
    def cores(self) -> int:
        return min(self.workers or 1, usable_cores())

    def fits(self, num_envs: int) -> bool:
        """Return whether every worker has an env of each half that it serves."""
        on_a_half = (self.workers or 1) // (
            2 if self.num_buffers == 2 and self.split == "workers" else 1
        )
        return num_envs % self.num_buffers == 0 and on_a_half <= num_envs // self.num_buffers

    @property
    def settings(self) -> dict[str, Any]:
        """Return the arguments of `puffervec.make`."""
        workers: dict[str, Any] = {} if self.workers is None else {"num_workers": self.workers}
        return {**workers, "num_buffers": self.num_buffers, "split": self.split}


def modes(workers: Sequence[int]) -> list[Mode]:
    """Return all modes for these numbers of workers per half.

    Two buffers that are split by workers need twice as many processes: one set per half.
    """
    result = [Mode("serial", "serial")]
    for count in workers:
        result += [
            Mode("threading", "threading", count),
            Mode("multiprocess", "multiprocessing", count),
            Mode("double, split workers", "multiprocessing", 2 * count, 2, "workers"),
            Mode("double, split envs", "multiprocessing", count, 2, "envs"),
        ]
    return result


def baseline(mode: Mode, among: Sequence[Mode]) -> Mode | None:
    """Return the single-buffer mode with as many workers per half, for comparison.

    The result is None for a single-buffer mode.
    """
    if mode.num_buffers == 1 or mode.workers is None:
        return None
    count = mode.workers // 2 if mode.split == "workers" else mode.workers
    return next(
        (other for other in among if other.name == "multiprocess" and other.workers == count), None
    )


@dataclass(frozen=True)
class PolicyChoice:
    """The choice of a policy.

    Attributes:
        kind: "none" or "wait".
        half_s: seconds of the wait for one half.
    """

    kind: str = "none"
    half_s: float = 0.0

    def build(self, vec: VectorEnv, actions: Mapping[str, np.ndarray]) -> Policy:
        """Return the policy for a vector env.

        A wait is proportional to rows, so it takes twice as long with one buffer.
        """
        replay = Replay(vec, actions)
        return Wait(replay, self.half_s * 2 / vec.num_buffers) if self.kind == "wait" else replay


@dataclass(frozen=True)
class Sample:
    """One measurement.

    Attributes:
        iteration_s: seconds per step of all envs.
        policy_s: mean seconds of a call of a waiting policy, else 0.
    """

    iteration_s: float
    policy_s: float


def turn(vec: VectorEnv, policy: Policy, turns: int) -> float:
    """Step `turns` turns and return their seconds. A `recv` is due before and after."""
    recv, send = vec.recv, vec.send
    begin = perf_counter()
    for _ in range(turns):
        rows = recv()
        send(policy(vec.half, rows))
    return perf_counter() - begin


def plan(seconds: float, limit_s: float, policy: PolicyChoice) -> int:
    """Return the number of iterations that take about `seconds`.

    Args:
        limit_s: seconds of one iteration of the C loop.
    """
    expected = max(limit_s, SHORTEST_ITERATION_S) + 2 * policy.half_s
    return max(2, round(seconds / expected))


def measure(
    workload: Workload,
    actions: Mapping[str, np.ndarray],
    mode: Mode,
    policy: PolicyChoice,
    iterations: int,
    warmup: int,
) -> Sample:
    """Start the workers, warm up, time `iterations` iterations, and stop the workers."""
    with workload.make(mode.backend, **mode.settings) as vec:
        chosen = policy.build(vec, actions)
        turn(vec, chosen, max(1, warmup) * vec.num_buffers)
        if isinstance(chosen, Wait):
            chosen.forget()
        seconds = turn(vec, chosen, iterations * vec.num_buffers)
        return Sample(seconds / iterations, chosen.mean_s if isinstance(chosen, Wait) else 0.0)


def measure_half(
    workload: Workload, actions: Mapping[str, np.ndarray], workers: int, turns: int, warmup: int
) -> float:
    """Measure the seconds in which `workers` workers step one half, without a policy.

    The result is the mean over turns of the slowest worker's own time. Time stamps are those of
    the workers, so waking them does not count.
    """
    half = workload.halved()
    with half.make("multiprocessing", num_workers=min(workers, half.num_envs)) as vec:
        policy = Replay(
            vec, {name: batches[:, : batches.shape[1] // 2] for name, batches in actions.items()}
        )
        turn(vec, policy, max(1, warmup))
        total = 0
        for _ in range(turns):
            rows = vec.recv()
            total += int(np.ptp(vec.timing(0), axis=1).max())
            vec.send(policy(0, rows))
        return total * 1e-9 / turns


Variant = tuple[Mode, PolicyChoice]
Runner = Callable[[], Any]
