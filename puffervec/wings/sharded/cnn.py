# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A CNN split by columns over ranks: `shard_cnn`.

    cnn = shard_cnn(nn.Sequential(...), mesh, (3, 512, 1024))     on each rank
    loss(cnn(images)).backward()                                  gradients as in one process, equal
                                                                  on all ranks

The weights are the network's own, under the same names, so state dicts are interchangeable with
those of one process. Before the first message for pictures of a new shape, the forward pass is
rehearsed on fake tensors, which detects layers that cannot be split.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from puffervec.errors import ConfigError
from puffervec.train.device.ranks import Peer, this_process
from puffervec.wings.sharded.columns import WidthError, split
from puffervec.wings.sharded.layers import Columns
from puffervec.wings.sharded.network import Network
from puffervec.wings.sharded.regions import Dealt, Region, Shared
from puffervec.wings.sharded.rules import Pass
from puffervec.wings.sharded.team import Rehearsal, Team

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh

WIDEST = 1 << 16  # Limit of the search for a width that fits.
Shape = tuple[int, ...]


class ShardedCNN(nn.Module):
    """A network whose pictures are split by columns.

    Its parameters and buffers are those of the original network.
    """

    network: Network

    def __init__(self, module: nn.Module, team: Team, keep_every: int = 0) -> None:
        """Args: as `shard_cnn`, which is the usual way to make one."""
        super().__init__()
        # The weights are shared under the same names, not copied.
        self._parameters, self._buffers, self._modules = (
            module._parameters,
            module._buffers,
            module._modules,
        )
        self.__dict__["network"], self.team = Network(module, keep_every), team
        # By shape: the names of the parameters of layers whose columns are split.
        self._used: dict[tuple[Any, ...], tuple[str, ...]] = {}
        self.training = module.training

    def train(self, mode: bool = True) -> ShardedCNN:
        """Switch the network too, since its forward pass may read its mode."""
        super().train(mode)
        self.network.module.training = mode
        return self

    def begin(self, shape: Sequence[int]) -> ShardedCNN:
        """Check pictures of a shape (C, H, W) and copy the first rank's weights."""
        self.check(shape)
        with torch.no_grad():
            for tensor in self.state_dict().values():
                tensor.copy_(self.team.broadcast(tensor))
        return self

    def check(self, shape: Sequence[int]) -> None:
        """Rehearse a pass over pictures of a shape (C, H, W). Raises: WidthError, CannotShard."""
        like = next(self.parameters(), torch.zeros(()))
        self._own_columns((1, *shape), like.dtype, like.device)

    def columns(self, width: int) -> tuple[int, int]:
        """Return the range of this rank's columns in pictures of `width`. Raises: WidthError."""
        return split(width, self.team.size)[self.team.rank]

    def forward(self, x: Tensor, width: int | None = None) -> Tensor:
        """Return the network's result, which is the same on all ranks.

        If the network ends with pictures, the result is this rank's columns.

        Args:
            x: the whole pictures (N, C, H, W), of which the rank uses its columns; or only its
                columns, if `width` is not None; or a DTensor with Shard(3) on the team's dimension
                of its mesh, in which case the result is a DTensor too.
            width: W, the number of all columns.

        Raises:
            WidthError, CannotShard: the network or the pictures cannot be split; raised on all
                ranks, before any message.
            RankLost: another rank is gone.
        """
        # torch.distributed.tensor takes a second to load.
        if "torch.distributed.tensor" in sys.modules and type(x) is not Tensor:
            from puffervec.wings.sharded import dtensor

            if isinstance(x, dtensor.DTensor):
                return dtensor.run_dtensor(x, self.team, self._columns)
        if width is None:
            width = x.shape[-1]
            x = x[..., slice(*self._own_columns(x.shape, x.dtype, x.device))]
        result = self._columns(x, width)
        return result.tensor if isinstance(result, Columns) else result

    def deal(
        self, rows: Tensor, counts: Sequence[int], prepare: Callable[[Tensor], Tensor] | None = None
    ) -> Tensor:
        """Return the network's result for this rank's pictures; each rank passes different ones.

        In between, the pictures of all ranks are split by columns. Gradients of parameters are
        parts of a sum over the ranks, as in data parallelism. All ranks must call it, even with no
        rows.

        Args:
            rows: (own count, C, H, W).
            counts: for each rank, the number of rows that it passes.
            prepare: function applied to columns before the network, such as a conversion from
                bytes.
        """
        self._own_columns((sum(counts), *rows.shape[1:]), torch.get_default_dtype(), rows.device)
        region = Dealt(self.team, counts)
        x = region.deal(rows)
        result = self._run(region, Columns(x if prepare is None else prepare(x), 3, rows.shape[-1]))
        return (
            region.gather(result.tensor, result.dim, result.width)
            if isinstance(result, Columns)
            else result
        )

    def _columns(self, x: Tensor, width: int) -> Any:
        first, end = self._own_columns((*x.shape[:-1], width), x.dtype, x.device)
        if x.shape[-1] != end - first:
            raise ConfigError(
                f"rank {self.team.rank} has {x.shape[-1]} columns of pictures of width {width}: "
                f"its part is {first} to {end}"
            )
        return self._run(Shared(self.team), Columns(x, 3, width))

    def _run(self, region: Region, x: Columns) -> Any:
        module = self.network.module
        names = self._used[self._key(x.shape)]
        own = [_parameter(module, name) for name in names]
        parameters = dict(
            zip(names, region.parameters(own) if torch.is_grad_enabled() else own, strict=True)
        )
        return self.network.run(
            Pass(region, parameters.__getitem__, frozenset(map(id, parameters.values()))), x
        )

    def _key(self, shape: Sequence[int]) -> tuple[Any, ...]:
        return *shape[1:], self.network.module.training

    def _own_columns(
        self, shape: Sequence[int], dtype: torch.dtype, device: torch.device
    ) -> tuple[int, int]:
        """Return this rank's columns of pictures of a shape; at its first use, rehearse a pass."""
        if len(shape) != 4:
            raise ConfigError(f"pictures of shape {tuple(shape)}: must be (N, C, H, W)")
        key = self._key(shape)
        if key not in self._used:
            self._used[key] = _fit(
                self.network, tuple(shape[1:]), self.team.size, self.team.rank, dtype, device
            )
        return self.columns(shape[-1])

    def __deepcopy__(self, memo: dict[int, Any]) -> ShardedCNN:
        raise TypeError("a ShardedCNN is bound to its ranks: copy the original network")


