# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Values and ratios of a policy that has changed since the roll-out (puffervec/train/learn/reevaluate.py)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from puffervec.train import TrainConfig, Trainer
from puffervec.train.learn.reevaluate import reevaluate
from puffervec.train.policies.distributions import log_prob_entropy
from puffervec.train.policies.leaves import shown

Small = Callable[..., TrainConfig]


@pytest.mark.parametrize("memory", ["none", "mingru", "lstm"])
@pytest.mark.parametrize("size", [7, 1000])
def test_ratios_are_1_for_the_policy_that_acted(small: Small, memory: str, size: int) -> None:
    config = small("probe", policy={"memory": memory}, env={"episode_length": 3})
    with Trainer(config) as trainer:
        for _ in range(2):
            trainer.collect()
            updater = trainer.learner.updaters["default"]
            before = updater.storage.values.clone()
            ratios = reevaluate(updater.policy, updater.storage, memory != "none", False, trainer.pool, size)
            assert ratios.shape == before[:-1].shape
            torch.testing.assert_close(ratios, torch.ones_like(ratios), rtol=0, atol=1e-5)
            torch.testing.assert_close(updater.storage.values, before, rtol=0, atol=1e-5)


def test_ratios_and_values_of_another_policy(small: Small) -> None:
    with Trainer(small("probe")) as trainer:
        trainer.collect()
        updater = trainer.learner.updaters["default"]
        storage = updater.storage
        with torch.no_grad():
            for parameter in updater.parameters:
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
            heads, values, _ = updater.policy(shown(storage.obs), (), None, None)
            now, _ = log_prob_entropy(storage.spec, heads, storage.actions)
        ratios = reevaluate(updater.policy, storage, False, False, trainer.pool, 5)
        torch.testing.assert_close(ratios, (now - storage.log_probs)[:-1].exp(), rtol=1e-5, atol=1e-6)
        assert float((ratios - 1).abs().max()) > 1e-3
        torch.testing.assert_close(storage.values, values, rtol=1e-5, atol=1e-5)
