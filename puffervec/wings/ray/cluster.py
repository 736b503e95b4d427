# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The Ray cluster, the host actors and their pending answers. Only this file imports ray.

Ray places the actors (a placement group spreads them over machines; if there is one host per
machine, each is bound to its machine), restarts dead ones and repeats their calls, keeps weights
and segments in the object store of each machine, and lists the machines. Runs in the learner.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
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
from puffervec.wings.ray.host import Failure, Host, HostInfo, HostSetup, Request
from puffervec.wings.ray.source import Answer, Ref

SYNC_S = 2.0  # Time between two checks of the list of machines.
REACH_S = 10.0
# Hosts get this long to end their workers. Then they are killed, and the workers end by themselves.
CLOSE_S = 3.0
LOCAL, AUTO = "local", "auto"
# File in the temporary folder in which Ray keeps the address of the cluster that was started last.
CURRENT_CLUSTER = "ray/ray_current_cluster"
TOKEN_HINT = "; if it asks for a token: export RAY_AUTH_MODE=token"
# The preface of a client and an empty SETTINGS frame: RFC 9113, 3.4.
_HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"


@dataclasses.dataclass(frozen=True)
class Machine:
    """A machine of the cluster that can run hosts.

    Attributes:
        node: Ray's id of the machine.
        name: display name.
        cpus: number of CPUs that it offers to Ray.
    """

    node: str
    name: str
    cpus: int


def machines(nodes: Sequence[Mapping[str, Any]]) -> list[Machine]:
    """Return the machines of `ray.nodes()` that are alive and offer CPUs, the largest first."""
    alive = [
        Machine(
            node["NodeID"], str(node["NodeManagerAddress"]), int(node["Resources"].get("CPU", 0))
        )
        for node in nodes
        if node["Alive"]
    ]
    return sorted(
        (machine for machine in alive if machine.cpus > 0),
        key=lambda machine: (-machine.cpus, machine.node),
    )


