# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Which machines play and with how many CPUs (puffervec/wings/ray/cluster.py); with real Ray where
that is slow.
"""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import socket
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")

from puffervec.commands.verb import StopSignals  # noqa: E402
from puffervec.errors import ConfigError  # noqa: E402
from puffervec.train.config.hosts import RaySection  # noqa: E402
from puffervec.train.config.sections import TrainConfig  # noqa: E402
from puffervec.wings.ray import cluster  # noqa: E402
from puffervec.wings.ray.cluster import Machine, connect, cpus_each, machines  # noqa: E402
from puffervec.wings.ray.host import Failure, HostInfo, HostSetup, Request, Restarted  # noqa: E402


def node(name: str, cpus: float | None, alive: bool = True) -> dict[str, object]:
    resources = {} if cpus is None else {"CPU": cpus}
    return {
        "NodeID": name,
        "NodeManagerAddress": f"at {name}",
        "Alive": alive,
        "Resources": resources,
    }


def test_machines_that_can_play() -> None:
    nodes = [
        node("a", 4.0),
        node("dead", 8.0, alive=False),
        node("learner", None),
        node("none", 0.0),
        node("b", 8.0),
        node("c", 1.0),
    ]
    assert machines(nodes) == [
        Machine("b", "at b", 8),
        Machine("a", "at a", 4),
        Machine("c", "at c", 1),
    ]


@pytest.mark.parametrize(
    ("wanted", "hosts", "cpus", "each"),
    [
        (0, 1, [8], 8),
        (0, 2, [16, 8, 4], 8),  # The smaller one of the two that play.
        (0, 4, [16, 8], 4),  # Two on each.
        (0, 3, [16, 8], 4),
        (0, 9, [4], 1),  # Never less than one.
        (3, 9, [4], 3),
        (0, 2, [], 1),
    ],
)
def test_cpus_of_a_host(wanted: int, hosts: int, cpus: list[int], each: int) -> None:
    assert cpus_each(wanted, hosts, [Machine(str(n), str(n), n) for n in cpus]) == each


class Group:
    """Room that was reserved, or was not."""

    def __init__(self, ready: bool) -> None:
        self.ready = ready

    def wait(self, timeout_s: float) -> bool:
        return self.ready


class Actors:
    """Ray's end of actors: each `about` is a reference of its own. Attributes: made: (host, cpus),
    in their order.
    """

    def __init__(self) -> None:
        self.made: list[tuple[int, int]] = []
        self.host = -1
        self._cpus = 0

    def __call__(self, kind: type) -> Actors:
        return self

    def options(self, *, num_cpus: int, **others: object) -> Actors:
        self._cpus = num_cpus
        return self

    def remote(self, host: int) -> Actors:
        actor = Actors()
        actor.host, actor.remote = host, lambda setup: f"describe {host}"  # type: ignore[method-assign]
        self.made.append((host, self._cpus))
        return actor

    @property
    def describe(self) -> Actors:
        return self


@pytest.fixture
def machines_there(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """Make the list of machines that Ray reports; a test may change it."""
    nodes: list[dict[str, object]] = []
    monkeypatch.setattr(cluster, "connect", lambda section, hosts: False)
    monkeypatch.setattr("ray.nodes", lambda: list(nodes))
    return nodes


@pytest.mark.parametrize(
    ("hosts", "cpus", "strategy", "notes"),
    [
        (1, [4], "STRICT_SPREAD", []),
        (2, [4, 4], "STRICT_SPREAD", []),
        (3, [8, 4], "SPREAD", ["3 hosts share 2 machines, 2 CPUs each"]),
        (2, [4], "SPREAD", ["2 hosts share 1 machine, 2 CPUs each"]),
    ],
)
def test_hosts_have_machines_of_their_own_or_the_user_is_told(
    monkeypatch: pytest.MonkeyPatch,
    machines_there: list[dict[str, object]],
    hosts: int,
    cpus: list[int],
    strategy: str,
    notes: list[str],
) -> None:
    asked: list[tuple[list[dict[str, float]], str]] = []

    def placed(bundles: list[dict[str, float]], strategy: str) -> Group:
        asked.append((bundles, strategy))
        return Group(True)

    machines_there += [node(str(number), count) for number, count in enumerate(cpus)]
    monkeypatch.setattr(cluster, "placement_group", placed)
    made = cluster.Cluster(RaySection(address="auto", hosts=hosts), hosts)
    assert made.notes == notes
    assert asked == [([{"CPU": made.cpus}] * hosts, strategy)]


@pytest.mark.parametrize("enough", [False, True])
def test_too_few_cpus_are_named(
    monkeypatch: pytest.MonkeyPatch, machines_there: list[dict[str, object]], enough: bool
) -> None:
    """Check both cases: too few in all, so that Ray is not asked; enough, but others use them."""

    def placed(bundles: list[dict[str, float]], strategy: str) -> Group:
        assert enough
        return Group(False)

    machines_there += [node("a", 4), node("b", 2)]
    monkeypatch.setattr(cluster, "placement_group", placed)
    section = RaySection(address="auto", hosts=2, cpus=2 if enough else 3, wait_s=0.0)
    words = (
        rf"ray.hosts is 2: the cluster had no room for 2 of {section.cpus} CPUs .*"
        r"\(its CPUs: at a 4, at b 2; others"
    )
    with pytest.raises(ConfigError, match=words):
        cluster.Cluster(section, 2)


def test_a_cluster_without_cpus(machines_there: list[dict[str, object]], clock: Clock) -> None:
    machines_there += [node("learner", 0)]
    begin = clock.now
    with pytest.raises(
        ConfigError, match="ray.address is 'auto': no machine of that cluster lends CPUs"
    ):
        cluster.Cluster(RaySection(address="auto", wait_s=0.0), 0)
    assert clock.now == begin, "with 0 seconds there is no wait"


def test_hosts_follow_the_machines(
    monkeypatch: pytest.MonkeyPatch,
    machines_there: list[dict[str, object]],
    small: Callable[..., TrainConfig],
    clock: Clock,
) -> None:
    actors, killed, cancelled = Actors(), list[int](), list[str]()
    monkeypatch.setattr("ray.remote", actors)
    monkeypatch.setattr("ray.kill", lambda actor: killed.append(actor.host))
    monkeypatch.setattr("ray.cancel", lambda ref, **settings: cancelled.append(ref))
    monkeypatch.setattr("ray.put", lambda value: value)
    monkeypatch.setattr(cluster, "NodeAffinitySchedulingStrategy", lambda node, soft: node)
    machines_there += [node("a", 4)]
    made = cluster.Cluster(RaySection(address="auto"), 0)
    made.start(HostSetup(small("cartpole"), {}, False, "exact", "", "", 0))
    assert actors.made == [(0, 4)] and made.name(0) == "host 0 (at a)" and made.starting == 1

    machines_there += [node("b", 2)]
    clock.sleep(cluster.SYNC_S)
    assert made.sync() == [] and actors.made == [(0, 4), (1, 2)] and made.starting == 2
    del machines_there[0]
    clock.sleep(cluster.SYNC_S)
    assert (
        made.sync() == [0] and killed == [0] and cancelled == ["describe 0"] and made.starting == 1
    )
    assert made.notes == ["the machine at a has left, and its host with it"]
    machines_there += [node("c", 8)]
    clock.sleep(cluster.SYNC_S)
    assert made.sync() == [] and actors.made[2:] == [(2, 8)], "no number is used again"

    machines_there += [node("d", 8)]
    clock.sleep(cluster.SYNC_S / 2)
    assert made.sync() == [] and len(actors.made) == 3, "machines are looked at from time to time"


@pytest.mark.usefixtures("no_cluster")
def test_an_address_without_a_cluster_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise ConnectionError("Could not find any running\nRay instance." + "~" * 1000)

    monkeypatch.setattr("ray.init", refuse)
    with pytest.raises(
        ConfigError,
        match="ray.address is 'auto': no Ray cluster could be joined there .*use --ray local",
    ) as error:
        connect(RaySection(address="auto"), 1)
    (quoted,) = re.findall(r"joined there \((.*)\); start", str(error.value))
    assert len(quoted) == 300 and "\n" not in str(error.value)


@pytest.fixture
def no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the address of a cluster that ran on this machine: it outlives one that was killed."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))


@pytest.mark.usefixtures("no_cluster")
def test_a_ray_of_ones_own_has_a_token_unless_the_user_chose(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[str | None] = []
    monkeypatch.setattr(
        "ray.init", lambda *args, **kwargs: seen.append(os.environ.get("RAY_AUTH_TOKEN"))
    )
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    connect(RaySection(address="auto"), 1)
    os.environ["RAY_AUTH_MODE"] = "disabled"
    connect(RaySection(address="local"), 1)
    del os.environ["RAY_AUTH_MODE"]
    connect(RaySection(address="local"), 1)
    assert seen[:2] == [None, None] and len(seen[2] or "") == 64


def test_an_address_where_nothing_answers_is_known_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.init", lambda *args, **kwargs: pytest.fail("Ray tries for minutes"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # Nobody listens.
        port = taken.getsockname()[1]
        with pytest.raises(
            ConfigError, match=f"127.0.0.1:{port}': no Ray cluster could be joined there .*refused"
        ):
            connect(RaySection(address=f"127.0.0.1:{port}"), 1)


@pytest.mark.usefixtures("no_cluster")
@pytest.mark.parametrize("by", ["file", "file in TMPDIR", "variable"])
def test_auto_where_the_last_cluster_was_killed_is_known_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, by: str
) -> None:
    monkeypatch.setattr("ray.init", lambda *args, **kwargs: pytest.fail("Ray tries for minutes"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # Nobody listens.
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        if by == "variable":
            monkeypatch.setenv("RAY_ADDRESS", address)
        else:
            if by == "file in TMPDIR":
                monkeypatch.delenv("RAY_TMPDIR")
                monkeypatch.setenv("TMPDIR", str(tmp_path))
            (tmp_path / "ray").mkdir()
            (tmp_path / "ray/ray_current_cluster").write_text(f"{address}\n")
        with pytest.raises(ConfigError, match="no Ray cluster could be joined there .*refused"):
            connect(RaySection(address="auto"), 1)


def test_an_address_that_listens_and_says_nothing_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ray.init", lambda *args, **kwargs: pytest.fail("Ray tries for minutes"))
    monkeypatch.setattr(cluster, "REACH_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(
            ConfigError, match=f"127.0.0.1:{port}': .*something listens there and does not answer"
        ):
            connect(RaySection(address=f"127.0.0.1:{port}"), 1)
        with silent.accept()[0] as received:  # RFC 9113, 3.4: preface, empty frame of type 4.
            assert received.recv(100) == b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"


@pytest.mark.usefixtures("no_cluster")
def test_sigterm_while_ray_starts_is_sigterm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's own handler would end the process with code 15."""

    def init(*args: object, **kwargs: object) -> None:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("ray.init", init)
    with StopSignals() as signals, pytest.raises(KeyboardInterrupt):
        signals.start(lambda: connect(RaySection(address="auto"), 1))  # type: ignore[arg-type, return-value]
    assert signals.received == signal.SIGTERM
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # left as they were, since the process is about to end
        assert signal.getsignal(number) == signals._handle
        signal.signal(number, signals._before[number])


