# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/train/policies/pufferdrive.py: sizes, sequences, gradients, and training. Its numbers
are compared with PufferDrive's in tests/wings/pufferdrive.
"""

from __future__ import annotations

import doctest
from collections.abc import Callable

import pytest
import torch

from puffervec.core.spec import GroupSpec
from puffervec.train import TrainConfig, Trainer
from puffervec.train.config.sections import PolicySection
from puffervec.train.policies import pufferdrive
from puffervec.train.policies.registry import build_policy
from tests.train.fakes import group

SECTION = PolicySection(kind="pufferdrive")


def rows_of(
    ego: str = "pufferdrive_ego", sizes: tuple[int, ...] = (91,), mask: int = 0
) -> GroupSpec:
    """A group of PufferDrive's rows, with few objects."""
    blocks = (
        (ego, (pufferdrive.EGO_COLUMNS[ego],)),
        ("pufferdrive_partners", (3, 7)),
        ("pufferdrive_roads", (5, 7)),
    )
    return group(*blocks, sizes=sizes, mask=mask)


def test_doctests_hold() -> None:
    assert doctest.testmod(pufferdrive).failed == 0


@pytest.mark.parametrize(
    ("ego", "sizes"),
    [
        ("pufferdrive_ego", (91,)),
        ("pufferdrive_ego", (7, 13)),
        ("pufferdrive_jerk_ego", (12,)),
        ("pufferdrive_jerk_ego", (4, 3)),
    ],
)
def test_the_number_of_parameters(ego: str, sizes: tuple[int, ...]) -> None:
    policy = build_policy(rows_of(ego, sizes), SECTION)
    counted = pufferdrive.count_parameters(pufferdrive.EGO_COLUMNS[ego], sum(sizes))
    assert sum(parameter.numel() for parameter in policy.parameters()) == counted


def test_a_sequence_gives_what_its_steps_give() -> None:
    policy = build_policy(rows_of(), SECTION).eval()
    obs, reset = torch.randn(4, 2, 7 + 8 * 7), torch.rand(4, 2) < 0.3
    state = policy.initial_state(2)  # type: ignore[operator]
    heads, values, _ = policy(obs, state, reset, None)
    for t in range(4):
        one, value, state = policy(obs[t], state, reset[t], None)
        torch.testing.assert_close(one[0], heads[0][t], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(value, values[t], rtol=1e-4, atol=1e-5)


def test_forbidden_actions_have_no_weight() -> None:
    policy = build_policy(rows_of(sizes=(7, 13), mask=20), SECTION)
    allowed = torch.zeros(2, 20)
    allowed[:, 3], allowed[:, 7 + 5] = 1, 1
    obs, state = torch.randn(2, 63), policy.initial_state(2)  # type: ignore[operator]
    heads = policy(obs, state, None, allowed)[0]
    assert [head.argmax(-1).tolist() for head in heads] == [[3, 3], [5, 5]]


def test_it_trains(small: Callable[..., TrainConfig]) -> None:
    env = {
        "observation": "pufferdrive",
        "dynamics": "classic_pufferdrive",
        "num_agents": 24,
        "partners": 2,
        "roads": 6,
    }
    config = small(
        "drive",
        env=env,
        policy={"kind": "pufferdrive"},
        vec={"num_envs": 2},
        train={"minibatch_size": 96},
    )
    with Trainer(config) as trainer:
        before = {
            name: tensor.clone() for name, tensor in trainer.policies["default"].named_parameters()
        }
        trainer.train()
        after = dict(trainer.policies["default"].named_parameters())
        assert all(not torch.equal(before[name], after[name]) for name in before)
