# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""CNNs whose pictures are split by columns over ranks: tensor parallelism by width, for what one device cannot hold.

    from puffervec.train.policies.sharded import shard_cnn
    cnn = shard_cnn(my_cnn, mesh, (3, 512, 1024))

columns.py says which columns lie where, exchange.py fetches a neighbour's, rules.py lists what can be split, and cnn.py is the
door.
"""

from puffervec.train.policies.sharded.cnn import ShardedCNN, check, shard_cnn
from puffervec.train.policies.sharded.columns import WidthError, split
from puffervec.train.policies.sharded.convnext import ConvNeXt, DropPath, LayerNorm2d
from puffervec.train.policies.sharded.memory import peak_bytes
from puffervec.train.policies.sharded.rules import CannotShard, Gather

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
