# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Split the pictures of the trainer's policies by columns over ranks, in updates only.

    rollout, evaluation     no gradients: each rank runs the whole network on separate rows
    update                  rows of all ranks of the team -> columns -> convolutions -> rows again,
                            each rank its own

So in every case a rank's policy maps rows to their features, and rollouts, losses, summed gradients
and checkpoints are the same as with data parallelism. Runs in the learner of each rank.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from puffervec.errors import ConfigError
from puffervec.train.device.ranks import GroupRanks, Ranks
from puffervec.wings.sharded.cnn import ShardedCNN
from puffervec.wings.sharded.team import Team


class Sharing:
    """The networks of a policy whose columns are shared, and the ranks that share them.

    At first it has no networks. It is not a module, since it has no weights.
    """

    def __init__(self) -> None:
        """Share nothing."""
        self._ranks = Ranks()
        self._split: dict[nn.Module, ShardedCNN] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Sharing:
        """Return a Sharing without networks: a copy of a policy acts alone."""
        return Sharing()

    def share(self, network: nn.Module, ranks: Ranks, shape: tuple[int, int, int]) -> None:
        """Share a network's columns from now on.

        Args:
            network: network of the policy.
            ranks: ranks that share the columns.
            shape: shape of the pictures, (C, H, W).

        Raises: WidthError, CannotShard.
        """
        assert isinstance(ranks, GroupRanks)
        split = ShardedCNN(network, Team(ranks.device_group, ranks.peers))
        split.check(shape)
        self._ranks, self._split[network] = ranks, split

    def __call__(
        self, network: nn.Module, rows: Tensor, prepare: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """Return a network's result for this rank's pictures.

        Args:
            network: network of the policy.
            rows: (N, C, H, W) pictures as observed.
            prepare: converts pictures to floats.
        """
        if not self._split or not torch.is_grad_enabled():
            features: Tensor = network(prepare(rows))
            return features
        mine = [len(rows) if rank == self._ranks.rank else 0 for rank in range(self._ranks.size)]
        return self._split[network].deal(
            rows, [int(count) for count in self._ranks.sums(mine)], prepare
        )


def share_columns(name: str, policy: nn.Module, ranks: Ranks) -> None:
    """Let a policy share columns with a team of ranks in its updates.

    Raises:
        ConfigError: the policy has no pictures.
    """
    networks = getattr(policy, "networks", None)
    if networks is None or not hasattr(policy, "convolve"):
        raise ConfigError(
            f"train.tensor_parallel is {ranks.size}, but the policy {name} "
            f"({type(policy).__name__}) has no pictures whose columns could be shared: use "
            "policy.kind cnn or convnext on an env with pictures, or set it to 1"
        )
    sharing = Sharing()
    for network, shape in networks():
        sharing.share(network, ranks, shape)
    # A module may have any attribute, which mypy does not know.
    setattr(policy, "convolve", sharing)  # noqa: B010
