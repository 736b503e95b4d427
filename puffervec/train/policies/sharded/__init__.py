# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""CNNs whose pictures are split by columns over ranks: tensor parallelism by width, for what one device cannot hold.

    from puffervec.train.policies.sharded import shard_cnn
    cnn = shard_cnn(my_cnn, mesh, (3, 512, 1024))

columns.py says which columns lie where, exchange.py fetches a neighbour's, rules.py lists what can be split, and cnn.py is the
door.
"""

from puffervec import extras

extras.require("puffervec.train.policies.sharded", *extras.TRAINER)

from puffervec.train.policies.sharded.cnn import ShardedCNN, check, shard_cnn  # noqa: E402
from puffervec.train.policies.sharded.columns import WidthError, split  # noqa: E402
from puffervec.train.policies.sharded.convnext import ConvNeXt, DropPath, LayerNorm2d  # noqa: E402
from puffervec.train.policies.sharded.memory import peak_bytes  # noqa: E402
from puffervec.train.policies.sharded.rules import CannotShard, Gather  # noqa: E402

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
