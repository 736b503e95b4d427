# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""tag_continuous equals its twin in NumPy (puffervec/testing/reference/tag_continuous.py), one step
at a time from the twin's state.

Places are within 5e-6, observations within 1e-6; speeds, directions, rewards, flags and tags are
equal. What hangs by less than 1e-6 is counted and exempt.
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import numpy as np
import pytest

from puffervec import EnvEquality, check_env_equal
from puffervec.testing.reference.tag_continuous import TagContinuous
from tests.helpers import serial

TOLERANCES: dict[str, Any] = {
    "state.x": 5e-6, "state.y": 5e-6, "observations": 1e-6, "observations.direction": (1e-6, 1.0),
}  # fmt: skip
UNIT_TEST = {
    "grid_length": 10,
    "episode_length": 100,
    "num_acceleration_levels": 3,
    "num_turn_levels": 3,
}
YAML = {
    "num_taggers": 10, "num_runners": 100, "grid_length": 20, "episode_length": 500, "seed": 274880,
    "max_acceleration": 0.1, "min_acceleration": -0.1, "num_acceleration_levels": 20,
    "max_turn": 2.356, "min_turn": -2.356, "num_turn_levels": 20,
    "use_full_observation": False, "num_other_agents_observed": 10, "tagging_distance": 0.02,
    "edge_hit_penalty": -0.1, "tag_reward_for_tagger": 10.0, "tag_penalty_for_runner": -10.0,
    "end_of_game_reward_for_runner": 1.0,
}  # fmt: skip
TUTORIAL = {
    **YAML, "num_taggers": 5, "num_acceleration_levels": 10, "num_turn_levels": 10,
    "max_turn": 2.35, "min_turn": -2.35,
}  # fmt: skip
PARTIAL = {"use_full_observation": False}
CLOSE = {"tagging_distance": 0.3}
CASES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "defaults, partial": PARTIAL,
    "unit test 1": {
        **UNIT_TEST, "num_taggers": 2, "num_runners": 3, "max_acceleration": 1,
        "max_turn": np.pi / 4, "tagging_distance": 0.0, "seed": 274880,
    },
    "unit test 2": {
        **UNIT_TEST, **PARTIAL, "num_taggers": 4, "num_runners": 1, "max_acceleration": 0.05,
        "max_turn": np.pi / 4, "step_penalty_for_tagger": -0.1, "skill_level_tagger": 2,
        "runner_exits_game_after_tagged": False, "tagging_distance": 0.25, "seed": 428096,
    },
    "unit test 3": {
        **UNIT_TEST, **PARTIAL, "num_taggers": 1, "num_runners": 4, "max_acceleration": 2,
        "max_turn": np.pi / 2, "step_reward_for_runner": 0.1, "skill_level_tagger": 0.5,
        "seed": 654208,
    },
    "unit test 4": {
        **UNIT_TEST, "num_taggers": 3, "num_runners": 2, "max_acceleration": 0.05,
        "max_turn": np.pi, "skill_level_runner": 0.5, "runner_exits_game_after_tagged": False,
        "seed": 121024,
    },
    "tag_continuous.yaml": YAML,
    "tutorial": TUTORIAL,
    "Lightning": {**TUTORIAL, "episode_length": 200},
    "quick start": {**PARTIAL, "num_taggers": 5, "num_runners": 20, "num_other_agents_observed": 10,
                    "tagging_distance": 0.02},
    "trainer test": {**YAML, "num_taggers": 2, "num_runners": 10},
    "yaml, full": {**YAML, "num_taggers": 2, "num_runners": 10, "use_full_observation": True},
    # Few are left, and K is as large as N; tags, also in the last step.
    "K above those left": {**PARTIAL, **CLOSE, "num_runners": 5, "num_other_agents_observed": 6,
                           "max_speed": 0.3},
    "full, with removal": {**CLOSE, "num_taggers": 2, "num_runners": 6, "max_speed": 0.3,
                           "edge_hit_penalty": -0.3},
    "one step": {**CLOSE, "episode_length": 1, "num_runners": 3,
                 "end_of_game_reward_for_runner": 2.5},
    "three steps": {**CLOSE, **PARTIAL, "episode_length": 3, "num_taggers": 2,
                    "end_of_game_reward_for_runner": 0.7},
    "no removal": {**CLOSE, **PARTIAL, "num_taggers": 3, "num_runners": 5,
                   "runner_exits_game_after_tagged": False},
    "one against one": {
        "num_runners": 1, "num_acceleration_levels": 1, "min_acceleration": 0.25,
        "num_turn_levels": 1, "tagging_distance": 0.1,
    },
    "indices of a byte": {"num_turn_levels": 254},
    "indices of four bytes": {"num_turn_levels": 255},
    # Walls at every second step; numbers that no float holds; skills far apart.
    "walls": {**PARTIAL, "grid_length": 5, "max_speed": 4, "edge_hit_penalty": -0.7,
              "episode_length": 30},
    "odd numbers": {
        **PARTIAL, "grid_length": 7.3, "max_speed": 0.37, "skill_level_runner": 1.1,
        "skill_level_tagger": 0.7, "max_turn": 0.3, "max_acceleration": 0.07,
        "min_acceleration": -0.03, "tagging_distance": 0.11, "step_penalty_for_tagger": -0.013,
        "edge_hit_penalty": -0.017, "tag_reward_for_tagger": 0.3, "tag_penalty_for_runner": -0.9,
        "num_taggers": 4,
    },
    # Ties at each step: all begin in five places, and drive along x in steps that need no rounding.
    "ties": {
        **PARTIAL, "num_taggers": 4, "num_runners": 16, "num_other_agents_observed": 7,
        "tagging_distance": 0.0625, "starting_location_x": [0, 0.5, 1, 0.5, 0] * 4,
        "starting_location_y": [0, 0, 1, 0.5, 0.5] * 4, "grid_length": 8,
        "starting_directions": [0.0] * 20, "num_turn_levels": 1, "min_turn": 0, "max_turn": 0,
        "num_acceleration_levels": 2, "max_acceleration": 0.125, "min_acceleration": -0.125,
        "episode_length": 60,
    },
    "all in one place": {
        **PARTIAL, "num_taggers": 2, "num_runners": 130, "num_other_agents_observed": 3,
        "tagging_distance": 0.0, "starting_location_x": [7.0] * 132,
        "starting_location_y": [5.0] * 132, "episode_length": 40,
    },
    # Enough agents for the search in cells.
    "crowd": {**PARTIAL, "num_taggers": 20, "num_runners": 280, "num_other_agents_observed": 5,
              "episode_length": 60},
    "crowd at the walls": {**YAML, "num_runners": 190, "max_speed": 4, "max_acceleration": 1,
                           "episode_length": 50},
}  # fmt: skip
MANY = [name for name, settings in CASES.items() if settings.get("num_runners", 10) >= 100]
STILL = ("ties", "all in one place")


