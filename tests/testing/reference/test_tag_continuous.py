# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The twin of tag_continuous (puffervec/testing/reference/tag_continuous.py): its rules by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from puffervec.testing.reference.tag_continuous import TagContinuous

NOTHING, FASTER, LEFT = (0, 0), (2, 0), (0, 2)  # of one acceleration and turn level below


def game(x: list[float], y: list[float], taggers: int = 1, **settings: Any) -> TagContinuous:
    """Return a game on 8 x 8 whose last ids are the taggers. All look along x, unless directions
    are given.

    Actions change the acceleration by -0.5 or 0.5, the direction by -pi/2 or pi/2.
    """
    agents, last = len(x), list(range(len(x) - taggers, len(x)))
    drawn = (
        np.random.RandomState(seed).choice(np.arange(agents), taggers, replace=False)
        for seed in range(1000)
    )
    seed = next(seed for seed, ids in enumerate(drawn) if sorted(ids) == last)
    given = {
        "starting_location_x": x,
        "starting_location_y": y,
        "starting_directions": [0.0] * agents,
        "seed": seed,
    }
    levels = {
        "max_acceleration": 0.5,
        "min_acceleration": -0.5,
        "num_acceleration_levels": 2,
        "num_turn_levels": 2,
    }
    sizes = {
        "num_taggers": taggers,
        "num_runners": agents - taggers,
        "grid_length": 8.0,
        "tagging_distance": 0.125,
    }
    return TagContinuous(**{**sizes, **levels, **given, **settings})


def test_the_start_has_the_draws_of_the_legacy_generator_in_their_order() -> None:
    made = TagContinuous(num_taggers=2, num_runners=3, seed=5)
    np.random.seed(5)
    taggers = np.random.choice(np.arange(5), 2, replace=False)
    x, y = 10.0 * np.random.rand(5), 10.0 * np.random.rand(5)
    directions = np.random.choice([0, np.pi / 2, np.pi, np.pi * 3 / 2], 5, replace=True)
    assert made.taggers.tolist() == sorted(taggers)
    for name, expected in {"x": x, "y": y, "direction": directions}.items():
        assert getattr(made, name).tolist() == expected.astype(np.float32).tolist()
    np.random.seed(5)
    assert TagContinuous(num_taggers=2, num_runners=3).state()["x"].tolist() == made.x.tolist()


def test_accelerations_add_up_until_top_speed() -> None:
    one = game([1.0, 1.0], [1.0, 7.0], max_speed=1.75)
    seen = []
    for action in [FASTER, FASTER, NOTHING, (1, 0), (1, 0)]:
        one.step([action, NOTHING])
        seen.append((float(one.acceleration[0]), float(one.speed[0]), float(one.x[0])))
    # 0.5; 0.5 + 1; capped, so the acceleration is gone; then slower by 0.5, and by 1 more.
    assert seen == [
        (0.5, 0.5, 1.5),
        (1.0, 1.5, 3.0),
        (0.0, 1.75, 4.75),
        (-0.5, 1.25, 6.0),
        (-1.0, 0.25, 6.25),
    ]
    one.step([(1, 0), NOTHING])
    assert (one.acceleration[0], one.speed[0], one.x[0]) == (0.0, 0.0, 6.25)  # at a standstill, too
    assert one.step([LEFT, LEFT])[0].shape == (2, 8)
    assert one.direction.tolist() == [np.float32(np.pi / 2)] * 2
    one.step([(0, 1), (0, 1)])
    one.step([(0, 1), (0, 1)])
    assert one.direction.tolist() == [pytest.approx(3 * np.pi / 2)] * 2  # floored: never negative


def test_a_wall_costs_and_stops_nothing() -> None:
    one = game(
        [7.75, 4.0],
        [1.0, 7.0],
        edge_hit_penalty=-0.25,
        step_reward_for_runner=0.5,
        step_penalty_for_tagger=-0.125,
    )
    _, rewards, *_, infos = one.step([FASTER, NOTHING])
    assert (one.x[0], one.speed[0], rewards.tolist(), infos["events"]) == (
        8.0,
        0.5,
        [0.25, -0.125],
        {"tags": 0, "walls": 1},
    )
    one.x[0] = 7.0
    assert one.step([NOTHING, NOTHING])[1].tolist() == [
        0.5,
        -0.125,
    ]  # exactly at the wall is not outside
    assert one.x[0] == 8.0


