# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The section [ray]: settings of hosts that collect rollouts for a learner. Imports no torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from puffervec.errors import ConfigError
from puffervec.train.config import algorithms
from puffervec.train.config.checks import at_least, positive

if TYPE_CHECKING:
    from puffervec.train.config.sections import TrainSection


@dataclasses.dataclass(frozen=True)
class RaySection:
    """Settings of hosts that collect rollouts for the learner over Ray; each runs a vec env.

    Needs the extra ray.
    """

    address: str = ""
    """Ray cluster: local (starts one on this machine), auto, or HOST:PORT; empty: no Ray, rollouts
    are collected on this machine."""
    hosts: int = 0
    """Number of hosts of all learners together. 0: one on each machine of the cluster, including
    machines that join later. If there are more hosts than machines, they share machines.
    """
    cpus: int = 0  # CPUs per host; 0: those of its machine, divided among the hosts on it.
    segments: int = 0
    """Number of rollouts of hosts per update; 0: the number of hosts, or 1 if that is 0 too. With 1
    an update has as many rows as on a single machine; each further one adds as many.
    """
    ahead: int = 2
    """Number of rollouts that are requested from a host in advance; 1: the host waits for each
    update."""
    max_lag: int = 4
    """Largest age of a rollout's weights, in updates; older rollouts are dropped."""
    observations: Literal["auto", "exact", "bf16", "uint8"] = "auto"
    """Format in which hosts send float32 observations; auto: the format in which the learner stores
    them. uint8: 256 levels between the lowest and the highest value of each number in the rollout.
    """
    wait_s: float = 60.0
    """Longest wait, in seconds, until the cluster has free resources for the hosts; their start may
    take ten times as long."""

    def check(self) -> None:
        """Raise ConfigError for values that cannot work."""
        at_least("ray", self, 0, "hosts", "cpus", "segments", "max_lag")
        at_least("ray", self, 1, "ahead")
        positive("ray", self, "wait_s")

    def check_with(self, train: TrainSection, used: Iterable[str]) -> None:
        """Raise ConfigError for settings that hosts do not support.

        Args:
            train: the run's training section.
            used: names of the policies' algorithms.
        """
        if not self.address:
            return
        for name, why in (
            ("asynchronous", "hosts collect rollouts during updates in any case"),
            (
                "deterministic",
                "updates use rollouts in order of arrival, which differs between runs",
            ),
        ):
            if getattr(train, name):
                raise ConfigError(
                    f"train.{name} is true and ray.address {self.address!r}: {why}; leave one of "
                    "them out"
                )
        if train.tensor_parallel > 1:
            raise ConfigError(
                f"train.tensor_parallel is {train.tensor_parallel}: hosts do not support pictures "
                "that are split by columns: leave out --ray, or set it to 1"
            )
        for algorithm in used:
            if not algorithms.get(algorithm).corrects_lag:
                raise ConfigError(
                    f"train.algorithm {algorithm} cannot learn from the rollouts of hosts, whose "
                    "weights are older than the learner's: leave out --ray, or use one of "
                    f"{', '.join(algorithms.CORRECTING)}"
                )

    @property
    def learned_segments(self) -> int:
        """Number of segments that an update learns from; 1 without Ray."""
        return max(1, self.segments or self.hosts) if self.address else 1
