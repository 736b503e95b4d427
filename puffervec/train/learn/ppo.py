# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Define PPO (Schulman et al. 2017, arXiv:1707.06347): its settings and figures.

`advantage_share` follows the advantage filtering of Cusumano-Towner et al. 2025 (arXiv:2502.03349),
who leave out samples below a threshold: most steps of most agents go as expected and teach little.

Imports no torch; ppo_loss.py has the loss.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from puffervec.errors import ConfigError
from puffervec.train.config.algorithms import Algorithm, Loss
from puffervec.train.config.sections import TrainSection
from puffervec.train.config.tables import number

if TYPE_CHECKING:
    from torch import Tensor


@dataclasses.dataclass(frozen=True)
class PPOSection(TrainSection):
    """PPO: clipped probability ratios."""

    clip: float = number(0.2, above=0)  # Clipping range of the probability ratio, epsilon.
    value_clip: float = number(0.0, least=0)
    """Largest change of a value prediction per update; 0: no limit."""
    target_kl: float = number(0.0, least=0)
    """Mean KL divergence after which no further epochs of an update are run; 0: no limit."""
    advantage_share: float = number(1.0, above=0)
    """Share of each rollout's samples to learn from: those with the largest advantages by absolute
    value, or, with memory, the sequences with the largest sums. Minibatches have this share of
    minibatch_size. 1: all samples.
    """

    def check(self) -> None:
        """Raise ConfigError for values that cannot work."""
        super().check()
        if not self.advantage_share <= 1:
            raise ConfigError(
                f"train.advantage_share is {self.advantage_share}: must be above 0 and at most 1"
            )

    def learned_share(self) -> float:
        """Return the share of a rollout's samples that the algorithm learns from."""
        return self.advantage_share


def _loss() -> Loss:
    from puffervec.train.learn.ppo_loss import ppo_loss

    return ppo_loss


def _exceeds_kl(section: PPOSection, sums: Mapping[str, Tensor], samples: int) -> bool:
    return section.target_kl > 0 and float(sums["approx_kl"]) > section.target_kl * samples


PPO = Algorithm(
    section=PPOSection,
    loss=_loss,
    figures=("policy", "value", "entropy", "approx_kl", "clip_fraction"),
    stop=_exceeds_kl,
    search={"train.clip": "0.1:0.3"},
)
