# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/compat/pufferlib/models.py: shapes for every kind of space, parameter names, memory,
and that gradients flow.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.distributions import Normal

from puffervec.compat.pufferlib import models, pytorch, vector
from puffervec.errors import ConfigError
from puffervec.workers.python.emulation import ObservationPlan
from tests.compat.pufferlib.envs import NestedCounter
from tests.compat.pufferlib.test_vector import make_nested

BOX = spaces.Box(-1, 1, (3, 2), np.float32)
IMAGES = spaces.Box(0, 255, (8, 8, 3), np.uint8)


def env_of(observation: spaces.Space[Any], action: spaces.Space[Any]) -> SimpleNamespace:
    """Return what a policy reads of an env."""
    plan = ObservationPlan(observation)
    emulated = {"observation_dtype": plan.row_dtype, "emulated_observation_dtype": plan.dtype}
    return SimpleNamespace(
        single_observation_space=plan.emulated_space,
        single_action_space=action,
        emulated=False if plan.is_flat else emulated,
    )


def names(module: torch.nn.Module) -> set[str]:
    return set(module.state_dict())


def test_default_for_one_choice() -> None:
    policy = models.Default(env_of(BOX, spaces.Discrete(4)), hidden_size=16)
    logits, values = policy(torch.randn(5, 3, 2))
    assert (logits.shape, values.shape) == ((5, 4), (5, 1))
    assert (
        policy.hidden_size,
        policy.is_continuous,
        policy.is_multidiscrete,
        policy.is_dict_obs,
    ) == (16, False, False, False)
    assert names(policy) == {
        f"{layer}.{part}"
        for layer in ("encoder.0", "decoder", "value")
        for part in ("weight", "bias")
    }


def test_default_for_continuous_actions() -> None:
    policy = models.Default(env_of(BOX, spaces.Box(-1, 1, (3,), np.float32)))
    normal, _ = policy(torch.randn(5, 3, 2))
    assert isinstance(normal, Normal) and policy.is_continuous
    assert normal.loc.shape == (5, 3)
    torch.testing.assert_close(normal.scale, torch.ones(5, 3))
    assert {"decoder_mean.weight", "decoder_logstd"} < names(policy)
    action, log_probs, entropies = pytorch.sample_logits(normal)
    (log_probs.sum() + entropies.sum()).backward()
    assert policy.decoder_logstd.grad.abs().sum() > 0
    assert action.shape == (5, 3)


def test_default_reads_every_leaf_of_nested_observations() -> None:
    space = NestedCounter.observation_space
    plan = ObservationPlan(space)
    policy = models.Default(env_of(space, spaces.Discrete(2)), hidden_size=6)
    assert policy.is_dict_obs and {"encoder.weight", "encoder.bias"} < names(policy)
    with torch.no_grad():  # feature k goes to hidden unit k
        policy.encoder.weight.copy_(torch.eye(6))
        policy.encoder.bias.zero_()
    rows = np.zeros((2, *plan.row_shape), plan.row_dtype)
    write = plan.writers(rows)[1]
    write(
        {
            "image": np.array([1, 2, 3], np.uint8),
            "inner": (np.int64(4), np.array([0.5, -6], np.float32)),
        }
    )
    hidden = policy.encode_observations(torch.from_numpy(rows))
    torch.testing.assert_close(hidden, torch.tensor([[0.0] * 6, [1, 2, 3, 4, 0.5, -6]]))


def test_default_reads_discrete_observations_as_numbers() -> None:
    policy = models.Default(env_of(spaces.Discrete(9), spaces.Discrete(2)))
    assert policy.encoder[0].in_features == 1
    assert policy(torch.tensor([[3], [4]]))[0].shape == (2, 2)


def test_default_refuses_other_action_spaces() -> None:
    with pytest.raises(ConfigError, match="MultiBinary"):
        models.Default(env_of(BOX, spaces.MultiBinary(3)))


def test_lstmwrapper_steps_equal_its_sequence() -> None:
    torch.manual_seed(0)
    env = env_of(BOX, spaces.Discrete(4))
    policy = models.LSTMWrapper(
        env, models.Default(env, hidden_size=8), input_size=8, hidden_size=8
    )
    observations = torch.randn(3, 5, 3, 2)
    state: dict[str, Any] = {"lstm_h": None, "lstm_c": None}
    logits, values = policy(observations, state)
    assert (logits.shape, values.shape, state["hidden"].shape) == ((15, 4), (3, 5), (3, 5, 8))
    assert state["lstm_h"].shape == state["lstm_c"].shape == (1, 3, 8)
    assert not state["lstm_h"].requires_grad
    steps: dict[str, Any] = {}
    for t in range(5):
        step_logits, step_values = policy.forward_eval(observations[:, t], steps)
        torch.testing.assert_close(step_logits, logits.view(3, 5, 4)[:, t])
        torch.testing.assert_close(step_values, values[:, t : t + 1])
    assert steps["lstm_h"] is steps["hidden"]
    torch.testing.assert_close(steps["lstm_c"], state["lstm_c"][0])


