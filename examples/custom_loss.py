# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A loss of one's own in the trainer: SPO's quadratic penalty (Xie et al. 2024, arXiv:2401.16025) in place of PPO's clipping.

python custom_loss.py
"""

import torch
from torch import Tensor, nn

from puffervec.train import ActionSpec, Batch, TrainConfig, Trainer, TrainSection, log_prob_entropy


def spo_loss(policy: nn.Module, spec: ActionSpec, batch: Batch, section: TrainSection, bf16: bool) -> tuple[Tensor, Tensor]:
    """Return the loss and the figures for the log, each summed over the batch (policies without memory)."""
    with torch.autocast(batch.actions.device.type, torch.bfloat16, enabled=bf16):
        heads, value, _ = policy(batch.obs, batch.state, batch.resets, batch.action_mask)
    log_prob, entropy = log_prob_entropy(spec, heads, batch.actions)
    ratio = (log_prob - batch.log_probs).exp()
    # Where PPO cuts the ratio off, and with it the gradient, this pulls it back: best is 1 +- clip.
    penalty = batch.advantages.abs() * (ratio - 1).square() / (2 * section.clip)
    policy_loss = -(batch.advantages * ratio - penalty).sum()
    value_loss = 0.5 * (value - batch.returns).square().sum()
    loss = policy_loss + section.value_coef * value_loss - section.entropy_coef * entropy.sum()
    outside = ((ratio - 1).abs() > section.clip).float().sum()
    kl = (ratio - 1 - (log_prob - batch.log_probs)).sum()
    return loss, torch.stack([policy_loss, value_loss, entropy.sum(), kl, outside]).detach()  # as ppo.LOSS_NAMES


if __name__ == "__main__":
    config = TrainConfig.of("cartpole", train={"total_timesteps": 150_000, "update_epochs": 4})
    with Trainer(config, loss=spo_loss) as trainer:
        metrics = trainer.train()
    print(f"return {metrics['episode/return']:.0f}, ratios outside of the clip range {metrics['losses/clip_fraction']:.1%}")
