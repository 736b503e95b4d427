# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Update a policy by the run's algorithm (config/algorithms.py), which defines loss and figures.

    rollout (T+1, R)  --  advantage, valid (T, R)
                      --  epochs: shuffle the samples (samples.py), minibatches, gradient steps

With `train.vtrace`, and for rollouts older than the weights, values and ratios are those of the
current policy, recomputed for each epoch (`reevaluate`).

Only valid transitions count: filler rows, rows of absent agents and the step after a done flag
teach nothing. A minibatch is processed in microbatches that stay in the caches of a CPU. Figures
are summed on the device and read once per update. Runs in the learner.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from puffervec.errors import ConfigError
from puffervec.train.collect.storage import Storage
from puffervec.train.config import algorithms
from puffervec.train.config.algorithms import LossTerm
from puffervec.train.config.sections import TrainSection
from puffervec.train.device.device import ThreadPool
from puffervec.train.device.graphs import Recorded
from puffervec.train.device.ranks import Ranks
from puffervec.train.learn.advantage import DeviceAdvantage, Discount, Steps, advantage
from puffervec.train.learn.compiled import choose_loss
from puffervec.train.learn.device_step import DeviceStep
from puffervec.train.learn.optimizers import clip_gradients, laid_out_as, make_optimizer
from puffervec.train.learn.samples import Batch, Samples, Scale, samples_of
from puffervec.train.policies.distributions import log_prob_entropy
from puffervec.train.policies.memory import State
from puffervec.train.policies.protocol import Policy, forward


