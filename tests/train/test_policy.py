# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest
import torch
from torch import nn

from puffervec.errors import ConfigError
from puffervec.train.config.sections import PolicySection, TrainConfig
from puffervec.train.config.target import env_spec
from puffervec.train.policies.convolution import ConvolutionPolicy
from puffervec.train.policies.distributions import ActionSpec
from puffervec.train.policies.mapping import policy_rows
from puffervec.train.policies.mlp import LOG_STD_RANGE, ActorCritic, MLPPolicy
from puffervec.train.policies.object_set import ObjectSetPolicy
from puffervec.train.policies.protocol import Policy
from puffervec.train.policies.registry import build_policy, draws
from tests.train.envs import Pictures
from tests.train.fakes import group

FLAT = group(("x", (3,)), ("y", (2,)), sizes=(3, 4))
SETS = group(("ego", (3,)), ("cars", (4, 2)))


def test_auto_looks_at_the_fields() -> None:
    assert isinstance(build_policy(FLAT, PolicySection()), MLPPolicy)
    assert isinstance(build_policy(SETS, PolicySection()), ObjectSetPolicy)
    assert isinstance(build_policy(SETS, PolicySection(kind="mlp")), MLPPolicy)
    with pytest.raises(ConfigError, match="object_set"):
        build_policy(FLAT, PolicySection(kind="object_set"))


@pytest.mark.parametrize("spec", [FLAT, SETS])
@pytest.mark.parametrize("lead", [(6,), (7, 6)])
def test_shapes_of_rows_and_sequences(spec: object, lead: tuple[int, ...]) -> None:
    policy = build_policy(spec, PolicySection(hidden=(8,)))  # type: ignore[arg-type]
    assert isinstance(policy, Policy)
    features = spec.observation_bytes // 4  # type: ignore[attr-defined]
    heads, value, state = policy(torch.randn(*lead, features), policy.initial_state(6), None, None)
    assert [head.shape for head in heads] == [(*lead, n) for n in spec.action_sizes]  # type: ignore[attr-defined]
    assert value.shape == lead and state == ()
    assert value.dtype == heads[0].dtype == torch.float32


@pytest.mark.parametrize("lead", [(6,), (2, 6)])
def test_fields_as_a_dict_give_the_same(lead: tuple[int, ...]) -> None:
    for spec, split in ((FLAT, {"x": (3,), "y": (2,)}), (SETS, {"ego": (3,), "cars": (4, 2)})):
        policy = build_policy(spec, PolicySection(hidden=(8,), normalize=False))
        parts = {name: torch.randn(*lead, *shape) for name, shape in split.items()}
        flat = torch.cat([part.reshape(*lead, -1) for part in parts.values()], -1)
        torch.testing.assert_close(
            policy(parts, (), None, None)[1], policy(flat, (), None, None)[1]
        )


@pytest.mark.parametrize("memory", ["none", "mingru", "lstm"])
def test_without_biases_they_stay_zero(memory: str) -> None:
    for spec in (FLAT, SETS):
        section = PolicySection(hidden=(8,), memory=memory, bias=False)  # type: ignore[arg-type]
        policy = build_policy(spec, section)
        for name, parameter in policy.named_parameters():
            assert parameter.requires_grad is not ("bias" in name)
            assert parameter.requires_grad or not parameter.any()
        assert any("bias" in name for name, _ in policy.named_parameters())
    every = build_policy(FLAT, PolicySection(hidden=(8,)))
    assert all(parameter.requires_grad for parameter in every.parameters())


def test_action_mask_removes_choices() -> None:
    policy = build_policy(FLAT, PolicySection(hidden=(8,)))
    allowed = torch.tensor([[1, 0, 0, 0, 0, 0, 1]], dtype=torch.uint8)
    heads, _, _ = policy(torch.randn(1, 5), (), None, allowed)
    assert heads[0].softmax(-1)[0].tolist() == [1.0, 0.0, 0.0]
    assert heads[1].softmax(-1)[0].tolist() == [0.0, 0.0, 0.0, 1.0]


def test_a_joint_head_minds_the_mask_of_the_parts() -> None:
    spec = group(("x", (5,)), sizes=(2, 3), mask=5)
    policy = build_policy(spec, PolicySection(hidden=(8,), joint=True))
    allowed = torch.tensor([[0, 1, 1, 0, 1]], dtype=torch.uint8).expand(4, 5)
    (head,), _, _ = policy(torch.randn(4, 5), (), None, allowed)
    assert (
        head.shape == (4, 6)
        and [(row > -1e8).tolist() for row in head] == [[False] * 3 + [True, False, True]] * 4
    )


def test_heads_stay_float32_under_autocast() -> None:
    policy = build_policy(SETS, PolicySection(hidden=(8,)))
    with torch.autocast("cpu", torch.bfloat16):
        heads, value, _ = policy(torch.randn(3, 11).bfloat16(), (), None, None)
    assert heads[0].dtype == value.dtype == torch.float32


def test_same_seed_same_weights() -> None:
    weights = []
    for _ in range(2):
        torch.manual_seed(5)
        weights.append(
            torch.cat([p.flatten() for p in build_policy(SETS, PolicySection()).parameters()])
        )
    torch.testing.assert_close(weights[0], weights[1], rtol=0, atol=0)


def test_spread_of_numbers_is_a_parameter() -> None:
    """Means depend on the observation, standard deviations do not; they begin at 1 and stay within
    bounds.
    """
    output = ActorCritic(4, ActionSpec("continuous", (), (-1.0, -1.0), (1.0, 1.0)))
    (head,), value = output(torch.randn(3, 7, 4))
    assert head.shape == (3, 7, 4) and value.shape == (3, 7) and (head[..., 2:] == 0).all()
    assert output.log_std is not None
    output.log_std.data += 100
    assert (output(torch.randn(3, 4))[0][0][..., 2:] == LOG_STD_RANGE[1]).all()


def test_matrices_of_python_envs_are_no_object_sets() -> None:
    (spec,) = env_spec(TrainConfig.of(Pictures)).groups
    policy = build_policy(spec, PolicySection(hidden=(8,)))
    assert isinstance(policy, ConvolutionPolicy)
    assert policy(torch.zeros(2, 4800, dtype=torch.uint8), (), None, None)[1].shape == (2,)
    with pytest.raises(ConfigError, match="object_set"):
        build_policy(spec, PolicySection(kind="object_set"))


def test_policies_are_named_after_their_rows() -> None:
    assert list(policy_rows(env_spec(TrainConfig.of("probe")))) == ["default"]
    two = policy_rows(env_spec(TrainConfig.of("probe", env={"mode": 1})))
    assert {name: rows.group.name for name, rows in two.items()} == {
        "scouts": "scouts",
        "towers": "towers",
    }


def test_layers_that_draw_are_known() -> None:
    for layer in (
        nn.Dropout(0.1),
        nn.RReLU(),
        nn.LSTM(2, 2, num_layers=2, dropout=0.1),
        nn.MultiheadAttention(2, 1, 0.1),
    ):
        assert draws(nn.Sequential(nn.Linear(1, 1), layer))
    assert not draws(
        nn.Sequential(
            nn.LSTM(2, 2), nn.MultiheadAttention(2, 1), build_policy(FLAT, PolicySection())
        )
    )
