# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Orders, back-pressure, lag, deaths (puffervec/wings/ray/source.py); the tests play the hosts."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from puffervec.errors import ConfigError, PuffervecError
from puffervec.train.run.tally import Counted
from puffervec.wings.ray.host import Failure, Request, Restarted
from puffervec.wings.ray.segment import Segment
from puffervec.wings.ray.source import (
    MOST_DEATHS,
    Answer,
    Counts,
    SegmentSource,
    difference,
    mean_lag,
    sum_over_learners,
)


@dataclasses.dataclass
class Fake:
    """Hosts that answer when the test says so. Attributes: orders: by reference, with the host;
    weights: that were stored.
    """

    orders: dict[int, tuple[int, Request, Any]] = dataclasses.field(default_factory=dict)
    answers: dict[int, Answer] = dataclasses.field(default_factory=dict)
    weights: list[bytes] = dataclasses.field(default_factory=list)
    dropped: list[int] = dataclasses.field(default_factory=list)

    def put(self, weights: bytes) -> Any:
        self.weights.append(weights)
        return f"weights {len(self.weights)}"

    def play(self, host: int, weights: Any, order: Request) -> int:
        self.orders[len(self.orders)] = host, order, weights
        return len(self.orders) - 1

    def ready(self, refs: list[int], timeout_s: float) -> list[int]:
        return [ref for ref in refs if ref in self.answers]

    def take(self, ref: int) -> Answer:
        return self.answers.pop(ref)

    def drop(self, ref: int) -> None:
        self.dropped.append(ref)

    def name(self, host: int) -> str:
        return f"host {host}"

    def finish(self, ref: int) -> None:
        """Play what was ordered."""
        _, order, _ = self.orders[ref]
        self.answers[ref] = Segment(
            order.version,
            order.incarnation,
            {},
            {},
            Counted(b"", b"{}", {}),
            agent_steps=8,
            seconds=0.5,
        )

    def of(self, host: int) -> list[int]:
        return [ref for ref, (owner, _, _) in self.orders.items() if owner == host]


def source_of(fake: Fake, hosts: int = 2, max_lag: int = 2, ahead: int = 2) -> SegmentSource:
    source = SegmentSource(fake, max_lag, ahead, stride=10)
    source.begin(100)
    for host in range(hosts):
        source.join(host, f"incarnation of {host}")
    source.publish(b"first")
    source.fill()
    return source


def test_a_host_has_no_more_orders_open_than_it_may() -> None:
    fake = Fake()
    source = source_of(fake, hosts=3, ahead=2)
    assert [len(fake.of(host)) for host in range(3)] == [2, 2, 2]
    fake.finish(0)
    source.fill()  # What waits to be taken is open still.
    assert len(fake.orders) == 6
    assert source.next(0.0) is not None
    source.top_up(missing=1)  # It has one open: that is enough until weights are new.
    assert len(fake.orders) == 6
    source.fill()
    assert len(fake.orders) == 7


def test_hosts_that_wait_for_updates_play_what_the_update_lacks_and_no_more() -> None:
    fake = Fake()
    source = source_of(fake, hosts=3, ahead=1)
    for missing, orders in (
        (4, 4),
        (3, 4),
        (2, 4),
        (1, 4),
    ):  # The update takes four: one host plays twice.
        fake.finish(4 - missing)
        assert source.next(0.0) is not None
        source.top_up(missing - 1)
        assert len(fake.orders) == orders
    source.publish(b"second")
    source.fill()
    assert [order.version for _, order, _ in fake.orders.values()] == [0] * 4 + [1] * 3


def test_no_host_idles_that_may_play_ahead_of_updates() -> None:
    fake = Fake()
    source = source_of(fake, hosts=2, ahead=2)
    for ref in (0, 1):
        fake.finish(ref)
        source.next(0.0)
    source.top_up(missing=0)
    assert [len(fake.of(host)) for host in range(2)] == [3, 2]


def test_orders_carry_the_newest_weights_which_are_stored_once() -> None:
    fake = Fake()
    source = source_of(fake)
    fake.finish(0)
    source.next(0.0)
    source.publish(b"second")
    source.fill()
    assert fake.weights == [b"first", b"second"]
    assert [(order.version, weights) for _, order, weights in fake.orders.values()] == [
        (0, "weights 1")
    ] * 4 + [(1, "weights 2")]


