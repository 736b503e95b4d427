# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Entry point of `puffervec.wings.sharded` for `train.tensor_parallel`; see puffervec/doors.py.

Imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

    from puffervec.train.device.ranks import Ranks


def share_columns(name: str, policy: nn.Module, ranks: Ranks) -> None:
    """Split a policy's pictures by columns over a team of ranks in updates (sharing.py)."""
    from puffervec.wings.sharded import sharing

    sharing.share_columns(name, policy, ranks)