def test_skills_scale_the_top_speed() -> None:
    made = TagContinuous(
        num_taggers=1,
        num_runners=1,
        skill_level_tagger=2.0,
        skill_level_runner=0.5,
        max_speed=0.5,
        seed=0,
    )
    for _ in range(4):
        made.step([(10, 0), (10, 0)])
    assert made.speed[made.taggers].tolist() == [1.0] and made.speed[
        made.agent_types == 0
    ].tolist() == [0.25]


def test_a_full_observation_by_hand() -> None:
    one = game(
        [1.0, 3.0, 1.0],
        [1.0, 1.0, 5.0],
        starting_directions=[0.0, np.pi, 0.0],
        episode_length=4,
        max_speed=2.0,
    )
    observations, *_ = one.step([NOTHING, NOTHING, FASTER])
    scale = 8 * np.sqrt(2)
    # x, y, speed, acceleration, direction of the others; then type, in game and time.
    expected = [2 / scale, 0.5 / scale, 0, 4 / scale, 0, 0.25, 0, 0.25, 0.5, 0.0, 0, 1, 1, 1, 0.25]
    np.testing.assert_allclose(observations[0], expected, rtol=1e-6)
    assert observations[1, -1] == 0.25 and observations.dtype == np.float32


def test_a_partial_observation_has_the_nearest_in_the_game_and_zeros() -> None:
    # Runners 1 and 2 are equally far from runner 0, tagger 3 is nearer.
    one = game(
        [4.0, 6.0, 2.0, 4.0],
        [4.0, 4.0, 4.0, 5.5],
        use_full_observation=False,
        num_other_agents_observed=2,
    )
    scale = np.float32(8 * np.sqrt(2))
    row = one.reset()[0][0]
    np.testing.assert_allclose(row[:4] * scale, [0, 2, 1.5, 0], atol=1e-6)
    assert row[10:].tolist() == [1, 0, 1, 1, 0]
    one.still_in_the_game[[1, 2]] = 0
    row = one.step([NOTHING] * 4)[0]
    assert row[0, 10:].tolist() == [
        1,
        0,
        1,
        0,
        np.float32(0.01),
    ]  # one other is left: the second place is padding
    assert not row[1].any() and not row[2].any()  # who is out sees nothing, not even the time
    assert game([4.0, 6.0], [4.0, 4.0], use_full_observation=False).reset()[0].shape == (
        2,
        15,
    )  # K = N


def test_tagged_runners_leave_after_being_shown() -> None:
    # Runners 0 and 1 are within 1 of tagger 3 (margin 8 / 8), runner 2 is not; tagger 4 is as near
    # to runner 0 as tagger 3.
    one = game(
        [2.0, 1.5, 7.0, 1.5, 2.5],
        [2.0, 2.5, 7.0, 2.0, 2.0],
        taggers=2,
        tag_penalty_for_runner=-10,
        tag_reward_for_tagger=4,
    )
    observations, rewards, terminated, truncated, infos = one.step(
        [FASTER, NOTHING, NOTHING, NOTHING, NOTHING]
    )
    assert (
        rewards.tolist() == [-10, -10, 0, 4, 4] and infos["events"]["tags"] == 2
    )  # runner 0 has moved to tagger 4
    assert observations[2, 24:28].tolist() == [1, 1, 1, 1] and observations[0].any()
    assert one.still_in_the_game.tolist() == [0, 0, 1, 1, 1] and not truncated.any()
    assert terminated.tolist() == [True, True, False, False, False] and infos["masks"].all()
    observations, rewards, terminated, _, infos = one.step([FASTER] * 5)
    assert infos["masks"].tolist() == [False, False, True, True, True] and not terminated.any()
    assert (
        observations[0, 20:].tolist() == [0, 0, 1, 1, 0, 1, 1, 1, 0]
        and not observations[0, :20].any()
    )
    assert observations[2, 24:28].tolist() == [0, 0, 1, 1] and rewards[:2].tolist() == [0, 0]
    assert (one.x[0], one.speed[0], one.direction[0], one.acceleration[0]) == (
        2.5,
        0,
        0,
        0,
    )  # it stays where it was
    one.set_state(
        {**one.state(), "x": np.float32([2, 1, 2, 2, 3]), "y": np.float32([2, 2, 2, 3, 2])}
    )
    assert one.step([NOTHING] * 5)[1][3:].tolist() == [0, 0]  # exactly at the margin: no tag


