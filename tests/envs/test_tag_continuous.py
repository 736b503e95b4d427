# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""tag_continuous (csrc/tag/continuous.c, puffervec/envs/tag_continuous.py): its rules one by one,
checked by hand.
"""

from __future__ import annotations

import ctypes
import dataclasses
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from puffervec.contract.native import EnvData
from puffervec.envs.tag_continuous import ENV, TagContinuousConfig, start_of
from puffervec.errors import ConfigError, PuffervecError
from puffervec.vec.vector_env import VectorEnv
from tests.helpers import serial
from tests.libraries import compile_library


def game(
    tagger: tuple[float, float],
    *runners: tuple[float, float],
    headings: Any = None,
    **settings: Any,
) -> VectorEnv:
    """One env of side 10 with one tagger and runners at these places; the tagger's id is that of
    the settings' seed.

    Actions: accelerations -0.5, 0, 0.5 (1 to 3), turns -pi/2, 0, pi/2 (1 to 3); all head along x.
    """
    config = TagContinuousConfig(num_taggers=1, num_runners=len(runners))
    types = start_of(config).types
    places = iter(runners)
    at = [tagger if kind else next(places) for kind in types]
    return serial(
        "tag_continuous",
        {
            "num_taggers": 1, "num_runners": len(runners), "num_acceleration_levels": 3,
            "num_turn_levels": 3, "max_acceleration": 0.5, "min_acceleration": -0.5,
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
    assert (
        start.directions.tolist()
        == np.float32(np.random.choice([0, np.pi / 2, np.pi, np.pi * 3 / 2], 7)).tolist()
    )


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
        assert (terminals.all(), truncations.any(), sorted(rewards.tolist())) == (
            True,
            False,
            [-1.0, 1.0],
        )
        assert [record["length"] for record in infos.episodes] == [1, 1]
    with game((5.0, 5.0), (6.0, 5.0), episode_length=1) as vec:
        vec.reset(seed=0)
        _, rewards, terminals, truncations, _ = vec.step(np.zeros((2, 2), np.int32))
        assert (terminals.any(), truncations.all(), sorted(rewards.tolist())) == (
            False,
            True,
            [0.0, 1.0],
        )


def test_acceleration_adds_up_and_is_lost_at_top_speed() -> None:
    with game(
        (1.0, 1.0), (8.0, 8.0), max_speed=2.0, max_acceleration=0.5, min_acceleration=-0.5
    ) as vec:
        vec.reset(seed=0)
        shown = []
        for _ in range(4):
            vec.step(np.array([[3, 0], [3, 0]], np.int32))
            state = vec.peek(0)
            shown.append((float(state["speed"][0]), float(state["acceleration"][0])))
        assert shown == [(0.5, 0.5), (1.5, 1.0), (2.0, 0.0), (2.0, 0.0)]


# ---- rules ---------------------------------------------------------------------------------------


def nothing(vec: VectorEnv) -> np.ndarray:
    """Actions that change nothing."""
    return np.zeros((vec.halves[0].groups["agents"].rows, 2), np.int32)


def test_a_full_observation_by_hand() -> None:
    with game((1.0, 1.0), (3.0, 1.0), (1.0, 5.0), episode_length=4, max_speed=2.0) as vec:
        vec.reset(seed=0)
        tagger, (one, two) = ids(vec)
        actions = nothing(vec)
        actions[two] = 3, 3  # faster by 0.5, and a quarter turn to the left
        actions[one] = 0, 3
        observations = vec.step(actions)[0]
        seen = {one: (2.0, 0.0, 0.0, 0.0, 0.25, 0, 1), two: (0.0, 4.5, 0.25, 0.25, 0.25, 0, 1)}
        scale = 10 * np.sqrt(2)
        expected = [[seen[i][f] / (scale if f < 2 else 1) for i in (one, two)] for f in range(7)]
        np.testing.assert_allclose(observations[tagger], [*np.ravel(expected), 0.25], atol=1e-6)


def test_who_left_sees_types_and_presence_only() -> None:
    with game((5.0, 5.0), (5.05, 5.0), (9.0, 9.0)) as vec:
        vec.reset(seed=0)
        tagger, (gone, other) = ids(vec)
        observations = vec.step(nothing(vec))[0]
        assert observations[gone, 14] > 0  # it sees for the last time
        observations = vec.step(nothing(vec))[0]
        assert not observations[gone, :10].any() and observations[gone, 14] == 0.0
        assert sorted(observations[gone, 10:12].tolist()) == [0.0, 1.0] and observations[
            gone, 12:14
        ].tolist() == [1.0, 1.0]
        at = [i for i in range(3) if i != tagger].index(gone)
        assert observations[tagger, 12 + at] == 0.0 and observations[tagger, 13 - at] == 1.0
        assert vec.peek(0)["x"][gone] == np.float32(5.05)


def test_the_nearest_are_those_in_the_game_and_ties_go_to_the_lowest_id() -> None:
    settings = {
        "use_full_observation": False,
        "num_other_agents_observed": 3,
        "tagging_distance": 0.1,
    }
    with game((5.0, 5.0), (5.5, 5.0), (3.0, 5.0), (7.0, 5.0), **settings) as vec:
        vec.reset(seed=0)
        tagger, (near, one, two) = ids(vec)
        observations = vec.halves[0].groups["agents"].observations
        assert (observations[tagger, :3] * 10 * np.sqrt(2)).tolist() == pytest.approx(
            [0.5, -2.0, 2.0]
        )
        vec.step(nothing(vec))  # the nearest is tagged
        vec.step(nothing(vec))
        assert (observations[tagger, :3] * 10 * np.sqrt(2)).tolist() == pytest.approx(
            [-2.0, 2.0, 0.0]
        )
        assert observations[tagger, 18:21].tolist() == [
            1.0,
            1.0,
            0.0,
        ]  # two are left: the third place is padding
        assert not observations[near].any()
        assert observations[one, 15:18].tolist() == [
            1.0,
            0.0,
            0.0,
        ]  # the tagger is nearer than the other runner
        assert one < two


@pytest.mark.parametrize("agents", [7, 8, 9, 16, 17, 32, 33, 65, 111, 191, 192, 300])
@pytest.mark.parametrize("nearest", [1, 6, 16, 40, 70])
def test_the_nearest_are_exact_in_any_number(agents: int, nearest: int) -> None:
    """All ways to find them, with crowds in corners, where many distances are equal."""
    nearest = min(nearest, agents)
    settings = {
        "num_taggers": 2,
        "num_runners": agents - 2,
        "tagging_distance": 0.004,
        "grid_length": 3.0,
    }
    settings |= {
        "use_full_observation": False,
        "num_other_agents_observed": nearest,
        "random_starts": True,
    }
    rng = np.random.default_rng(agents)
    with serial("tag_continuous", settings, num_envs=2) as vec:
        vec.reset(seed=agents)
        for _ in range(8):
            before = [vec.peek(env)["still_in_the_game"] for env in range(2)]
            observations = vec.step(rng.integers(0, 11, (2 * agents, 2)))[0].reshape(2, agents, -1)
            for env in range(2):
                if vec.peek(env)["time"][0] > 0:
                    check_nearest(vec.peek(env), before[env] == 1, observations[env], nearest)


def check_nearest(
    state: dict[str, np.ndarray], seen: np.ndarray, observations: np.ndarray, nearest: int
) -> None:
    """Compare the x of the neighbours with a sort of all distances."""
    x, y = state["x"], state["y"]
    distance = np.sqrt((x[:, None] - x) ** 2 + (y[:, None] - y) ** 2)
    distance[:, ~seen] = np.inf
    np.fill_diagonal(distance, np.inf)
    order = np.argsort(distance, axis=1, kind="stable")[:, :nearest]
    shown = np.isfinite(np.take_along_axis(distance, order, axis=1)) & seen[:, None]
    width = shown.shape[1]
    expected = np.where(shown, (x[order] - x[:, None]) / np.float32(3 * np.sqrt(2)), 0)
    np.testing.assert_allclose(observations[:, :width], expected, atol=1e-6)


def test_the_last_step_rewards_who_is_left_and_not_who_is_tagged() -> None:
    last = {"episode_length": 1, "end_of_game_reward_for_runner": 5.0, "tag_reward_for_tagger": 2.0}
    with game((5.0, 5.0), (5.05, 5.0), (9.0, 9.0), **last) as vec:
        vec.reset(seed=0)
        tagger, (near, far) = ids(vec)
        _, rewards, terminals, truncations, infos = vec.step(nothing(vec))
        assert rewards[[tagger, near, far]].tolist() == [2.0, -1.0, 5.0]
        assert terminals.tolist() == [i == near for i in range(3)] and truncations.tolist() == [
            i != near for i in range(3)
        ]
        runners, taggers = infos.episodes
        assert vec.spec.record_names == ("tags", "runners_left", "survival", "agents")
        assert (runners["agent_type"], runners["return"], runners["values"][:4].tolist()) == (
            0,
            2.0,
            [1.0, 0.5, 1.0, 2.0],
        )
        assert (taggers["agent_type"], taggers["return"], taggers["values"][:4].tolist()) == (
            1,
            2.0,
            [1.0, 0.5, 1.0, 1.0],
        )


def test_walls_cost_and_stop_nothing_and_rewards_are_rounded_once() -> None:
    penalties = {
        "edge_hit_penalty": -0.1,
        "step_reward_for_runner": 0.01,
        "step_penalty_for_tagger": -0.02,
    }
    with game((1.0, 1.0), (9.75, 9.0), **penalties) as vec:
        vec.reset(seed=0)
        tagger, (runner,) = ids(vec)
        actions = nothing(vec)
        actions[runner] = 3, 0
        for rewards in ([-0.1 + 0.01, -0.02],) * 2:
            shown = vec.step(actions)[1]
            assert shown[[runner, tagger]].tolist() == np.float32(rewards).tolist()
        assert (vec.peek(0)["x"][runner], vec.peek(0)["speed"][runner]) == (10.0, 1.0)


def test_without_exits_a_runner_is_tagged_at_every_step_by_the_lowest_tagger() -> None:
    settings = {
        "num_taggers": 2,
        "num_runners": 1,
        "starting_location_x": [5.0] * 3,
        "starting_location_y": [5.0] * 3,
    }
    with serial(
        "tag_continuous", {**settings, "runner_exits_game_after_tagged": False, "episode_length": 3}
    ) as vec:
        vec.reset(seed=0)
        kinds = vec.halves[0].groups["agents"].agent_types
        for _ in range(2):
            _, rewards, terminals, truncations, _ = vec.step(nothing(vec))
            assert rewards[kinds == 0].tolist() == [-1.0] and rewards[kinds == 1].tolist() == [
                1.0,
                0.0,
            ]
            assert not terminals.any() and not truncations.any()
        _, rewards, terminals, truncations, infos = vec.step(nothing(vec))
        assert truncations.all() and infos.episodes[0]["values"][:2].tolist() == [3.0, 1.0]


def test_random_starts_differ_by_episode_and_stay_within_the_square() -> None:
    with serial(
        "tag_continuous",
        {"random_starts": True, "episode_length": 1, "grid_length": 4.0},
        num_envs=50,
    ) as vec:
        vec.reset(seed=2)
        first = [vec.peek(env) for env in range(50)]
        x = np.concatenate([state["x"] for state in first])
        assert x.min() >= 0 and x.max() <= 4 and 1.7 < x.mean() < 2.3
        turns = {round(float(d) / (np.pi / 2), 3) for state in first for d in state["direction"]}
        assert turns == {0.0, 1.0, 2.0, 3.0}
        for _ in range(2):
            vec.step(nothing(vec))
        assert not any((vec.peek(env)["x"] == state["x"]).any() for env, state in enumerate(first))


def test_tables_and_margin_are_params() -> None:
    """A comparison with another NumPy may set them."""

    def build(config: TagContinuousConfig) -> EnvData:
        params = dict(ENV.build(config).params)
        return EnvData(
            {
                **params,
                "margin": np.float32([20.0]),
                "acceleration_changes": np.float32([0.25] * 11),
            }
        )

    with serial(dataclasses.replace(ENV, build=build), {"num_runners": 1}) as vec:
        vec.reset(seed=0)
        assert vec.step(nothing(vec))[2].all() and vec.peek(0)["speed"].tolist() == [0.25, 0.25]


@pytest.mark.parametrize(("most", "levels"), [(np.pi / 2, 10), (2.35, 10), (2.356, 20)])
def test_action_tables_are_those_of_warpdrive(most: float, levels: int) -> None:
    """The range ends at float32 numbers; between them the values are exact, and only then rounded
    to float32.
    """
    config = TagContinuousConfig(max_turn=most, min_turn=-most, num_turn_levels=levels)
    end = Fraction(float(np.float32(most)))
    exact = [-end + k * 2 * end / (levels - 1) for k in range(levels)]
    wanted = np.float32([0.0, *map(float, exact)])
    np.testing.assert_array_equal(ENV.build(config).params["turn_changes"], wanted)


def test_actions_may_change_what_the_settings_say() -> None:
    """Two runners, heading along x: the second action of each kind is played, and adds what its
    place in the list says.
    """
    settings = {
        "num_runners": 1, "num_acceleration_levels": 2, "acceleration_changes": [0.5, 0.25],
        "num_turn_levels": 3, "turn_changes": np.array([1.0, 0.125, -1.0]),
        "starting_location_x": [1.0, 1.0], "starting_location_y": [5.0, 5.0],
        "starting_directions": [0.0, 0.0],
    }  # fmt: skip
    with serial("tag_continuous", settings) as vec:
        vec.reset(seed=0)
        vec.step(np.full((2, 2), 2, np.int32))
        state = vec.peek(0)
    assert state["speed"].tolist() == [0.25, 0.25] and state["direction"].tolist() == [0.125, 0.125]


# ---- settings that are refused -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num_taggers": 0}, ["num_taggers is 0", "1 to"]),
        ({"num_runners": -3}, ["num_runners is -3", "1 to"]),
        ({"num_runners": 16385}, ["num_runners is 16385"]),
        ({"grid_length": 0}, ["grid_length is 0", "0.001"]),
        ({"grid_length": float("nan")}, ["grid_length is nan"]),
        ({"episode_length": 0}, ["episode_length is 0: use 1 to"]),
        ({"max_speed": -1.0}, ["max_speed is -1: use 0 to"]),
        ({"skill_level_tagger": -0.5}, ["skill_level_tagger is -0.5"]),
        ({"num_acceleration_levels": 0}, ["num_acceleration_levels is 0: use 1 to"]),
        ({"num_turn_levels": -1}, ["num_turn_levels is -1: use 1 to"]),
        ({"max_turn": float("inf")}, ["max_turn is inf", "finite"]),
        ({"edge_hit_penalty": 0.5}, ["edge_hit_penalty is 0.5", "to 0"]),
        ({"step_penalty_for_tagger": 1.0}, ["step_penalty_for_tagger is 1", "to 0"]),
        ({"tag_penalty_for_runner": 10.0}, ["tag_penalty_for_runner is 10", "to 0"]),
        ({"tag_reward_for_tagger": -1.0}, ["tag_reward_for_tagger is -1: use 0 to"]),
        ({"step_reward_for_runner": -0.1}, ["step_reward_for_runner is -0.1"]),
        ({"end_of_game_reward_for_runner": -1.0}, ["end_of_game_reward_for_runner is -1"]),
        ({"num_other_agents_observed": 12}, ["num_other_agents_observed is 12: use 1 to 11"]),
        ({"num_other_agents_observed": 0}, ["num_other_agents_observed is 0: use 1 to"]),
        ({"tagging_distance": 1.5}, ["tagging_distance is 1.5: use 0 to 1"]),
        ({"tagging_distance": -0.1}, ["tagging_distance is -0.1"]),
        ({"seed": -1}, ["seed is -1", "4294967295"]),
        ({"seed": "x"}, ["seed is 'x'"]),
        ({"starting_location_x": [1.0] * 11}, ["starting_location_y is None"]),
        ({"starting_location_x": [1.0] * 3, "starting_location_y": [1.0] * 11},
         ["starting_location_x", "(3,)", "(11)"]),
        ({"starting_location_x": [11.0] * 11, "starting_location_y": [1.0] * 11},
         ["location_x contains 11.0", "0 to 10"]),
        ({"starting_directions": [float("nan")] * 11},
         ["starting_directions contains nan", "finite angle"]),
        ({"starting_directions": "north"}, ["starting_directions", "one finite angle per agent"]),
        ({"starting_directions": [0.0] * 11, "random_starts": True}, ["random_starts is True"]),
        ({"num_tagger": 3}, ["num_tagger", "num_taggers"]),
        ({"turn_changes": [0.5] * 9},
         ["turn_changes has shape (9,)", "num_turn_levels (10) finite numbers"]),
        ({"acceleration_changes": [float("nan")] * 10},
         ["acceleration_changes contains nan", "num_acceleration_levels (10)"]),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_used(settings: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        serial("tag_continuous", settings)
    for word in words:
        assert re.search(re.escape(word), str(caught.value)), str(caught.value)
    assert len(str(caught.value)) < 900


def test_states_that_cannot_be_are_refused() -> None:
    with serial(
        "tag_continuous", {"num_taggers": 1, "num_runners": 2, "skill_level_tagger": 0.5}
    ) as vec:
        vec.reset(seed=0)
        tagger, _ = ids(vec)
        for name, value, word in (
            ("speed", 0.75, "speeds 0 to 0.5"),
            ("still_in_the_game", 0, "taggers stay in the game"),
        ):
            changed = vec.peek(0)[name].copy()
            changed[tagger] = value
            with pytest.raises(
                ConfigError, match=f"agent {tagger}, a tagger, cannot be at .*{word}"
            ):
                vec.poke(0, {name: changed})


def test_bounds_of_differences_are_alike_on_both_sides() -> None:
    """Twice the top speed of the more skilled type for accelerations, once for speeds, and a little
    for rounding.
    """
    with serial("tag_continuous", {"skill_level_tagger": 3.0, "max_speed": 0.5}) as vec:
        fields = {field.name: field for field in vec.spec.groups[0].fields}
    for name, high in (
        ("speed", 3.0),
        ("acceleration", 6.0),
        ("direction", 1.0),
        ("x", 0.7071),
        ("y", 0.7071),
    ):
        assert fields[name].low == -fields[name].high and high < fields[name].high < 1.001 * high, (
            name
        )


SETTINGS = {
    "num_taggers": (1, 16384), "num_runners": (1, 16384), "grid_length": (1e-3, 1e6),
    "episode_length": (1, 10_000_000), "max_speed": (0, 1e6), "skill_level_runner": (0, 1e3),
    "skill_level_tagger": (0, 1e3), "max_acceleration": (-1e6, 1e6),
    "min_acceleration": (-1e6, 1e6), "max_turn": (-1e3, 1e3), "min_turn": (-1e3, 1e3),
    "num_acceleration_levels": (1, 10_000), "num_turn_levels": (1, 10_000),
    "edge_hit_penalty": (-1e9, 0), "num_other_agents_observed": (1, 32768),
    "tagging_distance": (0, 1), "tag_reward_for_tagger": (0, 1e9),
    "step_penalty_for_tagger": (-1e9, 0), "tag_penalty_for_runner": (-1e9, 0),
    "step_reward_for_runner": (0, 1e9), "end_of_game_reward_for_runner": (0, 1e9),
}  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_have_these_bounds_and_no_others(name: str) -> None:
    """C is given what lies at both ends, and just beyond them; tables that depend on the setting
    are those of the default.
    """
    params = ENV.build(TagContinuousConfig()).params
    kept = dataclasses.replace(ENV, build=lambda config: EnvData(params))
    low, high = SETTINGS[name]
    whole = isinstance(getattr(TagContinuousConfig(), name), int)
    next_to = lambda end, to: float(np.nextafter(np.float32(end), np.float32(to)))  # noqa: E731
    beyond = (low - 1, high + 1) if whole else (next_to(low, -np.inf), next_to(high, np.inf))
    for value, refused in ((low, False), (high, False), (beyond[0], True), (beyond[1], True)):
        try:
            serial(kept, {name: value}).close()
            said = ""
        except ConfigError as error:  # At its ends a setting may not fit the others.
            said = str(error)
        bounds = re.search(rf"{name} is \S+: use (\S+) to ([^\s,]+)", said)
        if name == "num_other_agents_observed" and value == high:
            assert "use 1 to 11, the number of taggers and runners" in said
        else:
            assert (bounds is not None) == refused, said
        if refused:
            assert bounds is not None and [float(end) for end in bounds.groups()] == pytest.approx(
                [low, high], rel=1e-6
            )


def test_params_are_checked_in_c() -> None:
    """No read goes out of bounds, whatever Python hands over: numbers of entries, and the least and
    most of each.
    """
    config = TagContinuousConfig(grid_length=8.0)
    params = dict(ENV.build(config).params)
    two_pi = float(np.float32(2 * np.pi))
    limits = {"start_x": (0, 8), "start_y": (0, 8), "start_direction": (0, two_pi),
              "acceleration_changes": (-1e6, 1e6), "turn_changes": (-1e3, 1e3), "margin": (0, 2e6),
              "rewards": (-1e9, 1e9)}  # fmt: skip

    def said(**changes: np.ndarray) -> str:
        changed = dataclasses.replace(ENV, build=lambda config: EnvData({**params, **changes}))
        try:
            serial(changed, {"grid_length": 8.0}).close()
        except ConfigError as error:
            return str(error)
        return ""

    for name, (low, high) in limits.items():
        whole = params[name]
        for value, refused in ((low, False), (high, False), (np.nan, True),
                               *((np.nextafter(whole.dtype.type(end), whole.dtype.type(to)), True)
                                 for end, to in ((low, -np.inf), (high, np.inf)))):  # fmt: skip
            changed = whole.copy()
            changed.flat[-1] = value
            assert (f"entry {whole.size - 1} of {name} is" in said(**{name: changed})) == refused, (
                name,
                value,
            )
        for other in (np.append(whole, whole[-1:]), whole[:-1]):
            assert f"{name} has {other.size} entries" in said(**{name: other})
    types = params["types"]
    assert "types has 12 entries" in said(types=np.append(types, types[:1]))
    other = types.copy()
    other[np.flatnonzero(types == types[0])[0]] = 1 - types[0]
    assert re.search(r"types has \d taggers: num_taggers is 1", said(types=other))


def test_fields_of_rows_and_state() -> None:
    """What users read of them in the spec: name, unit, numbers, least, most and scale; a game of
    five, of side 8.
    """
    settings = {"num_taggers": 2, "num_runners": 3, "grid_length": 8.0, "episode_length": 40,
                "max_speed": 0.5, "skill_level_runner": 2.0, "use_full_observation": True,
                "num_acceleration_levels": 4, "num_turn_levels": 6}  # fmt: skip
    close = lambda value: pytest.approx(value, rel=1e-6)  # noqa: E731
    with serial("tag_continuous", settings) as vec:
        group = vec.spec.groups[0]
        found = [(of.name, of.unit, of.shape, of.low, of.high, of.scale) for of in group.fields]
        assert found == [
            ("x", "", (4,), close(-0.7072), close(0.7072), close(8 * 2**0.5)),
            ("y", "", (4,), close(-0.7072), close(0.7072), close(8 * 2**0.5)),
            ("speed", "", (4,), close(-2.0002), close(2.0002), close(0.5)),
            ("acceleration", "", (4,), close(-4.0004), close(4.0004), close(0.5)),
            ("direction", "rad", (4,), close(-1.0001), close(1.0001), close(2 * np.pi)),
            ("agent_type", "", (4,), 0.0, 1.0, 1.0),
            ("still_in_the_game", "", (4,), 0.0, 1.0, 1.0),
            ("time", "steps", (1,), 0.0, 1.0, 40.0),
        ]
        assert group.agents == 5 and list(group.action_sizes) == [5, 7]
        assert [(of.name, of.unit, of.shape, of.low, of.high) for of in vec.spec.state_fields] == [
            ("x", "", (5,), 0.0, 8.0),
            ("y", "", (5,), 0.0, 8.0),
            ("speed", "", (5,), 0.0, 1.0),
            ("direction", "rad", (5,), 0.0, close(2 * np.pi)),
            ("acceleration", "", (5,), -1.0, 1.0),
            ("still_in_the_game", "", (5,), 0.0, 1.0),
            ("just_tagged", "", (5,), 0.0, 1.0),
            ("time", "steps", (1,), 0.0, 40.0),
        ]
        assert vec.spec.record_names == ("tags", "runners_left", "survival", "agents")


@pytest.mark.parametrize(
    ("field", "value", "refused"),
    [
        ("x", 0.0, False), ("x", 10.0, False), ("x", -0.01, True), ("x", 10.01, True),
        ("y", 0.0, False), ("y", 10.0, False), ("y", -0.01, True), ("y", 10.01, True),
        ("speed", 0.0, False), ("speed", 2.0, False), ("speed", 2.01, True), ("speed", -0.01, True),
        ("acceleration", 2.0, False), ("acceleration", -2.0, False), ("acceleration", 2.01, True),
        ("acceleration", -2.01, True), ("direction", 0.0, False),
        ("direction", np.float32(2 * np.pi), False), ("direction", -0.01, True),
        ("direction", 6.29, True), ("x", np.nan, True), ("speed", np.nan, True),
        ("still_in_the_game", 0, False), ("still_in_the_game", 2, True), ("time", 100, False),
        ("time", 101, True), ("time", -1, True),
    ],
)  # fmt: skip
def test_bounds_of_a_state_that_is_set(field: str, value: float, refused: bool) -> None:
    """Of a runner that is twice as skilled as the tagger, in the second of two envs; the first
    stays as it is.
    """
    settings = {"num_taggers": 1, "num_runners": 2, "skill_level_runner": 2.0}
    with serial("tag_continuous", settings, num_envs=2) as vec:
        vec.reset(seed=0)
        first = {name: of.copy() for name, of in vec.peek(0).items()}
        state = {name: of.copy() for name, of in vec.peek(1).items()}
        runner = ids(vec)[1][0]
        state[field][0 if field == "time" else runner] = value
        if refused:
            with pytest.raises(ConfigError):
                vec.poke(1, state)
        else:
            vec.poke(1, state)
            assert all((vec.peek(1)[name] == of).all() for name, of in state.items())
            assert all((vec.peek(0)[name] == of).all() for name, of in first.items())
            ended = vec.halves[0].groups["agents"].truncations.reshape(2, 3)
            assert ended[1].any() == (field == "time") and not ended[0].any()


def saved_type(agents: int) -> np.dtype[Any]:
    """Return the type of an env's own bytes of a saved state, which come last."""
    arrays = ("x", "y", "speed", "direction", "acceleration", "alive")
    return np.dtype(
        [("seed", "u8"), ("episode", "u8"), ("task", "i8"), ("time", "i4"), ("left", "i4"),
         ("tags", "i4"), ("over", "i4"), ("returns", "f4", 2),
         *((name, "f4", agents) for name in arrays), ("left_at", "i4", agents)]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        *(({name: (-1, value)}, "agent [0-2], a runner, cannot be") for name, *values in (
            ("x", -0.01, 10.01, np.nan), ("y", -0.01, 10.01, np.nan),
            ("speed", -0.01, 2.01, np.nan), ("acceleration", -2.01, 2.01, np.nan),
            ("direction", -0.01, 6.29, np.nan),
        ) for value in values),
        *(({name: (-1, value)}, "") for name, *values in (
            ("x", 0.0, 10.0), ("y", 0.0, 10.0), ("speed", 0.0, 2.0), ("acceleration", -2.0, 2.0),
            ("direction", 0.0, 6.28), ("left_at", -1, 3),
        ) for value in values),
        ({"speed": (0, 1.0)}, ""), ({"speed": (0, 1.01)}, "a tagger, cannot be"),
        ({"alive": (0, 0.0)}, "a tagger, cannot be"), ({"alive": (-1, 0.5)}, "is neither in"),
        ({"alive": (-1, 0.0)}, "2 of 1 runners left"), ({"left": 1}, "1 of 2 runners left"),
        ({"alive": (-1, 0.0), "left": 1}, ""), ({"alive": (slice(1, 3), 0.0), "left": 0}, "0 of 0"),
        ({"alive": (slice(1, 3), 0.0), "left": 0, "over": 1}, ""),
        ({"time": 99}, ""), ({"time": 100}, "time 100 of 100"), ({"time": 100, "over": 1}, ""),
        ({"time": 101, "over": 1}, "time 101 of 100"), ({"time": -1}, "time -1 of 100"),
        ({"tags": -1}, "-1 tags"), ({"tags": 7}, ""), ({"returns": (0, np.nan)}, "returns"),
        ({"returns": (1, np.inf)}, "returns"), ({"left_at": (-1, -2)}, "left at -2"),
        ({"left_at": (-1, 4)}, "left at 4, and the time is 3"),
    ],
)  # fmt: skip
def test_bounds_of_a_saved_state(changes: dict[str, Any], words: str) -> None:
    """Of a game after three steps; place 0 is the tagger's, the others are those of the runners."""
    settings = {"num_taggers": 1, "num_runners": 2, "skill_level_runner": 2.0}
    with serial("tag_continuous", settings) as vec:
        vec.reset(seed=0)
        for _ in range(3):
            vec.step(nothing(vec))
        tagger, runners = ids(vec)
        places = np.array([tagger, *runners])
        saved, kind = vec.save()[0], saved_type(3)
        own = np.frombuffer(saved[-kind.itemsize :], kind).copy()
        assert (own["time"], own["left"], own["tags"], own["over"]) == (3, 2, 0, 0)
        assert all((own[name][0] == vec.peek(0)[name]).all() for name in ("x", "y", "direction"))
        for name, change in changes.items():
            if name == "returns":
                own[name][0, change[0]] = change[1]
            elif isinstance(change, tuple):
                own[name][0, places[change[0]]] = change[1]
            else:
                own[name] = change
        changed = saved[: -kind.itemsize] + own.tobytes()
        if words:
            with pytest.raises(PuffervecError, match=words):
                vec.load([changed])
            return
        vec.load([changed])
        vec.recv()
        assert vec.save() == [changed]


