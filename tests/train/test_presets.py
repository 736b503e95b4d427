# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest

from puffervec.envs import BUILT_IN
from puffervec.train.config.presets import GENERIC, PRESETS, RATES_PER_AGENT, preset_of
from puffervec.train.config.sections import TrainConfig


@pytest.mark.parametrize("target", sorted(PRESETS))
def test_presets_fit_their_env(target: str) -> None:
    assert target in BUILT_IN
    TrainConfig.of(target).check()


def test_envs_without_a_preset_share_one_in_c_and_in_python() -> None:
    assert preset_of("probe") == preset_of("CartPole-v1") == GENERIC


def test_rates_belong_to_known_envs() -> None:
    assert set(RATES_PER_AGENT) <= set(BUILT_IN)
