# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The collector of a run over Ray: hosts play, and the learner takes the segments that are ready.

It stands in for train/run/collector.py:

    learner  | weights out, requests | take K segments | update, while hosts play | weights out ...

Of this collector, a checkpoint contains only the episode means and the reward scale. A resumed run
begins new episodes, on any number of hosts or without Ray. Runs in the learner.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

import puffervec
from puffervec.errors import ConfigError, PuffervecError
from puffervec.train.collect.ahead import actor_of
from puffervec.train.collect.rollout import Times
from puffervec.train.collect.storage import Slot
from puffervec.train.metrics import keys
from puffervec.train.run.learner import Learner
from puffervec.train.run.setup import Setup
from puffervec.train.run.state import Files
from puffervec.train.run.tally import Tally
from puffervec.wings.ray.cluster import Cluster
from puffervec.wings.ray.host import Failure, HostInfo, HostSetup, dump_weights
from puffervec.wings.ray.segment import Segment, store_segment
from puffervec.wings.ray.source import SegmentSource, difference, mean_lag, sum_over_learners

# Hosts may take this many times `ray.wait_s` to start: scenes are compiled once on each machine.
STARTS = 10
POLL_S = 0.2  # The longest delay until a stop or a new machine is noticed.


def host_setup(setup: Setup, learner: Learner) -> HostSetup:
    """Return the set-up that the hosts of a run receive."""
    observations = setup.run.config.ray.observations
    if observations == "auto":
        observations = "bf16" if setup.bf16 else "exact"
    policies = {name: actor_of(policy).cpu() for name, policy in learner.policies.items()}
    config = setup.run.config.without_ray()
    config = dataclasses.replace(
        config, train=dataclasses.replace(config.train, device="cpu", threads=0)
    )
    return HostSetup(
        config, policies, setup.bf16, observations, puffervec.__version__, setup.spec_hash, 0
    )


