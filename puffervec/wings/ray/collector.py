# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The collector of a run over Ray: hosts play, and the learner takes what is ready. In the place of
run/collector.py.

    learner  | weights out, orders | take K segments | update, while hosts play | weights out ...

Nothing of it is in a checkpoint but the means of episodes and the scale of rewards: a run goes on
with new episodes, on any number of hosts or without. Runs in the learner.
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
from puffervec.wings.ray.feed import Feed, lag_of, of_all, of_span
from puffervec.wings.ray.host import About, Failed, Outfit, weights_of
from puffervec.wings.ray.segment import Segment, put

# Times `ray.wait_s` that hosts may take to start: scenes are compiled once on each machine.
STARTS = 10
POLL_S = 0.2  # How late a stop, or a machine that joins, may be noticed.


def outfit_of(setup: Setup, learner: Learner) -> Outfit:
    """Return what hosts are made of."""
    observations = setup.config.ray.observations
    if observations == "auto":
        observations = "bf16" if setup.bf16 else "exact"
    policies = {name: actor_of(policy).cpu() for name, policy in learner.policies.items()}
    config = setup.config.without_ray()
    config = dataclasses.replace(
        config, train=dataclasses.replace(config.train, device="cpu", threads=0)
    )
    return Outfit(
        config, policies, setup.bf16, observations, puffervec.__version__, setup.spec_hash, 0
    )


class RayCollector(Tally):
    """Gives a learner the roll-outs of hosts."""

    def __init__(self, setup: Setup, learner: Learner, cluster: Cluster) -> None:
        """Start the hosts and wait for them. Raises: ConfigError, PuffervecError: one cannot start."""
        super().__init__(setup.rows, learner.storages, setup.ranks)
        config, section = setup.config, setup.config.ray
        self.cluster, self.learner = cluster, learner
        self.turns, self.full, self.times = 0, False, Times()
        self.slots = {
            name: Slot(
                name,
                learner.policies[name],
                setup.rows[name].group,
                storage,
                setup.rows[name].agents,
            )
            for name, storage in learner.storages.items()
        }
        self.notes = list(cluster.notes)
        cluster.notes.clear()
        self._horizon, self._wanted, self._num_envs = (
            config.train.horizon,
            section.learned_segments,
            config.vec.num_envs,
        )
        self.feed = Feed(
            cluster, section.max_lag, section.ahead, config.vec.num_envs * setup.ranks.size
        )
        self._before = dataclasses.replace(self.feed.figures)
        self._expects = False
        self._learned_from = True  # Weights have changed since they were published.
        cluster.start(outfit_of(setup, learner))
        self._await_hosts(STARTS * section.wait_s)

    def _await_hosts(self, limit_s: float) -> None:
        give_up = time.monotonic() + limit_s
        wanted = self.cluster.hosts or 1
        while len(self.feed.members) < wanted:
            self._admit(POLL_S)
            if time.monotonic() > give_up:
                raise ConfigError(
                    f"ray.hosts is {self.cluster.section.hosts}: {len(self.feed.members)} of "
                    f"{wanted} started within {limit_s:g} s, {STARTS} x ray.wait_s: look into the "
                    "logs of Ray, or give them longer"
                )

    def _admit(self, timeout_s: float) -> None:
        """Let hosts join that are ready, and forget those whose machine has left."""
        for host in self.cluster.sync():
            if host in self.feed.members:
                self.feed.leave(host)
        for host, answer in self.cluster.arrived(timeout_s):
            if isinstance(answer, Failed):
                kind = ConfigError if answer.bad_input else PuffervecError
                raise kind(f"{self.cluster.name(host)}: {answer.words}")
            self._join(host, answer)

    def _join(self, host: int, about: About) -> None:
        if not self._expects:
            self.expect(about.facts)
            self._expects = True
        self.feed.join(host, about.life)
        if self.feed.version >= 0:
            self.notes.append(f"{self.cluster.name(host)} has joined")

    def begin(self, seed: int) -> None:
        """Start new episodes in all envs; hosts do so anyhow."""
        self.feed.begin(seed)
        self.full = True

    def collect(self, stop: Callable[[], bool]) -> bool:
        """Give the learner the next segments. Returns: False where `stop()` was true on the way, on
            any rank.

        Raises: PuffervecError, ConfigError: a host failed in a way that would come again.
        """
        begin = time.perf_counter()
        if self._learned_from:
            self.feed.publish(
                weights_of({name: self.learner.policies[name] for name in self.learner.storages})
            )
            self._learned_from = False
        self.feed.fill()
        copied = self.times.copy
        taken: list[Segment] = []
        while len(taken) < self._wanted and not stop():
            if (segment := self.feed.next(POLL_S)) is not None:
                self._put(segment, len(taken))
                taken.append(segment)
            self._admit(0.0)
            self.feed.go_on(self._wanted - len(taken))
        whole = not self.ranks.agree(len(taken) < self._wanted)[0]
        if whole:
            self.count([segment.counted for segment in taken])
            self.scale_rewards([segment.counted for segment in taken])
            self.turns += self._horizon * self._wanted
            self._learned_from = True
        self.times.env += time.perf_counter() - begin - (self.times.copy - copied)
        return whole

    def _put(self, segment: Segment, place: int) -> None:
        begin = time.perf_counter()
        put(segment, self.learner.storages, place)
        self.times.copy += time.perf_counter() - begin

    def go_ahead(self) -> None:
        """Hosts play during updates anyhow."""

    def wait(self) -> None:
        """Nothing of what hosts do is part of a checkpoint."""

    def close(self) -> None:
        """The cluster is closed by who made it."""

    def means(self) -> dict[str, float]:
        """Return the metrics of finished episodes, and what the hosts of all learners did since the
        last call. All ranks must call it.
        """
        total = of_all(self.feed.figures, self.ranks.sums)
        span, self._before = of_span(total, self._before), total
        return super().means() | {
            keys.RAY_HOSTS: self.ranks.sums([len(self.feed.members)])[0],
            keys.RAY_LAG: lag_of(span),
            keys.RAY_DROPPED: float(total.dropped),
            keys.RAY_DEATHS: float(total.reborn),
            keys.RAY_BYTES: span.nbytes / max(1, span.agent_steps),
            keys.RAY_HOST_SPEED: span.agent_steps / max(1e-9, span.seconds),
        }

    def words(self) -> str:
        """Return who plays, for people."""
        hosts, rows = (
            len(self.feed.members),
            sum(storage.rows for storage in self.learner.storages.values()) // self._wanted,
        )
        segments = f"{self._wanted} segment{'s' * (self._wanted != 1)} an update"
        return (
            f"{hosts} host{'s' * (hosts != 1)} of {self._num_envs} envs, {rows} rows each, "
            f"{segments}"
        )

    def load_state(self, files: Files) -> list[str]:
        """Go on from a checkpoint, of a run over Ray or without."""
        super().load_state(files)
        return ["goes on with new episodes: the envs of hosts are not part of a checkpoint"]
