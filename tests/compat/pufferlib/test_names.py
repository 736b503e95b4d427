# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Attributes of PufferLib's vector envs (compat/pufferlib/names.py) against what `recv` returns and `make` was told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from puffervec.compat.pufferlib import vector
from tests.python_envs import Counting

pytestmark = pytest.mark.usefixtures("no_leaks")

PROCESSES = {"backend": "Multiprocessing", "start_method": "fork"}
PLACES = {"observations": 0, "rewards": 1, "terminals": 2, "truncations": 3, "masks": 6}


@pytest.mark.parametrize(
    "settings",
    [
        {"backend": "Serial"},
        {**PROCESSES, "num_workers": 2, "batch_size": 2},
        {**PROCESSES, "num_workers": 2, "batch_size": 2, "zero_copy": False, "sync_traj": False},
    ],
    ids=["serial", "halves", "first come"],
)
def test_the_arrays_are_those_of_the_batch_last_received(settings: dict[str, Any]) -> None:
    with vector.make(Counting, [2], num_envs=4, **settings) as vec:
        vec.async_reset(3)
        for _ in range(6):
            received = vec.recv()
            for name, place in PLACES.items():
                np.testing.assert_array_equal(getattr(vec, name), received[place])
            vec.send(np.ones(vec.agents_per_batch, np.int64))


def test_groups_have_dicts() -> None:
    settings = {"mode": 1, "num_agents": 2, "episode_length": 3}
    with vector.make("probe", env_kwargs=settings, backend="Serial", num_envs=2) as vec:
        observations, _ = vec.reset(0)
        assert len(observations) == 2 and list(vec.rewards) == list(vec.masks) == list(observations)
        for group, rows in observations.items():
            np.testing.assert_array_equal(vec.observations[group], rows)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"backend": "Serial"}, (4, 4, 1)),
        ({**PROCESSES, "num_workers": 2}, (4, 2, 2)),
        ({**PROCESSES, "num_workers": 2, "batch_size": 2}, (4, 2, 1)),
        ({**PROCESSES, "num_workers": 4, "batch_size": 2, "zero_copy": False, "sync_traj": False}, (4, 1, 2)),
    ],
)
def test_the_numbers_are_those_of_make(settings: dict[str, Any], expected: tuple[int, int, int]) -> None:
    with vector.make("tag_grid", num_envs=4, **settings) as vec:
        assert (vec.num_environments, vec.envs_per_worker, vec.workers_per_batch) == expected
