# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Multi-head attention over the objects of a field, in place of the maximum (object_set.py).

    objects (n, k)  --  Linear, ReLU, shared  --  (n, hidden)  --------------+
    plain fields    --  Linear  --  queries (HEADS, hidden)  ----------------+--  attention  --  Linear, ReLU  --  (width,)

The queries say what the agent is about to do, so an object can count for more in one row than in
another (Vaswani et al. 2017). The objects are keys and values as they stand: the matrices that
would make keys of them are in the queries, and those that would make values in the last layer,
where they cost a row's time and not that of each object.

Empty slots are masked. Beside the objects stands one of zeros: who attends to nobody gets 0, and so
does a row without objects, where a softmax alone would be 0 / 0. Plain torch operations on all
devices.
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
        """Args: features: k; asking: width of what the queries are made of; hidden: width of the
        objects' shared layer; width: of the result; factor: of the objects' numbers.
        """
        super().__init__()
        self.factor, self.hidden = factor, hidden
        self.first = linear(features, hidden)
        self.queries = linear(asking, HEADS * hidden, gain=1.0, bias=False)
        self.last = linear(HEADS * hidden, width, bias=False)

    def forward(self, objects: Tensor, asked_by: Tensor) -> Tensor:
        """Attend; an all-zero object is an empty slot. A row without any object gives zeros."""
        rows = asked_by.shape[:-1]
        objects = objects.reshape(-1, 1, *objects.shape[-2:])
        filled = pad((objects != 0).any(-1), (1, 0), value=True)
        objects = objects.to(torch.get_default_dtype()) * self.factor
        seen = pad(torch.relu(self.first(objects)), (0, 0, 1, 0))  # nobody comes first
        queries = self.queries(asked_by).view(-1, 1, HEADS, self.hidden)
        # A plan has rules for the operations that the formula is made of.
        with sdpa_kernel(SDPBackend.MATH) if is_kept_whole() else nullcontext():
            found = scaled_dot_product_attention(queries, seen, seen, attn_mask=filled[:, :, None])
        out: Tensor = torch.relu(self.last(found.reshape(*rows, HEADS * self.hidden)))
        return out
