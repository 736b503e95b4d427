# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Entry point of `puffervec.wings.ray`; see puffervec/doors.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from puffervec.errors import ConfigError

if TYPE_CHECKING:
    from puffervec.train.config.sections import TrainConfig

# Settings of train that cannot be used with rollouts of hosts, with the reason.
EXCLUDED = {
    "asynchronous": "hosts collect rollouts during updates in any case",
    "deterministic": "updates use rollouts in order of arrival, which differs between runs",
}
CORRECTING = ("ppo", "a2c")  # The algorithms of this package that correct for older weights.


def check(config: TrainConfig) -> None:
    """Raise ConfigError for settings that hosts do not support."""
    train = config.train
    for name, why in EXCLUDED.items():
        if getattr(train, name):
            raise ConfigError(
                f"train.{name} is true and ray.address {config.ray.address!r}: {why}; leave one of "
                "them out"
            )
    if train.tensor_parallel > 1:
        raise ConfigError(
            f"train.tensor_parallel is {train.tensor_parallel}: hosts do not support pictures that "
            "are split by columns: leave out --ray, or set it to 1"
        )
    for own in (config.of_policy(name) for name in ("", *config.policies)):
        if not own.algorithm.corrects_lag:
            raise ConfigError(
                f"train.algorithm {own.train.algorithm} cannot learn from the rollouts of hosts, "
                "whose weights are older than the learner's: leave out --ray, or use one of "
                f"{', '.join(CORRECTING)}"
            )


def trainer_class() -> type:
    """Return the trainer whose rollouts hosts collect."""
    from puffervec.wings.ray.trainer import RayTrainer

    return RayTrainer
