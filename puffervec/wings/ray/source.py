# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The source of the learner's segments: requests to hosts, back-pressure, and dropping stale ones.

    publish(weights)   version += 1        each host has up to `ahead` open requests, each with the
    next()             the oldest answer   weights of the moment when it was made

A request stays open until its segment is taken, so hosts pause if the learner is slower: at most
`ahead` segments of each host wait in Ray's store. Ray itself is hidden behind `Transport`. Runs in
the learner.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from puffervec.errors import ConfigError, PuffervecError
from puffervec.wings.ray.host import Failure, HostInfo, Request, Restarted
from puffervec.wings.ray.segment import Segment

MOST_DEATHS = 20  # Most deaths of one host in a row, without a rollout between them.

Ref = Any  # A reference to a pending answer.
Answer = HostInfo | Segment | Restarted | Failure | None  # None: lost with its machine.


class Transport(Protocol):
    """The connection to the hosts."""

    def put(self, weights: bytes) -> Ref:
        """Store weights once, for all hosts."""

    def play(self, host: int, weights: Ref, request: Request) -> Ref:
        """Request a rollout of a host; return the reference of its answer."""

    def ready(self, refs: list[Ref], timeout_s: float) -> list[Ref]:
        """Wait for the first of these answers; return those that are ready, in their order."""

    def take(self, ref: Ref) -> Answer:
        """Return an answer that is ready."""

    def drop(self, ref: Ref) -> None:
        """Cancel a pending answer."""

    def name(self, host: int) -> str:
        """Return a host's display name."""


@dataclasses.dataclass
class Member:
    """A host that plays.

    Attributes:
        incarnation: id of the host's current process.
        open: requests whose answers have not been taken.
        deaths: number of deaths since its last segment.
    """

    incarnation: str
    open: list[Ref] = dataclasses.field(default_factory=list)
    deaths: int = 0


@dataclasses.dataclass
class Counts:
    """Totals since the start of the run.

    Attributes:
        taken, dropped: numbers of segments.
        lost: number of answers that were lost with their machine.
        restarts: number of restarts of hosts.
        lag: sum over the segments taken of the number of versions by which they were behind.
        nbytes, agent_steps, seconds: sums over all segments, of the fields of `Segment`.
    """

    taken: int = 0
    dropped: int = 0
    lost: int = 0
    restarts: int = 0
    lag: int = 0
    nbytes: int = 0
    agent_steps: int = 0
    seconds: float = 0.0


class SegmentSource:
    """Requests segments from hosts and returns them to the learner in order of arrival."""

    def __init__(self, transport: Transport, max_lag: int, ahead: int, stride: int) -> None:
        """Make a source without hosts.

        Args:
            transport: the connection to the hosts.
            max_lag, ahead: see `RaySection`.
            stride: distance between the seeds of two incarnations: envs per host x learners.
        """
        self.transport, self.max_lag, self.ahead, self.stride = transport, max_lag, ahead, stride
        self.members: dict[int, Member] = {}
        self.counts = Counts()
        self.version = -1
        self._seeds: dict[str, int] = {}  # By incarnation.
        self._weights: Ref = None
        self._owner: dict[Ref, int] = {}

    def begin(self, seed: int) -> None:
        """Set the seed from which the envs of later incarnations derive theirs."""
        self.seed, self._incarnations = seed, 0

    def join(self, host: int, incarnation: str) -> None:
        """Add a host."""
        self.members[host] = Member(incarnation)

    def leave(self, host: int) -> None:
        """Forget a host that is gone, and its open requests."""
        for ref in self.members.pop(host).open:
            self._owner.pop(ref)
            self.transport.drop(ref)

    def publish(self, weights: bytes) -> None:
        """Make these weights the newest version."""
        self._weights = self.transport.put(weights)
        self.version += 1

    def fill(self) -> None:
        """Send each host as many requests as it may have open, with the newest weights."""
        for host, member in self.members.items():
            while len(member.open) < self.ahead:
                self._request(host, member)

    def top_up(self, missing: int) -> None:
        """Send a request to each idle host, so that none idles while an update waits for others.

        If hosts wait for updates (`ahead` 1), request only what the update lacks.

        Args:
            missing: number of segments that the update still lacks.
        """
        for host, member in self.members.items():
            if not member.open and (self.ahead > 1 or len(self._owner) < missing):
                self._request(host, member)

    def _request(self, host: int, member: Member) -> None:
        request = Request(self.version, member.incarnation, self._seed_of(member.incarnation))
        ref = self.transport.play(host, self._weights, request)
        member.open.append(ref)
        self._owner[ref] = host

    def _seed_of(self, incarnation: str) -> int:
        """Return the seed of an incarnation's first env; no two envs of a run share a seed."""
        if incarnation not in self._seeds:
            self._seeds[incarnation] = self.seed + self._incarnations * self.stride
            self._incarnations += 1
        return self._seeds[incarnation]

    def next(self, timeout_s: float) -> Segment | None:
        """Return the segment that has waited longest; None if none is ready in time.

        Segments that are too old are dropped.

        Raises:
            PuffervecError, ConfigError: a host failed in a way that would repeat itself.
        """
        ready = self.transport.ready(list(self._owner), timeout_s)
        for ref in ready:
            host = self._owner.pop(ref)
            member = self.members[host]
            member.open.remove(ref)
            answer = self.transport.take(ref)
            if isinstance(answer, Segment):
                member.deaths = 0
                lag = self.version - answer.version
                self.counts.nbytes += answer.nbytes
                self.counts.agent_steps += answer.agent_steps
                self.counts.seconds += answer.seconds
                if lag <= self.max_lag:
                    self.counts.taken += 1
                    self.counts.lag += lag
                    return answer
                self.counts.dropped += 1
            else:
                self._handle_failure(host, member, answer)
        return None

    def _handle_failure(self, host: int, member: Member, answer: Answer) -> None:
        if isinstance(answer, Failure):
            raise (ConfigError if answer.bad_input else PuffervecError)(
                f"{self.transport.name(host)}: {answer.text}"
            )
        if not isinstance(answer, Restarted):
            self.counts.lost += 1
            return
        if answer.incarnation == member.incarnation:  # The request was for an earlier one.
            return
        self._seeds.pop(member.incarnation, None)
        member.incarnation, member.deaths = answer.incarnation, member.deaths + 1
        self.counts.restarts += 1
        if member.deaths >= MOST_DEATHS:
            raise PuffervecError(
                f"{self.transport.name(host)} died {MOST_DEATHS} times without finishing a "
                "rollout: look into the logs of Ray on its machine "
                "(/tmp/ray/session_latest/logs), and whether its memory is enough"
            )


def mean_lag(counts: Counts) -> float:
    """Return the mean lag of the segments taken, in updates."""
    return counts.lag / max(1, counts.taken)


def difference(now: Counts, before: Counts) -> Counts:
    """Return the counts of the time between two moments."""
    mine: Mapping[str, Any] = vars(before)
    return Counts(**{name: value - mine[name] for name, value in vars(now).items()})


def sum_over_learners(counts: Counts, sums: Callable[[Sequence[float]], Sequence[float]]) -> Counts:
    """Return the summed counts of all learners. Args: sums: all-reduces a list of values."""
    mine: Mapping[str, Any] = vars(counts)
    return Counts(
        **{
            name: type(mine[name])(value)
            for name, value in zip(mine, sums(list(mine.values())), strict=True)
        }
    )