def cpus_each(wanted: int, hosts: int, lent: Sequence[Machine]) -> int:
    """Return the number of CPUs of each of several hosts: `wanted`, or a fair share if that is 0.

    >>> two = [Machine("a", "a", 16), Machine("b", "b", 8)]
    >>> cpus_each(0, 2, two), cpus_each(0, 4, two)
    (8, 4)
    """
    if wanted or not lent:
        return max(1, wanted)
    together = -(-hosts // len(lent))
    return max(1, lent[min(hosts, len(lent)) - 1].cpus // together)


def connect(section: RaySection, hosts: int) -> bool:
    """Join the cluster, or start one here; return whether this process must later leave it.

    If the script has joined a cluster already, it is used and not left.

    Raises:
        ConfigError: there is no cluster at the address.
    """
    if ray.is_initialized():
        return False
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray sends usage statistics by default.
    quiet: dict[str, Any] = {"include_dashboard": False} if section.address == LOCAL else {}
    if section.address == LOCAL:
        _set_token()
        quiet["num_cpus"] = hosts * (section.cpus or max(1, usable_cores() // hosts))
    try:
        _check_reachable(_auto_address() if section.address == AUTO else section.address)
        with _keep_signals():
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
        text = " ".join(str(error).split())[:300]
        token = "" if "RAY_AUTH_MODE" in os.environ else TOKEN_HINT
        raise ConfigError(
            f"ray.address is {section.address!r}: no Ray cluster could be joined there ({text}); "
            "start one with `ray start --head`, join it on this machine with `ray start "
            f"--address=HOST:PORT --num-cpus=0`, or use --ray local{token}"
        ) from None
    return True


def _set_token() -> None:
    """Set a token for a Ray cluster that only this process uses, unless the user has chosen one.

    Ray would write one to ~/.ray/auth_token, and then every later `ray start --head` would ask for
    it.
    """
    if not any(
        name in os.environ for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    ):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


def _auto_address() -> str:
    """Return the address that Ray would use for "auto", or "" if none is known.

    The file that has the address may remain after the cluster was killed.
    """
    with contextlib.suppress(OSError, UnicodeDecodeError):
        folder = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
        return os.environ.get("RAY_ADDRESS") or (Path(folder) / CURRENT_CLUSTER).read_text().strip()
    return ""


def _check_reachable(address: str) -> None:
    """Raise OSError if nothing answers at HOST:PORT, since Ray would try for minutes.

    Other forms of address are left to Ray.

    Ray's head node uses gRPC, so it answers the first bytes of HTTP/2, or closes the connection if
    it requires TLS.
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
            except ConnectionResetError:  # the head node refuses these bytes, so it is reachable
                pass


@contextlib.contextmanager
def _keep_signals() -> Iterator[None]:
    """Restore the signal handlers, which save a run, after Ray has replaced them in the block.

    In the block, Ray turns SIGTERM into SystemExit(15), which is turned back into the signal.
    """
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    stopped = False
    try:
        yield
    except SystemExit as error:
        stopped = error.code == signal.SIGTERM
        if not stopped:
            raise
    finally:
        with contextlib.suppress(ValueError):  # This is not the main thread.
            for number, handler in handlers.items():
                signal.signal(number, handler)
    if stopped:
        signal.raise_signal(signal.SIGTERM)


class Actor:
    """A host as a Ray actor.

    Each request carries a reference to the set-up, which an actor fetches once after each restart.
    """

    def __init__(self, number: int) -> None:
        """Args: number: number of the host."""
        self._number = number
        self._host: Host | None = None

    def _get_host(self, setup: Sequence[Ref]) -> Host:
        if self._host is None:
            self._host = Host(ray.get(setup[0]), self._number)
        return self._host

    def describe(self, setup: Sequence[Ref]) -> HostInfo | Failure:
        """See Host. setup: a list of one reference, since Ray would fetch a bare one each time."""
        return self._get_host(setup).describe()

    def play(self, weights: bytes, request: Request, setup: Sequence[Ref]) -> Answer:
        """See Host."""
        return self._get_host(setup).play(weights, request)

    def close(self) -> None:
        """See Host."""
        if self._host is not None:
            self._host.close()


class Cluster:
    """The hosts of one learner: a `Transport`."""

    def __init__(self, section: RaySection, hosts: int) -> None:
        """Join the cluster and reserve CPUs.

        Args:
            section: the run's settings of Ray.
            hosts: number of hosts of this learner; 0: one on each machine.

        Raises:
            ConfigError: there is no such cluster, or not enough room in it.
        """
        self.section, self.hosts, self.notes = section, hosts, list[str]()
        self._group: Any = None
        self._actors: dict[int, Any] = {}
        self._nodes: dict[int, Machine] = {}  # By host, if there is one host per machine.
        self._starting: dict[Ref, int] = {}
        self._names: dict[int, str] = {}
        self._setup: Ref = None
        self._synced_s = -math.inf
        self._joined = connect(section, max(1, hosts))
        try:
            self._reserve()
        except BaseException:
            self.close()
            raise

    def _reserve(self) -> None:
        wanted, limit_s = self.section.hosts, self.section.wait_s
        give_up = time.monotonic() + limit_s
        while not (lent := machines(ray.nodes())) and time.monotonic() < give_up:
            time.sleep(0.2)
        self.cpus = cpus_each(self.section.cpus, self.hosts or len(lent), lent)
        if not self.hosts:
            if not lent:
                raise ConfigError(
                    f"ray.address is {self.section.address!r}: no machine of that cluster lends "
                    "CPUs"
                )
            return
        spread = "STRICT_SPREAD" if self.hosts <= len(lent) else "SPREAD"
        if spread == "SPREAD":
            self.notes.append(
                f"{self.hosts} hosts share {len(lent)} machine{'s' * (len(lent) != 1)}, "
                f"{self.cpus} CPUs each"
            )
        if sum(machine.cpus // self.cpus for machine in lent) >= self.hosts:
            self._group = placement_group([{"CPU": self.cpus}] * self.hosts, strategy=spread)
            if self._group.wait(max(1.0, give_up - time.monotonic())):
                return
        each = ", ".join(f"{machine.name} {machine.cpus}" for machine in lent[:8]) or "none"
        raise ConfigError(
            f"ray.hosts is {wanted}: the cluster had no room for {self.hosts} of {self.cpus} CPUs "
            f"within ray.wait_s {limit_s:g} (its CPUs: {each}; others may use them): let more "
            "machines join, or use fewer --ray.hosts or --ray.cpus"
        )

    # ---------------------------------------------------------------------------------------- hosts

    def start(self, setup: HostSetup) -> None:
        """Begin to start the hosts, without waiting; `poll_started` returns those that are ready.

        Raises:
            ConfigError: the policies or the env cannot be sent to hosts.
        """
        try:
            self._setup = ray.put(dataclasses.replace(setup, cpus=self.cpus))
        except Exception as error:  # Pickling a user's policy or env may raise anything.
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
        self._starting[self._actors[host].describe.remote([self._setup])] = host

    def sync(self) -> list[int]:
        """Start a host on each new machine, if there is one host per machine.

        Returns:
            The hosts whose machines have left.
        """
        if self.hosts or time.monotonic() - self._synced_s < SYNC_S:
            return []
        self._synced_s = time.monotonic()
        lent = {machine.node: machine for machine in machines(ray.nodes())}
        gone = [host for host, machine in self._nodes.items() if machine.node not in lent]
        for host in gone:
            self._forget(host)
        for node in lent.keys() - {machine.node for machine in self._nodes.values()}:
            host = max(self._names, default=-1) + 1
            self._nodes[host], self._names[host] = lent[node], lent[node].name
            cpus = self.section.cpus or lent[node].cpus
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

    def poll_started(self, timeout_s: float) -> list[tuple[int, HostInfo | Failure]]:
        """Wait until a host is ready; return all hosts that are, with their reports."""
        if not self._starting:
            return []
        reports: list[tuple[int, HostInfo | Failure]] = []
        for ref in self.ready(list(self._starting), timeout_s):
            host, answer = self._starting.pop(ref), self.take(ref)
            if isinstance(answer, HostInfo):
                self._names[host] = answer.machine
            if isinstance(answer, (HostInfo, Failure)):
                reports.append((host, answer))
        return reports

    @property
    def starting(self) -> int:
        """Number of hosts that are not ready yet."""
        return len(self._starting)

    def close(self) -> None:
        """End the hosts, and leave the cluster if this process joined it."""
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
        if self._joined:  # Leaving ends the job, and with it the reservation of CPUs.
            with _keep_signals():
                ray.shutdown()
        elif self._group is not None:
            with contextlib.suppress(Exception):
                remove_placement_group(self._group)
        self._group = None

    # ------------------------------------------------------------------------------------ Transport

    def put(self, weights: bytes) -> Ref:
        """See Transport. One copy is in this machine's store; other machines fetch it once each."""
        return ray.put(weights)

    def play(self, host: int, weights: Ref, request: Request) -> Ref:
        """See Transport."""
        return self._actors[host].play.remote(weights, request, [self._setup])

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
            text = (
                f"{type(error.cause).__name__}: {error.cause}"
                if error.cause is not None
                else str(error)
            )
            return Failure(" ".join(text.split())[-1000:], bad_input=False)
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
