# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The ranks that share the columns of a picture, and their messages.

Messages go through a `ProcessGroup`: gloo's between CPUs, NCCL's between GPUs. All ranks of a team
must send the same messages in the same order, from one thread. Runs in the learner of each rank.
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
    """Ranks that share columns. Without a group, the team is one process that has all columns."""

    rehearses = False

    def __init__(self, group: ProcessGroup | None = None, peers: Sequence[Peer] = ()) -> None:
        """Make a team.

        Args:
            group: process group; its rank 0 has the first columns.
            peers: the group's processes by rank, so that errors can name a lost one.
        """
        self.group = group
        self.rank, self.size = (0, 1) if group is None else (group.rank(), group.size())
        self._others = tuple(peers) or self.size

    def swap(
        self, parts: Sequence[Tensor | None], shapes: Sequence[Shape | None], like: Tensor
    ) -> list[Tensor | None]:
        """Send a part to each rank and return the parts received, in one message.

        Args:
            parts: parts by rank.
            shapes: for each rank, the shape of the part that comes from it; None: no part.
            like: a tensor with the dtype and device of all parts.
        """
        if self.group is None:
            return list(parts)
        size = like.element_size()
        flat = [like.new_empty(0) if part is None else part.reshape(-1) for part in parts]
        counts = [0 if shape is None else math.prod(shape) for shape in shapes]
        received = like.new_empty(sum(counts))
        with with_others("exchanging columns", self.rank, self._others):
            # Send bytes, so that every dtype can be sent.
            self.group.alltoall_base(
                received.view(torch.uint8),
                torch.cat(flat).view(torch.uint8),
                [count * size for count in counts],
                [len(part) * size for part in flat],
            ).wait()
        pieces = zip(torch.split(received, counts), shapes, strict=True)
        return [None if shape is None else part.view(*shape) for part, shape in pieces]

    def add_up(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return the sums over all ranks of tensors of one dtype, in one message.

        They are bit-identical on all ranks.
        """
        if self.group is None:
            return list(tensors)
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        with with_others("adding up", self.rank, self._others):
            self.group.allreduce([flat]).wait()
        parts = torch.split(flat, [tensor.numel() for tensor in tensors])
        return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """Return the tensors of all ranks, by rank; they must have the same shape."""
        if self.group is None:
            return [tensor]
        mine = tensor.contiguous()
        parts = [torch.empty_like(mine) for _ in range(self.size)]
        with with_others("gathering", self.rank, self._others):
            self.group.allgather([parts], [mine]).wait()
        return parts

    def broadcast(self, tensor: Tensor) -> Tensor:
        """Return the first rank's tensor; the other ranks' only give the shape."""
        if self.group is None:
            return tensor
        result = tensor.contiguous()
        with with_others("receiving from rank 0", self.rank, self._others):
            # torch treats a bare tensor as a list if it can, and a scalar has no length. So pass a
            # list, and a flat tensor.
            self.group.broadcast([result.view(-1)]).wait()
        return result


class Rehearsal(Team):
    """A team for fake tensors, which have shapes but no numbers; it sends nothing."""

    rehearses = True

    def __init__(self, rank: int, size: int) -> None:
        """Args: rank: rank that is rehearsed; size: number of ranks."""
        super().__init__()
        self.rank, self.size = rank, size

    def swap(
        self, parts: Sequence[Tensor | None], shapes: Sequence[Shape | None], like: Tensor
    ) -> list[Tensor | None]:
        """Return tensors of these shapes."""
        return [None if shape is None else like.new_empty(list(shape)) for shape in shapes]

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """Return one tensor per rank."""
        return [tensor] * self.size