def shard_cnn(
    cnn: nn.Module, ranks: DeviceMesh | ProcessGroup, shape: Sequence[int], keep_every: int = 0
) -> ShardedCNN:
    """Split a CNN by columns of its pictures over ranks.

    All ranks must call it; they take the first rank's weights.

    Args:
        cnn: an nn.Sequential, or any module whose forward pass takes pictures and does not branch
            on their values.
        ranks: a one-dimensional mesh, such as `mesh["tensor"]` of a mesh with two dimensions; or a
            process group.
        shape: shape of the pictures, (C, H, W); later pictures may have other shapes.
        keep_every: 0: keep all activations for the backward pass. Otherwise recompute them
            (activation checkpointing) in segments of at least that many steps: with 4, each block
            of a ConvNeXt is a segment.

    Raises:
        CannotShard: a layer, which the message names, has no rule for columns.
        WidthError: a layer's picture has fewer columns than there are ranks; the message names a
            width that fits.
    """
    group: Any = ranks
    if hasattr(group, "get_group"):
        if group.ndim != 1:
            raise ConfigError(
                f"ranks is a mesh of {group.ndim} dimensions: use one of them, such as "
                'mesh["tensor"]'
            )
        group = group.get_group()
    first = next(iter(cnn.parameters()), torch.zeros(()))
    team = Team(group, _peers(Team(group), first.device))
    return ShardedCNN(cnn, team, keep_every).begin(shape)


def check(cnn: nn.Module, ranks: int, shape: Sequence[int]) -> None:
    """Raise what `shard_cnn` would raise on this many ranks, but in one process.

    Args: shape: (C, H, W).
    """
    first = next(iter(cnn.parameters()), torch.zeros(()))
    _fit(Network(cnn, 0), tuple(shape), ranks, 0, first.dtype, first.device)


def _peers(team: Team, device: torch.device) -> list[Peer]:
    host, pid, born = this_process()
    mine = torch.zeros(300, dtype=torch.uint8)
    text = f"{pid} {born!r} {host}".encode()[: len(mine)]
    mine[: len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    peers = []
    for part in team.gather(mine.to(device)):
        words = bytes(part.cpu().numpy()).rstrip(b"\0").decode(errors="replace").split(" ")
        pid_text, born_text, host = words
        peers.append((host, int(pid_text), float(born_text)))
    return peers


def _parameter(module: nn.Module, name: str) -> Tensor:
    owner, _, last = name.rpartition(".")
    tensor: Tensor = getattr(module.get_submodule(owner), last)
    return tensor


def _fit(
    network: Network, shape: Shape, ranks: int, rank: int, dtype: torch.dtype, device: torch.device
) -> tuple[str, ...]:
    """Rehearse a pass; return the names of the parameters of layers whose columns are split.

    Raises: as `shard_cnn`.
    """
    try:
        return _rehearse(network, shape, ranks, rank, dtype, device)
    except WidthError as error:
        width = shape[-1]

        def fits(some: int, wide: int) -> bool:
            try:
                _rehearse(network, (*shape[:-1], wide), some, 0, dtype, device, _UntilGather)
            except _Gathered:  # Layers behind the columns may need a particular width.
                return True
            except WidthError:
                return False
            return True

        most = next((some for some in range(ranks - 1, 1, -1) if fits(some, width)), 1)
        low, high = width, width
        while high < WIDEST and not fits(ranks, high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if fits(ranks, middle) else (middle, high)
        raise WidthError(
            f"{error}: pictures of width {width} fit on {most} rank{'s' * (most > 1)}, and "
            f"{ranks} ranks fit a width of {high}"
        ) from None


class _Gathered(Exception):
    """Raised in a rehearsal where columns would be gathered."""


class _UntilGather(Shared):
    def gather(self, columns: Tensor, dim: int, width: int) -> Tensor:
        raise _Gathered


def _rehearse(
    network: Network,
    shape: Shape,
    ranks: int,
    rank: int,
    dtype: torch.dtype,
    device: torch.device,
    region: Callable[[Team], Region] = Shared,
) -> tuple[str, ...]:
    used: dict[str, None] = {}
    first, end = split(shape[-1], ranks)[rank]

    def parameter(name: str) -> Tensor:
        used[name] = None
        return _parameter(network.module, name)

    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
        x = torch.empty((2, *shape[:-1], end - first), dtype=dtype, device=device)
        network.run(Pass(region(Rehearsal(rank, ranks)), parameter), Columns(x, 3, shape[-1]))
    return tuple(used)
