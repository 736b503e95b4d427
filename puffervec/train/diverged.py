# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What is left behind and said where a number of the training is not finite. Runs in the learner."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from puffervec.errors import PuffervecError
from puffervec.train.storage import Storage


class Diverged(PuffervecError, ArithmeticError):
    """A loss or gradient is not a finite number; the last checkpoint is untouched."""


def diverged(
    path: Path, bad: Sequence[str], storages: Mapping[str, Storage], counters: Mapping[str, Any], losses: Mapping[str, float]
) -> Diverged:
    """Leave the roll-out's statistics in the file `path`, if the disk lets it; return the error to raise.

    Args: bad: names of what is not finite; storages: by policy.
    """
    arrays: dict[str, Tensor] = {}
    for policy, storage in storages.items():
        arrays |= {f"{policy}.{name}": tensor.float() for name, tensor in storage.tensors().items()}
        arrays |= {f"{policy}.state.{i}": part.float() for i, part in enumerate(storage.first_state())}
    stats = {
        name: {
            "finite": float(tensor.isfinite().float().mean()),
            "min": float(tensor.nan_to_num().min()),
            "max": float(tensor.nan_to_num().max()),
        }
        for name, tensor in arrays.items()
    }
    values = {"losses": {k: repr(v) for k, v in losses.items()}, "counters": dict(counters), "rollout": stats}
    with contextlib.suppress(OSError):
        path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    return Diverged(
        f"{', '.join(bad)} is not a finite number after {counters['agent_steps']} agent-steps: the last checkpoint is"
        f" kept; statistics of the roll-out are in {path}; {_advice(arrays)}"
    )


def _advice(arrays: Mapping[str, Tensor]) -> str:
    """Say where numbers that are not finite come from: the env, or else the policy. arrays: (T+1, rows, ...) by name."""
    for name, tensor in arrays.items():
        if name.partition(".")[2].startswith(("obs", "rewards")) and not bool(tensor.isfinite().all()):
            step, row = (~tensor.isfinite()).nonzero()[0, :2].tolist()
            return f"{name} came from the env so, first in row {row} of step {step}: look there"
    return "try a smaller train.lr or --train.precision fp32"
