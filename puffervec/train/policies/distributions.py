# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Sample actions from a policy's outputs, and compute log-probabilities and entropies.

`heads` are the policy's distribution parameters: for discrete kinds one tensor of logits (..., n)
per action dim, for continuous ones a single tensor (..., 2D) of means and log standard deviations.
A joint action is drawn from all combinations of its parts' choices, so it has one tensor of logits.
No function here waits for the device: `torch.distributions` reads values back for its checks, and
constructing its objects costs more than sampling.

Draws are indices of choices or, for continuous actions, unbounded numbers of about 1. They are
stored and learned from; `ActionMap` turns them into the env's actions. Log-probabilities are
therefore those of the draw, not of the action that was clipped to the bounds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from puffervec.core.spec import GroupSpec
from puffervec.errors import ConfigError
from puffervec.train.policies import choices

Heads = tuple[Tensor, ...]
MASKED_LOGIT = -1e9  # Not -inf: a filler row may forbid every choice, and inf - inf would be NaN.
# Of a joint action's choices: each has one logit, and one row of weights in the last layer.
MOST_COMBINATIONS = 4096
WIDEST_RANGE = 1e6  # Bounds further apart than this say nothing about useful actions.
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@dataclasses.dataclass(frozen=True)
class ActionSpec:
    """The action of one row: its kind, and the choices or bounds per dim.

    A joint action is drawn as one number, the index of its combination; the last part varies
    fastest.

    Attributes:
        kind: discrete, multi_discrete, joint or continuous.
        sizes: Choices per drawn number (discrete kinds).
        low, high: Bounds per dim (continuous).
        start: Number of the first choice per dim of the env's action (discrete kinds); empty for 0.
        parts: Choices per dim of the env's action (joint); their product is the only entry of
            sizes.
        axes: Numbers that the choices stand for, see `GroupSpec.action_axes`; () also where choices
            may be forbidden, because the choice nearest to the mean could be a forbidden one.
    """

    kind: str
    sizes: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    start: tuple[int, ...] = ()
    parts: tuple[int, ...] = ()
    axes: tuple[tuple[float, ...], ...] = ()

    @classmethod
    def of(cls, group: GroupSpec, joint: bool = False) -> ActionSpec:
        """Return the spec of a group's actions.

        Args:
            group: A group of `vec.spec`.
            joint: Draw a multi-discrete action as one of all combinations (`policy.joint`); other
                kinds stay as they are.

        Raises:
            ConfigError: There are more than MOST_COMBINATIONS.
        """
        discrete = group.action_kind != "continuous"
        starts = (
            ()
            if group.action_plan is None or not discrete
            else tuple(int(n) for n in group.action_plan.low.reshape(-1))
        )
        sizes = tuple(int(n) for n in group.action_sizes) if discrete else ()
        joint = joint and group.action_kind == "multi_discrete"
        if joint and math.prod(sizes) > MOST_COMBINATIONS:
            raise ConfigError(
                f"policy.joint: {' x '.join(map(str, sizes))} choices are {math.prod(sizes):,} "
                f"combinations, more than {MOST_COMBINATIONS:,}: leave it false for one softmax "
                "per part"
            )
        return cls(
            kind="joint" if joint else group.action_kind,
            sizes=(math.prod(sizes),) if joint else sizes,
            parts=sizes if joint else (),
            low=() if discrete else tuple(float(x) for x in group.action_low),
            high=() if discrete else tuple(float(x) for x in group.action_high),
            start=starts if any(starts) else (),
            axes=() if group.action_mask_size else group.action_axes,
        )

    @property
    def discrete(self) -> bool:
        """Return whether actions are discrete, multi-discrete or joint."""
        return self.kind != "continuous"

    @property
    def dims(self) -> int:
        """Return D, how many numbers are drawn per action."""
        return len(self.sizes) if self.discrete else len(self.low)

    @property
    def head_sizes(self) -> tuple[int, ...]:
        """Return the number of outputs of the policy per head."""
        return self.sizes if self.discrete else (2 * self.dims,)

    @property
    def dtype(self) -> torch.dtype:
        """Return the dtype of stored actions: that of the slab's action rows."""
        return torch.int32 if self.discrete else torch.float32