CHASE: dict[str, Any] = {
    "num_taggers": 2, "num_runners": 6, "grid_length": 3.0, "tagging_distance": 0.1,
    "random_starts": True,
}  # fmt: skip


@pytest.mark.parametrize(
    "settings",
    [
        CHASE,
        {**CHASE, "num_runners": 14},
        {**CHASE, "use_full_observation": False, "num_other_agents_observed": 3},
    ],
)
def test_a_state_just_after_a_tag_is_shown_alike_in_another_env(settings: dict[str, Any]) -> None:
    """The runner is seen for the last time; the rewards of the step are not part of the state."""
    rng, compared = np.random.default_rng(4), 0
    with serial("tag_continuous", settings, num_envs=2) as vec:
        vec.reset(seed=3)
        agents = vec.spec.groups[0].agents
        rows = vec.halves[0].groups["agents"]
        shown = {
            name: getattr(rows, name).reshape(2, agents, -1)
            for name in ("observations", "masks", "terminals", "truncations")
        }
        for _ in range(40):
            vec.step(rng.integers(0, 11, (2 * agents, 2)))
            if not vec.peek(0)["just_tagged"].any():
                continue
            vec.poke(1, vec.peek(0))
            assert all((of[0] == of[1]).all() for of in shown.values())
            assert not rows.rewards[agents:].any()
            if vec.peek(0)["still_in_the_game"].sum() == settings["num_taggers"]:
                break
            actions = rng.integers(0, 11, (agents, 2))
            vec.step(np.concatenate([actions, actions]))
            assert all((of[0] == of[1]).all() for of in shown.values())
            assert (rows.rewards[:agents] == rows.rewards[agents:]).all()
            compared += 1
    assert compared > 2


