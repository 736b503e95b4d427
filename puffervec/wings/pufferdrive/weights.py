# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Turn weights that PufferDrive exported into a run folder with one checkpoint.

A file holds all parameters of a policy, one after the other, as float32 in little-endian order and
without a header. Only its size tells which policy it is for, so the size is compared with those of
all policies that fit an env of `drive`. Runs in the learner.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import puffervec
from puffervec.errors import CheckpointError, ConfigError
from puffervec.system.folder import describe_error
from puffervec.train.config.sections import TrainConfig
from puffervec.train.policies.pufferdrive import count_parameters
from puffervec.train.policies.run_spec import RunSpec
from puffervec.train.run import checkpoint as ckpt
from puffervec.train.run.rundir import CHECKPOINTS, write_config
from puffervec.train.run.state import Counters

KIND = "pufferdrive"
# Dynamics, actions, columns of the car itself, and choices of all heads. Policies with continuous
# actions are left out: their action distribution differs from puffervec's.
FORMS = (
    ("classic_pufferdrive", "discrete", 7, 7 * 13),
    ("classic_pufferdrive", "multi_discrete", 7, 7 + 13),
    ("jerk", "discrete", 10, 4 * 3),
    ("jerk", "multi_discrete", 10, 4 + 3),
)
BYTES = {
    4 * count_parameters(ego_columns, outputs): (dynamics, actions)
    for dynamics, actions, ego_columns, outputs in FORMS
}


def import_weights(path: Path, folder: Path) -> str:
    """Write the run folder of a file of weights and return a line that describes it.

    Raises:
        CheckpointError: The file cannot be read, or its content cannot be such weights.
        ConfigError: The folder exists already.
        SaveError: The folder cannot be written.
    """
    if folder.exists():
        raise ConfigError(f"--out {folder}: it exists already: name a new folder")
    (dynamics, actions), numbers = read_weights(path)
    env = {"observation": "pufferdrive", "dynamics": dynamics, "actions": actions}
    config = TrainConfig.bare("drive").merged({"env": env, "policy": {"kind": KIND}})
    # The rows do not depend on the scenes, so use a single one, which is made quickly.
    run = RunSpec.of(config.merged({"env": {"scenes": "generated:1"}}))
    ((name, rows),) = run.rows.items()
    policy = rows.build()
    manifest = {
        "env": config.target,
        "spec_hash": run.spec.policy_hash(),
        "config": {"target": config.target, **config.tables()},
        "counters": vars(Counters()),
        "policies": {name: {"class": type(policy).__name__, "group": rows.group.name}},
        "versions": {"puffervec": puffervec.__version__, "torch": torch.__version__},
    }
    tensors = {name: named_weights(policy, numbers)}
    ckpt.write(folder / CHECKPOINTS, ckpt.Checkpoint(manifest, tensors), keep=1)
    try:
        write_config(folder, config)
    except OSError as error:
        raise ckpt.SaveError(f"cannot write to {folder}: {describe_error(error)}") from error
    return f"{folder}: {len(numbers):,} weights, dynamics={dynamics}, actions={actions}"


def read_weights(path: Path) -> tuple[tuple[str, str], np.ndarray]:
    """Read a file of weights.

    Returns:
        ((dynamics, actions) for which the weights are, the weights as (n,) float32).

    Raises:
        CheckpointError: The file cannot be read, has another size, or holds NaN or infinities.
    """
    try:
        size = path.stat().st_size
        if size not in BYTES:
            raise CheckpointError(f"{path} has {size:,} bytes: {_describe_sizes()}")
        numbers = np.fromfile(path, "<f4").astype(np.float32)
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        raise CheckpointError(
            f"{path}: number {bad[0]:,} is {numbers[bad[0]]}: weights must be finite: export them "
            "again"
        )
    return BYTES[size], numbers


def _describe_sizes() -> str:
    """Return the sizes that a file of weights may have."""
    sizes = (
        f"{size:,} (dynamics={dynamics}, actions={actions})"
        for size, (dynamics, actions) in BYTES.items()
    )
    return f"weights of PufferDrive of November 2025 have {', '.join(sizes)}"


def named_weights(policy: nn.Module, numbers: np.ndarray) -> dict[str, Tensor]:
    """Return the weights by parameter name, in the order of the policy's parameters."""
    parameters = dict(policy.named_parameters())
    sizes = [part.numel() for part in parameters.values()]
    parts = torch.split(torch.from_numpy(numbers), sizes)
    return {
        name: part.view_as(parameters[name]) for name, part in zip(parameters, parts, strict=True)
    }
