# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Add to the loss of any algorithm the KL divergence from the policy to a frozen reference.

    loss + train.kl_weight * KL(policy || reference), over the samples of the batch

With a reference that was trained by imitating people, this keeps a driver that learns by self-play
human-like: HR-PPO (Cornelisse and Vinitsky 2024, arXiv:2403.19648), after the piKL of Jacob et al.
2022 (arXiv:2112.07544). The divergence is exact, not an estimate from the drawn actions. Runs in
the learner.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from puffervec.errors import ConfigError
from puffervec.train.config.algorithms import Loss
from puffervec.train.device.ranks import Ranks
from puffervec.train.learn.samples import Batch
from puffervec.train.policies.distributions import ActionSpec, Heads
from puffervec.train.policies.mapping import PolicyRows
from puffervec.train.policies.protocol import Policy
from puffervec.train.policies.run_spec import RunSpec
from puffervec.train.run.opponents import Opponents, find_places, read_policy

FIGURE = "kl_to_reference"


class DivergenceTerm:
    """The KL term of one policy."""

    figures: tuple[str, ...] = (FIGURE,)

    def __init__(self, reference: nn.Module) -> None:
        """Args: reference: a frozen policy without memory, on the device of the batches."""
        self.reference = reference

    def added_to(self, loss: Loss) -> Loss:
        """See `LossTerm`. The policy is called only once, in `loss`."""
        reference = self.reference

        def with_divergence(
            policy: nn.Module, spec: ActionSpec, batch: Batch, section: Any, bf16: bool
        ) -> tuple[Tensor, Tensor]:
            observed = _Observed(policy)
            base, sums = loss(cast(nn.Module, observed), spec, batch, section, bf16)
            device = batch.actions.device.type
            with torch.no_grad(), torch.autocast(device, torch.bfloat16, enabled=bf16):
                wanted, _, _ = reference(batch.obs, (), None, batch.action_mask)
            total = batch.total(divergence(spec, observed.heads, wanted))
            figures = torch.cat([sums, total.detach().to(sums.dtype).view(1)])
            return base + section.kl_weight * total, figures

        return with_divergence


class _Observed:
    """Calls a policy and keeps the heads that it returned last."""

    def __init__(self, policy: nn.Module) -> None:
        self._policy = policy
        self.heads: Heads = ()

    def __call__(self, *args: Any) -> tuple[Heads, Tensor, Any]:
        out: tuple[Heads, Tensor, Any] = self._policy(*args)
        self.heads = out[0]
        return out

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)


def divergence(spec: ActionSpec, heads: Heads, reference: Heads) -> Tensor:
    """Return KL(policy || reference) in nats, (...) for heads (..., n); see distributions.py.

    The parts of an action are independent, so their divergences add up.
    """
    if not spec.discrete:
        (mean, log_std), (wanted, wanted_log_std) = (
            part[0].chunk(2, dim=-1) for part in (heads, reference)
        )
        ratio = (2.0 * (log_std - wanted_log_std)).exp()
        apart = ((mean - wanted) * (-wanted_log_std).exp()).square()
        return (wanted_log_std - log_std + 0.5 * (ratio + apart - 1.0)).sum(-1)
    total = torch.zeros(())
    for index, (own, theirs) in enumerate(zip(heads, reference, strict=True)):
        log_p = own.log_softmax(-1)
        part = (log_p.exp() * (log_p - theirs.log_softmax(-1))).sum(-1)
        total = part if index == 0 else total + part
    return total


def terms(run: RunSpec, ranks: Ranks) -> dict[str, DivergenceTerm]:
    """Return the KL terms of a run by policy, on the run's device; see door.py."""
    found = {}
    for name, rows in run.rows.items():
        where = rows.settings.train.kl_to
        if where and rows.settings.role.learns:
            reference = load_reference(where, name, rows, run, ranks)
            found[name] = DivergenceTerm(reference.to(run.device))
    return found


def load_reference(
    where: str, name: str, rows: PolicyRows, run: RunSpec, ranks: Ranks
) -> nn.Module:
    """Return the policy of the run or checkpoint `where` that acts for `rows`, frozen, on the CPU.

    Raises:
        ConfigError, CheckpointError: see door.py.
    """
    setting = "train.kl_to" if name == "default" else f"policies.{name}.kl_to"
    (path,) = find_places(setting, (where,), run.config.log.folder, ranks)[-1:]
    weights, source, section = read_policy(path, setting, name, rows, run)
    if ActionSpec.of(rows.group, section.joint) != ActionSpec.of(rows.group, rows.section.joint):
        raise ConfigError(
            f"{setting}: {path} has policy.joint {section.joint}, this run {rows.section.joint}: "
            "use the same"
        )
    reference = Opponents((weights,), (source,), section).build(rows, 0)
    if cast(Policy, reference).initial_state(1):
        raise ConfigError(
            f"{setting}: the policy of {path} has memory, whose state is not part of the rollouts: "
            "use one with policy.memory none"
        )
    return reference
