# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The PPO update (Schulman et al. 2017, arXiv:1707.06347): clipped policy loss, value loss, entropy bonus, fused Adam.

    roll-out (T+1, R)  --  advantage, valid (T, R)  --  epochs: shuffle the valid samples, minibatches, gradient steps

Only valid transitions are used: filler rows, rows of cars that are gone and the step after a done are never gathered. A
minibatch is worked off in microbatches that stay in the caches of a CPU. Losses are summed on the device and read once per
update. Runs in the learner.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from puffervec.train.advantage import advantage
from puffervec.train.config import TrainSection
from puffervec.train.device import ThreadTeam
from puffervec.train.distributions import ActionSpec, log_prob_entropy
from puffervec.train.policy import Observation
from puffervec.train.rollout import Storage

BF16_ROWS = 128  # see padded_rows

LOSS_NAMES = ("policy", "value", "entropy", "approx_kl", "clip_fraction")


@dataclasses.dataclass(frozen=True)
class Batch:
    """Samples of a minibatch, (B,) or (B, ...) each."""

    obs: Observation
    actions: Tensor
    log_probs: Tensor
    advantages: Tensor
    returns: Tensor
    values: Tensor
    action_mask: Tensor | None


@dataclasses.dataclass(frozen=True)
class UpdateResult:
    """What an update did: means over its samples, and how many transitions of the roll-out were valid."""

    losses: dict[str, float]
    valid: int
    finished: bool  # False where the caller stopped it on the way


def ppo_loss(policy: nn.Module, spec: ActionSpec, batch: Batch, section: TrainSection, bf16: bool) -> tuple[Tensor, Tensor]:
    """Return the loss, summed over the batch's samples, and the sums of LOSS_NAMES (5,).

    Args: batch.advantages: already normalised. Sums instead of means, so that microbatches add up to their minibatch.
    """
    rows, device = len(batch.actions), batch.actions.device.type
    obs, action_mask = _padded(batch) if bf16 and device == "cpu" else (batch.obs, batch.action_mask)
    with torch.autocast(device, torch.bfloat16, enabled=bf16):
        heads, value, _ = policy(obs, (), None, action_mask)
    heads, value = tuple(head[:rows] for head in heads), value[:rows]  # what was added counts for nothing
    log_prob, entropy = log_prob_entropy(spec, heads, batch.actions)
    log_ratio = log_prob - batch.log_probs
    ratio = log_ratio.exp()
    policy_loss = -torch.min(
        batch.advantages * ratio, batch.advantages * ratio.clamp(1.0 - section.clip, 1.0 + section.clip)
    ).sum()
    error = (value - batch.returns).square()
    if section.value_clip > 0:
        near = batch.values + (value - batch.values).clamp(-section.value_clip, section.value_clip)
        error = torch.max(error, (near - batch.returns).square())
    value_loss, entropy_sum = 0.5 * error.sum(), entropy.sum()
    loss = policy_loss + section.value_coef * value_loss - section.entropy_coef * entropy_sum
    with torch.no_grad():
        # John Schulman's low-variance estimate of the KL divergence (joschu.net/blog/kl-approx.html, k3).
        kl = (ratio - 1.0 - log_ratio).sum()
        clipped = ((ratio - 1.0).abs() > section.clip).sum()
        sums = torch.stack([policy_loss, value_loss, entropy_sum, kl, clipped.to(kl.dtype)])
    return loss, sums


