# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Draw discrete actions on a CPU in C (csrc/learner/sample.h). Runs in the learner.

The loss on them is in learn/ppo_loss.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from puffervec._ffi import ffi, lib
from puffervec.train.policies.whole import is_traced

LANES: int = lib.PV_CHOICE_LANES
MOST_CHOICES: int = lib.PV_MOST_CHOICES
MOST_DIMS: int = lib.PV_MOST_DIMS


def fits(logits: Sequence[Tensor]) -> bool:
    """Return whether C can draw from these logits."""
    return readable(logits) and not_too_many(logits)


def readable(tensors: Sequence[Tensor]) -> bool:
    """Return whether C can read tensors: float32 on a CPU, while no graph is traced."""
    plain = all(x.dtype == torch.float32 and x.device.type == "cpu" for x in tensors)
    return plain and not is_traced()


def not_too_many(logits: Sequence[Tensor]) -> bool:
    """Return whether C has room for the choices of all heads."""
    return (
        len(logits) <= MOST_DIMS
        and sum(-(-head.shape[-1] // LANES) * LANES for head in logits) <= MOST_CHOICES
    )


def draw(logits: Sequence[Tensor], uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """Draw by the inverse of the cumulative probabilities, in one pass over the logits.

    Args:
        logits: (rows, n) each.
        uniforms: (rows, D) in [0, 1), one per row and dim.

    Returns:
        Choices (rows, D) int32, and their log-probabilities, summed over the dims, (rows,).
    """
    logits, uniforms = [flat(head) for head in logits], flat(uniforms)
    rows, dims = uniforms.shape
    actions, log_probs = torch.empty(rows, dims, dtype=torch.int32), torch.empty(rows)
    lib.pv_sample(
        [pointer(head) for head in logits],
        [head.shape[-1] for head in logits],
        dims,
        rows,
        pointer(uniforms),
        pointer(actions),
        pointer(log_probs),
    )
    return actions, log_probs


def flat(x: Tensor) -> Tensor:
    """Return a contiguous tensor without gradient."""
    return x.detach().contiguous()


def pointer(x: Tensor | None) -> Any:
    """Return a C pointer to `x`, int32 or float32 on a CPU, which must outlive the call."""
    if x is None:
        return ffi.NULL
    return ffi.cast("int32_t*" if x.dtype == torch.int32 else "float*", x.data_ptr())
