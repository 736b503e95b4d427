# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Which segments the learner gets: orders to hosts, back-pressure, and what is dropped because it
is too old.

    publish(weights)   version += 1        every host that joined has up to `ahead` orders open, each with the weights
    next()             the oldest answer   of the moment when it was given; nobody plays more than that unasked

An order counts as open until its segment is taken, so that hosts stop where the learner is slower:
at most `ahead` segments of each wait in Ray's store. Ray itself is behind `Transport`. Runs in the
learner.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from puffervec.errors import ConfigError, PuffervecError
from puffervec.wings.ray.host import About, Failed, Order, Reborn
from puffervec.wings.ray.segment import Segment

MOST_DEATHS = 20  # Of a host, one after the other, without a roll-out between them.

Ref = Any  # What stands for an answer that is under way.
Answer = About | Segment | Reborn | Failed | None  # None: lost with its machine.


class Transport(Protocol):
    """The way to the hosts."""

    def put(self, weights: bytes) -> Ref:
        """Store weights once, for all hosts."""

    def play(self, host: int, weights: Ref, order: Order) -> Ref:
        """Give an order."""

    def ready(self, refs: list[Ref], timeout_s: float) -> list[Ref]:
        """Wait for the first of these answers; return those that are there, in their order."""

    def take(self, ref: Ref) -> Answer:
        """Return an answer that is ready."""

    def drop(self, ref: Ref) -> None:
        """Do not wait for an answer any more."""

    def name(self, host: int) -> str:
        """Return a host's name for people."""


@dataclasses.dataclass
class Member:
    """A host that plays. Attributes: life: that it has; open: orders without an answer that was
    taken; deaths: since its last segment.
    """

    life: str
    open: list[Ref] = dataclasses.field(default_factory=list)
    deaths: int = 0


@dataclasses.dataclass
class Figures:
    """What has become of segments so far. Attributes: taken, dropped: segments; lost: answers;
    reborn: lives after the first;
    lag: sum over those taken of the versions that they were behind.
    """

    taken: int = 0
    dropped: int = 0
    lost: int = 0
    reborn: int = 0
    lag: int = 0
    nbytes: int = 0
    agent_steps: int = 0
    seconds: float = 0.0


class Feed:
    """Segments for a learner."""

    def __init__(self, transport: Transport, max_lag: int, ahead: int, stride: int) -> None:
        """Args: max_lag, ahead: as of `RaySection`; stride: between the seeds of two lives: envs of
        a host x learners.
        """
        self.transport, self.max_lag, self.ahead, self.stride = transport, max_lag, ahead, stride
        self.members: dict[int, Member] = {}
        self.figures = Figures()
        self.version = -1
        self.seed = 0
        self._born = 0
        self._seeds: dict[str, int] = {}  # by life
        self._weights: Ref = None
        self._owner: dict[Ref, int] = {}

    def begin(self, seed: int) -> None:
        """Set the seed of the envs that begin from now on; those of each life have others."""
        self.seed, self._born = seed, 0

    def join(self, host: int, life: str) -> None:
        """Let a host play from now on."""
        self.members[host] = Member(life)

    def leave(self, host: int) -> None:
        """Forget a host that is gone, with what it was asked for."""
        for ref in self.members.pop(host).open:
            self._owner.pop(ref)
            self.transport.drop(ref)

    def publish(self, weights: bytes) -> None:
        """Make weights the newest."""
        self._weights = self.transport.put(weights)
        self.version += 1

    def fill(self) -> None:
        """Give each host as many orders as it may have, with the newest weights."""
        for host, member in self.members.items():
            while len(member.open) < self.ahead:
                self._order(host, member)

    def go_on(self, missing: int) -> None:
        """Give an order to each host that has none: so that none idles while an update waits for
        others, and where hosts wait for updates (`ahead` 1) so that the segments come that it
        lacks, no more. Args: missing: of this update.
        """
        for host, member in self.members.items():
            if not member.open and (self.ahead > 1 or len(self._owner) < missing):
                self._order(host, member)

    def _order(self, host: int, member: Member) -> None:
        order = Order(self.version, member.life, self._seed_of(member.life))
        ref = self.transport.play(host, self._weights, order)
        member.open.append(ref)
        self._owner[ref] = host

    def _seed_of(self, life: str) -> int:
        """Return the seed of a life's first env: no two envs of a run begin alike."""
        if life not in self._seeds:
            self._seeds[life] = self.seed + self._born * self.stride
            self._born += 1
        return self._seeds[life]

    def next(self, timeout_s: float) -> Segment | None:
        """Return the segment that has waited longest, if one comes in time and is not too old.

        Raises: PuffervecError, ConfigError: a host failed in a way that would come again.
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
                self.figures.nbytes += answer.nbytes
                self.figures.agent_steps += answer.agent_steps
                self.figures.seconds += answer.seconds
                if lag <= self.max_lag:
                    self.figures.taken += 1
                    self.figures.lag += lag
                    return answer
                self.figures.dropped += 1
            else:
                self._not_played(host, member, answer)
        return None

    def _not_played(self, host: int, member: Member, answer: Answer) -> None:
        if isinstance(answer, Failed):
            raise (ConfigError if answer.bad_input else PuffervecError)(
                f"{self.transport.name(host)}: {answer.words}"
            )
        if not isinstance(answer, Reborn):
            self.figures.lost += 1
            return
        if answer.life == member.life:  # An order that was given to the life before.
            return
        self._seeds.pop(member.life, None)
        member.life, member.deaths = answer.life, member.deaths + 1
        self.figures.reborn += 1
        if member.deaths >= MOST_DEATHS:
            raise PuffervecError(
                f"{self.transport.name(host)} died {MOST_DEATHS} times without finishing a "
                "roll-out: look into the logs of Ray on its machine "
                "(/tmp/ray/session_latest/logs), and whether its memory is enough"
            )


def lag_of(figures: Figures) -> float:
    """Return the mean lag of the segments taken, in updates."""
    return figures.lag / max(1, figures.taken)


def of_span(now: Figures, before: Figures) -> Figures:
    """Return the figures of the time between two states."""
    mine: Mapping[str, Any] = vars(before)
    return Figures(**{name: value - mine[name] for name, value in vars(now).items()})


def of_all(figures: Figures, sums: Callable[[Sequence[float]], Sequence[float]]) -> Figures:
    """Return the figures of all learners together. Args: sums: of values over learners."""
    mine: Mapping[str, Any] = vars(figures)
    return Figures(
        **{
            name: type(mine[name])(value)
            for name, value in zip(mine, sums(list(mine.values())), strict=True)
        }
    )
