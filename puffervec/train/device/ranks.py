# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Connect the ranks of a `torchrun` job, which train one policy together.

    torchrun --nproc-per-node 2 $(which puffer-train) drive

A single process has the same interface at no cost. Each rank runs a whole trainer with its own
envs, workers and device. Gradients are summed in one message per minibatch (NCCL between GPUs, gloo
otherwise). Everything else is a few numbers per epoch or update, over gloo, so that no device waits
for them. Decisions for all ranks (to stop, to save, the step size) are agreed on, because a rank
that left a loop alone would leave the others waiting in the next message.

The host never waits for NCCL, so a lost rank shows up in the next gloo message, at the latest at
the end of the epoch, before anything is read from the device. A rank lost after that leaves the
device waiting: NCCL's watchdog then ends the process after train.rank_timeout_s, and torchrun
restarts it. Runs in the learner; imports torch.distributed only if torchrun has started several
ranks.

torchrun restarts all ranks with the same command line when one dies or a machine joins or leaves.
Its agent on each machine survives. The agent's name is stored in `run.json`, so the restarted ranks
continue that run. A new torchrun has a new agent and begins a new run; `--resume` continues an old
one.
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

# torchrun sets these, and others, in each rank.
VARIABLES = ("TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK")


def under_torchrun() -> bool:
    """Return whether torchrun has started this process or one of its ancestors."""
    return all(name in os.environ for name in VARIABLES)


def is_restart() -> bool:
    """Return whether torchrun has restarted the ranks after a failure."""
    return under_torchrun() and int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def job_names() -> list[str]:
    """Return the names of this process's job: its agent and, if the user set one, its --rdzv-id.

    Empty outside torchrun. A job on several machines has the names of all its ranks.
    """
    if not under_torchrun():
        return []
    agent = psutil.Process(os.getppid())
    names = [f"agent {socket.gethostname()} {agent.pid} {agent.create_time():.2f}"]
    rdzv_id = os.environ["TORCHELASTIC_RUN_ID"]
    return names if rdzv_id in ("", "none") else [*names, job_of_id(rdzv_id)]


def job_of_id(rdzv_id: str) -> str:
    """Return the name of a job with an --rdzv-id."""
    return f"id {rdzv_id}"


STORE_KEY = "puffervec/port"
CONNECT_S, RETRY_S = 5.0, 0.05  # Time for one attempt to reach rank 0, and between two attempts.
ENDS_S = 1.0  # Time that a process may need to end after it has closed its connections.
Peer = tuple[str, int, float]  # Host, process id and creation time of a rank.


class RankLost(PuffervecError, RuntimeError):
    """Raised when another rank is gone or did not answer in time, so that this one cannot continue.

    The last checkpoint is untouched.
    """


