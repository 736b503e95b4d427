# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import math

import numpy as np
import pytest

from puffervec.core.slab import RECORD_DTYPE
from puffervec.train.collect.stats import EpisodeWindow, mean_interval


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


def returns(*values: float) -> np.ndarray:
    return records(*((value, 1, ()) for value in values))


def test_means_are_over_the_episodes_of_the_latest_roll_out() -> None:
    """However many there were before: a curve that lags shows another policy."""
    window = EpisodeWindow(())
    window.add([returns(*[1.0] * 5000)])
    window.add([returns(*[2.0] * 150), returns(*[4.0] * 150)])
    assert window.means()["episode/return"] == 3.0 and window.total == 5300


def test_means_are_over_a_hundred_episodes_at_least() -> None:
    window = EpisodeWindow(())
    window.add([returns(*[9.0] * 50, *[1.0] * 80)])
    window.add([returns(*[3.0] * 20)])
    window.add([])
    assert window.means()["episode/return"] == (80 * 1.0 + 20 * 3.0) / 100


def test_a_saved_window_goes_on() -> None:
    windows = [EpisodeWindow(("speed",)), EpisodeWindow(("speed",))]
    windows[0].add([records(*((float(i), i, (2.0 * i,)) for i in range(120)))])
    windows[1].load_state(windows[0].state(), windows[0].total)
    for window in windows:
        window.add([records((7.0, 1, (3.0,)))])
    assert windows[0].means() == windows[1].means() and windows[1].total == 121
    with pytest.raises(ValueError, match=r"shape \(5, 2\), not \(episodes, 3\)"):
        windows[1].load_state(np.zeros((5, 2)), 5)


def test_interval() -> None:
    mean, half = mean_interval([1.0, 2.0, 3.0, 4.0])
    assert mean == 2.5 and half == pytest.approx(1.96 * math.sqrt(5 / 3) / 2)
    assert mean_interval([5.0]) == (5.0, 0.0)
    assert all(math.isnan(x) for x in mean_interval([]))


def test_an_episode_that_was_cut_short_does_not_count() -> None:
    window = EpisodeWindow(("complete",))
    window.add([records((1.0, 9, (1.0,)), (2.0, 9, (1.0,)), (30.0, 9, (0.0,)))])
    assert window.total == 2 and window.means()["episode/return"] == 1.5