@pytest.mark.parametrize("back", [False, True])
def test_runners_of_a_state_that_is_set_have_left_now_or_before(back: bool) -> None:
    """The record counts their steps in the game: 2 of the one that left before step 3, 3 of the one
    that has just left; 0 of both after a return to step 1. The episode keeps its number and sums.
    """
    with game((5.0, 5.0), (9.0, 9.0), (1.0, 1.0), (1.0, 9.0), episode_length=9) as vec:
        vec.reset(seed=0)
        _, (one, two, _) = ids(vec)
        for _ in range(3):
            vec.step(nothing(vec))
        present, tagged = np.ones(4, np.int32), np.zeros(4, np.int32)
        present[[one, two]], tagged[two] = 0, 1
        vec.poke(0, {"still_in_the_game": present, "just_tagged": tagged})
        assert vec.peek(0)["just_tagged"].tolist() == tagged.tolist()
        assert vec.halves[0].groups["agents"].terminals.tolist() == (tagged == 1).tolist()
        vec.step(nothing(vec))
        assert not vec.peek(0)["just_tagged"].any()
        vec.poke(0, {**vec.peek(0), "time": [1]} if back else vec.peek(0))
        while not (infos := vec.step(nothing(vec))[4]):
            assert vec.peek(0)["time"][0] < 9
        runners = infos.episodes[0]
        steps = 9 if back else 2 + 3 + 9
        assert runners["values"][:4].tolist() == pytest.approx([0.0, 1 / 3, steps / 3, 3.0])
        assert (runners["length"], runners["episode"]) == (9, 0)


