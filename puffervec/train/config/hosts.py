# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The section [ray]: settings of hosts that collect rollouts for a learner. Imports no torch."""

from __future__ import annotations

import dataclasses
from typing import Literal

from puffervec.train.config.tables import number


@dataclasses.dataclass(frozen=True)
class RaySection:
    """Settings of hosts that collect rollouts for the learner over Ray; each runs a vec env.

    Needs the extra ray.
    """

    address: str = ""
    """Ray cluster: local (starts one on this machine), auto, or HOST:PORT; empty: no Ray, rollouts
    are collected on this machine."""
    hosts: int = number(0, least=0)
    """Number of hosts of all learners together. 0: one on each machine of the cluster, including
    machines that join later. If there are more hosts than machines, they share machines.
    """
    cpus: int = number(0, least=0)
    """CPUs per host; 0: those of its machine, divided among the hosts on it."""
    segments: int = number(0, least=0)
    """Number of rollouts of hosts per update; 0: the number of hosts, or 1 if that is 0 too. With 1
    an update has as many rows as on a single machine; each further one adds as many.
    """
    ahead: int = number(2, least=1)
    """Number of rollouts that are requested from a host in advance; 1: the host waits for each
    update."""
    max_lag: int = number(4, least=0)
    """Largest age of a rollout's weights, in updates; older rollouts are dropped."""
    observations: Literal["auto", "exact", "bf16", "uint8"] = "auto"
    """Format in which hosts send float32 observations; auto: the format in which the learner stores
    them. uint8: 256 levels between the lowest and the highest value of each number in the rollout.
    """
    wait_s: float = number(60.0, above=0)
    """Longest wait, in seconds, until the cluster has free resources for the hosts; their start may
    take ten times as long."""

    @property
    def learned_segments(self) -> int:
        """Number of segments that an update learns from; 1 without Ray."""
        return max(1, self.segments or self.hosts) if self.address else 1