class Ranks:
    """A process that trains alone; `GroupRanks` has the same methods for several ranks.

    With several ranks, all of them must call the same methods in the same order.

    Attributes:
        job: Names by which this job's run folder is found again; empty outside torchrun.
        peers: The processes of all ranks, by rank.
    """

    rank, size = 0, 1
    peers: tuple[Peer, ...] = ()

    def __init__(self, job: Sequence[str] = ()) -> None:
        """Take the names of the job."""
        self.job = tuple(job)

    @property
    def first(self) -> bool:
        """Return whether this rank logs and saves."""
        return self.rank == 0

    def device(self, name: str) -> str:
        """Return the device for `train.device`: `auto` and `cuda` become the GPU of the local rank.

        Raises:
            ConfigError: There are more ranks than GPUs.
        """
        return name

    def use(self, device: torch.device) -> None:
        """Prepare for messages between tensors on this device."""

    def team(self, size: int) -> Ranks:
        """Return the team of this rank: `size` neighbouring ranks.

        All ranks must call it, after `use`.

        Raises:
            ConfigError: The number of ranks is not a multiple of `size`.
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
        """Return the sum of each value over all ranks, in float64."""
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
        """Return the bytes of all ranks, by rank, on the first rank; an empty list elsewhere."""
        return [data]

    def all_reduce(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors on the device by their sums over all ranks, in a single message."""

    def barrier(self) -> None:
        """Wait until all ranks have reached this call.

        Call it before reading a number from a device that may wait for the other ranks.

        Raises:
            RankLost: Another rank is gone.
        """

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors on the device by those of the first rank, byte for byte."""

    def close(self) -> None:
        """Leave the group properly, at the end of a run."""


class GroupRanks(Ranks):
    """One of several ranks.

    Attributes:
        device_group: The group for messages between tensors on the device.
    """

    def __init__(
        self,
        group: ProcessGroup,
        rank: int,
        size: int,
        local_rank: int = 0,
        timeout_s: float = 600.0,
    ) -> None:
        """Join the others; block until all have called it.

        Args:
            group: A gloo group.
            local_rank: This rank's number on its machine; its GPU has the same number.
            timeout_s: Time limit of messages between GPUs.
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
                "most that number, or train.device cpu"
            )
        return f"cuda:{self._local_rank}"

    def use(self, device: torch.device) -> None:
        kinds = self.all_gather_object(device.type)
        if len(set(kinds)) > 1:
            raise ConfigError(
                f"the ranks have devices of different types ({', '.join(kinds)}): set train.device "
                "to the same type on all of them"
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

        team: GroupRanks | None = None
        limit = datetime.timedelta(seconds=self._timeout_s)
        for first in range(0, self.size, size):  # All ranks take part in creating each group.
            members = list(range(first, first + size))
            with self._with_others("creating teams"):
                group = dist.new_group(members, backend="gloo", timeout=limit)
                device_group = group
                if self.device_group is not self._group:
                    device_group = dist.new_group(members, backend="nccl", timeout=limit)
            if self.rank in members:
                team = GroupRanks(group, self.rank - first, size, self._local_rank, self._timeout_s)
                team.device_group = device_group
        assert team is not None
        return team

    def sums(self, values: Sequence[float]) -> list[float]:
        import torch

        total = torch.tensor(values, dtype=torch.float64)
        with self._with_others("adding up numbers"):
            self._group.allreduce([total]).wait()
        result: list[float] = total.tolist()
        return result

    def agree(self, *flags: bool) -> list[bool]:
        return [votes > 0 for votes in self.sums([float(flag) for flag in flags])]

    def broadcast_object(self, value: Any) -> Any:
        return self.all_gather_object(value if self.first else None)[0]

    def all_gather_object(self, value: Any) -> list[Any]:
        import torch

        mine, room = self._pad(json.dumps(value).encode())
        parts = [torch.empty_like(mine) for _ in range(self.size)]
        with self._with_others("exchanging objects"):
            self._group.allgather([parts], [mine]).wait()
        return [
            json.loads(bytes(part.numpy()[:count])) for part, count in zip(parts, room, strict=True)
        ]

    def gather(self, data: bytes) -> list[bytes]:
        import torch
        from torch.distributed import GatherOptions

        mine, room = self._pad(data)
        parts = [torch.empty_like(mine) for _ in range(self.size)] if self.first else []
        with self._with_others("gathering at rank 0"):
            options = GatherOptions()
            options.rootRank = 0
            self._group.gather([parts] if self.first else [], [mine], options).wait()
        return [
            bytes(part.numpy()[:count])
            for part, count in zip(parts, room[: len(parts)], strict=True)
        ]

    def _pad(self, data: bytes) -> tuple[Tensor, list[int]]:
        """Return `data` as a tensor of equal length on all ranks, and each rank's byte count."""
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
        """See Ranks; between CPUs every message already waits."""
        if self.device_group is not self._group:
            self.sums([0.0])

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        import torch
        from torch.distributed import BroadcastOptions

        shapes = [[str(tensor.dtype), *tensor.shape] for tensor in tensors]
        match(self, "policies", json.dumps(shapes))
        with torch.no_grad(), self._with_others("receiving the weights of rank 0"):
            for tensor in tensors:
                copy = tensor.detach().clone(memory_format=torch.contiguous_format)
                self.device_group.broadcast([copy], BroadcastOptions()).wait()
                tensor.copy_(copy)

    def close(self) -> None:
        import torch.distributed as dist

        if dist.is_initialized():
            dist.destroy_process_group()

    @contextlib.contextmanager
    def _with_others(self, act: str) -> Iterator[None]:
        try:
            with with_others(act, self.rank, self.peers or self.size):
                yield
        except RankLost:
            # Work on the device that waits for the lost rank would never end.
            if self.device_group is not self._group:
                self.device_group.abort()
            raise


@contextlib.contextmanager
def with_others(act: str, rank: int, others: Sequence[Peer] | int) -> Iterator[None]:
    """Turn a failed message in the body into RankLost, which names the lost rank.

    Args:
        act: The purpose of the message, for the error.
        rank: This process's rank.
        others: The processes of all ranks by rank, or only their number.

    Raises:
        RankLost: A message in the body failed.
    """
    try:
        yield
    except RuntimeError as error:
        peers, size = ((), others) if isinstance(others, int) else (others, len(others))
        raise RankLost(
            f"rank {rank} of {size} lost {_describe_lost(peers)} while {act}: "
            f"{str(error).splitlines()[0]}; continue with --resume, or use torchrun "
            "--max-restarts N"
        ) from error


def this_process() -> Peer:
    """Return what identifies this process among all others."""
    return socket.gethostname(), os.getpid(), psutil.Process().create_time()


def _describe_lost(peers: Sequence[Peer]) -> str:
    """Return in words which ranks on this machine have ended; wait for one that is just ending."""
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
    """Return why a process does not answer; "" if it runs."""
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

    Raises:
        ConfigError: The texts differ; raised on all ranks.
    """
    digests = ranks.all_gather_object(hashlib.sha256(text.encode()).hexdigest())
    others = [rank for rank, digest in enumerate(digests) if digest != digests[0]]
    if others:
        raise ConfigError(
            f"rank {others[0]} has different {what} from rank 0: start all ranks with the same "
            "command, files and versions"
        )


def from_environment(timeout_s: float) -> Ranks:
    """Return this process's ranks as torchrun started them; a single one outside torchrun.

    Several ranks on one machine share its cores: this process and its children then run on a part
    of them.

    Args:
        timeout_s: A rank that keeps the others waiting longer than this counts as lost.

    Raises:
        RankLost: The ranks could not connect.
    """
    if not under_torchrun():
        return Ranks()
    size = int(os.environ["WORLD_SIZE"])
    return Ranks(job_names()) if size == 1 else _join(size, timeout_s)


@functools.cache
def _join(size: int, timeout_s: float) -> GroupRanks:
    """Join the other ranks, once per process."""
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
        raise RankLost(f"the ranks could not connect: {str(error).splitlines()[0]}") from error
    ranks = GroupRanks(group, dist.get_rank(), size, int(os.environ["LOCAL_RANK"]), timeout_s)
    take_cores(ranks)
    return ranks


def own_store(agents: Store, host: str, rank: int, timeout_s: float) -> Store:
    """Return a store that rank 0 serves and that ends with it.

    The store of torchrun's agents outlives the ranks: after a restart they would read the addresses
    of their predecessors from it. A stale port refuses connections, because its owner is gone.

    Args:
        agents: torchrun's store.
        host: Where rank 0 runs.

    Raises:
        RankLost: Rank 0 was not reachable in time.
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
        f"rank {rank} could not reach rank 0 at {host} within {timeout_s:g} s: raise "
        "train.rank_timeout_s, or start rank 0"
    )


def take_cores(ranks: Ranks) -> None:
    """Restrict this thread and its children to their share of the cores of the machine's ranks.

    Ranks that were already bound to different cores stay there.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    mine = [socket.gethostname(), cores.affinity()]
    peers = [rank for rank, other in enumerate(ranks.all_gather_object(mine)) if other == mine]
    os.sched_setaffinity(0, part_of(cores.affinity(), peers.index(ranks.rank), len(peers)))
    cores.share_quota(len(peers))


def part_of(all_cores: Sequence[int], place: int, places: int) -> list[int]:
    """Return the cores of one of several processes: neighbouring ones, equally many for each.

    Where there are too few cores, each process gets one.

    >>> part_of([0, 1, 2, 3, 4], 1, 2), part_of([0, 1], 2, 3)
    ([2, 3], [0])
    """
    each = max(1, len(all_cores) // places)
    begin = place * each % len(all_cores)
    return list(all_cores[begin : begin + each])
