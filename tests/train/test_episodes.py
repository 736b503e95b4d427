# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
import pytest

from puffervec.core.slab import RECORD_DTYPE
from puffervec.errors import ConfigError
from puffervec.train.collect.episodes import (
    OLDEST,
    EpisodeTracker,
    EpisodeWindow,
    InfoMeans,
    NumericInfos,
    ReturnScale,
    as_records,
    mean_interval,
)


def test_episodes_are_those_of_a_loop_over_rows() -> None:
    """Random flags and masks against the plain rule, row by row."""
    random = np.random.default_rng(0)
    steps, rows = 200, 7
    rewards = random.normal(size=(steps, rows))
    terminals, truncations = random.random((2, steps, rows)) < 0.1
    masks = random.random((steps, rows)) < 0.9
    tracker, found = EpisodeTracker(rows), []
    for step in range(steps):
        ended = tracker.step(rewards[step], terminals[step], truncations[step], masks[step])
        found += [
            (step, *values) for values in zip(*(array.tolist() for array in ended), strict=True)
        ]
    expected = []
    for row in range(rows):
        total, length, live = 0.0, 0, False
        for step in range(steps):
            if live and masks[step, row]:
                total, length = total + rewards[step, row], length + 1
            goes_on = masks[step, row] and not (terminals[step, row] or truncations[step, row])
            if live and not goes_on:
                expected += [(step, row, total, length)] if length else []
                total, length = 0.0, 0
            live = goes_on
    assert [f[:2] + f[3:] for f in found] == [e[:2] + e[3:] for e in sorted(expected)]
    np.testing.assert_allclose([f[2] for f in found], [e[2] for e in sorted(expected)], atol=1e-9)


def test_forgotten_episodes_do_not_count() -> None:
    tracker, flags = EpisodeTracker(1), np.zeros(1, np.uint8)
    tracker.step(np.zeros(1), flags, flags, flags + 1)
    tracker.step(np.ones(1), flags, flags, flags + 1)
    tracker.forget()
    tracker.step(np.ones(1), flags, flags, flags + 1)
    rows, returns, lengths = tracker.step(np.ones(1), flags + 1, flags, flags + 1)
    assert (rows.tolist(), returns.tolist(), lengths.tolist()) == ([0], [1.0], [1])


def test_records_say_env_and_slot() -> None:
    records = as_records((np.array([0, 5]), np.array([1.5, -2]), np.array([3, 4])), agents=3)
    assert records["env"].tolist() == [0, 1] and records["slot"].tolist() == [0, 2]
    assert records["return"].tolist() == [1.5, -2] and records["length"].tolist() == [3, 4]


def test_scaled_returns_are_about_one() -> None:
    scale = ReturnScale(4, gamma=0.9)
    assert scale.factor == 1
    rewards, valid = np.full((500, 4), 30.0), np.ones((500, 4), np.bool_)
    valid[::50] = False
    for _ in range(3):
        scale.add(*scale.sums(rewards, valid))
    assert 30 * scale.factor / (1 - 0.9) == pytest.approx(1, abs=0.2)
    scale.add(*scale.sums(np.full((2, 4), np.nan), valid[:2]))
    assert np.isfinite(scale.factor)
    idle = ReturnScale(1, 0.9)
    idle.add(*idle.sums(np.zeros((5, 1)), np.ones((5, 1), np.bool_)))
    assert idle.factor == 1


def add(window: EpisodeWindow, batches: Iterable[np.ndarray]) -> None:
    window.add_rows(window.rows(batches))


def add_infos(means: InfoMeans, batches: Iterable[NumericInfos]) -> None:
    means.add_sums(means.sums(batches))


def column(*values: float | None) -> tuple[np.ndarray, np.ndarray]:
    return np.array([v or 0.0 for v in values]), np.array([v is not None for v in values])


