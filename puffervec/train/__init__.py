# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The trainer: `from puffervec.train import Trainer, TrainConfig`; and what it has trained: `load_policy("runs/NAME")`.

The only package that imports torch, and only when something that needs it is asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from puffervec import extras
from puffervec.train.config.algorithms import Algorithm
from puffervec.train.config.sections import TrainConfig, TrainSection
from puffervec.train.metrics.log import read_metrics

if TYPE_CHECKING:
    from puffervec.train.act.loaded import LoadedPolicy, load_policy
    from puffervec.train.learn.samples import Batch
    from puffervec.train.policies.distributions import ActionSpec, log_prob_entropy
    from puffervec.train.policies.leaves import Observation
    from puffervec.train.policies.protocol import Policy
    from puffervec.train.run.trainer import Trainer
    from puffervec.train.scale.trainer import RayTrainer

__all__ = [
    "ActionSpec", "Algorithm", "Batch", "LoadedPolicy", "Observation", "Policy", "RayTrainer", "TrainConfig", "TrainSection",
    "Trainer", "load_policy", "log_prob_entropy", "read_metrics",
]  # fmt: skip

_WITH_TORCH = {
    "Trainer": "run.trainer",
    "RayTrainer": "scale.trainer",
    "LoadedPolicy": "act.loaded",
    "load_policy": "act.loaded",
    "Batch": "learn.samples",
    "ActionSpec": "policies.distributions",
    "log_prob_entropy": "policies.distributions",
    "Observation": "policies.leaves",
    "Policy": "policies.protocol",
}


def __getattr__(name: str) -> Any:
    """Load what needs torch, and with it torch, at first use. Raises: MissingExtraError: the trainer's packages are missing."""
    if name in _WITH_TORCH:
        extras.require(f"puffervec.train.{name}", *extras.TRAINER)
        return getattr(importlib.import_module(f"{__name__}.{_WITH_TORCH[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