# ---- with a Ray that a test plays ----------------------------------------------------------------


class Clock:
    """Time that passes only where somebody sleeps or waits."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(cluster, "time", made)
    return made


@pytest.mark.parametrize(("late_s", "left_s"), [(0.0, 10.0), (3.0, 7.0), (9.9, 1.0), (10.5, None)])
def test_machines_and_room_are_waited_for_no_longer_than_wait_s(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, late_s: float, left_s: float | None
) -> None:
    """Look for a machine that joins late; room on it is waited for in the time that is left, or for
    a second.
    """
    waited: list[float] = []

    class Asked(Group):
        def wait(self, timeout_s: float) -> bool:
            waited.append(timeout_s)
            return True

    begin = clock.now
    monkeypatch.setattr(cluster, "connect", lambda section, hosts: False)
    monkeypatch.setattr("ray.nodes", lambda: [node("a", 4)] if clock.now >= begin + late_s else [])
    monkeypatch.setattr(cluster, "placement_group", lambda bundles, strategy: Asked(True))
    section = RaySection(address="auto", hosts=1, wait_s=10.0)
    if left_s is None:
        with pytest.raises(
            ConfigError, match=r"no room for 1 of 1 CPUs within ray.wait_s 10 \(its CPUs: none"
        ):
            cluster.Cluster(section, 1)
        assert clock.now == pytest.approx(begin + 10.0, abs=0.5)
    else:
        cluster.Cluster(section, 1)
        assert waited == [pytest.approx(left_s, abs=0.5 if left_s != 1.0 else 0.0)]


class FakeRay:
    """The part of Ray that carries answers. Attributes: done: answers, or errors, by reference;
    calls: what was asked of it.
    """

    def __init__(self, clock: Clock) -> None:
        self.done: dict[str, object] = {}
        self.calls: list[object] = []
        self.clock = clock

    def wait(
        self, refs: list[str], num_returns: int, timeout: float
    ) -> tuple[list[str], list[str]]:
        """Take all the time where fewer are done than are waited for, as Ray does."""
        found = [ref for ref in refs if ref in self.done][:num_returns]
        if len(found) < num_returns:
            self.clock.sleep(timeout)
        return found, [ref for ref in refs if ref not in found]

    def get(self, ref: str) -> object:
        answer = self.done[ref]
        if isinstance(answer, Exception):
            raise answer
        return answer


def idle(monkeypatch: pytest.MonkeyPatch, hosts: int = 0) -> cluster.Cluster:
    """Make a cluster of one machine whose hosts have not been started."""
    monkeypatch.setattr(cluster, "connect", lambda section, hosts: False)
    monkeypatch.setattr("ray.nodes", lambda: [node("a", 4)])
    monkeypatch.setattr(cluster, "placement_group", lambda bundles, strategy: Group(True))
    return cluster.Cluster(RaySection(address="auto", hosts=hosts), hosts)


def test_answers_that_are_there_are_returned_without_a_wait_for_the_others(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    made, fake = idle(monkeypatch), FakeRay(clock)
    monkeypatch.setattr("ray.wait", fake.wait)
    begin = clock.now
    fake.done = {"b": 1}
    assert made.ready(["a", "b", "c", "d"], 5.0) == ["b"] and clock.now == begin
    fake.done = {"b": 1, "d": 2}
    assert made.ready(["a", "b", "c", "d"], 5.0) == ["b", "d"] and clock.now == begin
    assert made.ready(["a", "c"], 5.0) == [] and clock.now == begin + 5.0
    assert made.ready([], 5.0) == [] and begin + 5.0 < clock.now < begin + 6.0, (
        "a caller that polls must not spin"
    )
    assert made.ready([], 0.0) == []


def test_what_a_host_raises_is_a_failure_and_what_ray_loses_is_lost(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    from ray.exceptions import ActorDiedError, RayTaskError

    made, fake = idle(monkeypatch), FakeRay(clock)
    monkeypatch.setattr("ray.get", fake.get)
    fake.done = {
        "fine": Restarted("incarnation"),
        "raised": RayTaskError("play", "Traceback", ValueError("a\n  b")),
        "no cause": RayTaskError("play", "a traceback of Ray", None),
        "long": RayTaskError("play", "Traceback", ValueError("begin " + "x" * 5000 + " end")),
        "lost": ActorDiedError(),
    }
    assert made.take("fine") == Restarted("incarnation")
    assert made.take("raised") == Failure("ValueError: a b", bad_input=False)
    without = made.take("no cause")
    assert isinstance(without, Failure) and "a traceback of Ray" in without.text
    long = made.take("long")
    assert isinstance(long, Failure) and len(long.text) <= 1000 and long.text.endswith(" end")
    assert made.take("lost") is None


class Options:
    """An actor class that remembers how its actors are made, and what these are asked."""

    def __init__(self, calls: list[Any]) -> None:
        self.calls = calls

    def options(self, **settings: Any) -> Options:
        self.calls.append(settings)
        return self

    def remote(self, *given: Any) -> Any:
        self.calls.append(given)
        if len(given) == 1 and isinstance(given[0], int):
            return types.SimpleNamespace(
                describe=Options(self.calls), play=Options(self.calls), close=Options(self.calls)
            )
        return f"ref {len(self.calls)}"


@pytest.mark.parametrize("own", [False, True])
def test_hosts_begin_again_by_themselves_and_end_with_the_cluster(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, small: Callable[..., TrainConfig], own: bool
) -> None:
    """A host has its own part of what was reserved; the learner leaves the cluster only where it
    joined it.
    """
    calls, ended = list[Any](), list[str]()
    made = idle(monkeypatch, hosts=2)
    made._joined = own
    monkeypatch.setattr("ray.remote", lambda kind: Options(calls))
    monkeypatch.setattr("ray.put", lambda value: value)
    monkeypatch.setattr("ray.is_initialized", lambda: True)
    monkeypatch.setattr(
        "ray.wait",
        lambda refs, num_returns, timeout: ended.append(f"wait {num_returns} of {len(refs)}"),
    )
    monkeypatch.setattr("ray.kill", lambda actor: ended.append("kill"))
    monkeypatch.setattr("ray.shutdown", lambda: ended.append("shutdown"))
    monkeypatch.setattr(cluster, "remove_placement_group", lambda group: ended.append("remove"))
    monkeypatch.setattr(
        cluster,
        "PlacementGroupSchedulingStrategy",
        lambda group, placement_group_bundle_index: placement_group_bundle_index,
    )
    setup = HostSetup(small("cartpole"), {}, False, "exact", "", "", 0)
    made.start(setup)
    wanted = {"num_cpus": 2, "max_restarts": -1, "max_task_retries": -1}
    assert [one for one in calls if isinstance(one, dict)] == [
        {**wanted, "scheduling_strategy": host} for host in (0, 1)
    ]
    assert made.starting == 2 and calls[2] == ([dataclasses.replace(setup, cpus=2)],)
    made.play(1, "weights", Request(3, "incarnation", 4))
    assert calls[-1][:2] == ("weights", Request(3, "incarnation", 4))
    calls.clear()
    made.close()
    assert calls[0] == {"max_task_retries": 0}, (
        "a host that is dead already is not begun again to be closed"
    )
    assert ended == ["wait 2 of 2", "kill", "kill", "shutdown" if own else "remove"]
    ended.clear()
    made.close()
    assert ended == (["shutdown"] if own else [])


def test_hosts_that_are_ready_are_told_once_with_their_names(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    made, fake = idle(monkeypatch), FakeRay(clock)
    monkeypatch.setattr("ray.wait", fake.wait)
    monkeypatch.setattr("ray.get", fake.get)
    from ray.exceptions import ActorDiedError

    about = HostInfo("incarnation", Any, "machine", 7, "")  # type: ignore[arg-type]
    made._starting = {"a": 0, "b": 1, "c": 2, "d": 3}
    fake.done = {"a": about, "b": Failure("words", True), "c": ActorDiedError()}
    assert made.poll_started(1.0) == [(0, about), (1, Failure("words", True))]
    assert (made.starting, made.name(0), made.name(1)) == (1, "host 0 (machine)", "host 1")
    begin = clock.now
    assert made.poll_started(1.0) == [] and clock.now == begin + 1.0


def test_an_actor_fetches_its_outfit_once_and_closes_what_it_made(
    monkeypatch: pytest.MonkeyPatch, small: Callable[..., TrainConfig]
) -> None:
    class Played:
        def __init__(self, setup: object, number: int) -> None:
            made.append((setup, number))

        def describe(self) -> str:
            return "about"

        def play(self, weights: bytes, order: Request) -> tuple[bytes, Request]:
            return weights, order

        def close(self) -> None:
            made.append("closed")

    made: list[object] = []
    monkeypatch.setattr(cluster, "Host", Played)
    monkeypatch.setattr("ray.get", lambda ref: f"what {ref} is")
    actor = cluster.Actor(3)
    actor.close()
    assert made == []
    assert actor.describe(["setup"]) == "about"  # type: ignore[comparison-overlap]
    order = Request(1, "incarnation", 2)
    assert actor.play(b"weights", order, ["setup"]) == (b"weights", order)  # type: ignore[comparison-overlap]
    actor.close()
    assert made == [("what setup is", 3), "closed"]


@pytest.mark.usefixtures("no_cluster")
@pytest.mark.parametrize(
    ("address", "hosts", "cpus", "wanted"),
    [("local", 3, 0, 2), ("local", 3, 4, 4), ("local", 9, 0, 1), ("ray://127.0.0.1:1", 3, 0, None),
     ("auto", 3, 0, None), ("127.0.0.1:port", 3, 0, None), (":1", 3, 0, None)],
)  # fmt: skip
def test_a_ray_of_ones_own_has_room_for_the_hosts_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, address: str, hosts: int, cpus: int, wanted: int | None
) -> None:
    """Only what looks like HOST:PORT is tried before Ray is asked."""
    asked: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(cluster, "usable_cores", lambda: 8)
    monkeypatch.setattr(
        cluster.socket, "create_connection", lambda *args, **given: pytest.fail("it is left to Ray")
    )
    monkeypatch.setattr("ray.init", lambda address, **given: asked.append((address, given)))
    monkeypatch.setattr(os, "environ", os.environ.copy())
    assert connect(RaySection(address=address, cpus=cpus), hosts)
    ((joined, given),) = asked
    assert joined == address
    quiet = {} if wanted is None else {"num_cpus": hosts * wanted, "include_dashboard": False}
    assert {
        name: given[name] for name in given if name in ("num_cpus", "include_dashboard")
    } == quiet
    monkeypatch.setattr("ray.is_initialized", lambda: True)
    assert not connect(RaySection(address=address), hosts) and len(asked) == 1


def test_a_learner_whose_hosts_follow_the_machines_starts_room_for_one(
    monkeypatch: pytest.MonkeyPatch, machines_there: list[dict[str, object]]
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(cluster, "connect", lambda section, hosts: bool(asked.append(hosts)))
    machines_there += [node("a", 4)]
    monkeypatch.setattr(cluster, "placement_group", lambda bundles, strategy: Group(True))
    for hosts in (0, 1, 3):
        cluster.Cluster(RaySection(address="local"), hosts)
    assert asked == [1, 1, 3]


REAL = """
import sys
from puffervec.errors import ConfigError
from puffervec.train.config.hosts import RaySection
from puffervec.wings.ray.cluster import Cluster
try:
    Cluster(RaySection(**{section}), {hosts}).close()
except ConfigError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("section", "hosts", "words"),
    [
        ({"address": "auto"}, 1, "no Ray cluster could be joined there"),
        (
            {"address": "local", "hosts": 2, "cpus": 2, "wait_s": 2.0},
            3,
            "the cluster had no room for 3 of 2 CPUs",
        ),
    ],
)
def test_real_clusters_that_do_not_do(section: dict[str, object], hosts: int, words: str) -> None:
    code = REAL.format(section=section, hosts=hosts)
    if hosts == 3:  # Started for two.
        begin = (
            f"from puffervec.wings.ray.cluster import connect\nconnect(RaySection(**{section}), "
            "2)\n"
        )
        code = code.replace("try:", begin + "try:")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert words in done.stdout and done.stdout.count("\n") == 1, done.stdout + done.stderr


@pytest.mark.slow
def test_machines_come_and_go(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.wings.ray.elastic", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0 and done.stdout.endswith("came and went\n"), (
        done.stdout + done.stderr
    )
    assert "has joined" in done.stdout and "has left" in done.stdout
