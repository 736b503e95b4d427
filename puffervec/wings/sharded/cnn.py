# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A CNN of one's own, split by columns over ranks: `shard_cnn`.

    cnn = shard_cnn(nn.Sequential(...), mesh, (3, 512, 1024))     on each rank
    loss(cnn(images)).backward()                                  gradients are those of one process, the same on all ranks

The weights are the network's own, by the same names, so a state dict is that of one process and
goes both ways. Before the first message for pictures of a new shape the pass is rehearsed on
tensors without numbers, which finds what cannot be split.
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

WIDEST = 1 << 16  # Where the search for a width that fits ends.
Shape = tuple[int, ...]


class ShardedCNN(nn.Module):
    """A network whose pictures are split by columns; parameters and buffers are those of the
    network it was made of.
    """

    network: Network

    def __init__(self, module: nn.Module, team: Team, keep_every: int = 0) -> None:
        """Args: as of `shard_cnn`, which is the usual way to make one."""
        super().__init__()
        # One set of weights under one set of names: shared, not copied.
        self._parameters, self._buffers, self._modules = (
            module._parameters,
            module._buffers,
            module._modules,
        )
        self.__dict__["network"], self.team = Network(module, keep_every), team
        self._used: dict[
            tuple[Any, ...], tuple[str, ...]
        ] = {}  # By shape: parameters of layers whose columns are split.
        self.training = module.training

    def train(self, mode: bool = True) -> ShardedCNN:
        """Switch the network too, since its forward may ask."""
        super().train(mode)
        self.network.module.training = mode
        return self

    def begin(self, shape: Sequence[int]) -> ShardedCNN:
        """Check that pictures of a shape (C, H, W) can be split, and take the weights of the first
        rank.
        """
        self.check(shape)
        with torch.no_grad():
            for tensor in self.state_dict().values():
                tensor.copy_(self.team.of_first(tensor))
        return self

    def check(self, shape: Sequence[int]) -> None:
        """Rehearse pictures of a shape (C, H, W). Raises: WidthError, CannotShard."""
        like = next(self.parameters(), torch.zeros(()))
        self._fitting((1, *shape), like.dtype, like.device)

    def columns(self, width: int) -> tuple[int, int]:
        """Return this rank's first column of pictures of a width, and the one after its last.
        Raises: WidthError.
        """
        return split(width, self.team.size)[self.team.rank]

    def forward(self, x: Tensor, width: int | None = None) -> Tensor:
        """Return what the network makes of pictures, the same on all ranks; if it ends with
        pictures, this rank's columns.

        Args:
            x: the whole pictures (N, C, H, W), of which the rank takes its columns; or its columns
                alone where `width` is given; or a DTensor with Shard(3) on the team's dimension of
                its mesh: the result is one too.
            width: W, of all columns.
        Raises:
            WidthError, CannotShard: what does not fit; on all ranks, before any message.
            RankLost: another rank is gone.
        """
        if (
            "torch.distributed.tensor" in sys.modules and type(x) is not Tensor
        ):  # It takes a second to load.
            from puffervec.wings.sharded import dtensor

            if isinstance(x, dtensor.DTensor):
                return dtensor.wrapped(x, self.team, self._columns)
        if width is None:
            width = x.shape[-1]
            x = x[..., slice(*self._fitting(x.shape, x.dtype, x.device))]
        found = self._columns(x, width)
        return found.tensor if isinstance(found, Columns) else found

    def deal(
        self, rows: Tensor, counts: Sequence[int], prepare: Callable[[Tensor], Tensor] | None = None
    ) -> Tensor:
        """Return what the network makes of this rank's own pictures, where each rank brings others.

        The pictures of all ranks lie split by columns while they pass through. Gradients of
        parameters are parts of a sum over the ranks, as those of any data-parallel pass; all ranks
        must call it, with no rows too.
        Args: rows: (own count, C, H, W); counts: by rank, how many it brings; prepare: what is done
            with columns before the network, such as from bytes to numbers.
        """
        self._fitting((sum(counts), *rows.shape[1:]), torch.get_default_dtype(), rows.device)
        region = Dealt(self.team, counts)
        x = region.deal(rows)
        found = self._run(region, Columns(x if prepare is None else prepare(x), 3, rows.shape[-1]))
        return (
            region.gather(found.tensor, found.dim, found.width)
            if isinstance(found, Columns)
            else found
        )

    def _columns(self, x: Tensor, width: int) -> Any:
        first, end = self._fitting((*x.shape[:-1], width), x.dtype, x.device)
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
        found = dict(
            zip(names, region.parameters(own) if torch.is_grad_enabled() else own, strict=True)
        )
        return self.network.run(
            Pass(region, found.__getitem__, frozenset(map(id, found.values()))), x
        )

    def _key(self, shape: Sequence[int]) -> tuple[Any, ...]:
        return *shape[1:], self.network.module.training

    def _fitting(
        self, shape: Sequence[int], dtype: torch.dtype, device: torch.device
    ) -> tuple[int, int]:
        """Return this rank's columns of pictures of a shape; the first time, rehearse."""
        if len(shape) != 4:
            raise ConfigError(f"pictures of shape {tuple(shape)}: give (N, C, H, W)")
        key = self._key(shape)
        if key not in self._used:
            self._used[key] = _fit(
                self.network, tuple(shape[1:]), self.team.size, self.team.rank, dtype, device
            )
        return self.columns(shape[-1])

    def __deepcopy__(self, memo: dict[int, Any]) -> ShardedCNN:
        raise TypeError("a ShardedCNN is bound to its ranks: copy the network that it was made of")


