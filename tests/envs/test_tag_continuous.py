# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""tag_continuous (csrc/tag/continuous.c, puffervec/envs/tag_continuous.py): its rules one by one, checked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from puffervec.envs.tag_continuous import TagContinuousConfig, start_of
from puffervec.vec.vector_env import VectorEnv
from tests.helpers import serial

STILL = (0, 0)


def game(tagger: tuple[float, float], *runners: tuple[float, float], headings: Any = None, **settings: Any) -> VectorEnv:
    """One env of side 10 with one tagger and runners at these places; the tagger's id is that of the settings' seed.

    Actions: accelerations -1, 0.5, 1 (1 to 3), turns -pi/2, 0, pi/2 (1 to 3); all head along x.
    """
    config = TagContinuousConfig(num_taggers=1, num_runners=len(runners))
    types = start_of(config).types
    places = iter(runners)
    at = [tagger if kind else next(places) for kind in types]
    return serial(
        "tag_continuous",
        {
            "num_taggers": 1, "num_runners": len(runners), "num_acceleration_levels": 3, "num_turn_levels": 3,
            "starting_location_x": [x for x, _ in at], "starting_location_y": [y for _, y in at],
            "starting_directions": [0.0] * len(at) if headings is None else headings, **settings,
        },
    )  # fmt: skip


def ids(vec: VectorEnv) -> tuple[int, list[int]]:
    """Return the tagger's id and those of the runners."""
    kinds = vec.halves[0].groups["agents"].agent_types.tolist()
    return kinds.index(1), [i for i, kind in enumerate(kinds) if kind == 0]


def test_the_draws_are_those_of_the_legacy_generator_in_order() -> None:
    start = start_of(TagContinuousConfig(num_taggers=3, num_runners=4, grid_length=7.0, seed=20))
    np.random.seed(20)
    taggers = np.random.choice(np.arange(7), 3, replace=False)
    assert np.flatnonzero(start.types).tolist() == sorted(taggers.tolist())
    assert start.x.tolist() == np.float32(7.0 * np.random.rand(7)).tolist()
    assert start.y.tolist() == np.float32(7.0 * np.random.rand(7)).tolist()
    assert start.directions.tolist() == np.float32(np.random.choice([0, np.pi / 2, np.pi, np.pi * 3 / 2], 7)).tolist()


def test_a_runner_within_the_distance_is_tagged_and_leaves() -> None:
    with game((5.0, 5.0), (5.05, 5.0), (9.0, 9.0), tagging_distance=0.01) as vec:
        vec.reset(seed=0)
        tagger, (near, far) = ids(vec)
        rows = vec.halves[0].groups["agents"]
        vec.step(np.zeros((3, 2), np.int32))
        assert rows.rewards[[tagger, near, far]].tolist() == [1.0, -1.0, 0.0]
        assert rows.terminals[[tagger, near, far]].tolist() == [False, True, False]
        assert rows.masks.all() and not rows.truncations.any()
        vec.step(np.zeros((3, 2), np.int32))
        assert rows.masks[[tagger, near, far]].tolist() == [True, False, True]
        assert not rows.rewards.any() and not rows.terminals.any()


def test_the_distance_is_strict() -> None:
    with game((5.0, 5.0), (5.5, 5.0), tagging_distance=0.05) as vec:
        vec.reset(seed=0)
        vec.step(np.zeros((2, 2), np.int32))
        assert not vec.halves[0].groups["agents"].rewards.any()
        assert vec.peek(0)["still_in_the_game"].tolist() == [1, 1]


def test_the_end_with_no_runner_left_is_a_terminal_and_at_the_limit_a_truncation() -> None:
    with game((5.0, 5.0), (5.05, 5.0)) as vec:
        vec.reset(seed=0)
        _, rewards, terminals, truncations, infos = vec.step(np.zeros((2, 2), np.int32))
        assert (terminals.all(), truncations.any(), sorted(rewards.tolist())) == (True, False, [-1.0, 1.0])
        assert [record["length"] for record in infos.episodes] == [1, 1]
    with game((5.0, 5.0), (6.0, 5.0), episode_length=1) as vec:
        vec.reset(seed=0)
        _, rewards, terminals, truncations, _ = vec.step(np.zeros((2, 2), np.int32))
        assert (terminals.any(), truncations.all(), sorted(rewards.tolist())) == (False, True, [0.0, 1.0])


def test_acceleration_adds_up_and_is_lost_at_top_speed() -> None:
    with game((1.0, 1.0), (8.0, 8.0), max_speed=2.0, max_acceleration=0.5, min_acceleration=-0.5) as vec:
        vec.reset(seed=0)
        shown = []
        for _ in range(4):
            vec.step(np.array([[3, 0], [3, 0]], np.int32))
            state = vec.peek(0)
            shown.append((float(state["speed"][0]), float(state["acceleration"][0])))
        assert shown == [(0.5, 0.5), (1.5, 1.0), (2.0, 0.0), (2.0, 0.0)]