class ActionMap:
    """A map from drawn actions (rows, D) to those of the env's action rows.

    Discrete kinds: index + start. Joint: the combination with that index, one number per part.
    Continuous: a dim with two bounds (at most WIDEST_RANGE apart) maps -1..1 to them; then all dims
    are clipped.
    """

    def __init__(self, spec: ActionSpec, device: torch.device, dtype: torch.dtype) -> None:
        """Prepare the constants of the map.

        Args:
            device: Device of the drawn actions.
            dtype: The env's dtype, in which actions are clipped: a bound rounded to another dtype
                could lie outside.
        """
        self.spec, self.dtype = spec, dtype
        self._start = torch.tensor(spec.start, device=device) if spec.start else None
        self._combinations = _combinations(spec, device) if spec.parts else None
        if not spec.discrete:
            self._low, self._high = (
                torch.tensor(bound, dtype=dtype, device=device) for bound in (spec.low, spec.high)
            )
            half = self._high / 2 - self._low / 2
            bounded = half <= WIDEST_RANGE / 2
            self._scale = torch.where(bounded, half, 1.0)
            self._middle = torch.where(bounded, self._high / 2 + self._low / 2, 0.0)

    def __call__(self, actions: Tensor) -> Tensor:
        """Return (rows, D); the same tensor if there is nothing to do."""
        if self._combinations is not None:
            return self._combinations.index_select(0, actions.squeeze(-1))
        if self.spec.discrete:
            return actions if self._start is None else actions + self._start
        scaled = actions.to(self.dtype) * self._scale + self._middle
        return torch.minimum(torch.maximum(scaled, self._low), self._high)

    def inverse(self, actions: Tensor) -> Tensor:
        """Return the draws (rows, D) that lead to actions of the env within its bounds.

        Args:
            actions: (rows, parts of the env's action), on the device of the map.
        """
        if self._combinations is not None:
            index = torch.zeros(len(actions), dtype=torch.int64, device=actions.device)
            firsts = self.spec.start or (0,) * len(self.spec.parts)
            for part, (first, size) in enumerate(zip(firsts, self.spec.parts, strict=True)):
                index = index * size + (actions[:, part] - first)
            return index.unsqueeze(-1).to(self.spec.dtype)
        if self.spec.discrete:
            found = actions if self._start is None else actions - self._start
            return found.to(self.spec.dtype)
        scale = torch.where(self._scale != 0, self._scale, 1.0)  # 0 where both bounds are equal.
        return ((actions.to(self.dtype) - self._middle) / scale).to(self.spec.dtype)


def _combinations(spec: ActionSpec, device: torch.device) -> Tensor:
    """Return the env's action for each joint choice, (product, parts) int32."""
    # A meta tensor only needs its size, and cartesian_prod would import the compiler, for 1.5 s.
    if device.type == "meta":
        return torch.empty(math.prod(spec.parts), len(spec.parts), dtype=torch.int32, device=device)
    first = spec.start or (0,) * len(spec.parts)
    choices = [
        torch.arange(n, n + size, dtype=torch.int32, device=device)
        for n, size in zip(first, spec.parts, strict=True)
    ]
    return torch.cartesian_prod(*choices).view(-1, len(choices))


def refuse_joint(groups: Iterable[GroupSpec]) -> None:
    """Raise ConfigError unless a group has multi-discrete actions, which `policy.joint` needs."""
    kinds = [group.action_kind for group in groups]
    if "multi_discrete" not in kinds:
        raise ConfigError(
            f"policy.joint is for MultiDiscrete actions; this env's are {', '.join(kinds)}: leave "
            "it false"
        )


def masked(heads: Heads, action_mask: Tensor | None, parts: tuple[int, ...] = ()) -> Heads:
    """Return logits in which forbidden choices have no weight.

    Args:
        action_mask: (..., sum of sizes), 0 = forbidden, or None.
        parts: The parts of a joint action, whose mask is per part.
    """
    if action_mask is None:
        return heads
    if parts:
        return (torch.where(_joint_mask(action_mask, parts), heads[0], MASKED_LOGIT),)
    split = torch.split(action_mask, [head.shape[-1] for head in heads], dim=-1)
    return tuple(
        torch.where(part != 0, head, MASKED_LOGIT) for head, part in zip(heads, split, strict=True)
    )


def _joint_mask(action_mask: Tensor, parts: tuple[int, ...]) -> Tensor:
    """Turn (..., sum of parts) into (..., product) bool.

    A combination is allowed if all of its parts are.
    """
    allowed, *rest = torch.split(action_mask != 0, list(parts), dim=-1)
    for part in rest:
        allowed = (allowed.unsqueeze(-1) & part.unsqueeze(-2)).flatten(-2)
    return allowed


def draw_noise(
    spec: ActionSpec, rows: int, device: torch.device, generator: torch.Generator | None
) -> Tensor:
    """Draw the noise of `sample` for `rows` rows.

    It is (rows, D) uniforms on a CPU, (rows, sum of sizes) uniforms on CUDA, and (rows, D) normals
    for continuous actions. It is separate from `sample` so that a captured graph can read it from a
    fixed buffer.
    """
    if not spec.discrete:
        return torch.randn(rows, spec.dims, device=device, generator=generator)
    columns = spec.dims if device.type == "cpu" else sum(spec.sizes)
    return torch.rand(rows, columns, device=device, generator=generator)


