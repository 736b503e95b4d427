# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Ray: the cluster, the actors that hosts are, and answers on their way. The one file that imports
it.

What Ray does: it places actors (a placement group spreads them over machines; where hosts follow
the machines, each is bound to its own), starts dead ones again and repeats what they were asked,
keeps weights and segments in the object store of each machine, and knows which machines there are.
Runs in the learner.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import secrets
import signal
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)

from puffervec.errors import ConfigError
from puffervec.system.cores import usable_cores
from puffervec.train.config.hosts import RaySection
from puffervec.wings.ray.feed import Answer, Ref
from puffervec.wings.ray.host import About, Failed, Host, Order, Outfit

SYNC_S = 2.0  # Between two looks at which machines there are.
REACH_S = 10.0
# Hosts have so long to end their workers; then they are killed, and the workers end by themselves.
CLOSE_S = 3.0
LOCAL, AUTO = "local", "auto"
# Where Ray keeps the address of the cluster that was started last, in the temporary folder.
CURRENT_CLUSTER = "ray/ray_current_cluster"
_HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(
    (0, 0, 0, 4, 0, 0, 0, 0, 0)
)  # RFC 9113, 3.4


@dataclasses.dataclass(frozen=True)
class Machine:
    """One of the cluster that can play. Attributes: node: Ray's name of it; name: for people; cpus:
    that it has.
    """

    node: str
    name: str
    cpus: int


def machines(nodes: Sequence[Mapping[str, Any]]) -> list[Machine]:
    """Return those of `ray.nodes()` that are alive and lend CPUs, the largest first."""
    found = [
        Machine(
            node["NodeID"], str(node["NodeManagerAddress"]), int(node["Resources"].get("CPU", 0))
        )
        for node in nodes
        if node["Alive"]
    ]
    return sorted(
        (machine for machine in found if machine.cpus > 0),
        key=lambda machine: (-machine.cpus, machine.node),
    )


