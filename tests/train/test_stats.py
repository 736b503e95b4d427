# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import math

import numpy as np
import pytest

from puffervec.slab import RECORD_DTYPE
from puffervec.train.stats import EpisodeWindow, mean_interval


def records(*rows: tuple[float, int, tuple[float, ...]]) -> np.ndarray:
    found = np.zeros(len(rows), RECORD_DTYPE)
    for record, (episode_return, length, values) in zip(found, rows, strict=True):
        record["return"], record["length"] = episode_return, length
        record["values"][: len(values)] = values
    return found


def test_means_per_episode() -> None:
    window = EpisodeWindow(("speed",))
    assert window.means() == {}
    window.add([records((1.0, 10, (4.0,))), records((3.0, 20, (6.0,)))])
    assert window.means() == {"episode/return": 2.0, "episode/length": 15.0, "env/speed": 5.0}
    assert window.total == 2


def test_counts_are_shared_out_over_agents() -> None:
    """Two scenes, of 1 and of 3 agents: 3 of 4 agents reached their goal, whatever scene they were in."""
    window = EpisodeWindow(("agents", "goals", "complete"), {"goal": "goals"})
    window.add([records((2.0, 90, (1.0, 1.0, 1.0)), (6.0, 90, (3.0, 2.0, 1.0)))])
    assert window.means() == {"episode/return": 5.0, "episode/length": 90.0, "env/goal": 0.75, "env/complete": 1.0}


def test_old_episodes_are_forgotten() -> None:
    window = EpisodeWindow((), capacity=2)
    window.add([records((9.0, 1, ()), (1.0, 1, ()), (3.0, 1, ()))])
    assert window.means()["episode/return"] == 2.0 and window.total == 3


def test_interval() -> None:
    mean, half = mean_interval([1.0, 2.0, 3.0, 4.0])
    assert mean == 2.5 and half == pytest.approx(1.96 * math.sqrt(5 / 3) / 2)
    assert mean_interval([5.0]) == (5.0, 0.0)
    assert all(math.isnan(x) for x in mean_interval([]))


def test_an_episode_that_was_cut_short_does_not_count() -> None:
    from puffervec.slab import RECORD_DTYPE

    records = np.zeros(3, RECORD_DTYPE)
    records["return"], records["values"][:, 0] = [1.0, 2.0, 30.0], [1.0, 1.0, 0.0]
    window = EpisodeWindow(("complete",))
    window.add([records])
    assert window.total == 2 and window.means()["episode/return"] == 1.5
