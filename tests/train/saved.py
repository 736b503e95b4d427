# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Small checkpoints whose weights are one number, for tests of how they are kept; a log whose disk
fills up.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from puffervec.train.metrics.log import JsonLog
from puffervec.train.run import checkpoint as ckpt


def some(steps: int, value: float = 1.0, size: int = 3) -> ckpt.Checkpoint:
    """A checkpoint with `value` in each of its 2 x size weights."""
    manifest: dict[str, Any] = {
        "env": "probe",
        "config": {},
        "counters": {"agent_steps": steps},
        "policies": {"default": {"class": "MLPPolicy", "group": "agents"}},
        "spec_hash": "x",
    }
    tensors = {
        "default": {"w": torch.full((2, size), value)},
        "random": {"actions": torch.arange(4, dtype=torch.uint8)},
    }
    return ckpt.Checkpoint(manifest, tensors)


def value_of(path: Path | None) -> float:
    """The weight of a checkpoint, which must be there, whole and the same everywhere."""
    assert path is not None
    weights = ckpt.read(path).tensors["default"]["w"]
    assert bool((weights == weights[0, 0]).all())
    return float(weights[0, 0])


def fill_up(log: JsonLog) -> int:
    """Let every write to a log fail as on a full disk; return a descriptor of the file that it was,
    for `os.dup2` and close.
    """
    assert log._file is not None
    kept = os.dup(log._file._fd)
    full = os.open("/dev/full", os.O_RDWR | os.O_CLOEXEC)
    os.dup2(full, log._file._fd, inheritable=False)
    os.close(full)
    return kept
