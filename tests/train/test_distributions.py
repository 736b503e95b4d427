# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import dataclasses
import itertools
import math

import pytest
import torch

from puffervec.errors import ConfigError
from puffervec.train.policies.distributions import (
    MASKED_LOGIT,
    ActionMap,
    ActionSpec,
    draw_noise,
    greedy,
    likeliest,
    log_prob_entropy,
    masked,
    refuse_joint,
    sample,
)
from tests.train.fakes import group

CPU = torch.device("cpu")


def discrete(*sizes: int) -> ActionSpec:
    return ActionSpec("discrete" if len(sizes) == 1 else "multi_discrete", sizes, (), ())


PARTS = (2, 3, 4)
COMBINATIONS = list(itertools.product(*map(range, PARTS)))


def joint() -> ActionSpec:
    return ActionSpec.of(group(("x", (3,)), sizes=PARTS), joint=True)


def gumbel_noise(spec: ActionSpec, rows: int, generator: torch.Generator) -> torch.Tensor:
    """What CUDA draws: a uniform per choice."""
    return torch.rand(rows, sum(spec.sizes), generator=generator)


@pytest.mark.parametrize("kind", ["inverse_cdf", "gumbel"])
def test_frequencies_follow_the_probabilities(kind: str) -> None:
    spec, rows = discrete(5), 40_000
    logits = torch.tensor([0.3, -1.0, 2.0, 0.0, -8.0])
    generator = torch.Generator().manual_seed(0)
    noise = (
        draw_noise(spec, rows, CPU, generator)
        if kind == "inverse_cdf"
        else gumbel_noise(spec, rows, generator)
    )
    actions, _ = sample(spec, (logits.expand(rows, 5),), noise)
    expected = logits.softmax(0) * rows
    counts = torch.bincount(actions[:, 0].long(), minlength=5)
    # Five standard deviations of a binomial count; the seed is fixed, so this cannot flake.
    assert ((counts - expected).abs() <= 5 * expected.sqrt() + 1).all()


@pytest.mark.parametrize("draw", [draw_noise, None])
def test_log_probs_are_those_of_torch(draw: object) -> None:
    spec, rows = discrete(3, 4), 50
    heads = (torch.randn(rows, 3), torch.randn(rows, 4))
    generator = torch.Generator().manual_seed(1)
    noise = draw_noise(spec, rows, CPU, generator) if draw else gumbel_noise(spec, rows, generator)
    actions, log_prob = sample(spec, heads, noise)
    assert actions.dtype == torch.int32 and actions.shape == (rows, 2)
    parts = [torch.distributions.Categorical(logits=head) for head in heads]
    expected = sum(part.log_prob(actions[:, d]) for d, part in enumerate(parts))
    torch.testing.assert_close(log_prob, expected)
    again, entropy = log_prob_entropy(spec, heads, actions)
    torch.testing.assert_close(again, expected)
    torch.testing.assert_close(entropy, sum(part.entropy() for part in parts))


def test_extreme_uniforms_stay_in_range() -> None:
    spec = discrete(4)
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0], [MASKED_LOGIT, 0.0, MASKED_LOGIT, MASKED_LOGIT]])
    low, _ = sample(spec, (logits,), torch.zeros(2, 1))
    high, _ = sample(spec, (logits,), torch.full((2, 1), 1.0 - 2.0**-24))
    assert low[:, 0].tolist() == [0, 1]
    assert high[:, 0].tolist() == [3, 1]


def test_forbidden_choices_are_never_drawn() -> None:
    spec, rows = discrete(3, 2), 5000
    allowed = torch.tensor([1, 0, 1, 0, 1], dtype=torch.uint8).expand(rows, 5)
    heads = masked((torch.zeros(rows, 3), torch.zeros(rows, 2)), allowed)
    actions, log_prob = sample(
        spec, heads, draw_noise(spec, rows, CPU, torch.Generator().manual_seed(2))
    )
    assert set(actions[:, 0].tolist()) == {0, 2} and set(actions[:, 1].tolist()) == {1}
    torch.testing.assert_close(log_prob, torch.full((rows,), math.log(0.5)))
    _, entropy = log_prob_entropy(spec, heads, actions)
    torch.testing.assert_close(entropy, torch.full((rows,), math.log(2.0)))


def test_a_row_that_forbids_everything_stays_finite() -> None:
    spec = discrete(3)
    heads = masked((torch.randn(2, 3),), torch.zeros(2, 3, dtype=torch.uint8))
    actions, log_prob = sample(spec, heads, torch.rand(2, 1))
    assert log_prob.isfinite().all() and (actions >= 0).all() and (actions < 3).all()