def test_lstmwrapper_shares_weights_and_keeps_the_policys() -> None:
    env = env_of(BOX, spaces.Discrete(4))
    inner = models.Default(env)
    before = {name: value.clone() for name, value in inner.state_dict().items()}
    policy = models.LSTMWrapper(env, inner)
    parts = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    assert names(policy) == {f"policy.{n}" for n in before} | {f"cell.{p}" for p in parts} | {
        f"lstm.{p}_l0" for p in parts
    }
    for part in parts:
        assert getattr(policy.cell, part) is getattr(policy.lstm, f"{part}_l0")
    for name, value in inner.state_dict().items():
        torch.testing.assert_close(value, before[name])
    assert policy.lstm.bias_ih_l0.abs().sum() == 0


def test_lstmwrapper_refuses_wrong_shapes() -> None:
    env = env_of(BOX, spaces.Discrete(4))
    policy = models.LSTMWrapper(env, models.Default(env))
    with pytest.raises(ConfigError, match=r"observations have shape \(5, 2, 3\)"):
        policy(torch.zeros(5, 2, 3), {})
    stale = {"lstm_h": torch.zeros(2, 128), "lstm_c": torch.zeros(2, 128)}
    with pytest.raises(ConfigError, match=r"lstm_h \(2, 128\).*use \(5, 128\)"):
        policy.forward_eval(torch.zeros(5, 3, 2), stale)


@pytest.mark.parametrize("channels_last", [False, True])
def test_convolutional_over_stacked_frames(channels_last: bool) -> None:
    env = SimpleNamespace(single_action_space=spaces.Discrete(6))
    policy = models.Convolutional(
        env,
        framestack=4,
        flat_size=64,
        hidden_size=32,
        output_size=32,
        channels_last=channels_last,
        downsample=2,
    )
    images = torch.randint(
        0, 255, (2, 72, 72, 4) if channels_last else (2, 4, 72, 72), dtype=torch.uint8
    )
    logits, values = policy(images)
    assert (logits.shape, values.shape) == ((2, 6), (2, 1))
    layers = ("network.0", "network.2", "network.4", "network.7", "actor", "value_fn")
    assert names(policy) == {f"{layer}.{part}" for layer in layers for part in ("weight", "bias")}
    assert policy.forward_train(images)[0].equal(logits)


def test_convolutional_refuses_what_its_halves_cannot_join() -> None:
    env = SimpleNamespace(single_action_space=spaces.Discrete(6))
    with pytest.raises(ConfigError, match="output_size is 512 and hidden_size 128"):
        models.Convolutional(env, framestack=1, flat_size=64, hidden_size=128)
    with pytest.raises(ConfigError, match="MultiDiscrete"):
        models.Convolutional(
            SimpleNamespace(single_action_space=spaces.MultiDiscrete([2])),
            framestack=1,
            flat_size=64,
        )


def test_procgenresnet_over_images() -> None:
    policy = models.ProcgenResnet(env_of(IMAGES, spaces.Discrete(5)), cnn_width=4, mlp_width=16)
    images = torch.randint(0, 255, (2, 8, 8, 3), dtype=torch.uint8)
    logits, values = policy(images)
    assert (logits.shape, values.shape) == ((2, 5), (2, 1))
    assert policy.encode_observations(images).shape == (2, policy.hidden_size)
    assert {"network.0.conv.weight", "network.2.res_block1.conv1.bias", "network.5.weight"} < names(
        policy
    )


def test_convsequence_halves_and_rounds_up() -> None:
    block = models.ConvSequence((3, 7, 8), 4)
    assert block.get_output_shape() == (4, 4, 4)
    assert block(torch.zeros(2, 3, 7, 8)).shape == (2, 4, 4, 4)


def test_residualblock_adds_to_its_input() -> None:
    block = models.ResidualBlock(2)
    with torch.no_grad():
        block.conv1.weight.zero_()
        block.conv1.bias.fill_(0.5)
    x = torch.randn(1, 2, 4, 4)
    torch.testing.assert_close(block(x), x + 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["Serial", "Multiprocessing"])
def test_default_reads_the_rows_of_a_vector_env(backend: str) -> None:
    """The counter in the row counts; the policy's input shows it, and its actions can be sent."""
    with vector.make(make_nested, env_kwargs={"length": 9}, backend=backend, num_envs=3) as vec:
        policy = models.Default(vec.driver_env, hidden_size=6)
        with torch.no_grad():
            policy.encoder.weight.copy_(torch.eye(6))
            policy.encoder.bias.zero_()
        observations, _ = vec.reset(0)
        for count in range(3):
            hidden = policy.encode_observations(torch.as_tensor(observations))
            torch.testing.assert_close(
                hidden, torch.tensor([[count] * 4 + [count / 4, -count]]).float().expand(3, 6)
            )
            action, _, _ = pytorch.sample_logits(policy(torch.as_tensor(observations))[0])
            observations = vec.step(action.numpy())[0]