def act(
    seen: Counter[str], moving: float, game: TagContinuous, rng: np.random.Generator
) -> np.ndarray:
    """Half of the time taggers drive towards the nearest runner; all else is random. Count what the
    game looks like.
    """
    left = int(game.still_in_the_game.sum())
    seen["few left"] += not game.use_full_observation and left - 1 < game.observed
    seen["removed"] += left < game.agents
    seen["last step"] += game.time == game.episode_length - 1
    actions = np.stack(
        [rng.integers(0, len(table), game.agents) for table in (game.accelerations, game.turns)],
        axis=1,
    )
    runners = np.flatnonzero((game.agent_types == 0) & (game.still_in_the_game == 1))
    hunters = game.taggers[rng.random(len(game.taggers)) < 0.5]
    target = runners[game._distances(hunters, runners).argmin(axis=1)]
    wanted = np.arctan2(game.y[target] - game.y[hunters], game.x[target] - game.x[hunters])
    off = np.angle(np.exp(1j * (game.direction[hunters, None] + game.turns - wanted[:, None])))
    actions[hunters] = np.stack(
        [np.full(len(hunters), len(game.accelerations) - 1), np.abs(off).argmin(axis=1)], axis=1
    )
    actions[rng.random(game.agents) >= moving] = 0
    return actions


def last_bits(length: float) -> float:
    """Return what the last two bits of a float32 of that size are worth."""
    return 2.5e-7 * length


def compare(name: str, steps: int, num_envs: int, seen: Counter[str]) -> EnvEquality:
    """Compare several envs, since C steps some of them together."""
    settings = {"seed": 7, **CASES[name]}
    actions = functools.partial(act, seen, 0.2 if name in STILL else 1.0)
    epsilon = max(1e-6, last_bits(settings.get("grid_length", 10.0)))
    arguments: dict[str, Any] = {
        "teacher_forced": True,
        "tolerances": TOLERANCES,
        "actions": actions,
        "epsilon": epsilon,
    }
    with serial("tag_continuous", settings, num_envs=num_envs) as vec:
        report = check_env_equal(
            vec, functools.partial(TagContinuous, **settings), steps=steps, **arguments
        )
    agents = settings.get("num_taggers", 1) + settings.get("num_runners", 10)
    assert max(report.exempt.values(), default=0) <= agents + 0.05 * agents * report.steps, report
    assert {"state.still_in_the_game", "state.acceleration", "observations.time"} <= set(
        report.largest
    )
    assert report.steps + report.resets >= num_envs * (steps + 1)
    seen.update(report.events)
    return report


