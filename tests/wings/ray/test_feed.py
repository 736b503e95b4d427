# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Orders, back-pressure, lag, deaths (puffervec/wings/ray/feed.py), with hosts that a test plays."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from puffervec.errors import ConfigError, PuffervecError
from puffervec.train.run.tally import Counted
from puffervec.wings.ray.feed import MOST_DEATHS, Answer, Feed, Figures, lag_of, of_all, of_span
from puffervec.wings.ray.host import Failed, Order, Reborn
from puffervec.wings.ray.segment import Segment


@dataclasses.dataclass
class Fake:
    """Hosts that answer when the test says so. Attributes: orders: by reference, with the host;
    weights: that were stored.
    """

    orders: dict[int, tuple[int, Order, Any]] = dataclasses.field(default_factory=dict)
    answers: dict[int, Answer] = dataclasses.field(default_factory=dict)
    weights: list[bytes] = dataclasses.field(default_factory=list)
    dropped: list[int] = dataclasses.field(default_factory=list)

    def put(self, weights: bytes) -> Any:
        self.weights.append(weights)
        return f"weights {len(self.weights)}"

    def play(self, host: int, weights: Any, order: Order) -> int:
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
            order.version, order.life, {}, {}, Counted(b"", b"{}", {}), agent_steps=8, seconds=0.5
        )

    def of(self, host: int) -> list[int]:
        return [ref for ref, (owner, _, _) in self.orders.items() if owner == host]


def feed_of(fake: Fake, hosts: int = 2, max_lag: int = 2, ahead: int = 2) -> Feed:
    feed = Feed(fake, max_lag, ahead, stride=10)
    feed.begin(100)
    for host in range(hosts):
        feed.join(host, f"life of {host}")
    feed.publish(b"first")
    feed.fill()
    return feed


def test_a_host_has_no_more_orders_open_than_it_may() -> None:
    fake = Fake()
    feed = feed_of(fake, hosts=3, ahead=2)
    assert [len(fake.of(host)) for host in range(3)] == [2, 2, 2]
    fake.finish(0)
    feed.fill()  # What waits to be taken is open still.
    assert len(fake.orders) == 6
    assert feed.next(0.0) is not None
    feed.go_on(missing=1)  # It has one open: that is enough until weights are new.
    assert len(fake.orders) == 6
    feed.fill()
    assert len(fake.orders) == 7


def test_hosts_that_wait_for_updates_play_what_the_update_lacks_and_no_more() -> None:
    fake = Fake()
    feed = feed_of(fake, hosts=3, ahead=1)
    for missing, orders in (
        (4, 4),
        (3, 4),
        (2, 4),
        (1, 4),
    ):  # The update takes four: one host plays twice.
        fake.finish(4 - missing)
        assert feed.next(0.0) is not None
        feed.go_on(missing - 1)
        assert len(fake.orders) == orders
    feed.publish(b"second")
    feed.fill()
    assert [order.version for _, order, _ in fake.orders.values()] == [0] * 4 + [1] * 3


def test_no_host_idles_that_may_play_ahead_of_updates() -> None:
    fake = Fake()
    feed = feed_of(fake, hosts=2, ahead=2)
    for ref in (0, 1):
        fake.finish(ref)
        feed.next(0.0)
    feed.go_on(missing=0)
    assert [len(fake.of(host)) for host in range(2)] == [3, 2]


def test_orders_carry_the_newest_weights_which_are_stored_once() -> None:
    fake = Fake()
    feed = feed_of(fake)
    fake.finish(0)
    feed.next(0.0)
    feed.publish(b"second")
    feed.fill()
    assert fake.weights == [b"first", b"second"]
    assert [(order.version, weights) for _, order, weights in fake.orders.values()] == [
        (0, "weights 1")
    ] * 4 + [(1, "weights 2")]


def test_segments_come_in_the_order_of_their_orders_and_are_counted() -> None:
    fake = Fake()
    feed = feed_of(fake, hosts=2, ahead=1)
    fake.finish(1)
    feed.publish(b"second")
    assert (found := feed.next(0.0)) is not None and found.life == "life of 1"
    assert feed.next(0.0) is None  # Nobody is ready.
    assert (feed.figures.taken, feed.figures.lag, feed.figures.agent_steps) == (1, 1, 8)
    assert lag_of(feed.figures) == 1.0 and lag_of(Figures()) == 0.0
    assert of_span(feed.figures, Figures(taken=1)).taken == 0
    both = of_all(Figures(taken=3, seconds=0.5), lambda values: [2.0 * value for value in values])
    assert both == Figures(taken=6, seconds=1.0)


