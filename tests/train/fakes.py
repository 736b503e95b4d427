# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Group specs made by hand, for tests that need no env; a policy with memory; and a dashboard."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from puffervec.core.spec import Field, GroupSpec


def group(
    *fields: tuple[str, tuple[int, ...]],
    sizes: tuple[int, ...] = (5,),
    mask: int = 0,
    dtype: str = "f4",
) -> GroupSpec:
    """A group whose fields fill the row: group(("ego", (3,)), ("cars", (4, 2)))."""
    made, offset = [], 0
    for name, shape in fields:
        field = Field(name, np.dtype(dtype), shape, offset, "", -1.0, 1.0, 1.0)
        made.append(field)
        offset += field.size * field.dtype.itemsize
    kind = "discrete" if len(sizes) == 1 else "multi_discrete"
    return GroupSpec(
        "agents",
        1,
        tuple(made),
        offset,
        kind,
        sizes,
        (0.0,) * len(sizes),
        (0.0,) * len(sizes),
        mask,
    )


class Remembering(nn.Module):
    """A policy with memory, which is also its value: how many steps ago a row began, the first one
    counted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(5))

    def initial_state(self, rows: int) -> tuple[torch.Tensor, ...]:
        """See policy.py."""
        return (torch.zeros(rows),)

    def forward(
        self, obs: torch.Tensor, state: tuple[torch.Tensor, ...], reset: Any, mask: Any
    ) -> Any:
        """See policy.py."""
        lead = obs.shape[:-1]
        count = torch.where(reset, 0.0, state[0]) + 1 if state else torch.zeros(lead)
        return (self.logits.expand(*lead, 5),), count, (count,) if state else ()


class Counting(Remembering):
    """Chooses by what it remembers: the number of steps since its row began."""

    def forward(self, obs: torch.Tensor, state: Any, reset: Any, mask: Any) -> Any:
        _, count, state = super().forward(obs, state, reset, mask)
        return (
            (torch.nn.functional.one_hot((count.long() - 1).clamp(max=4), 5).float(),),
            count,
            state,
        )


class Notes:
    """A dashboard that keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def show(self, metrics: Any, progress: float) -> None:
        """See dashboard.py."""

    def note(self, text: str) -> None:
        """See dashboard.py."""
        self.notes.append(text)

    def close(self) -> None:
        """See dashboard.py."""
