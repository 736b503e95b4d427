# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Compute the advantages of a rollout: in C on a CPU, by a parallel scan on other devices.

Both compute the same recursion (csrc/learner/advantage.h) on time-major arrays of T + 1 steps;
rewards[k + 1] is the reward of step k + 1. The transition k -> k+1 is valid iff masks[k] and not
(terminals[k] or truncations[k]), and masks[k + 1]. A truncated row bootstraps with the value of its
own observation, a terminal row with 0. Runs in the learner.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from puffervec.train.device.graphs import Recorded


@dataclasses.dataclass(frozen=True)
class Discount:
    """The discounts of rewards.

    Attributes:
        rho_clip: V-trace's bound on the ratio in a step's own error.
        c_clip: V-trace's bound on the ratio in a step's factor for the advantage of the next step.
    """

    gamma: float
    gae_lambda: float
    rho_clip: float = 1.0
    c_clip: float = 1.0


@dataclasses.dataclass(frozen=True)
class Steps:
    """The arrays of a rollout that the recursion reads, contiguous, on one device.

    Attributes:
        rewards, values: (T+1, R) float32.
        terminals, truncations, masks: (T+1, R) uint8.
        ratios: None for GAE. For V-trace (T, R) float32: the probability of each action under the
            current policy, divided by that under the policy that drew it.
    """

    rewards: Tensor
    values: Tensor
    terminals: Tensor
    truncations: Tensor
    masks: Tensor
    ratios: Tensor | None = None


def advantage(steps: Steps, discount: Discount) -> tuple[Tensor, Tensor]:
    """Return advantages (T, R) float32, 0 where invalid, and valid (T, R) uint8.

    The targets of the values are `values + advantages`.
    """
    return (
        advantage_c(steps, discount)
        if steps.rewards.device.type == "cpu"
        else advantage_scan(steps, discount)
    )


def advantage_c(steps: Steps, discount: Discount) -> tuple[Tensor, Tensor]:
    """Compute `advantage` by pv_advantage or pv_vtrace; CPU tensors only."""
    from puffervec._ffi import ffi, lib

    horizon, rows = steps.rewards.shape[0] - 1, steps.rewards.shape[1]
    advantages = torch.empty(horizon, rows)
    valid = torch.empty(horizon, rows, dtype=torch.uint8)

    def floats(x: Tensor, count: int = horizon + 1) -> object:
        assert x.dtype == torch.float32 and x.is_contiguous() and x.shape == (count, rows)
        return ffi.cast("float*", x.data_ptr())

    def flags(x: Tensor, count: int = horizon + 1) -> object:
        assert x.dtype == torch.uint8 and x.is_contiguous() and x.shape == (count, rows)
        return ffi.cast("uint8_t*", x.data_ptr())

    inputs = [floats(steps.rewards), floats(steps.values)]
    inputs += [flags(x) for x in (steps.terminals, steps.truncations, steps.masks)]
    size, out = (
        (horizon, rows, discount.gamma, discount.gae_lambda),
        (floats(advantages, horizon), flags(valid, horizon)),
    )
    if steps.ratios is None:
        lib.pv_advantage(*inputs, *size, *out)
    else:
        lib.pv_vtrace(
            *inputs, floats(steps.ratios, horizon), *size, discount.rho_clip, discount.c_clip, *out
        )
    return advantages, valid


def advantage_scan(steps: Steps, discount: Discount) -> tuple[Tensor, Tensor]:
    """Compute `advantage` in log2(T) passes over all steps.

    It launches few kernels and reads nothing back, so a CUDA graph can record it.
    """
    valid, own, factor = _recursion(steps, discount)
    shift, horizon = 1, len(own)
    # x_k = own_k + factor_k * x_{k + shift}, with the shift doubled each time.
    while shift < horizon:
        own = torch.cat([own[:-shift] + factor[:-shift] * own[shift:], own[-shift:]])
        factor = torch.cat([factor[:-shift] * factor[shift:], torch.zeros_like(factor[-shift:])])
        shift *= 2
    return own, valid.to(torch.uint8)


class DeviceAdvantage:
    """`advantage_scan` of one rollout's storage as a CUDA graph.

    The steps must keep their memory, except for the ratios, which are copied into the graph's
    buffer.
    """

    def __init__(self, discount: Discount, device: torch.device) -> None:
        """Prepare the graph; it is recorded later.

        Args:
            device: The steps' device; on other devices than CUDA there is no graph.
        """
        self.discount = discount
        self._device = device
        # By whether there are ratios.
        self._recorded: dict[bool, tuple[Steps, Recorded]] = {}
        self._results: dict[bool, tuple[Tensor, Tensor]] = {}

    def __call__(self, steps: Steps) -> tuple[Tensor, Tensor]:
        """Return the results of `advantage`, in buffers that the next call overwrites.

        Args:
            steps: The same tensors in all calls, except for the ratios.
        """
        key = steps.ratios is not None
        if key not in self._recorded:
            self._recorded[key] = self._make(steps, key)
        own, recorded = self._recorded[key]
        if own.ratios is not None and steps.ratios is not None:
            own.ratios.copy_(steps.ratios)
        recorded.play()
        return self._results[key]

    def _make(self, steps: Steps, key: bool) -> tuple[Steps, Recorded]:
        own = (
            steps
            if steps.ratios is None
            else dataclasses.replace(steps, ratios=torch.empty_like(steps.ratios))
        )

        def compute() -> None:
            results = advantage_scan(own, self.discount)
            if key not in self._results:
                self._results[key] = torch.empty_like(results[0]), torch.empty_like(results[1])
            for buffer, tensor in zip(self._results[key], results, strict=True):
                buffer.copy_(tensor)

        return own, Recorded(compute, self._device, capture=self._device.type == "cuda")


def _recursion(steps: Steps, discount: Discount) -> tuple[Tensor, Tensor, Tensor]:
    """Return valid (T, R) bool, each step's own error, and its factor for the next advantage."""
    s = steps
    valid = (
        (s.masks[:-1] != 0)
        & (s.terminals[:-1] == 0)
        & (s.truncations[:-1] == 0)
        & (s.masks[1:] != 0)
    )
    error = (
        s.rewards[1:]
        + discount.gamma * torch.where(s.terminals[1:] != 0, 0.0, s.values[1:])
        - s.values[:-1]
    )
    share = torch.full_like(error, discount.gamma * discount.gae_lambda)
    if s.ratios is not None:
        error, share = (
            error * s.ratios.clamp(max=discount.rho_clip),
            share * s.ratios.clamp(max=discount.c_clip),
        )
    # where, not a product: empty rows may hold anything, also NaN.
    return valid, torch.where(valid, error, 0.0), torch.where(valid, share, 0.0)
