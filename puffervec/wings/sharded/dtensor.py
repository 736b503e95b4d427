# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""DTensors of pictures that are split by columns: inputs are Shard(3), results that or Replicate.

Parameters are plain tensors. DTensor only describes where columns are; it runs none of the layers.
In releases up to 2.15, DTensor's own convolutions silently return wrong numbers, or no gradient of
the input, if the width is split.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from puffervec.errors import ConfigError
from puffervec.wings.sharded.columns import as_dtensor
from puffervec.wings.sharded.layers import Columns
from puffervec.wings.sharded.team import Team

if torch.distributed.is_available():
    from torch.distributed.tensor import DTensor as DTensor
    from torch.distributed.tensor import Replicate, Shard
else:  # A torch without torch.distributed has no DTensors.

    class DTensor:  # type: ignore[no-redef]
        """Placeholder without instances."""


def run_dtensor(x: DTensor, team: Team, run: Callable[[Tensor, int], Any]) -> DTensor:
    """Run a function on a rank's columns of a DTensor; return the result as a DTensor.

    Args:
        x: DTensor with Shard(3) on the team's dimension of its mesh, Shard(0) or Replicate on
            others.
        team: the ranks that share columns.
        run: called with the rank's own columns and the width.

    Raises:
        ConfigError: `x` has another placement.
    """
    mesh, placements = x.device_mesh, list(x.placements)
    dims = [dim for dim, placement in enumerate(placements) if placement == Shard(3)]
    others = [placement for dim, placement in enumerate(placements) if dim not in dims]
    known = len(dims) == 1 and all(placement in (Shard(0), Replicate()) for placement in others)
    if not known or (mesh.size(dims[0]), mesh.get_local_rank(dims[0])) != (team.size, team.rank):
        raise ConfigError(
            f"pictures placed {x.placements} on {mesh}: use Shard(3) on the mesh dimension of the "
            "ranks that share them"
        )
    _check_describable(x.shape[3], team)
    out = run(x.to_local(grad_placements=placements), x.shape[3])
    tensor = out.tensor if isinstance(out, Columns) else out
    if isinstance(out, Columns):
        _check_describable(out.width, team)
    placements[dims[0]] = Shard(out.dim) if isinstance(out, Columns) else Replicate()
    shape = torch.Size((x.shape[0] if Shard(0) in others else out.shape[0], *out.shape[1:]))
    stride = torch.empty(shape, device="meta").stride()
    result: DTensor = DTensor.from_local(
        tensor.contiguous(), mesh, placements, run_check=False, shape=shape, stride=stride
    )
    return result


def _check_describable(width: int, team: Team) -> None:
    if not as_dtensor(width, team.size):
        raise ConfigError(
            f"a DTensor cannot describe columns of width {width} on {team.size} ranks, since its "
            "Shard would leave a rank without any: call the network with each rank's columns and "
            "the width"
        )
