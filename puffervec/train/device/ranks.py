# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Several processes that train one policy: the ranks of a `torchrun` job, or one process alone,
which costs nothing.

    torchrun --nproc-per-node 2 $(which puffer-train) drive

Each rank runs a whole trainer with envs, workers and a device of its own. Gradients are added up in
one message per minibatch (NCCL between GPUs, else gloo); all else is a few numbers per epoch or
update, over gloo, so that no device waits for it. What one rank decides for all (to stop, to save,
the step size) is agreed on, for a rank that left a loop alone would leave the others waiting in the
next message.

Nobody waits for NCCL on the host, so a lost rank shows in gloo's next message, at the end of each
epoch at the latest, before anything is read from the device. One that is lost after that leaves the
device waiting: NCCL's watchdog then ends the process after train.rank_timeout_s, and torchrun
starts it anew. Runs in the learner; imports torch.distributed only where torchrun has started
several.

torchrun starts all ranks again when one dies or a machine joins or leaves, with the same command
line. Its agent on each machine stays: the agent's name stands in `run.json`, so the ranks that it
starts next go on there. A new torchrun is another agent and begins a new run; `--resume` goes on
with an old one.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import socket
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import psutil

from puffervec.errors import ConfigError, PuffervecError
from puffervec.system import cores

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch._C._distributed_c10d import Store
    from torch.distributed import ProcessGroup

VARIABLES = (
    "TORCHELASTIC_RUN_ID",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
)  # torchrun sets them, and others, in each rank.


def under_torchrun() -> bool:
    """True in a process that torchrun has started, and in its children."""
    return all(name in os.environ for name in VARIABLES)


def restarted() -> bool:
    """True where torchrun has started the ranks again after a failure."""
    return under_torchrun() and int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def job_names() -> list[str]:
    """Return the names of this process's job: its agent and, where the user has given it one, its
        --rdzv-id.

    Empty outside of torchrun. A job of several machines has the names of all its ranks.
    """
    if not under_torchrun():
        return []
    agent = psutil.Process(os.getppid())
    found = [f"agent {socket.gethostname()} {agent.pid} {agent.create_time():.2f}"]
    given = os.environ["TORCHELASTIC_RUN_ID"]
    return found if given in ("", "none") else [*found, job_of_id(given)]


def job_of_id(given: str) -> str:
    """Return the name of a job that was given an --rdzv-id."""
    return f"id {given}"


STORE_KEY = "puffervec/port"
CONNECT_S, RETRY_S = 5.0, 0.05  # One attempt to reach the first rank; between two of them.
ENDS_S = 1.0  # How long a process that has closed its connections may take to be gone.
Peer = tuple[str, int, float]  # Host, process id and time of birth of a rank.


class RankLost(PuffervecError, RuntimeError):
    """Another rank is gone or did not answer in time: this one cannot go on alone. The last
    checkpoint is untouched.
    """


