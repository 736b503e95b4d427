# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Pool the objects of a field by multi-head attention, in place of the maximum (object_set.py).

    objects (n, k)  --  Linear, ReLU, shared  --  (n, hidden)  ------+
    plain fields    --  Linear  --  queries (HEADS, hidden)  --------+--  attention
                                                    --  Linear, ReLU  --  (width,)

The queries describe what the agent is about to do, so an object can count for more in one row than
in another (Vaswani et al. 2017). The objects serve as keys and values unchanged: the key matrices
are merged into the queries and the value matrices into the last layer, where they cost time per row
instead of per object.

Empty slots are masked. An additional object of zeros lets a query attend to nothing, which gives 0;
so does a row without objects, where a softmax alone would be 0 / 0. These are plain torch
operations on all devices.
"""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import pad, scaled_dot_product_attention

from puffervec.train.policies.mlp import linear
from puffervec.train.policies.whole import is_kept_whole

HEADS = 4


class ObjectAttention(nn.Module):
    """HEADS queries per row over its objects: (..., n, k), (..., asking) -> (..., width)."""

    def __init__(
        self, features: int, asking: int, hidden: int, width: int, factor: float = 1.0
    ) -> None:
        """Create the layers.

        Args:
            features: k.
            asking: Width of the input of the queries.
            hidden: Width of the objects' shared layer.
            width: Width of the result.
            factor: Multiplies the objects' numbers.
        """
        super().__init__()
        self.factor, self.hidden = factor, hidden
        self.first = linear(features, hidden)
        self.queries = linear(asking, HEADS * hidden, gain=1.0, bias=False)
        self.last = linear(HEADS * hidden, width, bias=False)

    def forward(self, objects: Tensor, asked_by: Tensor) -> Tensor:
        """Attend to the objects; an all-zero object is an empty slot.

        A row without objects gives zeros.
        """
        rows = asked_by.shape[:-1]
        objects = objects.reshape(-1, 1, *objects.shape[-2:])
        filled = pad((objects != 0).any(-1), (1, 0), value=True)
        objects = objects.to(torch.get_default_dtype()) * self.factor
        seen = pad(torch.relu(self.first(objects)), (0, 0, 1, 0))  # The zero object comes first.
        queries = self.queries(asked_by).view(-1, 1, HEADS, self.hidden)
        # An execution plan (`train.plan`) has rules only for the operations of the plain formula.
        with sdpa_kernel(SDPBackend.MATH) if is_kept_whole() else nullcontext():
            out = scaled_dot_product_attention(queries, seen, seen, attn_mask=filled[:, :, None])
        pooled: Tensor = torch.relu(self.last(out.reshape(*rows, HEADS * self.hidden)))
        return pooled
