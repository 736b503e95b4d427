# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The PPO update (Schulman et al. 2017, arXiv:1707.06347): clipped policy loss, value loss, entropy bonus, fused Adam.

    roll-out (T+1, R)  --  advantage, valid (T, R)  --  epochs: shuffle the samples (samples.py), minibatches, gradient steps

With `train.vtrace` (or roll-outs older than the weights) values and ratios are those of today's policy, anew for each epoch.

Only valid transitions count: filler rows, rows of cars that are gone and the step after a done teach nothing. A minibatch is
worked off in microbatches that stay in the caches of a CPU. Losses are summed on the device and read once per update. Runs in
the learner.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from puffervec.train.advantage import Discount, Steps, advantage
from puffervec.train.config import TrainSection
from puffervec.train.device import ThreadTeam
from puffervec.train.device_step import DeviceStep
from puffervec.train.distributions import ActionSpec, log_prob_entropy
from puffervec.train.optimizers import make_optimizer
from puffervec.train.policy import Policy
from puffervec.train.reevaluate import reevaluate
from puffervec.train.samples import Batch, Priority, Samples, samples_of
from puffervec.train.storage import Storage

Gradients = Sequence[Tensor | None]
LOSS_NAMES = ("policy", "value", "entropy", "approx_kl", "clip_fraction")


@dataclasses.dataclass(frozen=True)
class UpdateResult:
    """What an update did: means over its samples, and how many transitions of the roll-out were valid."""

    losses: dict[str, float]
    valid: int
    finished: bool  # False where the caller stopped it on the way


class Loss(Protocol):
    """What an update descends: `ppo_loss`, or one of your own (examples/custom_loss.py)."""

    def __call__(
        self, policy: nn.Module, spec: ActionSpec, batch: Batch, section: TrainSection, bf16: bool
    ) -> tuple[Tensor, Tensor]:
        """See `ppo_loss`. May run in several threads at once, for different batches."""