def test_ties_go_to_the_lowest_tagger_and_one_may_tag_twice() -> None:
    one = game(
        [2.0, 2.0, 1.5, 2.5],
        [2.0, 2.0, 2.0, 2.0],
        taggers=2,
        tag_reward_for_tagger=3,
        runner_exits_game_after_tagged=False,
    )
    for _ in range(2):
        _, rewards, terminated, *_ = one.step([NOTHING] * 4)
        assert (rewards.tolist(), terminated.any(), one.still_in_the_game.tolist()) == (
            [-1, -1, 6, 0],
            False,
            [1, 1, 1, 1],
        )


@pytest.mark.parametrize(
    ("exits", "runners", "rewards", "terminated"),
    [
        (
            True,
            [2.0, 7.0],
            [-1.0, 5.0, 1.0],
            [True, False, False],
        ),  # who is tagged in the last step gets nothing for its end
        (False, [2.0, 7.0], [4.0, 5.0, 1.0], [False] * 3),
        (True, [2.0, 2.0], [-1.0, -1.0, 2.0], [True] * 3),
    ],
)
def test_the_last_step(
    exits: bool, runners: list[float], rewards: list[float], terminated: list[bool]
) -> None:
    last = {
        "episode_length": 1,
        "end_of_game_reward_for_runner": 5,
        "runner_exits_game_after_tagged": exits,
    }
    result = game([*runners, 2.0], [2.0, 2.0, 2.5], **last).step([NOTHING] * 3)
    assert (result[1].tolist(), result[2].tolist(), (~result[3]).tolist()) == (
        rewards,
        terminated,
        terminated,
    )


def test_nobody_is_tagged_at_a_distance_of_zero() -> None:
    one = game([2.0, 2.0], [2.0, 2.0], tagging_distance=0.0)
    assert one.step([NOTHING] * 2)[4]["events"]["tags"] == 0


# ---- margins -------------------------------------------------------------------------------------


UP = np.pi / 2


def test_margins_of_those_who_move() -> None:
    """Runner 0 drives along y, and tagger 1 stands 1 + 1e-5 ahead of where it will be; the margin
    is 1.
    """
    settings = {
        "edge_hit_penalty": -1.0,
        "use_full_observation": False,
        "num_other_agents_observed": 1,
    }
    one = game(
        [2.0, 2.00447, 7.0],
        [2.0, 3.5, 7.5],
        taggers=2,
        starting_directions=[UP, UP, UP],
        **settings,
    )
    one.step([FASTER, NOTHING, FASTER])
    near = one.margins()
    assert near["terminals"] == near["state.still_in_the_game"] == pytest.approx(1e-5, rel=0.1)
    assert (
        near["rewards"].tolist()[:2] == [pytest.approx(1e-5, rel=0.1)] * 2
        and near["rewards"][2] == 0
    )  # at the wall
    assert np.all(near["observations"] > 0.5)
    one.reset()
    one.step([NOTHING] * 3)
    assert one.margins()["truncations"] == np.inf  # all stand still: there is nothing to round


@pytest.mark.parametrize("direction", [UP, 0.0])
def test_margins_of_ties(direction: float) -> None:
    """Ties are certain of those who stand still, drive along x, or are in one place; others are
    not.
    """
    x, y = [4.0, 6.0, 2.0, 4.0], [4.0, 4.0, 4.0, 0.0]
    if direction == UP:
        x, y = y, x
    one = game(
        x,
        y,
        starting_directions=[direction] * 4,
        use_full_observation=False,
        num_other_agents_observed=1,
    )
    assert one.margins()["observations"][0] == np.inf
    moved = one.state()
    moved["speed"][0] = 0.5
    moved["x" if direction == 0 else "y"][0] = 3.5
    one.set_state(moved)
    one.step([NOTHING] * 4)
    assert one.margins()["observations"][0] == (0.0 if direction == UP else np.inf)
    together = one.state()
    together["x"][2], together["y"][2] = one.x[1], one.y[1]
    one.set_state(together)
    assert one.margins()["observations"][0] == np.inf