@torch.no_grad()
def reevaluate(
    policy: nn.Module, storage: Storage, memory: bool, bf16: bool, pool: ThreadPool, size: int
) -> Tensor:
    """Write the policy's values into the storage and return the ratios (T, R) float32.

    A ratio is the probability of an action under the policy, divided by that under the policy that
    drew it.

    Args:
        memory: Whether the policy has memory; it starts from the states of the older policy.
        size: Samples per piece; each piece runs in one thread of the pool.
    """
    steps, rows = storage.values.shape
    log_probs = torch.empty_like(storage.log_probs)
    shape: tuple[int, ...] = (steps, rows) if memory else (steps * rows,)
    dim, every = len(shape) - 1, shape[-1]
    width = max(1, size // steps) if memory else size

    def cut(x: Tensor, at: int) -> Tensor:
        return x.view(*shape, *x.shape[2:]).narrow(dim, at, min(width, every - at))

    states = storage.first_state() if memory else ()

    def piece(at: int) -> None:
        """Evaluate one piece. Runs in a thread of the pool."""
        obs = {key: cut(part, at) for key, part in storage.obs.items()}
        allowed = None if storage.action_masks is None else cut(storage.action_masks, at)
        state: State = tuple(part.narrow(0, at, min(width, every - at)) for part in states)
        reset = cut(storage.resets, at) != 0 if memory else None
        with torch.no_grad():
            heads, value, _ = forward(policy, obs, state, reset, allowed, bf16)
        cut(log_probs, at).copy_(log_prob_entropy(storage.spec, heads, cut(storage.actions, at))[0])
        cut(storage.values, at).copy_(value)

    pool.map(piece, range(0, every, width))
    return (log_probs - storage.log_probs)[:-1].exp()


SCHEDULED = ("entropy_coef", "kl_weight")  # Settings that the losses read in each gradient step.
Gradients = Sequence[Tensor | None]


@dataclasses.dataclass(frozen=True)
class UpdateResult:
    """The results of an update over all ranks.

    Attributes:
        losses: Means over its samples.
        valid: Number of valid transitions of the rollout.
        finished: False if the caller stopped it before the end.
    """

    losses: dict[str, float]
    valid: int
    finished: bool


@dataclasses.dataclass(frozen=True)
class _Part:
    """A minibatch.

    Attributes:
        index: Indices of this rank's samples.
        count: Number of samples over all ranks.
        scale: Scale of its advantages; None to compute it (with one rank only).
    """

    index: Tensor
    count: int
    scale: Scale | None = None


class Updater:
    """The update of one policy from its storage. PHASES: see `Turn`."""

    PHASES = {"advantages": "advantage", "update": "update"}

    def __init__(
        self,
        policy: nn.Module,
        storage: Storage,
        section: TrainSection,
        minibatches: int,
        bf16: bool,
        generator: torch.Generator,
        pool: ThreadPool,
        ranks: Ranks | None = None,
        team: Ranks | None = None,
        behind: bool = False,
        term: LossTerm | None = None,
    ) -> None:
        """Prepare the update.

        Args:
            minibatches: Number per epoch.
            generator: Shuffles the samples, on the CPU.
            pool: Works on the microbatches.
            ranks: Ranks with separate rollouts, which improve one policy together.
            team: Ranks that share the columns of pictures, so they call the policy equally often.
            behind: Whether rollouts come from older weights than the policy's.
            term: A term to add to the loss.
        """
        self.team = team or Ranks()
        self.algorithm = algorithms.get(section.algorithm)
        compiled = section.compile if self.team.size == 1 else "off"
        loss, self.figures = self.algorithm.loss(), self.algorithm.figures
        if term is not None:
            loss, self.figures = term.added_to(loss), (*self.figures, *term.figures)
            compiled = "off" if compiled == "auto" else compiled
        self.loss = choose_loss(loss, compiled, storage.device, policy)
        self.behind = behind
        self.vtrace = section.vtrace or behind
        self.ranks = ranks or Ranks()
        self.policy, self.storage, self.section = policy, storage, section
        self.bf16, self.generator = bf16, generator
        # With a schedule the losses read a tensor that changes in place, also within a graph.
        self.scheduled: dict[str, Tensor] = {
            name: torch.zeros((), device=storage.device)
            for name in SCHEDULED
            if isinstance(getattr(section, name), tuple)
        }
        if self.scheduled:
            changed: dict[str, Any] = {**self.scheduled}
            self.section = dataclasses.replace(section, **changed)
        self.pool = pool
        self.parameters = [p for p in policy.parameters() if p.requires_grad]
        self.minibatches = minibatches
        self.memory = bool(cast(Policy, policy).initial_state(1))
        # Padding leaves few batch sizes: oneDNN (in bf16) and torch.compile compile kernels for
        # each.
        self.pad = storage.device.type == "cpu" and (bf16 or getattr(self.loss, "pads", False))
        self.optimizer = make_optimizer(policy, section, storage.device)
        discount = Discount(section.gamma, section.gae_lambda, section.vtrace_rho, section.vtrace_c)
        self.advantage: Callable[[Steps], tuple[Tensor, Tensor]] = functools.partial(
            advantage, discount=discount
        )
        self.device_step: DeviceStep | None = None
        # Samples per piece of `reevaluate`, which does not learn from them.
        self.piece = section.microbatch_size
        if storage.device.type != "cpu":  # Only a CPU splits minibatches into pieces.
            self.advantage = DeviceAdvantage(discount, storage.device)
            width = -(-storage.rows // minibatches) * (1 if self.memory else storage.horizon)
            width = math.ceil(section.learned_share() * width)
            self.piece = width * (storage.horizon + 1 if self.memory else 1)
            graphs = (
                storage.device.type == "cuda" and self.optimizer.capturable and self.team.size == 1
            )
            self.use_buffers(width, graphs)

    def use_buffers(self, width: int, capture: bool) -> None:
        """Take gradient steps from fixed buffers, as on a device.

        With several ranks a step has two parts, gradients and then clipping with the optimizer,
        with one message between them: all ranks would have to replay a graph that contains NCCL's
        messages in lockstep.

        Args: see `DeviceStep`.
        """
        device = self.storage.device
        alone = self.ranks.size == 1
        self.device_step = DeviceStep(
            self._step if alone else self._own_gradients, width, device, capture
        )
        self._norm = torch.zeros((), device=device)
        self._descent = Recorded(self._shared_descent, device, capture)

    def update(
        self,
        lr: float,
        stop: Callable[[], bool] = lambda: False,
        entropy_coef: float | None = None,
        kl_weight: float | None = None,
        reward_limit: float = 0.0,
    ) -> UpdateResult:
        """Improve the policy with the rollout in the storage.

        Args:
            lr: The learning rate, the same on all ranks.
            stop: Called before each gradient step, with several ranks before each epoch; if it
                returns true on one rank, all stop.
            entropy_coef: The current value of the section's schedule.
            kl_weight: Likewise.
            reward_limit: Likewise; rewards in the storage are cut to it in place. 0: no limit.
        """
        s, section = self.storage, self.section
        if reward_limit:
            s.rewards.clamp_(-reward_limit, reward_limit)
        self.optimizer.set_lr(lr)
        for name, value in zip(SCHEDULED, (entropy_coef, kl_weight), strict=True):
            if value is not None and name in self.scheduled:
                self.scheduled[name].fill_(value)
        first = samples = self._samples(self.behind)
        explained = _explained_variance(first.returns, first.values, self.ranks)
        figures = self.figures
        sums = torch.zeros(len(figures) + 1, device=s.device)
        seen, taken, finished = 0, 0, True
        valid_samples = int(self.ranks.sums([first.count])[0])
        for epoch in range(section.update_epochs):
            if epoch > 0 and self.vtrace:
                samples = self._samples(behind=True)
            epoch_sums, epoch_seen = torch.zeros_like(sums), 0
            parts, stopped = self._parts(samples, stop)
            for part in parts:
                if stopped or (self.ranks.size == 1 and stop()):
                    finished = False
                    break
                step_sums = self._gradient_step(samples, part)
                sums += step_sums
                epoch_sums += step_sums
                seen, taken, epoch_seen = seen + part.count, taken + 1, epoch_seen + part.count
            self.ranks.barrier()
            by_name = dict(zip(figures, epoch_sums, strict=False))
            if not finished or self.algorithm.stop(section, by_name, max(1, epoch_seen)):
                break
        means = (sums[:-1] / max(1, seen)).tolist()
        losses = dict(zip(figures, means, strict=True))
        losses["grad_norm"] = float(sums[-1]) / max(1, taken)
        losses["explained_variance"] = explained
        return UpdateResult(losses, valid_samples, finished)

    def _samples(self, behind: bool) -> Samples:
        """Return the rollout's samples.

        Args:
            behind: Whether the rollout comes from older weights than the current ones.
        """
        s = self.storage
        ratios = (
            reevaluate(self.policy, s, self.memory, self.bf16, self.pool, self.piece)
            if behind
            else None
        )
        steps = Steps(s.rewards, s.values, s.terminals, s.truncations, s.masks, ratios)
        advantages, valid = self.advantage(steps)
        return samples_of(s, advantages, valid, self.memory, self.pad, self.section.learned_share())

    def _parts(self, samples: Samples, stop: Callable[[], bool]) -> tuple[list[_Part], bool]:
        """Return an epoch's minibatches that have samples, and whether a rank wants to stop.

        All ranks get the same number of minibatches. With a single rank the second value is False.
        """
        minibatches = samples.shuffle(self.generator, self.minibatches)
        unchanged = None if self.section.normalize_advantage else (0.0, 1.0)
        if self.ranks.size == 1:
            parts = [
                _Part(minibatch, count, unchanged)
                for minibatch, count in zip(minibatches, samples.counts, strict=True)
            ]
            return [part for part in parts if part.count], False
        mine = (
            torch.stack([samples.moments(minibatch) for minibatch in minibatches])
            .flatten()
            .tolist()
        )
        wanted, *totals = self.ranks.sums([float(stop()), *mine])
        parts = []
        for minibatch, count, total, squares in zip(
            minibatches, totals[::3], totals[1::3], totals[2::3], strict=True
        ):
            if count:
                mean = total / count
                scale = unchanged or (mean, math.sqrt(max(0.0, squares / count - mean**2)))
                parts.append(_Part(minibatch, int(count), scale))
        return parts, wanted > 0

    def _gradient_step(self, samples: Samples, part: _Part) -> Tensor:
        """Take one optimizer step; return the sums of the figures and the gradient's norm."""
        if self.device_step is not None:
            (whole,) = samples.cut(part.index, self.storage.rows * self.storage.horizon, part.scale)
            sums = self.device_step.run(whole(), part.count)
            if self.ranks.size == 1:
                return sums
            self._add_up(sums)
            self._descent.play()
            return torch.cat([sums, self._norm.view(1)])

        def gradients(batch: Callable[[], Batch]) -> tuple[Gradients, Tensor]:
            """Return gradients and sums. Runs in a thread of the pool."""
            return self._gradients(batch(), part.count)

        # This rank may have none of the minibatch's samples.
        pieces = (
            samples.cut(part.index, self.section.microbatch_size, part.scale)
            if len(part.index)
            else []
        )
        more = max(map(int, self.team.all_gather_object(len(pieces)))) - len(pieces)
        results = self.pool.map(gradients, pieces)
        results += [
            (self._team_gradients(part.count), torch.zeros(len(self.figures))) for _ in range(more)
        ]
        # In the order of the pieces, so that the sum does not depend on which thread was faster.
        grads = [
            _sum([grads[position] for grads, _ in results])
            for position in range(len(self.parameters))
        ]
        sums = torch.stack([sums for _, sums in results] or [torch.zeros(len(self.figures))]).sum(0)
        return self._descend(grads, sums)

    def _team_gradients(self, count: int) -> Gradients:
        """Take part, without own rows, in a pass of the team; return this rank's gradient share."""
        s = self.storage
        obs = {key: x[: s.horizon].flatten(0, 1)[:0] for key, x in s.obs.items()}
        mask = None if s.action_masks is None else s.action_masks[: s.horizon].flatten(0, 1)[:0]
        state: State = ()
        reset = None
        if self.memory:
            obs = {key: x[: s.horizon, :0] for key, x in s.obs.items()}
            mask = None if s.action_masks is None else s.action_masks[: s.horizon, :0]
            state, reset = tuple(x[:0] for x in s.first_state()), s.resets[: s.horizon, :0] != 0
        heads, value, _ = forward(self.policy, obs, state, reset, mask, self.bf16)
        total = value.sum() + sum(head.sum() for head in heads)
        return torch.autograd.grad(total / count, self.parameters, allow_unused=True)

    def _gradients(self, batch: Batch, count: int | Tensor) -> tuple[Gradients, Tensor]:
        # Not backward(): threads would add into the same .grad concurrently.
        loss, sums = self.loss(self.policy, self.storage.spec, batch, self.section, self.bf16)
        if sums.shape != (len(names := self.figures),):
            raise ConfigError(
                f"algorithm {self.section.algorithm}: figures of shape {list(sums.shape)}, not "
                f"{names}"
            )
        return torch.autograd.grad(loss / count, self.parameters, allow_unused=True), sums

    def _descend(self, grads: Gradients, sums: Tensor) -> Tensor:
        # The same layout on all ranks, because otherwise their norms differ in the last bits.
        for parameter, grad in zip(self.parameters, grads, strict=True):
            parameter.grad = None if grad is None else laid_out_as(parameter, grad)
        self._add_up(sums)
        norm = clip_gradients(self.parameters, self.section.max_grad_norm)
        self.optimizer.step()
        return torch.cat([sums, norm.view(1)])

    def _step(self, batch: Batch, count: Tensor) -> Tensor:
        """Take a gradient step that reads nothing back."""
        return self._descend(*self._gradients(batch, count))

    def _own_gradients(self, batch: Batch, count: Tensor) -> Tensor:
        """Write this rank's gradients where the message and `_shared_descent` read them.

        Reads nothing back.
        """
        grads, sums = self._gradients(batch, count)
        for parameter, grad in zip(self.parameters, grads, strict=True):
            parameter.grad = (
                torch.zeros_like(parameter) if grad is None else laid_out_as(parameter, grad)
            )
        return sums

    def _shared_descent(self) -> None:
        """Take a step along the gradients of all ranks; read nothing back."""
        self._norm.copy_(clip_gradients(self.parameters, self.section.max_grad_norm))
        self.optimizer.step()

    def _add_up(self, sums: Tensor) -> None:
        """Sum the gradients, and `sums` in place, over all ranks."""
        if self.ranks.size == 1:
            return
        for parameter in self.parameters:
            # Another rank may have a gradient; a step along a zero gradient changes nothing.
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self.ranks.all_reduce(
            [*(cast(Tensor, parameter.grad) for parameter in self.parameters), sums]
        )


def _sum(parts: Sequence[Tensor | None]) -> Tensor | None:
    """Return the sum in order; None if the parameter was not used."""
    total: Tensor | None = None
    for part in parts:
        if part is not None:
            total = part if total is None else total.add_(part)
    return total


def _explained_variance(returns: Tensor, values: Tensor, ranks: Ranks) -> float:
    """Return the share of the returns' variance that the values explain, over all ranks.

    It is 1 if the values predict the returns, 0 if they are no better than the mean.
    """
    wanted, errors = returns.double(), returns.double() - values.double()
    moments = torch.stack(
        [wanted.sum(), wanted.square().sum(), errors.sum(), errors.square().sum()]
    )
    count, *sums = ranks.sums([len(returns), *moments.tolist()])
    if count < 2:
        return 0.0
    spread, rest = (square / count - (total / count) ** 2 for total, square in (sums[:2], sums[2:]))
    return 1.0 - max(0.0, rest) / max(1e-12, spread)
