# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""CNNs whose pictures are split by columns over ranks, for pictures too large for one device.

    from puffervec.wings.sharded import shard_cnn
    cnn = shard_cnn(my_cnn, mesh, (3, 512, 1024))

This is tensor parallelism along the width. columns.py assigns columns to ranks, exchange.py fetches
neighbours' columns, rules.py lists the layers that can be split, and cnn.py has `shard_cnn`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from puffervec.system import lazy

if TYPE_CHECKING:
    from puffervec.train.policies.convnext import ConvNeXt, DropPath, LayerNorm2d
    from puffervec.wings.sharded.cnn import ShardedCNN, check, shard_cnn
    from puffervec.wings.sharded.columns import WidthError, split
    from puffervec.wings.sharded.memory import peak_bytes
    from puffervec.wings.sharded.rules import CannotShard, Gather

_HOMES = {
    "puffervec.wings.sharded.cnn": (
        "ShardedCNN",
        "check",
        "shard_cnn",
    ),
    "puffervec.wings.sharded.columns": (
        "WidthError",
        "split",
    ),
    "puffervec.train.policies.convnext": (
        "ConvNeXt",
        "DropPath",
        "LayerNorm2d",
    ),
    "puffervec.wings.sharded.memory": ("peak_bytes",),
    "puffervec.wings.sharded.rules": (
        "CannotShard",
        "Gather",
    ),
}

__all__ = [
    "CannotShard",
    "ConvNeXt",
    "DropPath",
    "Gather",
    "LayerNorm2d",
    "ShardedCNN",
    "WidthError",
    "check",
    "peak_bytes",
    "shard_cnn",
    "split",
]

__getattr__ = lazy.loader(__name__, _HOMES)