def cpus_each(wanted: int, hosts: int, found: Sequence[Machine]) -> int:
    """Return the CPUs that each of several hosts takes: `wanted`, or where that is 0 a fair part of
        the machines.

    >>> two = [Machine("a", "a", 16), Machine("b", "b", 8)]
    >>> cpus_each(0, 2, two), cpus_each(0, 4, two)
    (8, 4)
    """
    if wanted or not found:
        return max(1, wanted)
    together = -(-hosts // len(found))
    return max(1, found[min(hosts, len(found)) - 1].cpus // together)


def connect(section: RaySection, hosts: int) -> bool:
    """Join the cluster, or start one here; return whether it has to be left again: the caller's own
    script may be in one.

    Raises: ConfigError where there is none at the address.
    """
    if ray.is_initialized():
        return False
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Nothing about a run leaves it unasked.
    quiet: dict[str, Any] = {"include_dashboard": False} if section.address == LOCAL else {}
    if section.address == LOCAL:
        _give_token()
        quiet["num_cpus"] = hosts * (section.cpus or max(1, usable_cores() // hosts))
    try:
        _reach(_known() if section.address == AUTO else section.address)
        with _own_signals():
            ray.init(section.address, logging_level=logging.ERROR, log_to_driver=False, **quiet)
    except (
        ConnectionError,
        RuntimeError,
        ValueError,
        AssertionError,
        TimeoutError,
        RayError,
        OSError,
    ) as error:
        words = " ".join(str(error).split())[:300]
        raise ConfigError(
            f"ray.address is {section.address!r}: no Ray cluster could be joined there ({words}); "
            "start one with `ray start --head`, join it on this machine with `ray start "
            "--address=HOST:PORT --num-cpus=0`, or use --ray "
            f"local{'' if 'RAY_AUTH_MODE' in os.environ else '; if it asks for a token: export RAY_AUTH_MODE=token'}"
        ) from None
    return True


def _give_token() -> None:
    """Set a token for a Ray of this process alone, unless the user has chosen one.

    Ray would write one to ~/.ray/auth_token, and then every later `ray start --head` would ask for
    it.
    """
    if not any(
        name in os.environ for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    ):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


def _known() -> str:
    """Return the address that Ray takes "auto" for, "" where nothing names one.

    The file outlives a cluster that was killed.
    """
    with contextlib.suppress(OSError, UnicodeDecodeError):
        folder = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
        return os.environ.get("RAY_ADDRESS") or (Path(folder) / CURRENT_CLUSTER).read_text().strip()
    return ""


def _reach(address: str) -> None:
    """Raise OSError where nothing answers at HOST:PORT: Ray would try for minutes. Other addresses
    are left to Ray.

    Ray's head speaks gRPC, so it answers the first bytes of HTTP/2, or closes where it wants TLS.
    """
    host, _, port = address.rpartition(":")
    if host and "/" not in host and port.isdigit():
        with socket.create_connection((host, int(port)), timeout=REACH_S) as connection:
            connection.sendall(_HTTP2_PREFACE)
            try:
                connection.recv(1)
            except TimeoutError:
                raise TimeoutError(
                    f"something listens there and does not answer within {REACH_S:g} s"
                ) from None
            except ConnectionResetError:  # it refuses these bytes
                pass


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Keep Ray's handlers from taking the place of those that save a run.

    Inside, Ray turns SIGTERM into SystemExit(15); it is raised again as the signal that it was.
    """
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    stopped = False
    try:
        yield
    except SystemExit as error:
        stopped = error.code == signal.SIGTERM
        if not stopped:
            raise
    finally:
        with contextlib.suppress(ValueError):  # Not in the main thread.
            for number, handler in kept.items():
                signal.signal(number, handler)
    if stopped:
        signal.raise_signal(signal.SIGTERM)


class Actor:
    """A host as an actor. Its outfit comes with each order, for a new life has none; only then it
    is fetched.
    """

    def __init__(self, number: int) -> None:
        """Args: number: of the host."""
        self._number = number
        self._host: Host | None = None

    def _alive(self, outfit: Sequence[Ref]) -> Host:
        if self._host is None:
            self._host = Host(ray.get(outfit[0]), self._number)
        return self._host

    def about(self, outfit: Sequence[Ref]) -> About | Failed:
        """See Host. outfit: one reference, in a list: Ray would fetch it each time."""
        return self._alive(outfit).about()

    def play(self, weights: bytes, order: Order, outfit: Sequence[Ref]) -> Answer:
        """See Host."""
        return self._alive(outfit).play(weights, order)

    def close(self) -> None:
        """See Host."""
        if self._host is not None:
            self._host.close()


class Cluster:
    """The hosts of one learner: a `Transport`."""

    def __init__(self, section: RaySection, hosts: int) -> None:
        """Join the cluster and reserve room. Args: hosts: of this learner; 0: one on each machine.

        Raises: ConfigError.
        """
        self.section, self.hosts, self.notes = section, hosts, list[str]()
        self.cpus = 0
        self._group: Any = None
        self._actors: dict[int, Any] = {}
        self._nodes: dict[int, Machine] = {}  # By host, where hosts follow machines.
        self._starting: dict[Ref, int] = {}
        self._names: dict[int, str] = {}
        self._outfit: Ref = None
        self._synced_s = 0.0
        self._own = connect(section, max(1, hosts))
        try:
            self._reserve()
        except BaseException:
            self.close()
            raise

    def _reserve(self) -> None:
        wanted, limit_s = self.section.hosts, self.section.wait_s
        give_up = time.monotonic() + limit_s
        while not (found := machines(ray.nodes())) and time.monotonic() < give_up:
            time.sleep(0.2)
        self.cpus = cpus_each(self.section.cpus, self.hosts or len(found), found)
        if not self.hosts:
            if not found:
                raise ConfigError(
                    f"ray.address is {self.section.address!r}: no machine of that cluster lends "
                    "CPUs"
                )
            return
        spread = "STRICT_SPREAD" if self.hosts <= len(found) else "SPREAD"
        if spread == "SPREAD":
            self.notes.append(
                f"{self.hosts} hosts share {len(found)} machine{'s' * (len(found) != 1)}, "
                f"{self.cpus} CPUs each"
            )
        if sum(machine.cpus // self.cpus for machine in found) >= self.hosts:
            self._group = placement_group([{"CPU": self.cpus}] * self.hosts, strategy=spread)
            if self._group.wait(max(1.0, give_up - time.monotonic())):
                return
        has = ", ".join(f"{machine.name} {machine.cpus}" for machine in found[:8]) or "none"
        raise ConfigError(
            f"ray.hosts is {wanted}: the cluster had no room for {self.hosts} of {self.cpus} CPUs "
            f"within ray.wait_s {limit_s:g} (its CPUs: {has}; others may use them): let more "
            "machines join, or use fewer --ray.hosts or --ray.cpus"
        )

    # ------------------------------------------------------------------------------------------------ hosts

    def start(self, outfit: Outfit) -> None:
        """Begin to start the hosts; `arrived` tells which are ready.

        Raises: ConfigError where they cannot be sent what they need.
        """
        try:
            self._outfit = ray.put(dataclasses.replace(outfit, cpus=self.cpus))
        except Exception as error:  # Whatever pickling of a user's policy or env raises.
            raise ConfigError(
                "--ray: a policy or the env cannot be sent to hosts: "
                f"{' '.join(str(error).split())[:300]}"
            ) from error
        for host in range(self.hosts):
            where = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=host)
            self._start(host, self.cpus, where)
        self.sync()

    def _start(self, host: int, cpus: int, where: Any) -> None:
        kind = ray.remote(Actor)
        actor = kind.options(
            num_cpus=cpus, max_restarts=-1, max_task_retries=-1, scheduling_strategy=where
        )
        self._actors[host] = actor.remote(host)
        self._starting[self._actors[host].about.remote([self._outfit])] = host

    def sync(self) -> list[int]:
        """Where hosts follow the machines: start one on each that joined; return the hosts of those
        that left.
        """
        if self.hosts or time.monotonic() - self._synced_s < SYNC_S:
            return []
        self._synced_s = time.monotonic()
        found = {machine.node: machine for machine in machines(ray.nodes())}
        gone = [host for host, machine in self._nodes.items() if machine.node not in found]
        for host in gone:
            self._forget(host)
        for node in found.keys() - {machine.node for machine in self._nodes.values()}:
            host = max(self._names, default=-1) + 1
            self._nodes[host], self._names[host] = found[node], found[node].name
            cpus = self.section.cpus or found[node].cpus
            self._start(host, cpus, NodeAffinitySchedulingStrategy(node, soft=False))
        return gone

    def _forget(self, host: int) -> None:
        machine, actor = self._nodes.pop(host), self._actors.pop(host)
        self.notes.append(f"the machine {machine.name} has left, and its host with it")
        for ref in [ref for ref, starting in self._starting.items() if starting == host]:
            self.drop(ref)
            del self._starting[ref]
        with contextlib.suppress(Exception):
            ray.kill(actor)

    def arrived(self, timeout_s: float) -> list[tuple[int, About | Failed]]:
        """Return the hosts that have become ready; waits for the first of them."""
        if not self._starting:
            return []
        found: list[tuple[int, About | Failed]] = []
        for ref in self.ready(list(self._starting), timeout_s):
            host, answer = self._starting.pop(ref), self.take(ref)
            if isinstance(answer, About):
                self._names[host] = answer.place
            if isinstance(answer, (About, Failed)):
                found.append((host, answer))
        return found

    @property
    def starting(self) -> int:
        """Hosts that are not ready yet."""
        return len(self._starting)

    def close(self) -> None:
        """End the hosts and, where this process joined it, leave the cluster."""
        if not ray.is_initialized():
            return
        closing = [
            actor.close.options(max_task_retries=0).remote() for actor in self._actors.values()
        ]
        with contextlib.suppress(RayError):
            ray.wait(closing, num_returns=len(closing), timeout=CLOSE_S) if closing else None
        for actor in self._actors.values():
            with contextlib.suppress(Exception):
                ray.kill(actor)
        self._actors.clear()
        if self._own:  # What was reserved ends with the job.
            with _own_signals():
                ray.shutdown()
        elif self._group is not None:
            with contextlib.suppress(Exception):
                remove_placement_group(self._group)
        self._group = None

    # ------------------------------------------------------------------------------------------------ Transport

    def put(self, weights: bytes) -> Ref:
        """See Transport: one copy in the store of this machine, which the others fetch once each."""
        return ray.put(weights)

    def play(self, host: int, weights: Ref, order: Order) -> Ref:
        """See Transport."""
        return self._actors[host].play.remote(weights, order, [self._outfit])

    def ready(self, refs: list[Ref], timeout_s: float) -> list[Ref]:
        """See Transport."""
        if not refs:
            time.sleep(min(timeout_s, 0.05))
            return []
        first, _ = ray.wait(refs, num_returns=1, timeout=timeout_s)
        return ray.wait(refs, num_returns=len(refs), timeout=0)[0] if first else []

    def take(self, ref: Ref) -> Answer:
        """See Transport."""
        try:
            answer: Answer = ray.get(ref)
        except RayTaskError as error:
            words = (
                f"{type(error.cause).__name__}: {error.cause}"
                if error.cause is not None
                else str(error)
            )
            return Failed(" ".join(words.split())[-1000:], bad_input=False)
        except RayError:
            return None
        return answer

    def drop(self, ref: Ref) -> None:
        """See Transport."""
        with contextlib.suppress(Exception):
            ray.cancel(ref)

    def name(self, host: int) -> str:
        """See Transport."""
        return f"host {host} ({self._names[host]})" if host in self._names else f"host {host}"
