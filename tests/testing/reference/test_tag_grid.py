# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The twin of tag_grid (puffervec/testing/reference/tag_grid.py): a step by hand. tests/envs has
the comparison with the C env.
"""

from __future__ import annotations

import numpy as np

from puffervec.testing.reference.tag_grid import TagGrid


def test_a_step_by_hand() -> None:
    game = TagGrid(
        num_taggers=2,
        grid_length=4,
        episode_length=10,
        starting_location_x=[1, 4, 0],
        starting_location_y=[0, 4, 0],
    )
    observations, _ = game.reset(seed=5)
    assert observations[1].tolist() == [0.25, 1, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0]
    before = game.state()
    # Tagger 0 steps on the runner, which walks into the wall, as tagger 1 does. Both taggers are
    # rewarded.
    observations, rewards, terminated, truncated, infos = game.step([2, 1, 2])
    assert (rewards.tolist(), rewards.dtype) == (np.float32([10, 9.9, -2.1]).tolist(), np.float32)
    assert (terminated, truncated, infos["events"]) == (True, False, {"tags": 1, "walls": 2})
    assert observations[2].tolist() == [0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, np.float32(0.1)]
    assert game.state()["x"].tolist() == [0, 4, 0] and before["x"].tolist() == [1, 4, 0]
    assert np.array_equal(game.set_state(before), game.reset()[0])


def test_the_runner_sees_the_nearest_tagger_with_the_lowest_id() -> None:
    game = TagGrid(
        2,
        4,
        2,
        starting_location_x=[3, 2, 2],
        starting_location_y=[2, 1, 2],
        use_full_observation=False,
    )
    assert game.reset()[0].tolist() == [
        [0.75, 0.5, 0.5, 0.5, 0, 0],
        [0.5, 0.25, 0.5, 0.5, 0, 0],
        [0.5, 0.5, 0.75, 0.5, 1, 0],
    ]
    observations, rewards, *_ = game.step([1, 0, 0])  # now tagger 1 is the nearest
    assert observations[2].tolist() == [0.5, 0.5, 0.5, 0.25, 1, 0.5]
    assert rewards.tolist() == np.float32([-0.01, -0.01, 0.01]).tolist()
    assert game.step([0, 0, 0])[2:4] == (False, True)