def test_a_state_that_is_set_after_an_end_begins_the_next_episode() -> None:
    """One that is an end itself does not."""
    settings = {"episode_length": 4, "step_reward_for_runner": 0.25}
    with game((5.0, 5.0), (9.0, 9.0), **settings) as vec:
        vec.reset(seed=0)
        rows = vec.halves[0].groups["agents"]
        tagger, _ = ids(vec)
        for time in (1, 2, 4, 3):
            vec.poke(0, {"time": [time]})
            assert rows.truncations.all() == rows.truncations.any() == (time == 4)
            assert not rows.rewards.any() and not rows.terminals.any()
            if time < 3:
                vec.step(nothing(vec))
        runner = vec.step(nothing(vec))[4].episodes[0]
        assert (runner["episode"], runner["return"], runner["length"]) == (1, 1.25, 4)
        vec.poke(0, {"still_in_the_game": [int(i == tagger) for i in range(2)], "time": [2]})
        assert rows.terminals.tolist() == [i == tagger for i in range(2)]
        assert not vec.step(nothing(vec))[4] and vec.peek(0)["time"].tolist() == [0]


def test_a_whole_turn_is_no_turn() -> None:
    with game((5.0, 5.0), (9.0, 9.0)) as vec:
        vec.reset(seed=0)
        vec.poke(0, {"direction": np.full(2, 2 * np.pi, np.float32)})
        vec.step(nothing(vec))
        assert vec.peek(0)["direction"].tolist() == [0.0, 0.0]