def shard_cnn(
    cnn: nn.Module, ranks: DeviceMesh | ProcessGroup, shape: Sequence[int], keep_every: int = 0
) -> ShardedCNN:
    """Split a CNN by columns of its pictures over ranks; all of them must call it. Weights become
    those of the first rank.

    Args:
        cnn: an nn.Sequential or any module whose forward takes pictures and decides nothing by
        their numbers.
        ranks: a one-dimensional mesh, such as `mesh["tensor"]` of a mesh of two dimensions; or a
        process group.
        shape: of the pictures, (C, H, W); others may come later.
        keep_every: 0: keep what the backward pass needs. Else compute it again then (activation
            checkpointing), in stretches of at least so many steps between pictures that are kept: 4
            makes a stretch of each block of a ConvNeXt.
    Raises:
        CannotShard: names the layer that has no rule for columns.
        WidthError: a layer's picture has fewer columns than there are ranks; says what would fit.
    """
    group: Any = ranks
    if hasattr(group, "get_group"):
        if group.ndim != 1:
            raise ConfigError(
                f"ranks is a mesh of {group.ndim} dimensions: give one of them, such as "
                'mesh["tensor"]'
            )
        group = group.get_group()
    first = next(iter(cnn.parameters()), torch.zeros(()))
    team = Team(group, _peers(Team(group), first.device))
    return ShardedCNN(cnn, team, keep_every).begin(shape)


def check(cnn: nn.Module, ranks: int, shape: Sequence[int]) -> None:
    """Raise what `shard_cnn` would raise on so many ranks, without any. Args: shape: (C, H, W)."""
    first = next(iter(cnn.parameters()), torch.zeros(()))
    _fit(Network(cnn, 0), tuple(shape), ranks, 0, first.dtype, first.device)


def _peers(team: Team, device: torch.device) -> list[Peer]:
    host, pid, born = this_process()
    mine = torch.zeros(300, dtype=torch.uint8)
    text = f"{pid} {born!r} {host}".encode()[:300]
    mine[: len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    found = []
    for part in team.gather(mine.to(device)):
        pid_text, born_text, host = (
            bytes(part.cpu().numpy()).rstrip(b"\0").decode(errors="replace").split(" ", 2)
        )
        found.append((host, int(pid_text), float(born_text)))
    return found


def _parameter(module: nn.Module, name: str) -> Tensor:
    owner, _, last = name.rpartition(".")
    found: Tensor = getattr(module.get_submodule(owner), last)
    return found


def _fit(
    network: Network, shape: Shape, ranks: int, rank: int, dtype: torch.dtype, device: torch.device
) -> tuple[str, ...]:  # fmt: skip
    """Rehearse; return the parameters that layers use whose columns are split. Raises: as
    `shard_cnn`.
    """
    try:
        return _rehearse(network, shape, ranks, rank, dtype, device)
    except WidthError as error:
        width = shape[-1]

        def fits(some: int, wide: int) -> bool:
            try:
                _rehearse(network, (*shape[:-1], wide), some, 0, dtype, device, _Ends)
            except _Ended:  # What comes behind the columns may ask for another width.
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


class _Ended(Exception):
    """Columns were put together."""


class _Ends(Shared):
    def gather(self, columns: Tensor, dim: int, width: int) -> Tensor:
        raise _Ended


def _rehearse(
    network: Network, shape: Shape, ranks: int, rank: int, dtype: torch.dtype, device: torch.device,
    region: Callable[[Team], Region] = Shared,
) -> tuple[str, ...]:  # fmt: skip
    used: dict[str, None] = {}
    first, end = split(shape[-1], ranks)[rank]

    def parameter(name: str) -> Tensor:
        used[name] = None
        return _parameter(network.module, name)

    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
        x = torch.empty((2, *shape[:-1], end - first), dtype=dtype, device=device)
        network.run(Pass(region(Rehearsal(rank, ranks)), parameter), Columns(x, 3, shape[-1]))
    return tuple(used)
