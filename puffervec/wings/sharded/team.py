# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The ranks that share the columns of a picture, and their messages. Runs in the learner of each
rank.

Messages go through a `ProcessGroup`: gloo's between CPUs, NCCL's between GPUs. All ranks of a team
must send the same messages in the same order, from one thread.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from puffervec.train.device.ranks import Peer, with_others

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

Shape = Sequence[int]


class Team:
    """Ranks that share columns. Without a group it is one process, which has them all and sends
    nothing.
    """

    rehearses = False

    def __init__(self, group: ProcessGroup | None = None, peers: Sequence[Peer] = ()) -> None:
        """Args: group: rank 0 of it has the first columns; peers: its processes by rank, so that a
        lost one can be named.
        """
        self.group, self.peers = group, tuple(peers)
        self.rank, self.size = (0, 1) if group is None else (group.rank(), group.size())

    def swap(
        self, parts: Sequence[Tensor | None], shapes: Sequence[Shape | None], like: Tensor
    ) -> list[Tensor | None]:
        """Send a part to each rank and return what each has sent here, in one message.

        Args: parts: by rank; shapes: by rank, of what comes from it; None: nothing. like: has the
            dtype and device of all.
        """
        if self.group is None:
            return list(parts)
        size = like.element_size()
        flat = [like.new_empty(0) if part is None else part.reshape(-1) for part in parts]
        counts = [0 if shape is None else math.prod(shape) for shape in shapes]
        received = like.new_empty(sum(counts))
        with with_others("exchanging columns", self.rank, self.peers or self.size):
            # As bytes, so that every dtype can cross.
            self.group.alltoall_base(
                received.view(torch.uint8), torch.cat(flat).view(torch.uint8),
                [count * size for count in counts], [len(part) * size for part in flat],
            ).wait()  # fmt: skip
        found = zip(torch.split(received, counts), shapes, strict=True)
        return [None if shape is None else part.view(*shape) for part, shape in found]

    def add_up(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return the sums over all ranks of tensors of one dtype, the same bits on each rank; one
        message.
        """
        if self.group is None:
            return list(tensors)
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        with with_others("adding up", self.rank, self.peers or self.size):
            self.group.allreduce([flat]).wait()
        parts = torch.split(flat, [tensor.numel() for tensor in tensors])
        return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """Return the tensors of all ranks, by rank; they have one shape."""
        if self.group is None:
            return [tensor]
        mine = tensor.contiguous()
        parts = [torch.empty_like(mine) for _ in range(self.size)]
        with with_others("gathering", self.rank, self.peers or self.size):
            self.group.allgather([parts], [mine]).wait()
        return parts

    def of_first(self, tensor: Tensor) -> Tensor:
        """Return the first rank's tensor; what the others give says only its shape."""
        if self.group is None:
            return tensor
        found = tensor.contiguous()
        with with_others("taking what rank 0 drew", self.rank, self.peers or self.size):
            # In a list and flat: torch looks whether a bare tensor is a list, and a number has no
            # length.
            self.group.broadcast([found.view(-1)]).wait()
        return found


class Rehearsal(Team):
    """Stands for ranks where tensors have shapes and no numbers: what would be exchanged has a
    shape too.
    """

    rehearses = True

    def __init__(self, rank: int, size: int) -> None:
        """Args: as of a team."""
        super().__init__()
        self.rank, self.size = rank, size

    def swap(
        self, parts: Sequence[Tensor | None], shapes: Sequence[Shape | None], like: Tensor
    ) -> list[Tensor | None]:
        """Return tensors of these shapes."""
        return [None if shape is None else like.new_empty(list(shape)) for shape in shapes]

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """Return as many as there are ranks."""
        return [tensor] * self.size
