# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What is left behind and said where a number of the training is not finite. Runs in the learner.

    diverged.json           statistics of the roll-out that the policies learned from last, the losses and the counters
    diverged.safetensors    that roll-out: `<policy>.<array>` (T+1, rows, ...), `<policy>.state.<i>` (rows, ...) before step 0,
                            `<policy>.rows` the numbers of the rows, those first that are not
                            finite, as many as fit MOST_BYTES

A run that went on and diverged again leaves diverged-2.json and so on; nothing is written over.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as dump_tensors
from torch import Tensor

from puffervec.errors import PuffervecError
from puffervec.system.folder import Folder
from puffervec.train.collect.storage import Storage

ARRAYS = ".safetensors"
MOST_BYTES = 2**26  # Of the arrays that a divergence leaves.
MOST_TIMES = 8  # Later ones leave no more arrays: a run may be started again and again.


class Diverged(PuffervecError, ArithmeticError):
    """A loss or gradient is not a finite number; the last checkpoint is untouched."""


def diverged(
    path: Path,
    bad: Sequence[str],
    storages: Mapping[str, Storage],
    counters: Mapping[str, Any],
    losses: Mapping[str, float],
) -> Diverged:
    """Leave the roll-out's statistics in the file `path` (.json) and its arrays beside it, if the
    disk lets it.

    Returns the error to raise.
    Args: bad: names of what is not finite; storages: by policy.
    """
    path, times = _free(path)
    arrays: dict[str, Tensor] = {}
    for policy, storage in storages.items():
        arrays |= {f"{policy}.{name}": tensor.float() for name, tensor in storage.tensors().items()}
        arrays |= {
            f"{policy}.state.{i}": part.float() for i, part in enumerate(storage.first_state())
        }
    stats = {
        name: {
            "finite": float(tensor.isfinite().float().mean()),
            "min": float(tensor.nan_to_num().min()),
            "max": float(tensor.nan_to_num().max()),
        }
        for name, tensor in arrays.items()
    }
    values = {
        "losses": {k: repr(v) for k, v in losses.items()},
        "counters": dict(counters),
        "rollout": stats,
    }
    with contextlib.suppress(OSError), Folder(path.parent) as folder:
        folder.write(path.name, [(json.dumps(values, indent=2) + "\n").encode()])
        if times <= MOST_TIMES:
            folder.write(path.with_suffix(ARRAYS).name, [dump_tensors(_kept(storages))])
    return Diverged(
        f"{', '.join(bad)} is not a finite number after {counters['agent_steps']} agent-steps: "
        f"the last checkpoint is kept; statistics of the roll-out are in {path}, its arrays "
        f"beside it; {_advice(arrays)}"
    )


def _free(path: Path) -> tuple[Path, int]:
    """Return the first of path, path-2, ... that nothing has yet, and the how many-th it is."""
    names = (
        (path.with_stem(f"{path.stem}-{times}") if times > 1 else path, times)
        for times in itertools.count(1)
    )
    return next(
        (name, n)
        for name, n in names
        if not any(map(os.path.lexists, (name, name.with_suffix(ARRAYS))))
    )


def _kept(storages: Mapping[str, Storage]) -> dict[str, Tensor]:
    """Return the arrays of roll-outs, of all rows or of those that fit into MOST_BYTES, on the CPU."""
    found: dict[str, Tensor] = {}
    for policy, storage in storages.items():
        steps, states = storage.tensors(), dict(enumerate(storage.first_state()))
        size = sum(tensor.nbytes for tensor in (*steps.values(), *states.values())) // storage.rows
        bad = torch.zeros(storage.rows, dtype=torch.bool, device=storage.device)
        for tensor in steps.values():
            bad |= ~tensor.isfinite().transpose(0, 1).flatten(1).all(1)
        for part in states.values():
            bad |= ~part.isfinite().flatten(1).all(1)
        order = bad.logical_not().to(torch.uint8).argsort(stable=True)
        rows = order[: max(1, MOST_BYTES // len(storages) // max(1, size))]
        found[f"{policy}.rows"] = rows.cpu()
        found |= {f"{policy}.{name}": tensor[:, rows].cpu() for name, tensor in steps.items()}
        found |= {f"{policy}.state.{i}": part[rows].cpu() for i, part in states.items()}
    return {name: tensor.detach().contiguous().clone() for name, tensor in found.items()}


def _advice(arrays: Mapping[str, Tensor]) -> str:
    """Say where numbers that are not finite come from: the env, or else the policy. arrays: (T+1,
    rows, ...) by name.
    """
    for name, tensor in arrays.items():
        if name.partition(".")[2].startswith(("obs", "rewards")) and not bool(
            tensor.isfinite().all()
        ):
            step, row = (~tensor.isfinite()).nonzero()[0, :2].tolist()
            return f"{name} came from the env so, first in row {row} of step {step}: look there"
    return "try a smaller train.lr or --train.precision fp32"
