# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

from typing import Any

import pytest
import torch

from puffervec.errors import ConfigError
from puffervec.train import TrainConfig
from puffervec.train.learn.ppo_loss import ppo_loss
from puffervec.train.learn.samples import Batch
from tests.train.test_updater import filled_storage, updater


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("clip", 0.0),
        ("value_clip", -0.1),
        ("target_kl", -1.0),
        ("advantage_share", 0.0),
        ("advantage_share", 1.5),
    ],
)
def test_values_that_cannot_work_are_refused(key: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"train.{key} is {value}: must be"):
        TrainConfig.of("probe", train={key: value}).check()


def test_target_kl_ends_the_epochs() -> None:
    free, bound = (
        updater(filled_storage(), update_epochs=20),
        updater(filled_storage(), update_epochs=20, target_kl=1e-6),
    )
    free.update(1e-2)
    bound.update(1e-2)
    steps = [int(next(iter(u.optimizer.state().values()))["step"]) for u in (free, bound)]
    assert steps[0] == 40 and steps[1] < 40


def test_target_kl_is_a_mean_over_what_the_epoch_saw() -> None:
    """Of drawn columns that are other than all of the rollout."""

    def moved(policy: Any, spec: Any, batch: Batch, *rest: Any) -> Any:
        loss, sums = ppo_loss(policy, spec, batch, *rest)
        return loss, torch.cat([sums[:3], torch.tensor([1.0 * len(batch.advantages)]), sums[4:]])

    for target, epochs in ((0.9, 1), (1.1, 3)):
        u = updater(filled_storage(), update_epochs=3, target_kl=target)
        u.loss, parts = moved, u._parts
        u._parts = lambda *given, parts=parts: (parts(*given)[0][:1], False)  # type: ignore[method-assign, misc]
        u.update(1e-2)
        assert int(next(iter(u.optimizer.state().values()))["step"]) == epochs