def sample(spec: ActionSpec, heads: Heads, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Draw one action per row.

    Args:
        heads: (rows, n) float32 each.
        noise: From `draw_noise`.

    Returns:
        Actions (rows, D) of `spec.dtype`, and their log-probabilities (rows,) float32.
    """
    if not spec.discrete:
        mean, log_std = heads[0].chunk(2, dim=-1)
        actions = mean + log_std.exp() * noise
        return actions, _normal_log_prob(mean, log_std, actions)
    by_inverse = noise.shape[-1] == spec.dims and noise.device.type == "cpu"
    if by_inverse and choices.fits(heads):
        return choices.draw(heads, noise)
    draw = _inverse_cdf if by_inverse else _gumbel
    noises = torch.split(noise, 1 if by_inverse else list(spec.sizes), dim=-1)
    pairs = [draw(head, u) for head, u in zip(heads, noises, strict=True)]
    actions = torch.cat([index for index, _ in pairs], dim=-1).to(spec.dtype)
    return actions, torch.cat([log_prob for _, log_prob in pairs], dim=-1).sum(-1)


def _inverse_cdf(logits: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first choice whose cumulative probability exceeds u, and its log-probability.

    Both are (rows, 1); u is in [0, 1). One uniform per row is 10 times faster on a CPU than
    `Categorical` for 91 choices.
    """
    weights = logits.softmax(-1)
    cumulative = weights.cumsum(-1)
    # u is at most 1 - 2^-24, so the product is below the total even when rounded. NaN logits give
    # the last choice instead of a crash.
    index = torch.searchsorted(cumulative, u * cumulative[..., -1:], right=True).clamp_(
        max=logits.shape[-1] - 1
    )
    return index, weights.gather(-1, index).log()


def _gumbel(logits: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """Return a Gumbel-max draw and its log-probability, (rows, 1) each.

    Nothing is read back, so a CUDA graph can record it.
    """
    exponential = -torch.log1p(-u)  # The logarithm of 1 - u, which is never 0.
    index = (logits - exponential.clamp_min(1e-20).log()).argmax(-1, keepdim=True)
    return index, logits.gather(-1, index) - logits.logsumexp(-1, keepdim=True)


def greedy(spec: ActionSpec, heads: Heads) -> Tensor:
    """Return the deterministic action of each row, without a draw: (rows, D) of `spec.dtype`.

    It is the mean of a continuous action, the choice nearest to the mean where choices lie on axes,
    and the most likely choice otherwise.
    """
    if spec.axes:
        return nearest_to_mean(spec.axes, heads).to(spec.dtype)
    return likeliest(spec, heads)


def likeliest(spec: ActionSpec, heads: Heads) -> Tensor:
    """Return the most likely action per row: (rows, D) of `spec.dtype`."""
    if not spec.discrete:
        return heads[0].chunk(2, dim=-1)[0]
    return torch.stack([head.argmax(-1) for head in heads], dim=-1).to(spec.dtype)


def nearest_to_mean(axes: Sequence[Sequence[float]], heads: Heads) -> Tensor:
    """Return the choice nearest to the mean on each axis: (rows, D) int64.

    Args:
        axes: The numbers on each axis.
        heads: Logits (rows, n) of all combinations, or of each axis.
    """
    sizes = [len(numbers) for numbers in axes]
    chances = [head.softmax(-1) for head in heads]
    combined = len(heads) < len(axes)
    if combined:
        grid = chances[0].view(-1, *sizes)
        chances = [
            grid.movedim(axis, -1).reshape(grid.shape[0], -1, size).sum(1)
            for axis, size in enumerate(sizes, 1)
        ]
    places = []
    for numbers, chance in zip(axes, chances, strict=True):
        line = torch.tensor(numbers, device=chance.device)
        places.append(((chance @ line).unsqueeze(-1) - line).abs().argmin(-1))
    if not combined:
        return torch.stack(places, dim=-1)
    index = places[0]
    for size, place in zip(sizes[1:], places[1:], strict=True):
        index = index * size + place
    return index.unsqueeze(-1)


def log_prob_entropy(spec: ActionSpec, heads: Heads, actions: Tensor) -> tuple[Tensor, Tensor]:
    """Return log-probabilities (...) of actions (..., D) and entropies (...), float32."""
    if not spec.discrete:
        mean, log_std = heads[0].chunk(2, dim=-1)
        entropy = (log_std + (0.5 + _HALF_LOG_2PI)).sum(-1)
        return _normal_log_prob(mean, log_std, actions), entropy
    log_prob, entropy = torch.zeros(()), torch.zeros(())
    for d, head in enumerate(heads):
        log_p = head.log_softmax(-1)
        chosen = log_p.gather(-1, actions.narrow(-1, d, 1).to(torch.int64)).squeeze(-1)
        spread = -(log_p.exp() * log_p).sum(-1)
        log_prob, entropy = (chosen, spread) if d == 0 else (log_prob + chosen, entropy + spread)
    return log_prob, entropy


def _normal_log_prob(mean: Tensor, log_std: Tensor, actions: Tensor) -> Tensor:
    z = (actions - mean) * (-log_std).exp()
    return (-0.5 * z * z - log_std - _HALF_LOG_2PI).sum(-1)