@pytest.mark.parametrize("behind", [2, 3])
def test_what_is_too_old_is_dropped(behind: int) -> None:
    fake = Fake()
    feed = feed_of(fake, hosts=1, max_lag=2, ahead=1)
    for update in range(behind):
        feed.publish(str(update).encode())
    fake.finish(0)
    assert (feed.next(0.0) is None) == (behind > 2)
    assert feed.figures.dropped == (behind > 2)
    feed.go_on(missing=1)
    assert (
        fake.orders[1][1].version == behind
    )  # In its place one of the newest weights is asked for.


def test_a_host_that_was_born_again_gets_new_orders_and_other_envs() -> None:
    fake = Fake()
    feed = feed_of(fake, hosts=2, ahead=2)
    assert [fake.orders[ref][1].seed for ref in (0, 2)] == [100, 110]
    for ref in (0, 1):  # Ray repeats both of what the life before was asked.
        fake.answers[ref] = Reborn("second life")
    assert feed.next(0.0) is None
    feed.publish(b"second")
    feed.fill()
    orders = [fake.orders[ref][1] for ref in fake.of(0)[2:]]
    assert [(order.life, order.version, order.seed) for order in orders] == [
        ("second life", 1, 120)
    ] * 2
    assert (feed.figures.reborn, feed.members[0].deaths) == (1, 1)
    fake.finish(fake.of(0)[2])
    assert feed.next(0.0) is not None and feed.members[0].deaths == 0


def test_a_host_that_dies_all_the_time_ends_the_run() -> None:
    fake = Fake()
    feed = feed_of(fake, hosts=1, ahead=1)
    for life in range(MOST_DEATHS - 1):
        fake.answers[max(fake.orders)] = Reborn(str(life))
        feed.next(0.0)
        feed.fill()
    fake.answers[max(fake.orders)] = Reborn("the last")
    with pytest.raises(PuffervecError, match=f"host 0 died {MOST_DEATHS} times without finishing"):
        feed.next(0.0)


@pytest.mark.parametrize("bad_input", [False, True])
def test_a_failure_ends_the_run_with_the_hosts_words(bad_input: bool) -> None:
    fake = Fake()
    feed = feed_of(fake)
    fake.answers[3] = Failed("WorkerError: env 3 failed", bad_input)
    with pytest.raises(
        ConfigError if bad_input else PuffervecError, match="host 1: WorkerError: env 3 failed"
    ):
        feed.next(0.0)


def test_a_lost_answer_is_asked_for_again() -> None:
    fake = Fake()
    feed = feed_of(fake, hosts=1, ahead=1)
    fake.answers[0] = None
    assert feed.next(0.0) is None and feed.figures.lost == 1
    feed.fill()
    assert fake.orders[1][1].life == "life of 0"


def test_hosts_come_and_go() -> None:
    fake = Fake()
    feed = feed_of(fake, hosts=2, ahead=2)
    feed.leave(0)
    assert fake.dropped == [0, 1] and list(feed.members) == [1]
    fake.finish(0)
    assert feed.next(0.0) is None  # Nobody waits for it.
    feed.join(7, "new")
    feed.fill()
    assert [fake.orders[ref][1].seed for ref in fake.of(7)] == [120, 120]


def test_lives_of_a_second_beginning_have_seeds_of_their_own_from_the_first_on() -> None:
    """Envs of each life begin a stride after those of the one before, whichever host it is of; none
    has another's seed.
    """
    fake = Fake()
    feed = feed_of(fake, hosts=3, ahead=1)
    assert [order.seed for _, order, _ in fake.orders.values()] == [100, 110, 120]
    feed.begin(500)
    feed.join(3, "life of 3")
    feed.join(4, "life of 4")
    feed.fill()
    assert [fake.orders[ref][1].seed for host in (3, 4) for ref in fake.of(host)] == [500, 510]
