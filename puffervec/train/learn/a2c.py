# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Define A2C: its settings and figures. Imports no torch; ppo_loss.py has the loss.

A2C is the synchronous form of A3C (Mnih et al. 2016, arXiv:1602.01783). Each rollout is used once,
in one gradient step along advantage * grad log p. As in the paper, returns extend to the end of the
rollout and bootstrap there, and advantages are not normalised.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from puffervec.errors import ConfigError
from puffervec.train.config.algorithms import Algorithm, Loss
from puffervec.train.config.sections import TrainSection


@dataclasses.dataclass(frozen=True)
class A2CSection(TrainSection):
    """A2C: one gradient step per rollout along the policy gradient."""

    usual_minibatches: ClassVar[int] = 1
    horizon: int = 8
    update_epochs: int = 1  # Epochs per update: passes over each rollout; more than 1 need vtrace.
    gae_lambda: float = 1.0
    normalize_advantage: bool = False

    def check(self) -> None:
        """Raise ConfigError for values that cannot work."""
        super().check()
        if self.update_epochs > 1 and not (self.vtrace or self.asynchronous):
            raise ConfigError(
                f"train.update_epochs is {self.update_epochs}: A2C uses each rollout once, because "
                "it does not correct for a changed policy: use 1, --train.vtrace, or "
                "--train.algorithm ppo"
            )


def _loss() -> Loss:
    from puffervec.train.learn.ppo_loss import a2c_loss

    return a2c_loss


A2C = Algorithm(
    section=A2CSection,
    loss=_loss,
    figures=("policy", "value", "entropy"),
    search={"train.update_epochs": ""},
)
