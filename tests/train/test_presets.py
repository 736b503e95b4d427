# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What envs say about training in them (`NativeEnv.training`) fits the trainer."""

from __future__ import annotations

import pytest

import puffervec
from puffervec.envs import BUILT_IN
from puffervec.train import TrainConfig
from puffervec.train.config import algorithms
from puffervec.train.config.presets import GENERIC, SEARCHED
from puffervec.train.config.ranges import build_space
from puffervec.train.config.target import env_spec


@pytest.mark.parametrize("target", [*BUILT_IN, "CartPole-v1"])
def test_settings_ranges_and_rates_fit_their_env(target: str) -> None:
    config = TrainConfig.of(target)
    config.check()
    training = puffervec.envs.get(target).training if target in BUILT_IN else puffervec.Training()
    algorithm = algorithms.get(config.train.algorithm)
    assert list(build_space(config, {})) == list(dict.fromkeys([*SEARCHED, *algorithm.search, *training.search]))
    assert set(training.rates.values()) <= set(env_spec(config).record_names)


def test_envs_without_a_preset_share_one_in_c_and_in_python() -> None:
    for target in ("probe", "CartPole-v1"):
        assert TrainConfig.of(target) == TrainConfig.bare(target).merged(GENERIC)
