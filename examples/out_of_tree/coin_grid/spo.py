# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""SPO (Xie et al. 2024, arXiv:2401.16025): PPO with a quadratic penalty on the probability ratio in
place of the clipping.

puffer-train ENV --train.algorithm spo --train.reach 0.3
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from puffervec.errors import ConfigError
from puffervec.train import ActionSpec, Algorithm, Batch, TrainSection, log_prob_entropy


@dataclass(frozen=True)
class SPOSection(TrainSection):
    """SPO: a quadratic penalty on the probability ratio."""

    reach: float = 0.2  # How far from 1 the probability ratio of each sample is drawn.

    def check(self) -> None:
        """Raise ConfigError for values that cannot work."""
        super().check()
        if not self.reach > 0:
            raise ConfigError(f"train.reach is {self.reach}: must be above 0")


def spo_loss(
    policy: nn.Module, spec: ActionSpec, batch: Batch, section: SPOSection, bf16: bool
) -> tuple[Tensor, Tensor]:
    """Return the loss and the figures, each summed over the batch."""
    with torch.autocast(batch.actions.device.type, torch.bfloat16, enabled=bf16):
        heads, value, _ = policy(batch.obs, batch.state, batch.resets, batch.action_mask)
    weights = torch.ones_like(batch.advantages) if batch.weights is None else batch.weights
    log_prob, entropy = log_prob_entropy(spec, heads, batch.actions)
    ratio = (log_prob - batch.log_probs).exp()
    # Where PPO cuts the ratio off, and with it the gradient, this pulls it back: best is 1 +-
    # reach.
    penalty = batch.advantages.abs() * (ratio - 1).square() / (2 * section.reach)
    terms = (
        penalty - batch.advantages * ratio,
        0.5 * (value - batch.returns).square(),
        entropy,
        (ratio - 1).abs(),
    )
    sums = torch.stack([(term * weights).sum() for term in terms])
    return sums[0] + section.value_coef * sums[1] - section.entropy_coef * sums[2], sums.detach()


SPO = Algorithm(
    section=SPOSection,
    loss=lambda: spo_loss,
    figures=("policy", "value", "entropy", "ratio_change"),
)