def test_continuous_matches_torch() -> None:
    spec, rows = ActionSpec("continuous", (), (-1.0, -1.0), (1.0, 1.0)), 6
    mean, log_std = torch.randn(rows, 2), torch.randn(rows, 2)
    heads = (torch.cat([mean, log_std], -1),)
    actions, log_prob = sample(
        spec, heads, draw_noise(spec, rows, CPU, torch.Generator().manual_seed(3))
    )
    normal = torch.distributions.Normal(mean, log_std.exp())
    torch.testing.assert_close(log_prob, normal.log_prob(actions).sum(-1))
    again, entropy = log_prob_entropy(spec, heads, actions)
    torch.testing.assert_close(again, log_prob)
    torch.testing.assert_close(entropy, normal.entropy().sum(-1))
    torch.testing.assert_close(greedy(spec, heads), mean)


def test_greedy_takes_the_likeliest() -> None:
    heads = (torch.tensor([[0.0, 2.0, 1.0]]), torch.tensor([[3.0, -1.0]]))
    assert greedy(discrete(3, 2), heads).tolist() == [[1, 0]]


AXES = ((-4.0, -1.0, 0.0, 2.0), (-0.5, 0.0, 0.5))


def chances(spec: ActionSpec, rows: int = 200) -> tuple[torch.Tensor, ...]:
    """Random logits, some of them nearly certain."""
    r = torch.Generator().manual_seed(1)
    scales = 10 * torch.rand(rows, 1, generator=r)
    return tuple(scales * torch.randn(rows, size, generator=r) for size in spec.sizes)


def nearest(numbers: tuple[float, ...], mean: float) -> int:
    return min(range(len(numbers)), key=lambda place: abs(numbers[place] - mean))


def test_greedy_takes_the_choice_nearest_to_the_mean_of_a_combination() -> None:
    spec = dataclasses.replace(discrete(12), axes=AXES)
    heads = chances(spec)
    places = list(itertools.product(*map(range, (4, 3))))
    for row, index in zip(heads[0].softmax(-1).tolist(), greedy(spec, heads), strict=True):
        means = [
            math.fsum(p * AXES[axis][place[axis]] for p, place in zip(row, places, strict=True))
            for axis in range(2)
        ]
        wanted = tuple(nearest(AXES[axis], means[axis]) for axis in range(2))
        assert places[int(index)] == wanted
    assert not torch.equal(greedy(spec, heads), likeliest(spec, heads))
    assert greedy(spec, heads).dtype == torch.int32