def ppo_loss(policy: nn.Module, spec: ActionSpec, batch: Batch, section: TrainSection, bf16: bool) -> tuple[Tensor, Tensor]:
    """Return the loss, summed over the batch's valid samples, and the sums of LOSS_NAMES (5,).

    Sums instead of means, so that microbatches add up to their minibatch.
    """
    with torch.autocast(batch.actions.device.type, torch.bfloat16, enabled=bf16):
        heads, value, _ = policy(batch.obs, batch.state, batch.resets, batch.action_mask)

    def total(x: Tensor) -> Tensor:
        return x.sum() if batch.weights is None else (x * batch.weights).sum()

    log_prob, entropy = log_prob_entropy(spec, heads, batch.actions)
    log_ratio = log_prob - batch.log_probs
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1.0 - section.clip, 1.0 + section.clip)
    policy_loss = -total(torch.min(batch.advantages * ratio, batch.advantages * clipped))
    error = (value - batch.returns).square()
    if section.value_clip > 0:
        near = batch.values + (value - batch.values).clamp(-section.value_clip, section.value_clip)
        error = torch.max(error, (near - batch.returns).square())
    value_loss, entropy_sum = 0.5 * total(error), total(entropy)
    loss = policy_loss + section.value_coef * value_loss - section.entropy_coef * entropy_sum
    with torch.no_grad():
        # John Schulman's low-variance estimate of the KL divergence (joschu.net/blog/kl-approx.html, k3).
        kl = total(ratio - 1.0 - log_ratio)
        outside = total(((ratio - 1.0).abs() > section.clip).to(kl.dtype))
        sums = torch.stack([policy_loss, value_loss, entropy_sum, kl, outside])
    return loss, sums


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
        loss: Loss = ppo_loss,
    ) -> None:
        """Args: minibatches: per epoch; generator: of the shuffles, on the CPU; team: works on the microbatches."""
        self.loss = loss
        self.vtrace = section.vtrace or section.asynchronous
        self.priority = Priority(section.priority_alpha, section.priority_beta) if section.priority_alpha > 0 else None
        self.policy, self.storage, self.section, self.bf16, self.generator = policy, storage, section, bf16, generator
        self.team = team
        self.parameters = [p for p in policy.parameters() if p.requires_grad]
        self.minibatches = minibatches
        self.memory = bool(cast(Policy, policy).initial_state(1))
        # Few different numbers of rows, for which oneDNN (in bf16) and torch.compile make kernels.
        self.pad = storage.device.type == "cpu" and (bf16 or getattr(loss, "pads", False))
        self.optimizer = make_optimizer(policy, section, storage.device)
        self.device_step: DeviceStep | None = None
        if storage.device.type != "cpu":  # A CPU takes minibatches in pieces, CUDA whole.
            width = -(-storage.rows // minibatches) * (1 if self.memory else storage.horizon)
            capture = storage.device.type == "cuda" and self.optimizer.capturable
            self.device_step = DeviceStep(self._whole_step, width, storage.device, capture)

    def update(self, lr: float, stop: Callable[[], bool] = lambda: False) -> UpdateResult:
        """Improve the policy with the roll-out in the storage.

        Args: lr: the step size; stop: asked before each gradient step.
        """
        s, section = self.storage, self.section
        self.optimizer.set_lr(lr)
        first = samples = self._samples(behind=section.asynchronous)
        explained = _explained_variance(first.returns, first.values)
        sums = torch.zeros(len(LOSS_NAMES) + 1, device=s.device)
        seen, taken, finished = 0, 0, True
        for epoch in range(section.update_epochs):
            if epoch > 0 and self.vtrace:
                samples = self._samples(behind=True)
            epoch_kl = torch.zeros((), device=s.device)
            for minibatch in samples.shuffled(self.generator, self.minibatches):
                if stop():
                    finished = False
                    break
                part = self._gradient_step(samples, minibatch)
                sums += part
                epoch_kl += part[3]
                seen, taken = seen + samples.valid_in(minibatch), taken + 1
            if not finished or (section.target_kl > 0 and float(epoch_kl) > section.target_kl * max(1, first.count)):
                break
        means = (sums[:-1] / max(1, seen)).tolist()
        losses = dict(zip(LOSS_NAMES, means, strict=True))
        losses["grad_norm"] = float(sums[-1]) / max(1, taken)
        losses["explained_variance"] = explained
        return UpdateResult(losses, first.count, finished)

    def _samples(self, behind: bool) -> Samples:
        """Return the roll-out's samples. behind: other weights than today's have acted in it."""
        s, section = self.storage, self.section
        size = section.microbatch_size
        ratios = reevaluate(self.policy, s, self.memory, self.bf16, self.team, size) if behind else None
        steps = Steps(s.rewards, s.values, s.terminals, s.truncations, s.masks, ratios)
        bounds = section.vtrace_rho, section.vtrace_c
        advantages, valid = advantage(steps, Discount(section.gamma, section.gae_lambda, *bounds))
        return samples_of(s, advantages, valid, self.memory, self.pad, self.priority)

    def _gradient_step(self, samples: Samples, minibatch: Tensor) -> Tensor:
        """One step of the optimizer; returns the sums of LOSS_NAMES and the gradient's norm."""
        count = samples.valid_in(minibatch)
        if self.device_step is not None:
            (whole,) = samples.cut(minibatch, self.storage.rows * self.storage.horizon)
            return self.device_step.run(whole(), count)

        def gradients(batch: Callable[[], Batch]) -> tuple[Gradients, Tensor]:
            """Runs in a thread of the team."""
            return self._gradients(batch(), count)

        found = self.team.map(gradients, samples.cut(minibatch, self.section.microbatch_size))
        # In the order of the pieces, so that the sum does not depend on which thread was faster.
        grads = [_sum([grads[position] for grads, _ in found]) for position in range(len(self.parameters))]
        return self._descend(grads, torch.stack([sums for _, sums in found]).sum(0))

    def _gradients(self, batch: Batch, count: int | Tensor) -> tuple[Gradients, Tensor]:
        # Not backward(): threads would add into the same .grad at once.
        loss, sums = self.loss(self.policy, self.storage.spec, batch, self.section, self.bf16)
        return torch.autograd.grad(loss / count, self.parameters, allow_unused=True), sums

    def _descend(self, grads: Gradients, sums: Tensor) -> Tensor:
        for parameter, grad in zip(self.parameters, grads, strict=True):
            parameter.grad = grad
        norm = nn.utils.clip_grad_norm_(self.parameters, self.section.max_grad_norm)
        self.optimizer.step()
        return torch.cat([sums, norm.detach().view(1)])

    def _whole_step(self, batch: Batch, count: Tensor) -> Tensor:
        """A gradient step that reads nothing back."""
        return self._descend(*self._gradients(batch, count))


def _sum(parts: Sequence[Tensor | None]) -> Tensor | None:
    """Sum in order; None where the parameter was not used."""
    total: Tensor | None = None
    for part in parts:
        if part is not None:
            total = part if total is None else total.add_(part)
    return total


def _explained_variance(returns: Tensor, values: Tensor) -> float:
    """1: the values predict the returns; 0: no better than their mean."""
    if len(returns) < 2:
        return 0.0
    spread: Any = returns.var(correction=0)
    return float(1.0 - (returns - values).var(correction=0) / spread.clamp_min(1e-12))