def padded_rows(rows: int) -> int:
    """Return how many rows a policy is shown on a CPU in bf16, at most a sixteenth more: a multiple of BF16_ROWS.

    oneDNN compiles bf16 kernels for each number of rows and keeps them. The number of valid samples differs from minibatch to
    minibatch, which made 500 MiB of kernels, and a compilation almost every time. Like this there are 16 numbers per octave.

    >>> [padded_rows(rows) for rows in (1, 128, 129, 2049, 2176, 20_000)]
    [128, 128, 256, 2176, 2176, 20480]
    """
    step = max(BF16_ROWS, 1 << max(0, rows.bit_length() - 5))
    return -(-rows // step) * step


def _padded(batch: Batch) -> tuple[Observation, Tensor | None]:
    """Return observations and action masks with the last row repeated up to `padded_rows`."""
    more = padded_rows(len(batch.actions)) - len(batch.actions)

    def pad(x: Tensor) -> Tensor:
        return torch.cat([x, x[-1:].expand(more, *x.shape[1:])])

    if not more:
        return batch.obs, batch.action_mask
    obs = {k: pad(v) for k, v in batch.obs.items()} if isinstance(batch.obs, dict) else pad(batch.obs)
    return obs, None if batch.action_mask is None else pad(batch.action_mask)


def normalised(advantages: Tensor) -> Tensor:
    """Return advantages with mean 0 and standard deviation 1; a single or constant one becomes 0."""
    return (advantages - advantages.mean()) / (advantages.std(correction=0) + 1e-8)


def make_optimizer(policy: nn.Module, section: TrainSection) -> torch.optim.Adam:
    """Return Adam as one kernel over all weights (fused: 51 instead of 163 us a step for a small net on a CPU)."""
    return torch.optim.Adam(policy.parameters(), lr=section.lr, eps=section.adam_eps, fused=True)


class Updater:
    """The update of one policy from its storage."""

    def __init__(
        self,
        policy: nn.Module,
        storage: Storage,
        section: TrainSection,
        minibatches: int,
        bf16: bool,
        generator: torch.Generator,
        team: ThreadTeam,
    ) -> None:
        """Args: minibatches: per epoch; generator: of the shuffles, on the CPU; team: works on the microbatches."""
        self.policy, self.storage, self.section, self.bf16, self.generator = policy, storage, section, bf16, generator
        self.team = team
        self.parameters = [p for p in policy.parameters() if p.requires_grad]
        self.minibatches = minibatches
        self.optimizer = make_optimizer(policy, section)

    def update(self, lr: float, stop: Callable[[], bool] = lambda: False) -> UpdateResult:
        """Improve the policy with the roll-out in the storage.

        Args: lr: the step size; stop: asked before each gradient step.
        """
        s, section = self.storage, self.section
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        advantages, valid = advantage(
            s.rewards, s.values, s.terminals, s.truncations, s.masks, section.gamma, section.gae_lambda
        )
        flat = self._flat(advantages)
        chosen = valid.view(-1).nonzero().squeeze(-1)
        sums = torch.zeros(len(LOSS_NAMES) + 1, device=s.device)
        samples, steps, finished = 0, 0, True
        for _ in range(section.update_epochs):
            shuffled = chosen[torch.randperm(len(chosen), generator=self.generator).to(chosen.device)]
            epoch_kl = torch.zeros((), device=s.device)
            for index in shuffled.tensor_split(self.minibatches):
                if len(index) == 0:
                    continue
                if stop():
                    finished = False
                    break
                part = self._gradient_step(flat, index)
                sums += part
                epoch_kl += part[3]
                samples, steps = samples + len(index), steps + 1
            if not finished or (section.target_kl > 0 and float(epoch_kl) > section.target_kl * max(1, len(chosen))):
                break
        means = (sums[:-1] / max(1, samples)).tolist()
        losses = dict(zip(LOSS_NAMES, means, strict=True))
        losses["grad_norm"] = float(sums[-1]) / max(1, steps)
        losses["explained_variance"] = _explained_variance(flat, chosen)
        return UpdateResult(losses, len(chosen), finished)

    def _flat(self, advantages: Tensor) -> Batch:
        """The whole roll-out as one batch of T x R samples; views except for the returns."""
        s = self.storage
        steps = slice(0, s.horizon)

        def rows(x: Tensor) -> Tensor:
            return x[steps].flatten(0, 1)

        obs = {k: rows(v) for k, v in s.obs.items()} if isinstance(s.obs, dict) else rows(s.obs)
        return Batch(
            obs=obs,
            actions=rows(s.actions),
            log_probs=rows(s.log_probs),
            advantages=advantages.view(-1),
            returns=(advantages + s.values[steps]).view(-1),
            values=rows(s.values),
            action_mask=None if s.action_masks is None else rows(s.action_masks),
        )

    def _gradient_step(self, flat: Batch, index: Tensor) -> Tensor:
        """One step of the optimizer on the samples `index`; returns the sums of LOSS_NAMES and the gradient's norm."""
        size = self.section.microbatch_size if index.device.type == "cpu" else len(index)
        advantages = normalised(flat.advantages[index])

        def gradients(begin: int) -> tuple[Sequence[Tensor | None], Tensor]:
            # Not backward(): threads would add into the same .grad at once. Runs in a thread of the team.
            part = gather(flat, index[begin : begin + size], advantages[begin : begin + size])
            loss, sums = ppo_loss(self.policy, self.storage.spec, part, self.section, self.bf16)
            return torch.autograd.grad(loss / len(index), self.parameters, allow_unused=True), sums

        found = self.team.map(gradients, range(0, len(index), size))
        for position, parameter in enumerate(self.parameters):
            # In the order of the pieces, so that the sum does not depend on which thread was faster.
            parameter.grad = _sum([grads[position] for grads, _ in found])
        sums = torch.stack([sums for _, sums in found]).sum(0)
        norm = nn.utils.clip_grad_norm_(self.parameters, self.section.max_grad_norm)
        self.optimizer.step()
        return torch.cat([sums, norm.detach().view(1)])


def _sum(parts: Sequence[Tensor | None]) -> Tensor | None:
    """Sum in order; None where the parameter was not used."""
    total: Tensor | None = None
    for part in parts:
        if part is not None:
            total = part if total is None else total.add_(part)
    return total


def gather(flat: Batch, index: Tensor, advantages: Tensor) -> Batch:
    """Return the samples `index` of `flat`, with the given advantages."""

    def take(x: Tensor) -> Tensor:
        return x.index_select(0, index)

    obs = {k: take(v) for k, v in flat.obs.items()} if isinstance(flat.obs, dict) else take(flat.obs)
    mask = None if flat.action_mask is None else take(flat.action_mask)
    return Batch(obs, take(flat.actions), take(flat.log_probs), advantages, take(flat.returns), take(flat.values), mask)


def _explained_variance(flat: Batch, chosen: Tensor) -> float:
    """1: the values predict the returns; 0: no better than their mean."""
    returns, values = flat.returns[chosen], flat.values[chosen]
    if len(chosen) < 2:
        return 0.0
    spread: Any = returns.var(correction=0)
    return float(1.0 - (returns - values).var(correction=0) / spread.clamp_min(1e-12))