def test_means_of_infos() -> None:
    means = InfoMeans(agents=["red", "blue", 7])
    add_infos(
        means,
        [
            {("a",): column(1, None, 3), ("episode", "r"): column(None, 5, None)},
            {("a",): column(8, None, None)},
        ],
    )
    add_infos(
        means,
        [
            {
                ("red", "hit"): column(1, 1, None),
                ("blue", "hit"): column(0, None, None),
                ("red",): column(float("nan")),
            }
        ],
    )
    assert means.means() == {"env/a": 4, "env/episode/r": 5, "env/hit": pytest.approx(2 / 3)}


def test_only_the_latest_count() -> None:
    means = InfoMeans()
    for value in range(10):
        add_infos(means, [{("x",): (np.full(60, float(value)), np.ones(60, np.bool_))}])
    assert means.means() == {"env/x": 8.5}  # two rollouts make 100
    add_infos(means, [])
    assert means.means() == {"env/x": 8.5}


def records(*rows: tuple[float, int, tuple[float, ...]]) -> np.ndarray:
    found = np.zeros(len(rows), RECORD_DTYPE)
    for record, (episode_return, length, values) in zip(found, rows, strict=True):
        record["return"], record["length"] = episode_return, length
        record["values"][: len(values)] = values
    return found


def test_means_per_episode() -> None:
    window = EpisodeWindow(("speed",))
    assert window.means() == {}
    add(window, [records((1.0, 10, (4.0,))), records((3.0, 20, (6.0,)))])
    assert window.means() == {"episode/return": 2.0, "episode/length": 15.0, "env/speed": 5.0}
    assert window.total == 2


def test_counts_are_shared_out_over_agents() -> None:
    """Two scenes, of 1 and of 3 agents: 3 of 4 agents reached their goal, whatever scene they were
    in.
    """
    window = EpisodeWindow(("agents", "goals", "complete"), {"goal": "goals"})
    add(window, [records((2.0, 90, (1.0, 1.0, 1.0)), (6.0, 90, (3.0, 2.0, 1.0)))])
    assert window.means() == {
        "episode/return": 5.0,
        "episode/length": 90.0,
        "env/goal": 0.75,
        "env/complete": 1.0,
    }


def test_sums_are_shared_out_over_other_counts() -> None:
    """Of what nobody counted there is no rate."""
    names = ("agents", "aligned", "steps", "over", "limits")
    window = EpisodeWindow(names, {"aligned": "aligned/steps", "over": "over/limits"})
    add(window, [records((0.0, 9, (1.0, 3.0, 4.0)), (0.0, 9, (2.0, 1.0, 6.0)))])
    assert window.means() == {"episode/return": 0.0, "episode/length": 9.0, "env/aligned": 0.4}
    with pytest.raises(ConfigError, match="need records that it does not have: agents, hits"):
        EpisodeWindow(("steps",), {"hit": "hits/steps"})


def returns(*values: float) -> np.ndarray:
    return records(*((value, 1, ()) for value in values))


def test_means_are_over_the_episodes_of_the_latest_roll_out() -> None:
    """However many there were before: a curve that lags shows another policy."""
    window = EpisodeWindow(())
    add(window, [returns(*[1.0] * 5000)])
    add(window, [returns(*[2.0] * 150), returns(*[4.0] * 150)])
    assert window.means()["episode/return"] == 3.0 and window.total == 5300


def test_means_are_over_a_hundred_episodes_at_least() -> None:
    window = EpisodeWindow(())
    add(window, [returns(*[9.0] * 50, *[1.0] * 80)])
    add(window, [returns(*[3.0] * 20)])
    add(window, [])
    assert window.means()["episode/return"] == (80 * 1.0 + 20 * 3.0) / 100


def test_a_saved_window_goes_on() -> None:
    windows = [EpisodeWindow(("speed",)), EpisodeWindow(("speed",))]
    add(windows[0], [records(*((float(i), i, (2.0 * i,)) for i in range(120)))])
    windows[1].load_state(windows[0].state(), windows[0].total)
    for window in windows:
        add(window, [records((7.0, 1, (3.0,)))])
    assert windows[0].means() == windows[1].means() and windows[1].total == 121
    with pytest.raises(ValueError, match=r"shape \(5, 4\), not \(episodes, 3\)"):
        windows[1].load_state(np.zeros((5, 4)), 5)