def test_greedy_takes_the_choice_nearest_to_the_mean_of_each_part() -> None:
    spec = dataclasses.replace(discrete(4, 3), axes=AXES)
    heads = chances(spec)
    independent = (heads[0].unsqueeze(-1) + heads[1].unsqueeze(-2)).flatten(1)
    index = greedy(dataclasses.replace(discrete(12), axes=AXES), (independent,)).squeeze(-1)
    assert torch.equal(greedy(spec, heads), torch.stack([index // 3, index % 3], dim=-1))


def test_greedy_takes_the_choice_nearest_to_the_mean_on_one_axis() -> None:
    spec = dataclasses.replace(discrete(4), axes=AXES[:1])
    heads = (torch.tensor([[0.0, -99.0, -99.0, 0.0], [9.0, -99.0, -99.0, -99.0]]),)
    assert greedy(spec, heads).tolist() == [[1], [0]]  # The mean of -4 and 2 is -1.


def test_choices_that_may_be_forbidden_have_no_mean() -> None:
    free = dataclasses.replace(group(("x", (3,)), sizes=(4,)), action_axes=AXES[:1])
    masked_one = dataclasses.replace(free, action_mask_size=4)
    assert ActionSpec.of(free).axes == AXES[:1] and ActionSpec.of(masked_one).axes == ()


def test_action_map_adds_starts() -> None:
    spec = ActionSpec("multi_discrete", (3, 2), (), (), start=(1, -5))
    drawn = torch.tensor([[0, 1], [2, 0]], dtype=torch.int32)
    assert ActionMap(spec, drawn.device, torch.int64)(drawn).tolist() == [[1, -4], [3, -5]]
    assert ActionMap(discrete(3), drawn.device, torch.int32)(drawn) is drawn


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_action_map_scales_and_cuts_numbers(dtype: torch.dtype) -> None:
    """Two bounds: -1..1 to them; one, none, or very far ones: as drawn, cut. 0.1 is met in the
    env's dtype.
    """
    infinite = float("inf")
    spec = ActionSpec(
        "continuous", (), (-2.0, -infinite, 0.0, -1e9, -0.1), (4.0, infinite, infinite, 1e9, 0.1)
    )
    drawn = torch.tensor([[0.0, 7.0, -3.0, 5.0, 3.0], [0.5, -7.0, 3.0, -5.0, -3.0]])
    found = ActionMap(spec, drawn.device, dtype)(drawn)
    expected = torch.tensor([[1, 7, 0, 5, 0.1], [2.5, -7, 3, -5, -0.1]], dtype=dtype)
    assert found.dtype == dtype and torch.equal(found, expected)


def test_a_joint_action_is_one_choice_among_all_combinations() -> None:
    spec = joint()
    assert (spec.kind, spec.sizes, spec.head_sizes, spec.dims, spec.parts) == (
        "joint",
        (24,),
        (24,),
        1,
        PARTS,
    )
    for start in ((), (1, 0, -5)):
        drawn = torch.arange(24, dtype=torch.int32).unsqueeze(-1)
        found = ActionMap(ActionSpec("joint", (24,), (), (), start, PARTS), CPU, torch.int32)(drawn)
        shift = start or (0, 0, 0)
        assert found.tolist() == [
            [n + by for n, by in zip(parts, shift, strict=True)] for parts in COMBINATIONS
        ]
    for sizes in ((5,), (3, 4)):  # Only multi-discrete actions have something to combine.
        plain = ActionSpec.of(group(("x", (3,)), sizes=sizes), joint=len(sizes) == 1)
        assert not plain.parts and plain.sizes == sizes


def test_the_inverse_of_an_action_map_finds_the_draw() -> None:
    starts = torch.tensor([[0, 1], [2, 0]], dtype=torch.int32)
    shifted = ActionMap(ActionSpec("multi_discrete", (3, 2), (), (), (1, -5)), CPU, torch.int64)
    assert torch.equal(shifted.inverse(shifted(starts)), starts)
    every = torch.arange(24, dtype=torch.int32).unsqueeze(-1)
    for start in ((), (1, 0, -5)):
        combined = ActionMap(ActionSpec("joint", (24,), (), (), start, PARTS), CPU, torch.int32)
        found = combined.inverse(combined(every))
        assert torch.equal(found, every) and found.dtype == torch.int32
    infinite = float("inf")
    spec = ActionSpec("continuous", (), (-2.0, -infinite, 0.0, 3.0), (4.0, infinite, infinite, 3.0))
    drawn = torch.tensor([[0.0, 7.0, 3.0, 0.0], [0.5, -7.0, 0.0, 0.0]])
    scaled = ActionMap(spec, CPU, torch.float64)
    assert torch.equal(scaled.inverse(scaled(drawn)), drawn)


@pytest.mark.parametrize("forbid", [False, True])
@pytest.mark.parametrize("lead", [(50,), (5, 10)])
def test_joint_log_probs_and_entropies_are_those_of_all_combinations(
    forbid: bool, lead: tuple[int, ...]
) -> None:
    """Against torch's distribution over the combinations listed one by one; a combination is
    allowed where its parts are.
    """
    spec, generator = joint(), torch.Generator().manual_seed(4)
    logits = torch.randn(*lead, 24, generator=generator)
    allowed = torch.rand(*lead, sum(PARTS), generator=generator) < 0.6
    allowed[..., [0, 2, 5]] = True
    offsets = (0, 2, 5)
    ok = torch.stack(
        [
            torch.stack([allowed[..., o + n] for o, n in zip(offsets, c, strict=True)]).all(0)
            for c in COMBINATIONS
        ],
        dim=-1,
    )
    heads = masked((logits,), allowed.to(torch.uint8) if forbid else None, spec.parts)
    reference = torch.distributions.Categorical(
        logits=torch.where(ok, logits, -1e9) if forbid else logits
    )
    flat = (heads[0].reshape(-1, 24),)
    actions, log_prob = sample(spec, flat, draw_noise(spec, 50, CPU, generator))
    assert actions.shape == (50, 1)
    assert not forbid or bool(ok.reshape(-1, 24).gather(-1, actions.long()).all())
    actions = actions.view(*lead, 1)
    torch.testing.assert_close(log_prob.view(lead), reference.log_prob(actions[..., 0]))
    again, entropy = log_prob_entropy(spec, heads, actions)
    torch.testing.assert_close(again, reference.log_prob(actions[..., 0]))
    torch.testing.assert_close(entropy, reference.entropy())
    assert torch.equal(greedy(spec, heads)[..., 0].long(), heads[0].argmax(-1))


def test_joint_is_refused_where_it_makes_no_sense() -> None:
    with pytest.raises(
        ConfigError,
        match=r"policy.joint: 64 x 65 choices are 4,160 combinations, more than 4,096: leave it",
    ):
        ActionSpec.of(group(("x", (3,)), sizes=(64, 65)), joint=True)
    assert ActionSpec.of(group(("x", (3,)), sizes=(64, 64)), joint=True).sizes == (4096,)
    with pytest.raises(
        ConfigError,
        match="policy.joint is for MultiDiscrete actions; this env's are discrete: leave it false",
    ):
        refuse_joint([group(("x", (3,)))])
    refuse_joint([group(("x", (3,))), group(("x", (3,)), sizes=(2, 2))])
