# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The trainer: `Trainer` and `TrainConfig`, and `load_policy("runs/NAME")` for its results.

This is the only package that imports torch, and only when a name that needs it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from puffervec.system import lazy
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

__all__ = [
    "ActionSpec", "Algorithm", "Batch", "LoadedPolicy",
    "Observation", "Policy", "TrainConfig", "TrainSection",
    "Trainer", "load_policy", "log_prob_entropy", "read_metrics",
]  # fmt: skip

__getattr__ = lazy.loader(
    __name__,
    {
        "puffervec.train.run.trainer": ("Trainer",),
        "puffervec.train.act.loaded": ("LoadedPolicy", "load_policy"),
        "puffervec.train.learn.samples": ("Batch",),
        "puffervec.train.policies.distributions": ("ActionSpec", "log_prob_entropy"),
        "puffervec.train.policies.leaves": ("Observation",),
        "puffervec.train.policies.protocol": ("Policy",),
    },
)