def of_places(ended: Mapping[int, tuple[float, int]]) -> np.ndarray:
    """Records of 64 envs by slot: (return, length)."""
    found = np.concatenate([returns(*[value] * 64) for value, _ in ended.values()] or [returns()])
    found["env"] = np.tile(np.arange(64), len(ended))
    found["slot"] = np.repeat(np.array([*ended], np.uint32), 64)
    found["length"] = np.repeat(np.array([length for _, length in ended.values()], np.uint32), 64)
    return found


def test_tasks_of_different_lengths_do_not_make_the_means_jump() -> None:
    """Three scenes of an env, of which the shortest ends in each rollout and the longest in every
    third; saved on the way.
    """
    window, plain = EpisodeWindow((), by_place=True), EpisodeWindow(())
    found, jumping = [], []
    for rollout in range(1, 13):
        scenes = {0: (1.0, 30), 1: (2.0, 60), 2: (6.0, 90)}
        ended = of_places(
            {slot: scene for slot, scene in scenes.items() if rollout * 30 % scene[1] == 0}
        )
        add(window, [ended])
        add(plain, [ended])
        if rollout == 7:
            again = EpisodeWindow((), by_place=True)
            again.load_state(window.state(), window.total, window.ages())
            window = again
        if rollout > 3:
            found.append(window.means()["episode/return"])
            jumping.append(plain.means()["episode/return"])
    assert found == [3.0] * 9 and max(jumping) - min(jumping) > 1
    add(window, [])
    assert window.means()["episode/return"] == 3.0
    for _ in range(OLDEST):  # The env has other scenes by now.
        add(window, [of_places({0: (1.0, 30)})])
    assert window.means()["episode/return"] == 1.0


def test_a_window_without_places_goes_on_with_them() -> None:
    older, newer = EpisodeWindow(("speed",)), EpisodeWindow(("speed", "height"), by_place=True)
    add(older, [records((7.0, 3, (2.0,)))])
    newer.load_state(older.state(), older.total)
    assert newer.means()["episode/return"] == 7.0 and newer.means()["env/height"] == 0.0
    with pytest.raises(ValueError, match="ages have the shape"):
        newer.load_state(newer.state(), 1, np.zeros(7, np.int64))


def test_a_window_of_an_env_that_recorded_less_goes_on() -> None:
    older, newer = EpisodeWindow(("speed",)), EpisodeWindow(("speed", "height"))
    add(older, [records((7.0, 3, (2.0,)))])
    newer.load_state(older.state(), older.total)
    assert newer.means() == {
        "episode/return": 7.0,
        "episode/length": 3.0,
        "env/speed": 2.0,
        "env/height": 0.0,
    }
    with pytest.raises(ValueError, match="not \\(episodes, 3\\)"):
        older.load_state(newer.state(), 1)


def test_interval() -> None:
    mean, half = mean_interval([1.0, 2.0, 3.0, 4.0])
    assert mean == 2.5 and half == pytest.approx(1.96 * math.sqrt(5 / 3) / 2)
    assert mean_interval([5.0])[0] == 5.0 and math.isnan(mean_interval([5.0])[1])
    assert all(math.isnan(x) for x in mean_interval([]))


def test_an_episode_that_was_cut_short_does_not_count() -> None:
    window = EpisodeWindow(("complete",))
    add(window, [records((1.0, 9, (1.0,)), (2.0, 9, (1.0,)), (30.0, 9, (0.0,)))])
    assert window.total == 2 and window.means()["episode/return"] == 1.5


def test_returns_of_each_agent_type() -> None:
    window = EpisodeWindow((), types=("tagger", "runner"))
    batch = returns(1.0, 3.0, 8.0)
    batch["agent_type"] = [0, 0, 1]
    add(window, [batch])
    apart = {"episode/return/tagger": 2.0, "episode/return/runner": 8.0}
    assert window.means() == {"episode/return": 4.0, "episode/length": 1.0, **apart}
    other = EpisodeWindow((), types=("tagger", "runner"))
    other.load_state(window.state(), window.total)
    assert other.means() == window.means()