def test_tag_continuous_equals_its_twin() -> None:
    """The beginning of all cases; the next test goes on for longer."""
    seen: Counter[str] = Counter()
    for name in CASES:
        compare(name, 4 if name in MANY else 16, 3, seen)
    assert (
        min(
            seen[event]
            for event in (
                "tags",
                "walls",
                "terminals",
                "truncations",
                "few left",
                "removed",
                "last step",
            )
        )
        > 10
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_tag_continuous_equals_its_twin_over_many_steps(name: str) -> None:
    many = name in MANY
    compare(name, 200 if many else 1700, 5 if many else 3, Counter())
    compare(name, 10, 19, Counter())


def drawn_settings(rng: np.random.Generator) -> dict[str, Any]:
    """Draw a game with starts at random, in one place, on a lattice, along a wall or in corners."""
    agents = int(rng.choice([2, 3, 5, 9, 30, 100, 130, 300]))
    length = float(rng.choice([0.5, 3, 7.3, 20, 100]))
    speed, taggers = (
        length * float(rng.choice([0.001, 0.02, 0.1, 0.5])),
        int(rng.integers(1, max(2, agents // 3))),
    )
    choices: dict[str, list[Any]] = {
        "episode_length": [1, 2, 5, 20], "skill_level_runner": [0.3, 1.0, 1.7],
        "skill_level_tagger": [0.3, 1.0, 1.7], "num_acceleration_levels": [1, 2, 5],
        "num_turn_levels": [1, 2, 7], "max_turn": [0.1, np.pi, 6.0],
        "max_acceleration": [0.1 * speed, 2 * speed], "min_acceleration": [-speed, -0.3 * speed],
        "num_other_agents_observed": [1, min(5, agents), min(30, agents - 1), min(130, agents)],
        "edge_hit_penalty": [0.0, -0.3], "tagging_distance": [0.0, 0.01, 0.3, 1.0],
        "tag_reward_for_tagger": [0.0, 0.3], "step_penalty_for_tagger": [0.0, -0.01],
        "tag_penalty_for_runner": [0.0, -1.7], "step_reward_for_runner": [0.0, 0.013],
        "end_of_game_reward_for_runner": [0.0, 1.1], "use_full_observation": [agents <= 100, False],
        "runner_exits_game_after_tagged": [True, True, False],
    }  # fmt: skip
    settings = {name: values[rng.integers(len(values))] for name, values in choices.items()}
    places = [
        rng.random((2, agents)),
        rng.normal(0.5, 0.003, (2, agents)),
        rng.integers(0, 5, (2, agents)) / 4,
        np.stack([np.ones(agents), rng.random(agents)]),
        rng.integers(0, 2, (2, agents)).astype(float),
    ][rng.integers(5)]
    start = dict(
        zip(("starting_location_x", "starting_location_y"), (length * places).tolist(), strict=True)
    )
    sizes = {
        "num_taggers": taggers,
        "num_runners": agents - taggers,
        "grid_length": length,
        "max_speed": speed,
    }
    return {**settings, **sizes, **start, "seed": int(rng.integers(2**32))}


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 50, 100])
def test_tag_continuous_equals_its_twin_in_drawn_games(first: int) -> None:
    seen: Counter[str] = Counter()
    for game in range(first, first + 50):
        settings = drawn_settings(np.random.default_rng(game))
        bits = last_bits(settings["grid_length"])
        arguments: dict[str, Any] = {
            "tolerances": {**TOLERANCES, "state.x": max(5e-6, bits), "state.y": max(5e-6, bits)},
            "epsilon": max(1e-6, bits),
            "actions": functools.partial(act, Counter(), 1.0 if game % 2 else 0.3),
        }  # fmt: skip
        with serial("tag_continuous", settings, num_envs=1 + game % 4) as vec:
            twin = functools.partial(TagContinuous, **settings)
            seen.update(
                check_env_equal(vec, twin, steps=5, teacher_forced=True, **arguments).events
            )
    assert min(seen[event] for event in ("tags", "walls", "terminals", "truncations")) > 50


def test_random_starts() -> None:
    settings = {**PARTIAL, "num_taggers": 2, "seed": 3, "episode_length": 5}
    with serial("tag_continuous", {**settings, "random_starts": True}, num_envs=3) as vec:
        twin = functools.partial(TagContinuous, **settings)
        seen = check_env_equal(
            vec, twin, steps=20, starts="env", teacher_forced=True, tolerances=TOLERANCES
        )
    assert seen.resets == 3 * 4


def test_rows_of_runners_that_have_left_are_as_in_warpdrive() -> None:
    """Their masks are off, so nothing is to be read in them; but what stands there is what
    WarpDrive has there.
    """
    for partial in (True, False):
        settings = {
            **CLOSE,
            "num_taggers": 2,
            "num_runners": 6,
            "use_full_observation": not partial,
            "seed": 7,
        }
        twin, rng, removed = TagContinuous(**settings), np.random.default_rng(0), 0
        with serial("tag_continuous", settings) as vec:
            vec.reset(seed=0)
            for _ in range(40):
                actions = rng.integers(0, 11, (8, 2))
                expected, rewards, terminated, *_ = twin.step(actions)
                observations, shown, *_ = vec.step(actions)
                out = twin.state()["still_in_the_game"] == 0
                removed += int(out.sum())
                np.testing.assert_allclose(observations[out], expected[out], atol=1e-6)
                np.testing.assert_array_equal(shown[out], rewards[out])
                if terminated[twin.taggers].all():
                    break
        assert removed > 20
