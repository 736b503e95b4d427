# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What is counted where the envs are (puffervec/train/run/tally.py) makes the means of a run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from puffervec.core.slab import RECORD_DTYPE
from puffervec.train import TrainConfig
from puffervec.train.collect.storage import Storage
from puffervec.train.device.ranks import Ranks
from puffervec.train.policies.run_spec import RunSpec
from puffervec.train.run.tally import EpisodeFacts, Tally

Small = Callable[..., TrainConfig]


def tally_of(config: TrainConfig, storage: Storage, facts: EpisodeFacts) -> Tally:
    tally = Tally(RunSpec.of(config).rows, {"default": storage}, Ranks())
    tally.expect(facts)
    return tally


@pytest.fixture
def rolled(small: Small) -> tuple[TrainConfig, Storage]:
    """A rollout in which each row earns 2 at each step."""
    config = small("cartpole", train={"scale_rewards": True, "gamma": 0.5})
    (rows,) = RunSpec.of(config).rows.values()
    storage = Storage(rows.group, 8, 4, torch.device("cpu"), None)
    storage.masks.fill_(1)
    storage.rewards.fill_(2.0)
    return config, storage


def records(returns: list[float]) -> np.ndarray:
    found = np.zeros(len(returns), RECORD_DTYPE)
    found["return"], found["length"] = returns, 10
    return found


def test_episodes_of_two_hosts_make_one_mean(rolled: tuple[TrainConfig, Storage]) -> None:
    config, storage = rolled
    parts = [
        tally_of(config, storage, EpisodeFacts()).counted([records(returns)], [])
        for returns in ([1.0, 2.0], [6.0])
    ]
    learner = tally_of(config, storage, EpisodeFacts())
    learner.count(parts)
    assert (
        learner.means() == {"episode/return": 3.0, "episode/length": 10.0}
        and learner.episodes.total == 3
    )


def test_numbers_in_infos_travel(rolled: tuple[TrainConfig, Storage]) -> None:
    config, storage = rolled
    facts = EpisodeFacts(agents=())
    numeric = [{("speed",): (np.array([1.0, 3.0]), np.array([True, True]))}]
    counted = tally_of(config, storage, facts).counted([records([1.0])], numeric)
    learner = tally_of(config, storage, facts)
    learner.count([counted, counted])
    assert learner.means()["env/speed"] == 2.0


def test_rewards_are_scaled_by_what_all_hosts_earn(rolled: tuple[TrainConfig, Storage]) -> None:
    config, storage = rolled
    part = tally_of(config, storage, EpisodeFacts()).counted([], [])
    total, count = part.scales["default"]
    returns, mean_square = 0.0, 0.0
    for _ in range(8):  # The discounted sum of 2 at each step.
        returns = 0.5 * returns + 2
        mean_square += returns**2 / 8
    assert (total / count, count) == (pytest.approx(mean_square), 4 * 8)
    learner = tally_of(config, storage, EpisodeFacts())
    learner.scale_rewards([part, part])
    assert (
        torch.allclose(storage.rewards[1:], torch.tensor(2 / mean_square**0.5))
        and float(storage.rewards[0, 0]) == 2
    )


def test_a_part_of_a_roll_out_says_nothing_of_rewards(rolled: tuple[TrainConfig, Storage]) -> None:
    tally = tally_of(*rolled, EpisodeFacts())
    assert tally.counted([], [], whole=False).scales == {}
    assert not tally.return_scales["default"].returns.any()


def test_the_state_goes_on(rolled: tuple[TrainConfig, Storage]) -> None:
    first, second = (tally_of(*rolled, EpisodeFacts(agents=())) for _ in range(2))
    numeric = [{("speed",): (np.array([1.0, 3.0]), np.array([True, True]))}]
    part = first.counted([records([5.0])], numeric)
    first.count([part])
    first.scale_rewards([part])
    second.load_state(first.state())
    assert (
        second.means() == first.means()
        and second.return_scales["default"].factor == first.return_scales["default"].factor
    )
