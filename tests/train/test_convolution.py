# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The policy for pictures (puffervec/train/policies/convolution.py), and policies by name."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn

from puffervec.errors import ConfigError
from puffervec.train.config.sections import PolicySection, TrainConfig
from puffervec.train.config.target import env_spec
from puffervec.train.policies.convolution import ConvolutionPolicy, picture_shape
from puffervec.train.policies.distributions import ActionSpec
from puffervec.train.policies.mlp import ActorCritic, MLPPolicy
from puffervec.train.policies.registry import build_policy
from tests.train.fakes import group


def spec_of(space: spaces.Space) -> object:  # type: ignore[type-arg]
    class Shows(gymnasium.Env):  # type: ignore[type-arg]
        observation_space, action_space = space, spaces.Discrete(3)

    return env_spec(TrainConfig.of(Shows)).groups[0]


@pytest.mark.parametrize(
    ("shape", "seen"),
    [
        ((84, 84, 4), (4, 84, 84)),
        ((3, 16, 20), (3, 16, 20)),
        ((16, 16), (1, 16, 16)),
        ((8, 8, 3), (3, 8, 8)),
        ((4, 5, 3), None),
    ],
)
def test_pictures_are_known_by_their_shape(
    shape: tuple[int, ...], seen: tuple[int, ...] | None
) -> None:
    found = spec_of(spaces.Box(0, 255, shape, np.uint8))
    assert picture_shape(shape) == seen
    policy = build_policy(found, PolicySection(hidden=(16,), channels=(4, 4)))  # type: ignore[arg-type]
    assert isinstance(policy, ConvolutionPolicy if seen else MLPPolicy)
    for lead in ((5,), (2, 5)):
        rows = torch.randint(0, 255, (*lead, int(np.prod(shape))), dtype=torch.uint8)
        heads, value, _ = policy(rows, (), None, None)
        assert heads[0].shape == (*lead, 3) and value.shape == lead


def test_channels_first_and_last_are_the_same_picture() -> None:
    section = PolicySection(hidden=(16,), channels=(4,))
    last = build_policy(spec_of(spaces.Box(0, 255, (10, 12, 3), np.uint8)), section)  # type: ignore[arg-type]
    first = build_policy(spec_of(spaces.Box(0, 255, (3, 10, 12), np.uint8)), section)  # type: ignore[arg-type]
    first.load_state_dict(last.state_dict())
    rows = torch.randint(0, 255, (5, 10, 12, 3), dtype=torch.uint8)
    torch.testing.assert_close(
        last(rows.flatten(1), (), None, None)[1],
        first(rows.permute(0, 3, 1, 2).flatten(1), (), None, None)[1],
    )


def test_a_c_env_with_a_raster() -> None:
    raster = group(("map", (3, 8, 9)), dtype="u1")
    policy = build_policy(raster, PolicySection(hidden=(8,), channels=(4,)))
    assert isinstance(policy, ConvolutionPolicy)
    assert policy(torch.zeros(2, 216, dtype=torch.uint8), (), None, None)[1].shape == (2,)
    with pytest.raises(ConfigError, match="policy.kind is cnn, but rows of .* have no picture"):
        build_policy(group(("x", (3,))), PolicySection(kind="cnn"))


class Mine(nn.Module):
    """A user's own policy."""

    def __init__(self, of: object, section: PolicySection) -> None:
        super().__init__()
        self.body = nn.Linear(3, section.hidden[0])
        self.output = ActorCritic(section.hidden[0], ActionSpec.of(of))  # type: ignore[arg-type]

    def initial_state(self, rows: int) -> tuple[Tensor, ...]:
        return ()

    def forward(self, obs: Tensor, state: object, reset: object, action_mask: object) -> object:
        return *self.output(self.body(obs).tanh()), state


def no_policy(of: object, section: object) -> nn.Module:
    return nn.Linear(2, 2)


def broken(of: object, section: object) -> nn.Module:
    raise KeyError("width")


def test_a_policy_of_ones_own_by_name() -> None:
    rows = group(("x", (3,)))
    policy = build_policy(rows, PolicySection(kind=f"{__name__}:Mine", hidden=(7,)))
    assert isinstance(policy, Mine)
    for name, words in (
        ("no_policy", "returned a Linear: return an nn.Module with initial_state"),
        ("broken", "KeyError: 'width'"),
    ):
        with pytest.raises(ConfigError, match=f"policy.kind {__name__}:{name}.*{words}"):
            build_policy(rows, PolicySection(kind=f"{__name__}:{name}"))
    with pytest.raises(
        ConfigError,
        match="policy.kind is 'transformer': use auto, mlp, object_set, cnn, convnext, pufferdrive",
    ):
        build_policy(rows, PolicySection(kind="transformer"))