class RayCollector(Tally):
    """A collector that copies the rollouts of hosts into a learner's storages."""

    def __init__(self, setup: Setup, learner: Learner, cluster: Cluster) -> None:
        """Start the hosts and wait for them.

        Raises:
            ConfigError: the hosts do not start in time, or one cannot start because of bad settings
                or data.
            PuffervecError: a host cannot start for another reason.
        """
        super().__init__(setup.run.rows, learner.storages, setup.ranks)
        config, section = setup.run.config, setup.run.config.ray
        self.cluster, self.learner = cluster, learner
        self.turns, self.full, self.times = 0, False, Times()
        self.slots = {
            name: Slot(
                name,
                learner.policies[name],
                setup.run.rows[name].group,
                storage,
                setup.run.rows[name].agents,
            )
            for name, storage in learner.storages.items()
        }
        self.notes = list(cluster.notes)
        cluster.notes.clear()
        self._horizon, self._segments, self._num_envs = (
            config.train.horizon,
            section.learned_segments,
            config.vec.num_envs,
        )
        self.source = SegmentSource(
            cluster, section.max_lag, section.ahead, config.vec.num_envs * setup.ranks.size
        )
        self._before = dataclasses.replace(self.source.counts)
        self._has_facts = False
        self._weights_changed = True  # Whether they have changed since they were published.
        cluster.start(host_setup(setup, learner))
        self._await_hosts(STARTS * section.wait_s)

    def _await_hosts(self, limit_s: float) -> None:
        give_up = time.monotonic() + limit_s
        wanted = self.cluster.hosts or 1
        while len(self.source.members) < wanted:
            self._admit(POLL_S)
            if time.monotonic() > give_up:
                raise ConfigError(
                    f"ray.hosts is {self.cluster.section.hosts}: {len(self.source.members)} of "
                    f"{wanted} started within {limit_s:g} s, {STARTS} x ray.wait_s: look into the "
                    "logs of Ray, or raise ray.wait_s"
                )

    def _admit(self, timeout_s: float) -> None:
        """Add the hosts that are ready, and forget those whose machine has left."""
        for host in self.cluster.sync():
            if host in self.source.members:
                self.source.leave(host)
        for host, answer in self.cluster.poll_started(timeout_s):
            if isinstance(answer, Failure):
                kind = ConfigError if answer.bad_input else PuffervecError
                raise kind(f"{self.cluster.name(host)}: {answer.text}")
            self._join(host, answer)

    def _join(self, host: int, info: HostInfo) -> None:
        if not self._has_facts:
            self.expect(info.facts)
            self._has_facts = True
        self.source.join(host, info.incarnation)
        if self.source.version >= 0:
            self.notes.append(f"{self.cluster.name(host)} has joined")

    def begin(self, seed: int) -> None:
        """Set the seed of the envs that hosts start from now on."""
        self.source.begin(seed)
        self.full = True

    def collect(self, stop: Callable[[], bool]) -> bool:
        """Copy the next segments into the learner's storages.

        Returns: False if `stop()` was true on any rank before they were complete.

        Raises:
            PuffervecError, ConfigError: a host failed in a way that would repeat itself.
        """
        begin = time.perf_counter()
        if self._weights_changed:
            self.source.publish(
                dump_weights({name: self.learner.policies[name] for name in self.learner.storages})
            )
            self._weights_changed = False
        self.source.fill()
        copied = self.times.copy
        segments: list[Segment] = []
        while len(segments) < self._segments and not stop():
            if (segment := self.source.next(POLL_S)) is not None:
                self._store(segment, len(segments))
                segments.append(segment)
            self._admit(0.0)
            self.source.top_up(self._segments - len(segments))
        complete = not self.ranks.agree(len(segments) < self._segments)[0]
        if complete:
            self.count([segment.counted for segment in segments])
            self.scale_rewards([segment.counted for segment in segments])
            self.turns += self._horizon * self._segments
            self._weights_changed = True
        self.times.env += time.perf_counter() - begin - (self.times.copy - copied)
        return complete

    def _store(self, segment: Segment, place: int) -> None:
        begin = time.perf_counter()
        store_segment(segment, self.learner.storages, place)
        self.times.copy += time.perf_counter() - begin

    def go_ahead(self) -> None:
        """Do nothing: hosts always play during updates."""

    def wait(self) -> None:
        """Do nothing: the hosts' work is not part of a checkpoint."""

    def close(self) -> None:
        """Do nothing: the trainer, which made the cluster, closes it."""

    def means(self) -> dict[str, float]:
        """Return the metrics of finished episodes and of all learners' hosts since the last call.

        All ranks must call it.
        """
        total = sum_over_learners(self.source.counts, self.ranks.sums)
        span, self._before = difference(total, self._before), total
        return super().means() | {
            keys.RAY_HOSTS: self.ranks.sums([len(self.source.members)])[0],
            keys.RAY_LAG: mean_lag(span),
            keys.RAY_DROPPED: float(total.dropped),
            keys.RAY_DEATHS: float(total.restarts),
            keys.RAY_BYTES: span.nbytes / max(1, span.agent_steps),
            keys.RAY_HOST_SPEED: span.agent_steps / max(1e-9, span.seconds),
        }

    def describe(self) -> str:
        """Return the hosts, envs, rows and segments of the run in words."""
        hosts, rows = (
            len(self.source.members),
            sum(storage.rows for storage in self.learner.storages.values()) // self._segments,
        )
        segments = f"{self._segments} segment{'s' * (self._segments != 1)} an update"
        return (
            f"{hosts} host{'s' * (hosts != 1)} of {self._num_envs} envs, {rows} rows each, "
            f"{segments}"
        )

    def load_state(self, files: Files) -> list[str]:
        """Resume from a checkpoint of a run with or without Ray."""
        super().load_state(files)
        return ["continues with new episodes: the envs of hosts are not part of a checkpoint"]