# ---- memory --------------------------------------------------------------------------------------

CSRC = Path(__file__).resolve().parents[2] / "csrc"
LAYOUT = """
#include "tag/layout.c"
#include <string.h>
uint64_t lay_out(const int32_t* numbers, uint64_t envs, uint64_t* out);
__attribute__((visibility("default"))) extern const uint64_t constants_bytes;
const uint64_t constants_bytes = sizeof(tag_constants);
__attribute__((visibility("default")))
uint64_t lay_out(const int32_t* numbers, uint64_t envs, uint64_t* out) {
    const tag_config config = {.num_taggers = numbers[0], .num_runners = numbers[1],
                               .num_acceleration_levels = numbers[2],
                               .num_turn_levels = numbers[3]};
    tag_state state;
    const uint64_t bytes = tag_lay_out(&config, envs, (uint8_t*)(uintptr_t)4096, &state);
    memcpy(out, &state, sizeof state);
    return bytes;
}
"""


def test_arrays_are_as_large_as_documented(tmp_path: Path) -> None:
    """One after the other, each of the shape that the header gives, with 64 entries behind it, and
    from a multiple of 64 bytes on. Numbers are chosen so that one entry more takes 64 bytes more.
    """
    (tmp_path / "layout.c").write_text(LAYOUT)
    library = ctypes.CDLL(
        str(compile_library(tmp_path / "layout.c", tmp_path / "layout.so", include=str(CSRC)))
    )
    library.lay_out.restype = ctypes.c_uint64
    header = (CSRC / "tag" / "continuous.h").read_text()
    header = header[header.index("typedef struct tag_state") : header.index("} tag_state;")]
    members = re.findall(r"^ +(\w+)\* (\w+)(\[TAG_SHOWN\])?; *// \(([^)]*)\)", header, re.M)
    arrays = [(kind, shape) for kind, _, five, shape in members for _ in range(5 if five else 1)]
    constants_bytes = ctypes.c_uint64.in_dll(library, "constants_bytes").value
    sizes = {"uint8_t": 1, "uint64_t": 8, "int64_t": 8, "double": 8,
             "tag_constants": constants_bytes}  # fmt: skip
    for taggers, runners, envs in ((8, 24, 16), (10, 20, 16), (100, 220, 16)):
        numbers = np.int32([taggers, runners, 15, 31])
        out = np.zeros(len(arrays), np.uint64)
        end = library.lay_out(
            numbers.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(envs),
            out.ctypes.data_as(ctypes.c_void_p),
        )  # fmt: skip
        agents = taggers + runners
        known = {"N": agents, "E": envs, "tile": max(agents, 256), "num_acceleration_levels": 15,
                 "num_turn_levels": 31}  # fmt: skip
        order = np.argsort(out)
        starts = [*out[order].astype(int).tolist(), 4096 + end]
        assert starts[0] == 4096
        for which, (start, after) in zip(order, zip(starts, starts[1:], strict=False), strict=True):
            kind, shape = arrays[which]
            count = math.prod(eval(axis, {}, known) for axis in shape.split(",") if axis.strip())
            taken = (count + 64) * sizes.get(kind, 4)
            assert after - start == -(-taken // 64) * 64, (kind, shape)
