# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The losses of PPO and A2C by hand, and in C (csrc/learner/ppo_loss.c) against the same formulas
in torch, with all gradients.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from puffervec.train.learn import ppo_loss
from puffervec.train.learn.a2c import A2C, A2CSection
from puffervec.train.learn.ppo import PPO, PPOSection
from puffervec.train.learn.ppo_loss import fits
from puffervec.train.learn.samples import Batch
from puffervec.train.policies.choices import MOST_CHOICES
from puffervec.train.policies.distributions import (
    MASKED_LOGIT,
    ActionSpec,
    log_prob_entropy,
    sample,
)
from puffervec.train.policies.leaves import ROW


class Given(nn.Module):
    """Puts out what it was given."""

    def __init__(self, heads: list[Tensor], value: Tensor) -> None:
        super().__init__()
        self.heads, self.value = tuple(heads), value

    def forward(self, *_: Any) -> Any:
        return self.heads, self.value, ()


def case(
    sizes: tuple[int, ...], shape: tuple[int, ...], weighed: bool, scale: float = 3.0
) -> tuple[Given, ActionSpec, Batch]:
    r = torch.Generator().manual_seed(sum(sizes))

    def numbers(*more: int) -> Tensor:
        return torch.randn(*shape, *more, generator=r)

    heads = [(numbers(n) * scale).requires_grad_() for n in sizes]
    actions = torch.stack([torch.randint(0, n, shape, generator=r) for n in sizes], -1).int()
    spec = ActionSpec("multi_discrete", sizes, (), ())
    before, _ = log_prob_entropy(spec, tuple(head.detach() for head in heads), actions)
    weights = None
    if weighed:
        weights = (torch.rand(shape, generator=r) > 0.3) * torch.rand(shape, generator=r)
    batch = Batch(
        {ROW: numbers(1)},
        actions,
        before + 0.3 * numbers(),
        numbers(),
        numbers(),
        numbers(),
        None,
        weights,
    )
    return Given(heads, numbers().requires_grad_()), spec, batch


def normal_case(dims: int, shape: tuple[int, ...]) -> tuple[Given, ActionSpec, Batch]:
    """As `case`, with actions drawn from normal distributions."""
    r = torch.Generator().manual_seed(dims)

    def numbers(*more: int) -> Tensor:
        return torch.randn(*shape, *more, generator=r)

    head = numbers(2 * dims).requires_grad_()
    spec = ActionSpec("continuous", (), (-1.0,) * dims, (1.0,) * dims)
    actions = sample(spec, (head.detach(),), numbers(dims))[0]
    before = log_prob_entropy(spec, (head.detach(),), actions)[0]
    weights = (torch.rand(shape, generator=r) > 0.3) * torch.rand(shape, generator=r)
    batch = Batch(
        {ROW: numbers(1)},
        actions,
        before + 0.3 * numbers(),
        numbers(),
        numbers(),
        numbers(),
        None,
        weights,
    )
    return Given([head], numbers().requires_grad_()), spec, batch


def both(
    policy: Given,
    spec: ActionSpec,
    batch: Batch,
    section: Any,
    monkeypatch: pytest.MonkeyPatch,
    of: Any = ppo_loss.ppo_loss,
) -> list[Any]:
    """Losses, sums and gradients of C and of torch."""
    found = []
    for fused in (True, False):
        monkeypatch.setattr(ppo_loss, "fits", fits if fused else lambda *_: False)
        loss, sums = of(policy, spec, batch, section, bf16=False)
        assert (type(loss.grad_fn).__name__ == "_LossBackward") == fused
        gradients = torch.autograd.grad(loss / 7, [*policy.heads, policy.value])
        found.append([loss.detach(), sums, *gradients])
    return found


