# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Pictures from C keep their shape wherever rows are shown, and policies see them as pictures."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

import puffervec
import puffervec.gym
from puffervec.errors import ConfigError
from puffervec.train import TrainConfig, Trainer
from puffervec.train.act.evaluate import PolicyActor, evaluate_generic, load_policies
from puffervec.train.config.target import env_spec
from puffervec.train.policies.convolution import ConvolutionPolicy, MixedPolicy
from puffervec.train.policies.mlp import MLPPolicy
from puffervec.train.policies.object_set import ObjectSetPolicy
from puffervec.train.policies.registry import build_policy, fitting_kind
from puffervec.wings.export.exporting import export_run
from tests.pictures import install_eye


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(install_eye(tmp_path_factory.mktemp("eye")))
    yield
    patch.undo()
    sys.modules.pop("eye_package", None)


def expected(height: int, width: int, channels: int) -> np.ndarray:
    """Both pictures that the env can show, (2, height, width, channels)."""
    y, x, c = np.mgrid[:height, :width, :channels]
    return np.stack(
        [np.where((x >= width // 2) == right, 200 + c, (y + 2 * x + c) % 100) for right in (0, 1)]
    ).astype(np.uint8)


@pytest.mark.parametrize("channels", [0, 1, 3])
def test_a_picture_alone_has_its_shape(channels: int) -> None:
    shape = (16, 12, channels) if channels else (16, 12)
    with puffervec.make(
        "eye", env_kwargs={"channels": channels}, backend="serial", num_envs=5
    ) as vec:
        assert vec.single_observation_space == spaces.Box(0, 255, shape, np.uint8)
        observations, _ = vec.reset(seed=0)
        assert observations.shape == (5, *shape) and observations.dtype == np.uint8
        known = expected(16, 12, max(channels, 1))
        for _ in range(6):
            for picture in observations.reshape(5, *known.shape[1:]):
                assert any(np.array_equal(picture, one) for one in known)
            observations = vec.step([0] * 5)[0]


def test_a_picture_beside_a_vector_is_an_entry_of_a_dict() -> None:
    with puffervec.make("eye", env_kwargs={"vector": 2}, num_envs=4, num_workers=2) as vec:
        assert vec.single_observation_space["picture"] == spaces.Box(0, 255, (16, 12, 3), np.uint8)
        observations, _ = vec.reset(seed=0)
        assert (
            observations["picture"].shape == (4, 16, 12, 3)
            and observations["senses"].tolist() == [[0, 1000]] * 4
        )


def test_gymnasium_shows_pictures() -> None:
    envs = puffervec.gym.NativeVectorEnv("eye", num_envs=3, backend="serial", channels=1, vector=1)
    try:
        observations, _ = envs.reset(seed=1)
        assert envs.observation_space.contains(observations)
        assert observations["picture"].shape == (3, 16, 12, 1)
        assert envs.step(np.zeros(3, int))[0]["picture"].shape == (3, 16, 12, 1)
    finally:
        envs.close()


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("stable_baselines3") is None,
    reason="Stable-Baselines3 is not installed",
)
@pytest.mark.parametrize(("vector", "policy"), [(0, "CnnPolicy"), (2, "MultiInputPolicy")])
def test_stable_baselines3_takes_pictures_for_pictures(vector: int, policy: str) -> None:
    from stable_baselines3 import PPO
    from stable_baselines3.common.torch_layers import NatureCNN

    from puffervec.sb3 import make_vec_env

    env = make_vec_env(
        "eye",
        2,
        env_kwargs={"height": 40, "width": 40, "vector": vector},
        vec_env_kwargs={"backend": "serial"},
    )
    model = PPO(policy, env, n_steps=4, batch_size=4, device="cpu").learn(8)
    extractor: Any = model.policy.features_extractor
    assert isinstance(extractor if not vector else extractor.extractors["picture"], NatureCNN)
    env.close()


def small(**tables: Any) -> TrainConfig:
    return TrainConfig.of("eye").merged(
        {
            "vec": {"backend": "serial", "num_envs": 8, "num_buffers": 1},
            "train": {"horizon": 8, "device": "cpu", "threads": 1, "total_timesteps": 200},
            "policy": {"hidden": (16,), "channels": (4, 4)},
        }
        | tables
    )


@pytest.mark.parametrize(
    ("env", "kind", "made"),
    [
        ({}, "cnn", ConvolutionPolicy),
        ({"channels": 0}, "cnn", ConvolutionPolicy),
        ({"vector": 3}, "cnn", MixedPolicy),
        ({"height": 4, "channels": 0}, "object_set", ObjectSetPolicy),
        ({"height": 4}, "mlp", MLPPolicy),  # Too small: a table of numbers.
    ],
)
def test_pictures_are_seen_by_convolutions(env: dict[str, int], kind: str, made: Any) -> None:
    config = small(env=env)
    group = env_spec(config).groups[0]
    assert fitting_kind(group) == kind
    assert type(build_policy(group, config.policy)) is made


def test_a_row_that_tensors_cannot_address_is_refused() -> None:
    with pytest.raises(ConfigError, match="agents has 235 bytes, which is not a multiple of 4"):
        env_spec(small(env={"height": 11, "width": 7, "vector": 1}))


class Looks(gymnasium.Env):  # type: ignore[type-arg]
    """The same in Python: a picture and a vector."""

    observation_space = spaces.Dict(
        picture=spaces.Box(0, 255, (16, 12, 3), np.uint8),
        senses=spaces.Box(-np.inf, np.inf, (2,), np.float64),
    )
    action_space = spaces.Discrete(2)

    def _observe(self) -> Any:
        self.right = int(self.np_random.integers(2))
        return {
            "picture": expected(16, 12, 3)[self.right],
            "senses": np.array([self.clock, 1000.0]),
        }

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.clock = 0
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        reward = float(action == self.right)
        self.clock += 1
        return self._observe(), reward, self.clock == 4, False, {}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["eye", Looks])
def test_a_picture_beside_a_vector_is_learned_from_and_exported(
    target: Any, tmp_path: Path
) -> None:
    """C and Python alike: same layers, the numbers scaled, and files that give what the policy
    gives.
    """
    config = TrainConfig.of(target).merged(
        small().tables() | {"env": {"vector": 2} if target == "eye" else {}}
    )
    config = config.merged(
        {
            "train": {"total_timesteps": 4_000, "horizon": 32, "lr": 5e-3, "gamma": 0.5},
            "log": {
                "folder": str(tmp_path),
                "name": "run",
                "dashboard": "off",
                "checkpoint_interval_s": 1e9,
            },
        }
    )
    with Trainer(config) as trainer:
        metrics = trainer.train()
        (policy,) = trainer.policies.values()
    assert isinstance(policy, MixedPolicy) and policy.encoder is not None
    assert metrics["episode/return"] > 3.5
    assert policy.encoder.mean[:2].tolist() == pytest.approx([2.0, 1000.0], rel=0.1)
    exported = export_run(str(tmp_path / "run"), "pt2", trusted=(config.target,))
    assert list(exported[0].inputs) == (
        ["obs.senses", "obs.picture"] if target == "eye" else ["obs.picture", "obs.senses"]
    )
    assert exported[0].difference < 1e-4
    if importlib.util.find_spec("onnxscript") is not None:
        assert (
            export_run(str(tmp_path / "run"), "onnx", trusted=(config.target,))[0].difference < 1e-4
        )


@pytest.mark.slow
def test_a_picture_alone_is_learned_from_evaluated_and_exported(tmp_path: Path) -> None:
    log = {"folder": str(tmp_path), "name": "run", "dashboard": "off", "checkpoint_interval_s": 1e9}
    config = small(log=log).merged({"train": {"total_timesteps": 4_000, "lr": 5e-3}})
    with Trainer(config) as trainer:
        trainer.train()
    loaded, policies = load_policies(
        max((tmp_path / "run" / "checkpoints").iterdir()), torch.device("cpu")
    )
    (rates,) = evaluate_generic(
        "eye", loaded.config.env, PolicyActor(policies, torch.device("cpu"), True), 20, seed=9
    )
    assert rates.episodes >= 20
    (exported,) = export_run(str(tmp_path / "run"), "pt2")
    assert "16, 12, 3" in exported.inputs["obs"]
