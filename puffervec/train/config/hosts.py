# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The section [ray]: hosts that play for a learner. Imports no torch."""

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
    """Hosts that play rollouts for the learner, over Ray; each runs the envs of vec.

    Needs the extra ray.
    """

    address: str = ""
    """The Ray cluster: local (starts one on this machine), auto, or HOST:PORT; empty: play here,
    without Ray."""
    hosts: int = 0
    """How many play; with several learners that is of all together. 0: one on each machine of the
    cluster, also on those that join later. More than there are machines share them.
    """
    cpus: int = 0  # CPUs of a machine that a host takes; 0: all, divided among the hosts on it.
    segments: int = 0
    """Rollouts of hosts that an update learns from; 0: as many as hosts, or 1 where their number
    is 0 too. With 1 an update has as many rows as on one machine, with more of them more.
    """
    ahead: int = 2
    """Rollouts that a host may be asked for before the first is learned from; 1: it waits for each
    update."""
    max_lag: int = 4  # Rollouts of weights that are more updates old than this are dropped.
    observations: Literal["auto", "exact", "bf16", "uint8"] = "auto"
    """How hosts send float32 observations; auto: as the learner keeps them. uint8: 256 steps
    between the least and the largest value of each number in the rollout.
    """
    wait_s: float = 60.0
    """Seconds to wait for the cluster to have room for the hosts; to start they have ten times as
    long."""

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
            ("asynchronous", "hosts play during updates anyhow"),
            (
                "deterministic",
                "rollouts are learned from in the order in which they arrive, so no two runs are "
                "alike",
            ),
        ):
            if getattr(train, name):
                raise ConfigError(
                    f"train.{name} is true and ray.address {self.address!r}: {why}; leave one of "
                    "them out"
                )
        if train.tensor_parallel > 1:
            raise ConfigError(
                f"train.tensor_parallel is {train.tensor_parallel}: pictures that are shared by "
                "columns cannot come from hosts; leave out --ray, or set it to 1"
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
        """Segments that an update learns from; 1 without Ray."""
        return max(1, self.segments or self.hosts) if self.address else 1
