# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Advantages of a roll-out, twice the same recursion: C on a CPU (csrc/learner/advantage.h), a
parallel scan elsewhere.

Both take time-major arrays of T + 1 steps; rewards[k + 1] is what came with step k + 1. The
transition k -> k+1 is valid iff masks[k] and not (terminals[k] or truncations[k]), and masks[k +
1]; a truncated row bootstraps with the value of its own observation, a terminal one with 0. Runs in
the learner.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from puffervec.train.device.graphs import Recorded


@dataclasses.dataclass(frozen=True)
class Discount:
    """How far rewards reach. rho_clip, c_clip: V-trace's bounds on ratios, in a step's own error
    and in what it hands on.
    """

    gamma: float
    gae_lambda: float
    rho_clip: float = 1.0
    c_clip: float = 1.0


@dataclasses.dataclass(frozen=True)
class Steps:
    """A roll-out as the recursion sees it, contiguous, on one device.

    rewards, values: (T+1, R) float32; terminals, truncations, masks: (T+1, R) uint8. ratios: None
    for GAE; for V-trace (T, R) float32, the probability of each action under today's policy over
    that under the one that drew it.
    """

    rewards: Tensor
    values: Tensor
    terminals: Tensor
    truncations: Tensor
    masks: Tensor
    ratios: Tensor | None = None


def advantage(steps: Steps, discount: Discount) -> tuple[Tensor, Tensor]:
    """Return advantages (T, R) float32, 0 where invalid, and valid (T, R) uint8; `values +
    advantages` are the targets.
    """
    return (
        advantage_c(steps, discount)
        if steps.rewards.device.type == "cpu"
        else advantage_scan(steps, discount)
    )


def advantage_c(steps: Steps, discount: Discount) -> tuple[Tensor, Tensor]:
    """`advantage` by pv_advantage or pv_vtrace; CPU tensors only."""
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

    given = [floats(steps.rewards), floats(steps.values)]
    given += [flags(x) for x in (steps.terminals, steps.truncations, steps.masks)]
    size, out = (
        (horizon, rows, discount.gamma, discount.gae_lambda),
        (floats(advantages, horizon), flags(valid, horizon)),
    )
    if steps.ratios is None:
        lib.pv_advantage(*given, *size, *out)
    else:
        lib.pv_vtrace(
            *given, floats(steps.ratios, horizon), *size, discount.rho_clip, discount.c_clip, *out
        )
    return advantages, valid


def advantage_scan(steps: Steps, discount: Discount) -> tuple[Tensor, Tensor]:
    """`advantage` in log2(T) passes over all steps at once: few kernels, nothing read back, so a
    CUDA graph can hold it.
    """
    valid, own, handed_on = _recursion(steps, discount)
    shift, horizon = 1, len(own)
    while (
        shift < horizon
    ):  # x_k = own_k + handed_on_k * x_{k + shift}, with the reach doubled each time
        own = torch.cat([own[:-shift] + handed_on[:-shift] * own[shift:], own[-shift:]])
        handed_on = torch.cat(
            [handed_on[:-shift] * handed_on[shift:], torch.zeros_like(handed_on[-shift:])]
        )
        shift *= 2
    return own, valid.to(torch.uint8)


class DeviceAdvantage:
    """`advantage_scan` of one roll-out's storage, again and again, as one CUDA graph: the steps
    stay where they are, but for the ratios, which are copied to where it finds them.
    """

    def __init__(self, discount: Discount, device: torch.device) -> None:
        """Args: device: of the steps; no graph is made of it where it is not CUDA."""
        self.discount = discount
        self._device = device
        self._recorded: dict[bool, tuple[Steps, Recorded]] = {}  # with and without ratios
        self._found: dict[bool, tuple[Tensor, Tensor]] = {}

    def __call__(self, steps: Steps) -> tuple[Tensor, Tensor]:
        """Return what `advantage` does, in buffers that the next call writes again. steps: the same
        tensors in all calls, but for the ratios.
        """
        key = steps.ratios is not None
        if key not in self._recorded:
            self._recorded[key] = self._make(steps, key)
        kept, recorded = self._recorded[key]
        if kept.ratios is not None and steps.ratios is not None:
            kept.ratios.copy_(steps.ratios)
        recorded.play()
        return self._found[key]

    def _make(self, steps: Steps, key: bool) -> tuple[Steps, Recorded]:
        kept = (
            steps
            if steps.ratios is None
            else dataclasses.replace(steps, ratios=torch.empty_like(steps.ratios))
        )

        def compute() -> None:
            found = advantage_scan(kept, self.discount)
            if key not in self._found:
                self._found[key] = torch.empty_like(found[0]), torch.empty_like(found[1])
            for place, tensor in zip(self._found[key], found, strict=True):
                place.copy_(tensor)

        return kept, Recorded(compute, self._device, capture=self._device.type == "cuda")


def _recursion(steps: Steps, discount: Discount) -> tuple[Tensor, Tensor, Tensor]:
    """Return valid (T, R) bool, each step's own error and the share of the next step's advantage
    that it takes on.
    """
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
    # where, not a product: what stands in empty rows may be anything, also NaN.
    return valid, torch.where(valid, error, 0.0), torch.where(valid, share, 0.0)
