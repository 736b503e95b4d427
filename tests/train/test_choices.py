# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Draws in C (puffervec/train/policies/choices.py, csrc/learner/sample.c) against their definition
in torch.
"""

from __future__ import annotations

import math

import pytest
import torch

from puffervec.train.policies import choices
from puffervec.train.policies.distributions import MASKED_LOGIT


@pytest.mark.parametrize("sizes", [(2,), (5,), (91,), (8,), (3, 7, 9), (1, 16), (500,)])
def test_the_first_choice_whose_cumulated_probability_exceeds_the_number(
    sizes: tuple[int, ...],
) -> None:
    r = torch.Generator().manual_seed(sum(sizes))
    logits = [2 * torch.randn(300, n, generator=r) for n in sizes]
    uniforms = torch.rand(300, len(sizes), generator=r)
    actions, log_probs = choices.draw(logits, uniforms)
    total = torch.zeros(300)
    for d, head in enumerate(logits):
        cumulated = head.double().softmax(-1).cumsum(-1)
        drawn = actions[:, d].long().unsqueeze(-1)
        above = cumulated.gather(-1, drawn).squeeze(-1)
        below = torch.where(
            drawn.squeeze(-1) > 0, cumulated.gather(-1, (drawn - 1).clamp_min(0)).squeeze(-1), 0.0
        )
        assert bool((below - 1e-6 <= uniforms[:, d]).all()) and bool(
            (uniforms[:, d] <= above + 1e-6).all()
        )
        total += head.log_softmax(-1).gather(-1, drawn).squeeze(-1)
    torch.testing.assert_close(log_probs, total, rtol=1e-5, atol=1e-5)


def test_forbidden_choices_are_never_drawn() -> None:
    logits = torch.full((4, 6), MASKED_LOGIT)
    logits[:, 1], logits[:, 3] = 1.0, 1.0
    uniforms = torch.tensor([[0.0], [0.49], [0.51], [1 - 2**-24]])
    actions, log_probs = choices.draw([logits], uniforms)
    assert actions.flatten().tolist() == [1, 1, 3, 3]
    torch.testing.assert_close(log_probs, torch.full((4,), math.log(0.5)))


def test_all_forbidden_or_no_numbers_do_no_harm() -> None:
    logits = torch.stack(
        [torch.full((7,), MASKED_LOGIT), torch.full((7,), math.nan), torch.full((7,), -math.inf)]
    )
    actions, _ = choices.draw([logits], torch.full((3, 1), 0.5))
    assert actions.flatten().tolist()[0] == 3 and all(
        0 <= action < 7 for action in actions.flatten().tolist()
    )


def test_what_does_not_fit_is_left_to_torch() -> None:
    head = torch.zeros(9, 5)
    assert choices.fits([head])
    assert not choices.fits([head.bfloat16()])
    assert not choices.fits([head.to("meta")])
    assert not choices.fits([head] * (choices.MOST_DIMS + 1))
    assert not choices.fits([torch.zeros(9, choices.MOST_CHOICES + 1)])