@pytest.mark.parametrize("in_c", [True, False])
def test_loss_by_hand(in_c: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five samples: inside the clip range, above it with a good and with a bad advantage, and below
    it.
    """
    monkeypatch.setattr(ppo_loss, "fits", lambda *_: in_c)
    probabilities = np.array([[0.5, 0.5], [0.9, 0.1], [0.9, 0.1], [0.2, 0.8], [0.2, 0.8]])
    actions, old = np.array([0, 0, 0, 0, 0]), np.array([0.5, 0.6, 0.6, 0.4, 0.4])
    advantages, returns = (
        np.array([1.0, 2.0, -2.0, 1.5, -1.5]),
        np.array([1.0, 0.0, 2.0, -1.0, 0.5]),
    )
    values, old_values = np.array([0.0, 0.5, 1.0, 1.0, 0.0]), np.zeros(5)
    section = PPOSection(clip=0.2, value_coef=0.7, entropy_coef=0.3)
    ratio = probabilities[np.arange(5), actions] / old
    policy_loss = -np.minimum(advantages * ratio, advantages * np.clip(ratio, 0.8, 1.2)).sum()
    value_loss = 0.5 * ((values - returns) ** 2).sum()
    entropy = -(probabilities * np.log(probabilities)).sum()
    kl = (ratio - 1 - np.log(ratio)).sum()
    batch = Batch(
        {ROW: torch.zeros(5, 1)},
        actions=torch.tensor(actions).view(5, 1),
        log_probs=torch.tensor(old).log().float(),
        advantages=torch.tensor(advantages).float(),
        returns=torch.tensor(returns).float(),
        values=torch.tensor(old_values).float(),
        action_mask=None,
    )
    policy = Given(
        [torch.tensor(probabilities).log().float().requires_grad_()],
        torch.tensor(values).float().requires_grad_(),
    )
    loss, sums = ppo_loss.ppo_loss(
        policy, ActionSpec("discrete", (2,), (), ()), batch, section, bf16=False
    )
    assert float(loss.detach()) == pytest.approx(
        policy_loss + 0.7 * value_loss - 0.3 * entropy, rel=1e-5
    )
    expected = dict(zip(PPO.figures, (policy_loss, value_loss, entropy, kl, 4.0), strict=True))
    for name, got in zip(PPO.figures, sums.tolist(), strict=True):
        assert got == pytest.approx(expected[name], rel=1e-5), name
    clipped = dataclasses.replace(section, value_clip=0.2)
    near = np.clip(values - old_values, -0.2, 0.2) + old_values
    value_loss = 0.5 * np.maximum((values - returns) ** 2, (near - returns) ** 2).sum()
    loss, _ = ppo_loss.ppo_loss(
        policy, ActionSpec("discrete", (2,), (), ()), batch, clipped, bf16=False
    )
    assert float(loss.detach()) == pytest.approx(
        policy_loss + 0.7 * value_loss - 0.3 * entropy, rel=1e-5
    )


@pytest.mark.parametrize("sizes", [(2,), (5,), (91,), (8,), (3, 7, 9), (1, 16), (500,)])
@pytest.mark.parametrize("value_clip", [0.0, 0.2])
@pytest.mark.parametrize("weighed", [False, True])
def test_as_in_torch(
    sizes: tuple[int, ...], value_clip: float, weighed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, spec, batch = case(sizes, (67,), weighed)
    section = PPOSection(value_clip=value_clip, entropy_coef=0.3, value_coef=0.7)
    for fused, wanted in zip(*both(policy, spec, batch, section, monkeypatch), strict=True):
        torch.testing.assert_close(fused, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dims", [1, 3, 17])
@pytest.mark.parametrize("shape", [(67,), (5, 6)])
@pytest.mark.parametrize("value_clip", [0.0, 0.2])
def test_normal_actions(
    dims: int, shape: tuple[int, ...], value_clip: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, spec, batch = normal_case(dims, shape)
    section = PPOSection(value_clip=value_clip, entropy_coef=0.3, value_coef=0.7)
    for fused, wanted in zip(*both(policy, spec, batch, section, monkeypatch), strict=True):
        torch.testing.assert_close(fused, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    "made", [case((5,), (67,), True), case((3, 7), (5, 6), False), normal_case(3, (5, 6))]
)
def test_a2c_as_in_torch_and_by_hand(
    made: tuple[Given, ActionSpec, Batch], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not look at the log-probabilities and values of the rollout."""
    policy, spec, batch = made
    batch = dataclasses.replace(
        batch, log_probs=batch.log_probs * math.nan, values=batch.values * math.nan
    )
    section = A2CSection(value_coef=0.7, entropy_coef=0.3)
    for fused, wanted in zip(
        *both(policy, spec, batch, section, monkeypatch, ppo_loss.a2c_loss), strict=True
    ):
        torch.testing.assert_close(fused, wanted, rtol=2e-5, atol=2e-5)
    weights = torch.ones(()) if batch.weights is None else batch.weights
    log_prob, entropy = log_prob_entropy(spec, policy.heads, batch.actions)
    terms = -batch.advantages * log_prob, 0.5 * (policy.value - batch.returns) ** 2, entropy
    sums = torch.stack([(term * weights).sum() for term in terms])
    found = ppo_loss.a2c_loss(policy, spec, batch, section, bf16=False)
    assert len(A2C.figures) == len(sums)
    torch.testing.assert_close(found[1], sums.detach(), rtol=2e-5, atol=2e-5)
    torch.testing.assert_close(
        found[0], sums[0] + 0.7 * sums[1] - 0.3 * sums[2], rtol=2e-5, atol=2e-5
    )


def test_normal_actions_that_are_not_finite_show_unless_they_weigh_nothing() -> None:
    policy, spec, batch = normal_case(2, (9,))
    for weight, finite in ((0.0, True), (1.0, False)):
        weights = torch.ones(9)
        weights[3] = weight
        with torch.no_grad():
            policy.heads[0][3, 1] = math.nan
        loss, _ = ppo_loss.ppo_loss(
            policy, spec, dataclasses.replace(batch, weights=weights), PPOSection(), False
        )
        gradient = torch.autograd.grad(loss, policy.heads[0])[0]
        assert bool(loss.isfinite()) == finite and bool(gradient.isfinite().all()) == finite


def test_as_many_rows_as_one_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than there may be choices."""
    policy, spec, batch = case((5,), (MOST_CHOICES + 9,), weighed=False)
    for fused, wanted in zip(*both(policy, spec, batch, PPOSection(), monkeypatch), strict=True):
        torch.testing.assert_close(fused, wanted, rtol=2e-4, atol=2e-5)


def test_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, spec, batch = case((4, 3), (5, 6), weighed=True)
    for fused, wanted in zip(*both(policy, spec, batch, PPOSection(), monkeypatch), strict=True):
        torch.testing.assert_close(fused, wanted, rtol=2e-5, atol=2e-5)


def test_forbidden_choices_and_certain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, spec, batch = case((6,), (40,), weighed=False, scale=30.0)
    with torch.no_grad():
        policy.heads[0][:, 1::2] = MASKED_LOGIT
        batch.actions.copy_(policy.heads[0].argmax(-1, keepdim=True))
        batch.log_probs.copy_(log_prob_entropy(spec, policy.heads, batch.actions)[0] - 0.1)
    for fused, wanted in zip(*both(policy, spec, batch, PPOSection(), monkeypatch), strict=True):
        torch.testing.assert_close(fused, wanted, rtol=2e-5, atol=2e-5)


def test_what_weighs_nothing_may_hold_anything() -> None:
    policy, spec, batch = case((5,), (9,), weighed=False)
    weights = torch.ones(9)
    weights[3] = 0
    clean = ppo_loss.ppo_loss(
        policy, spec, dataclasses.replace(batch, weights=weights), PPOSection(), False
    )
    with torch.no_grad():
        for tensor in (policy.heads[0], policy.value, batch.advantages, batch.log_probs):
            tensor[3] = math.nan
    loss, sums = ppo_loss.ppo_loss(
        policy, spec, dataclasses.replace(batch, weights=weights), PPOSection(), False
    )
    assert torch.equal(loss, clean[0]) and torch.equal(sums, clean[1])
    gradients = torch.autograd.grad(loss, [policy.heads[0], policy.value])
    assert all(
        bool((gradient[3] == 0).all()) and bool(gradient.isfinite().all()) for gradient in gradients
    )


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("column", [0, 4])
def test_numbers_that_are_not_finite_show(bad: float, column: int) -> None:
    policy, spec, batch = case((5,), (9,), weighed=False)
    with torch.no_grad():
        policy.heads[0][2, column] = bad
    assert not bool(ppo_loss.ppo_loss(policy, spec, batch, PPOSection(), False)[0].isfinite())


def test_an_action_that_is_no_choice_shows() -> None:
    policy, spec, batch = case((5,), (9,), weighed=False)
    batch.actions[4] = 5
    assert not bool(ppo_loss.ppo_loss(policy, spec, batch, PPOSection(), False)[0].isfinite())
