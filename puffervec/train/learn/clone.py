# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Define behaviour cloning: its settings and figures. Imports no torch; clone_loss.py has the loss.

The env plays its expert (puffervec/contract/experts.py), and the policy learns the expert's actions
by maximum likelihood (Pomerleau 1989). The value head learns the expert's returns, so that training
can continue from there with another algorithm (`--init-from`).
"""

from __future__ import annotations

import dataclasses

from puffervec.errors import ConfigError
from puffervec.train.config.algorithms import Algorithm, Loss
from puffervec.train.config.schedules import Schedule
from puffervec.train.config.sections import TrainSection


@dataclasses.dataclass(frozen=True)
class CloneSection(TrainSection):
    """Behaviour cloning of the env's expert, such as the drivers of recorded logs."""

    entropy_coef: Schedule = 0.0
    """Coefficient of the entropy bonus: a number, or points [[agent-steps, coefficient], ...]."""

    def check(self) -> None:
        """Raise ConfigError for values that cannot work."""
        super().check()
        for name in ("vtrace", "asynchronous"):
            if getattr(self, name):
                raise ConfigError(
                    f"train.{name} is true: cloning learns from an expert's actions, whose "
                    "probabilities are unknown: leave it out"
                )


def _loss() -> Loss:
    from puffervec.train.learn.clone_loss import clone_loss

    return clone_loss


CLONE = Algorithm(
    section=CloneSection,
    loss=_loss,
    figures=("cloning", "accuracy", "value", "entropy"),
    corrects_lag=False,
    experts=True,
    search={"train.entropy_coef": "", "train.gae_lambda": ""},
)