class Ranks:
    """One process alone: what it has is what all have. `GroupRanks` has the same methods for
        several.

    With several, all ranks must call the same methods in the same order. job: names by which this
    job's run folder is found again; empty outside of torchrun. peers: their processes, by rank.
    """

    rank, size = 0, 1
    peers: tuple[Peer, ...] = ()

    def __init__(self, job: Sequence[str] = ()) -> None:
        """Args: job: see above."""
        self.job = tuple(job)

    @property
    def first(self) -> bool:
        """True for the rank that logs and saves."""
        return self.rank == 0

    def device(self, name: str) -> str:
        """Return the device that `train.device` means here: `auto` and `cuda` are the GPU of this
            rank's number on its machine.

        Raises: ConfigError where there are more ranks than GPUs.
        """
        return name

    def use(self, device: torch.device) -> None:
        """Prepare for tensors on this device."""

    def team(self, size: int) -> Ranks:
        """Return the ranks of this one's team: neighbours, `size` of them. All ranks must call it,
            after `use`.

        Raises: ConfigError where they cannot be divided so.
        """
        if self.size % size:
            raise ConfigError(
                f"train.tensor_parallel is {size}, but there {'is' if self.size == 1 else 'are'} "
                f"{self.size} rank{'s' * (self.size > 1)}: start a multiple of it with torchrun "
                "--nproc-per-node, or set it to 1"
            )
        return Ranks() if size == 1 else self._teams(size)

    def _teams(self, size: int) -> Ranks:
        return self

    def sums(self, values: Sequence[float]) -> list[float]:
        """Return the sum over all ranks of each value, in float64."""
        return list(values)

    def agree(self, *flags: bool) -> list[bool]:
        """Return for each flag whether it is set on any rank."""
        return list(flags)

    def broadcast_object(self, value: Any) -> Any:
        """Return the first rank's value, which must be JSON-like."""
        return value

    def all_gather_object(self, value: Any) -> list[Any]:
        """Return the values of all ranks, by rank; they must be JSON-like."""
        return [value]

    def gather(self, data: bytes) -> list[bytes]:
        """Return the bytes of all ranks, by rank, on the first rank; an empty list on the others."""
        return [data]

    def all_reduce(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors on the device by their sums over all ranks: one message, whatever their
        number.
        """

    def barrier(self) -> None:
        """Wait until all ranks have reached this call. Call it before reading a number from a
        device that may wait for them.

        Raises: RankLost.
        """

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors on the device by those of the first rank, byte for byte."""

    def close(self) -> None:
        """Leave the others in order, at the end of a run."""


class GroupRanks(Ranks):
    """One of several ranks. device_group: for messages between tensors on the device."""

    def __init__(
        self,
        group: ProcessGroup,
        rank: int,
        size: int,
        local_rank: int = 0,
        timeout_s: float = 600.0,
    ) -> None:
        """Join the others; blocks until all have called it.

        Args: group: a gloo group; local_rank: among the ranks of this machine, the number of this
            one's GPU; timeout_s: of the messages between GPUs.
        """
        super().__init__()
        self.rank, self.size, self._local_rank, self._timeout_s = rank, size, local_rank, timeout_s
        self._group = self.device_group = group
        self.peers = tuple(
            (host, pid, born) for host, pid, born in self.all_gather_object(this_process())
        )
        self.job = tuple(
            sorted({name for names in self.all_gather_object(job_names()) for name in names})
        )

    def device(self, name: str) -> str:
        import torch

        if name not in ("auto", "cuda") or not torch.cuda.is_available():
            return name
        if self._local_rank >= torch.cuda.device_count():
            raise ConfigError(
                f"rank {self.rank} is number {self._local_rank} on its machine, which has "
                f"{torch.cuda.device_count()} CUDA devices: use torchrun --nproc-per-node with at "
                "most as many, or train.device cpu"
            )
        return f"cuda:{self._local_rank}"

    def use(self, device: torch.device) -> None:
        kinds = self.all_gather_object(device.type)
        if len(set(kinds)) > 1:
            raise ConfigError(
                f"the ranks have the devices {', '.join(kinds)}: set train.device so that all are "
                "of one kind"
            )
        if device.type == "cuda":
            import datetime

            import torch.distributed as dist

            with self._with_others("connecting the GPUs"):
                self.device_group = dist.new_group(
                    backend="nccl", timeout=datetime.timedelta(seconds=self._timeout_s)
                )

    def _teams(self, size: int) -> Ranks:
        if size == self.size:
            return self
        import datetime

        import torch.distributed as dist

        found: GroupRanks | None = None
        limit = datetime.timedelta(seconds=self._timeout_s)
        for first in range(0, self.size, size):  # All ranks take part in making each group.
            members = list(range(first, first + size))
            with self._with_others("making teams"):
                group = dist.new_group(members, backend="gloo", timeout=limit)
                device_group = group
                if self.device_group is not self._group:
                    device_group = dist.new_group(members, backend="nccl", timeout=limit)
            if self.rank in members:
                found = GroupRanks(
                    group, self.rank - first, size, self._local_rank, self._timeout_s
                )
                found.device_group = device_group
        assert found is not None
        return found

    def sums(self, values: Sequence[float]) -> list[float]:
        import torch

        total = torch.tensor(values, dtype=torch.float64)
        with self._with_others("adding up numbers"):
            self._group.allreduce([total]).wait()
        found: list[float] = total.tolist()
        return found

    def agree(self, *flags: bool) -> list[bool]:
        return [votes > 0 for votes in self.sums([float(flag) for flag in flags])]

    def broadcast_object(self, value: Any) -> Any:
        return self.all_gather_object(value if self.first else None)[0]

    def all_gather_object(self, value: Any) -> list[Any]:
        import torch

        mine, room = self._padded(json.dumps(value).encode())
        parts = [torch.empty_like(mine) for _ in range(self.size)]
        with self._with_others("telling each other"):
            self._group.allgather([parts], [mine]).wait()
        return [
            json.loads(bytes(part.numpy()[:count])) for part, count in zip(parts, room, strict=True)
        ]

    def gather(self, data: bytes) -> list[bytes]:
        import torch
        from torch.distributed import GatherOptions

        mine, room = self._padded(data)
        parts = [torch.empty_like(mine) for _ in range(self.size)] if self.first else []
        with self._with_others("gathering at rank 0"):
            options = GatherOptions()
            options.rootRank = 0
            self._group.gather([parts] if self.first else [], [mine], options).wait()
        return [
            bytes(part.numpy()[:count])
            for part, count in zip(parts, room[: len(parts)], strict=True)
        ]

    def _padded(self, data: bytes) -> tuple[Tensor, list[int]]:
        """Return data as a tensor that is as long on all ranks, and how many bytes of each rank's
        count.
        """
        import torch

        lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        with self._with_others("comparing lengths"):
            self._group.allgather([lengths], [torch.tensor([len(data)])]).wait()
        room = [int(length) for length in lengths]
        padded = torch.zeros(max(1, *room), dtype=torch.uint8)
        if data:
            padded[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        return padded, room

    def all_reduce(self, tensors: Sequence[Tensor]) -> None:
        import torch

        flat = torch.cat([tensor.detach().reshape(-1).float() for tensor in tensors])
        with self._with_others("adding up gradients"):
            self.device_group.allreduce([flat]).wait()
        for tensor, total in zip(
            tensors, torch.split(flat, [tensor.numel() for tensor in tensors]), strict=True
        ):
            tensor.detach().copy_(total.view(tensor.shape))

    def barrier(self) -> None:
        """See Ranks; between CPUs every message is waited for."""
        if self.device_group is not self._group:
            self.sums([0.0])

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        import torch
        from torch.distributed import BroadcastOptions

        shapes = [[str(tensor.dtype), *tensor.shape] for tensor in tensors]
        match(self, "policies", json.dumps(shapes))
        with torch.no_grad(), self._with_others("taking the weights of rank 0"):
            for tensor in tensors:
                found = tensor.detach().clone(memory_format=torch.contiguous_format)
                self.device_group.broadcast([found], BroadcastOptions()).wait()
                tensor.copy_(found)

    def close(self) -> None:
        import torch.distributed as dist

        if dist.is_initialized():
            dist.destroy_process_group()

    @contextlib.contextmanager
    def _with_others(self, doing: str) -> Iterator[None]:
        try:
            with with_others(doing, self.rank, self.peers or self.size):
                yield
        except RankLost:
            if (
                self.device_group is not self._group
            ):  # What waits for the lost one on the device would never end.
                self.device_group.abort()
            raise


@contextlib.contextmanager
def with_others(doing: str, rank: int, others: Sequence[Peer] | int) -> Iterator[None]:
    """Say which rank is lost where a message in the body fails.

    Args: doing: what the message is for; rank: this one's; others: the processes of all ranks by
    rank, or only their number.
    Raises: RankLost.
    """
    try:
        yield
    except RuntimeError as error:
        peers, size = ((), others) if isinstance(others, int) else (others, len(others))
        raise RankLost(
            f"rank {rank} of {size} lost {_lost_of(peers)} while {doing}: "
            f"{str(error).splitlines()[0]}; go on with --resume, or let torchrun --max-restarts N "
            "do it"
        ) from error


def this_process() -> Peer:
    """Return what tells this process from all others."""
    return socket.gethostname(), os.getpid(), psutil.Process().create_time()


def _lost_of(peers: Sequence[Peer]) -> str:
    """Return who does not run any more, in words, as far as it ran on this machine; waits for a
    process that is just ending.
    """
    host, give_up = socket.gethostname(), time.monotonic() + ENDS_S
    while any(peer[0] == host and peer[1] != os.getpid() for peer in peers):
        states = [
            (rank, pid, _state(pid, born))
            for rank, (at, pid, born) in enumerate(peers)
            if at == host
        ]
        if found := [
            f"rank {rank} (process {pid} {state})" for rank, pid, state in states if state
        ]:
            return ", ".join(found)
        if time.monotonic() > give_up:
            break
        time.sleep(RETRY_S)
    return "another rank"


def _state(pid: int, born: float) -> str:
    """Return why a process does not answer; "" where it runs."""
    try:
        process = psutil.Process(pid)
        status = process.status() if abs(process.create_time() - born) < 1.0 else psutil.STATUS_DEAD
    except psutil.Error:
        return "is gone"
    words = {
        psutil.STATUS_ZOMBIE: "is gone",
        psutil.STATUS_DEAD: "is gone",
        psutil.STATUS_STOPPED: "is stopped",
    }
    return words.get(status, "")


def match(ranks: Ranks, what: str, text: str) -> None:
    """Compare a text with those of the other ranks.

    Raises: ConfigError, on all ranks, where they differ.
    """
    found = ranks.all_gather_object(hashlib.sha256(text.encode()).hexdigest())
    others = [rank for rank, digest in enumerate(found) if digest != found[0]]
    if others:
        raise ConfigError(
            f"rank {others[0]} has other {what} than rank 0: start all ranks with the same "
            "command, files and versions"
        )


def of_environment(timeout_s: float) -> Ranks:
    """Return this process's place among the ranks that torchrun has started; alone outside of
    torchrun.

    Several ranks on one machine then share its cores: this process and what it starts run on a part
    of them.
    Args: timeout_s: a rank that lets the others wait longer is taken for lost.
    Raises: RankLost.
    """
    if not under_torchrun():
        return Ranks()
    size = int(os.environ["WORLD_SIZE"])
    return Ranks(job_names()) if size == 1 else _joined(size, timeout_s)


@functools.cache
def _joined(size: int, timeout_s: float) -> GroupRanks:
    """Join the other ranks, once."""
    import datetime

    import torch.distributed as dist
    from torch.distributed.rendezvous import rendezvous

    limit = datetime.timedelta(seconds=timeout_s)
    try:
        if not dist.is_initialized():
            store, rank, _ = next(iter(rendezvous("env://", timeout=limit)))
            own = own_store(store, os.environ["MASTER_ADDR"], rank, timeout_s)
            dist.init_process_group("gloo", store=own, rank=rank, world_size=size, timeout=limit)
        group = dist.new_group(backend="gloo", timeout=limit)
    except RuntimeError as error:
        raise RankLost(
            f"the ranks did not find each other: {str(error).splitlines()[0]}"
        ) from error
    ranks = GroupRanks(group, dist.get_rank(), size, int(os.environ["LOCAL_RANK"]), timeout_s)
    take_cores(ranks)
    return ranks


def own_store(agents: Store, host: str, rank: int, timeout_s: float) -> Store:
    """Return a store that the first rank serves and that ends with it.

    The one of torchrun's agents outlives the ranks: after a restart they would read from it where
    their predecessors listened. A port that is left in it from before refuses connections, for its
    owner is gone.
    Args: agents: torchrun's store; host: where the first rank runs.
    Raises: RankLost where there is no first rank within the time.
    """
    import datetime

    from torch._C._distributed_c10d import TCPStore

    limit, give_up = datetime.timedelta(seconds=timeout_s), time.monotonic() + timeout_s
    if rank == 0:
        served = TCPStore(host, 0, is_master=True, timeout=limit, wait_for_workers=False)
        agents.set(STORE_KEY, str(served.port))
        return served
    while time.monotonic() < give_up:
        port = int(agents.get(STORE_KEY))
        with contextlib.suppress(OSError, RuntimeError):
            socket.create_connection((host, port), CONNECT_S).close()
            return TCPStore(host, port, is_master=False, timeout=limit, wait_for_workers=False)
        time.sleep(RETRY_S)
    raise RankLost(
        f"rank {rank} has not reached rank 0 at {host} within train.rank_timeout_s, {timeout_s:g} s"
    )


def take_cores(ranks: Ranks) -> None:
    """Keep this thread, and what it starts from now on, to its part of the cores that it shares
    with other ranks.

    Ranks that were bound to different cores already stay there.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    mine = [socket.gethostname(), cores.affinity()]
    peers = [rank for rank, other in enumerate(ranks.all_gather_object(mine)) if other == mine]
    os.sched_setaffinity(0, part_of(cores.affinity(), peers.index(ranks.rank), len(peers)))
    cores.share_quota(len(peers))


def part_of(all_cores: Sequence[int], place: int, places: int) -> list[int]:
    """Return the cores of one of several processes: neighbours, as many for each; where there are
        too few, one core each.

    >>> part_of([0, 1, 2, 3, 4], 1, 2), part_of([0, 1], 2, 3)
    ([2, 3], [0])
    """
    each = max(1, len(all_cores) // places)
    begin = place * each % len(all_cores)
    return list(all_cores[begin : begin + each])