def test_segments_come_in_the_order_of_their_orders_and_are_counted() -> None:
    fake = Fake()
    source = source_of(fake, hosts=2, ahead=1)
    fake.finish(1)
    source.publish(b"second")
    assert (found := source.next(0.0)) is not None and found.incarnation == "incarnation of 1"
    assert source.next(0.0) is None  # Nobody is ready.
    assert source.counts == Counts(taken=1, lag=1, agent_steps=8, seconds=0.5)
    assert sum(vars(Counts()).values()) == 0
    assert mean_lag(source.counts) == 1.0 and mean_lag(Counts()) == 0.0
    assert difference(source.counts, Counts(taken=1)).taken == 0
    both = sum_over_learners(
        Counts(taken=3, seconds=0.5), lambda values: [2.0 * value for value in values]
    )
    assert both == Counts(taken=6, seconds=1.0)


@pytest.mark.parametrize("behind", [2, 3])
def test_what_is_too_old_is_dropped(behind: int) -> None:
    fake = Fake()
    source = source_of(fake, hosts=1, max_lag=2, ahead=1)
    for update in range(behind):
        source.publish(str(update).encode())
    fake.finish(0)
    assert (source.next(0.0) is None) == (behind > 2)
    assert source.counts.dropped == (behind > 2)
    source.top_up(missing=1)
    assert (
        fake.orders[1][1].version == behind
    )  # In its place one of the newest weights is asked for.


def test_a_host_that_was_born_again_gets_new_orders_and_other_envs() -> None:
    fake = Fake()
    source = source_of(fake, hosts=2, ahead=2)
    assert [fake.orders[ref][1].seed for ref in (0, 2)] == [100, 110]
    for ref in (0, 1):  # Ray repeats both of what the incarnation before was asked.
        fake.answers[ref] = Restarted("second incarnation")
    assert source.next(0.0) is None
    source.publish(b"second")
    source.fill()
    orders = [fake.orders[ref][1] for ref in fake.of(0)[2:]]
    assert [(order.incarnation, order.version, order.seed) for order in orders] == [
        ("second incarnation", 1, 120)
    ] * 2
    assert (source.counts.restarts, source.members[0].deaths) == (1, 1)
    fake.finish(fake.of(0)[2])
    assert source.next(0.0) is not None and source.members[0].deaths == 0


def test_a_host_that_dies_all_the_time_ends_the_run() -> None:
    fake = Fake()
    source = source_of(fake, hosts=1, ahead=1)
    for incarnation in range(MOST_DEATHS - 1):
        fake.answers[max(fake.orders)] = Restarted(str(incarnation))
        source.next(0.0)
        source.fill()
    fake.answers[max(fake.orders)] = Restarted("the last")
    with pytest.raises(PuffervecError, match=f"host 0 died {MOST_DEATHS} times without finishing"):
        source.next(0.0)


@pytest.mark.parametrize("bad_input", [False, True])
def test_a_failure_ends_the_run_with_the_hosts_words(bad_input: bool) -> None:
    fake = Fake()
    source = source_of(fake)
    fake.answers[3] = Failure("WorkerError: env 3 failed", bad_input)
    with pytest.raises(
        ConfigError if bad_input else PuffervecError, match="host 1: WorkerError: env 3 failed"
    ):
        source.next(0.0)


def test_a_lost_answer_is_asked_for_again() -> None:
    fake = Fake()
    source = source_of(fake, hosts=1, ahead=1)
    fake.answers[0] = None
    assert source.next(0.0) is None and source.counts.lost == 1
    source.fill()
    assert fake.orders[1][1].incarnation == "incarnation of 0"


def test_hosts_come_and_go() -> None:
    fake = Fake()
    source = source_of(fake, hosts=2, ahead=2)
    source.leave(0)
    assert fake.dropped == [0, 1] and list(source.members) == [1]
    fake.finish(0)
    assert source.next(0.0) is None  # Nobody waits for it.
    source.join(7, "new")
    source.fill()
    assert [fake.orders[ref][1].seed for ref in fake.of(7)] == [120, 120]


def test_lives_of_a_second_beginning_have_seeds_of_their_own_from_the_first_on() -> None:
    """Envs of each incarnation begin a stride after those of the one before, whichever host it is
    of; none has another's seed.
    """
    fake = Fake()
    source = source_of(fake, hosts=3, ahead=1)
    assert [order.seed for _, order, _ in fake.orders.values()] == [100, 110, 120]
    source.begin(500)
    source.join(3, "incarnation of 3")
    source.join(4, "incarnation of 4")
    source.fill()
    assert [fake.orders[ref][1].seed for host in (3, 4) for ref in fake.of(host)] == [500, 510]
