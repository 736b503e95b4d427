# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The files and the error of a run whose training produced a non-finite number.

    diverged.json           statistics of the last rollout that the policies learned from, the
                            losses and the counters
    diverged.safetensors    that rollout: `<policy>.<array>` (T+1, rows, ...),
                            `<policy>.state.<i>` (rows, ...) before step 0,
                            `<policy>.rows` the row numbers: non-finite rows first, as many rows as
                            fit into MOST_BYTES

A run that is resumed and diverges again writes diverged-2.json and so on; existing files are not
overwritten. Runs in the learner.
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
MOST_BYTES = 2**26  # size limit of the arrays that one divergence writes
MOST_TIMES = 8  # divergences that write arrays: a run may be restarted again and again


class Diverged(PuffervecError, ArithmeticError):
    """A loss or gradient is not a finite number; the last checkpoint is untouched."""


def diverged(
    path: Path,
    bad: Sequence[str],
    storages: Mapping[str, Storage],
    counters: Mapping[str, Any],
    losses: Mapping[str, float],
) -> Diverged:
    """Write the statistics and arrays of the rollout and return the error to raise.

    Errors of the disk are ignored.

    Args:
        path: the .json file for the statistics; the arrays go into the same folder.
        bad: names of the values that are not finite.
        storages: storages by policy.
        counters: counters of the run.
        losses: losses of the last update.
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
        f"the last checkpoint is kept; statistics of the rollout are in {path}, its arrays next "
        f"to it; {_advice(arrays)}"
    )


def _free(path: Path) -> tuple[Path, int]:
    """Return the first free one of path, path-2, ... and its number, counted from 1."""
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
    """Return the arrays of the rollouts on the CPU, with as many rows as fit into MOST_BYTES."""
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
    """Return a hint at the source of non-finite numbers: the env, or otherwise the policy.

    Args:
        arrays: (T+1, rows, ...) by name.
    """
    for name, tensor in arrays.items():
        if name.partition(".")[2].startswith(("obs", "rewards")) and not bool(
            tensor.isfinite().all()
        ):
            step, row = (~tensor.isfinite()).nonzero()[0, :2].tolist()
            return f"the env returned a non-finite {name}, first in row {row} of step {step}"
    return "try a smaller train.lr or --train.precision fp32"
