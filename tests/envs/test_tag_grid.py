# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""tag_grid (csrc/tag/grid.c, puffervec/envs/tag_grid.py): equal to its twin step by step, and a few
rules checked by hand.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest

from puffervec.contract.native import EnvData
from puffervec.envs.tag_grid import ENV, TagGridConfig
from puffervec.errors import ConfigError, PuffervecError
from puffervec.testing.equality import check_env_equal
from puffervec.testing.reference.tag_grid import MOVES, TagGrid
from puffervec.vec.vector_env import VectorEnv
from tests.helpers import serial

UNIT_TEST = {
    "num_taggers": 4, "grid_length": 4, "episode_length": 20,
    "wall_hit_penalty": 0.1, "tag_reward_for_tagger": 10.0, "tag_penalty_for_runner": 2.0,
    "step_cost_for_tagger": 0.01,
}  # fmt: skip
YAML = {
    "num_taggers": 4, "grid_length": 100, "episode_length": 100, "seed": 20,
    "wall_hit_penalty": 0.1, "tag_reward_for_tagger": 10.0, "tag_penalty_for_runner": 5.0,
    "step_cost_for_tagger": 0.01, "use_full_observation": True,
}  # fmt: skip
CORNERS = {"starting_location_x": [0, 4, 0, 4, 2], "starting_location_y": [0, 0, 4, 4, 2]}
CASES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "defaults, partial": {"use_full_observation": False},
    "paper": YAML,
    "paper, partial": {**YAML, "use_full_observation": False},
    "unit test": {**UNIT_TEST, "use_full_observation": True},
    "unit test, partial": {**UNIT_TEST, "use_full_observation": False},
    "start arrays": {**UNIT_TEST, **CORNERS},
    "start arrays, partial": {**UNIT_TEST, **CORNERS, "use_full_observation": False},
    "six agents": {**UNIT_TEST, "num_taggers": 5},
    "seven agents": {**UNIT_TEST, "num_taggers": 6},
    "eight agents": {**UNIT_TEST, "num_taggers": 7},
    "nine agents": {**UNIT_TEST, "num_taggers": 8},
    "twenty agents": {**UNIT_TEST, "num_taggers": 19},
    "twenty agents, partial": {**UNIT_TEST, "num_taggers": 19, "use_full_observation": False},
    "one step": {**UNIT_TEST, "episode_length": 1},
    "two cells, one tagger": {"num_taggers": 1, "grid_length": 1, "episode_length": 7},
    "two cells, partial": {
        "num_taggers": 2,
        "grid_length": 1,
        "episode_length": 7,
        "use_full_observation": False,
    },
    "no rewards": {**UNIT_TEST, "wall_hit_penalty": 0.0, "step_cost_for_tagger": 0.0},
    "odd rewards": {
        **UNIT_TEST,
        "wall_hit_penalty": 7.25,
        "tag_reward_for_tagger": -0.3,
        "step_cost_for_tagger": -0.7,
    },
    "started on the runner": {
        **UNIT_TEST,
        "starting_location_x": [2] * 5,
        "starting_location_y": [2] * 5,
    },
}


def choose(twin: TagGrid, rng: np.random.Generator) -> np.ndarray:
    """Random moves, half of them of taggers that hunt, so that tags happen on large grids too."""
    actions = rng.integers(0, len(MOVES), twin.agents)
    away = np.stack([twin.x[-1] - twin.x, twin.y[-1] - twin.y], axis=1)
    along_x = np.abs(away[:, :1]) > np.abs(away[:, 1:])
    wanted = np.sign(away) * np.concatenate([along_x, ~along_x], axis=1)
    hunting = (rng.random(twin.agents) < 0.5) & (np.arange(twin.agents) < twin.agents - 1)
    actions[hunting] = (wanted[hunting, None] == MOVES).all(axis=2).argmax(axis=1)
    return actions


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("episodes", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_equals_the_twin(name: str, episodes: int) -> None:
    settings = CASES[name]
    steps = episodes * settings.get("episode_length", 100) + 30
    seen = check_env_equal(
        "tag_grid", TagGrid, settings=settings, seeds=(0, 20), steps=steps, actions=choose
    )
    assert seen.resets >= 2 * episodes and "state.x" in seen.largest


@pytest.mark.parametrize("full", [True, False])
def test_equals_the_twin_with_random_starts(full: bool) -> None:
    """Two envs, so that the second one's rows are compared, too."""
    ends = {"terminals": 0, "truncations": 0}
    for seed in range(20):
        sizes = {
            "num_taggers": 1 + seed % 4,
            "episode_length": 2 + seed % 9,
            "use_full_observation": full,
        }
        settings: dict[str, Any] = {**UNIT_TEST, **sizes}
        with serial("tag_grid", {**settings, "random_starts": True}, num_envs=2) as vec:
            twin = functools.partial(TagGrid, **settings)
            seen = check_env_equal(vec, twin, seeds=(seed,), steps=25, actions=choose, starts="env")
        ends = {kind: ends[kind] + seen.events[kind] for kind in ends}
    assert min(ends.values()) > 20  # both ends were met often


# ---- by hand -------------------------------------------------------------------------------------


def one_env(**settings: Any) -> VectorEnv:
    return serial("tag_grid", {**UNIT_TEST, **settings})


def test_full_observation_by_hand() -> None:
    with one_env(num_taggers=1, starting_location_x=[1, 3], starting_location_y=[2, 4]) as vec:
        observations, _ = vec.reset(seed=0)
        assert observations.tolist() == [
            [0.25, 0.75, 0.5, 1.0, 0, 1, 1, 0, 0],
            [0.25, 0.75, 0.5, 1.0, 0, 1, 0, 1, 0],
        ]
        vec.step([1, 4])  # the tagger to x = 2, the runner to y = 3
        assert observations.tolist() == [
            [0.5, 0.75, 0.5, 0.75, 0, 1, 1, 0, np.float32(0.05)],
            [0.5, 0.75, 0.5, 0.75, 0, 1, 0, 1, np.float32(0.05)],
        ]


def test_a_partial_observation_breaks_ties_by_the_lowest_id() -> None:
    # Taggers 1 and 2 are both 2 from the runner (squared 4), tagger 0 is 3 away, tagger 3 sqrt(5).
    x, y = [2, 0, 4, 3, 2], [5, 2, 2, 0, 2]
    with one_env(
        grid_length=8, use_full_observation=False, starting_location_x=x, starting_location_y=y
    ) as vec:
        observations, _ = vec.reset(seed=0)
        assert observations[4].tolist() == [2 / 8, 2 / 8, 0 / 8, 2 / 8, 1, 0]
        assert observations[3].tolist() == [3 / 8, 0 / 8, 2 / 8, 2 / 8, 0, 0]
        # The distance is Euclidean, not by rows: tagger 1 steps away, tagger 2 stays nearest
        # although its id is higher.
        vec.step([0, 3, 0, 0, 0])
        assert observations[4, 2:4].tolist() == [4 / 8, 2 / 8]


@pytest.mark.parametrize(("action", "x", "y"), [(1, 4, 2), (2, 0, 2), (3, 2, 4), (4, 2, 0)])
def test_a_wall_costs_and_holds(action: int, x: int, y: int) -> None:
    with one_env(num_taggers=1, starting_location_x=[x, 1], starting_location_y=[y, 1]) as vec:
        vec.reset(seed=0)
        _, rewards, *_ = vec.step([action, 0])
        assert rewards.tolist() == pytest.approx([-0.11, 0.01])
        assert (vec.peek(0)["x"].tolist(), vec.peek(0)["y"].tolist()) == ([x, 1], [y, 1])


def test_a_tag_rewards_every_tagger_and_walls_still_cost() -> None:
    # Tagger 0 steps on the runner at the wall; tagger 1 walks into a wall far away; the runner too.
    with one_env(
        num_taggers=2, starting_location_x=[1, 4, 0], starting_location_y=[0, 4, 0]
    ) as vec:
        vec.reset(seed=0)
        _, rewards, terminals, truncations, _ = vec.step([2, 1, 2])
        assert rewards.tolist() == pytest.approx([10.0, 9.9, -2.1])
        assert (terminals.all(), truncations.any()) == (True, False)


def test_a_tag_in_the_last_step_is_a_terminal() -> None:
    with one_env(
        num_taggers=1, episode_length=1, starting_location_x=[1, 0], starting_location_y=[0, 0]
    ) as vec:
        vec.reset(seed=0)
        _, rewards, terminals, truncations, _ = vec.step([2, 0])
        assert (terminals.all(), truncations.any(), rewards.tolist()) == (True, False, [10.0, -2.0])
    with one_env(
        num_taggers=1, episode_length=1, starting_location_x=[1, 0], starting_location_y=[0, 0]
    ) as vec:
        vec.reset(seed=0)
        _, _, terminals, truncations, _ = vec.step([0, 0])
        assert (terminals.any(), truncations.all()) == (False, True)


def test_episode_records() -> None:
    with one_env(
        num_taggers=2,
        episode_length=2,
        starting_location_x=[1, 4, 0],
        starting_location_y=[0, 4, 0],
    ) as vec:
        vec.reset(seed=5)
        assert not vec.step([0, 0, 0])[4]
        taggers, runner = vec.step([2, 0, 0])[4].episodes
        assert vec.spec.record_names == ("tagged", "agents")
        assert (
            taggers["agent_type"],
            taggers["length"],
            taggers["episode"],
            taggers["env"],
            taggers["task"],
        ) == (
            0,
            2,
            0,
            0,
            -1,
        )
        assert taggers["return"] == pytest.approx(9.99)  # the mean over taggers of -0.01 + 10
        assert taggers["values"][:3].tolist() == [1.0, 2.0, 0.0]
        assert (runner["agent_type"], runner["length"], runner["return"]) == (
            1,
            2,
            pytest.approx(0.01 - 2.0),
        )
        assert runner["values"][:3].tolist() == [1.0, 1.0, 0.0]
        vec.step([0, 0, 0])
        vec.step([0, 0, 0])
        records = vec.step([0, 0, 0])[4].episodes
        assert records["episode"].tolist() == [1, 1]
        assert records["values"][:, 0].tolist() == [0.0, 0.0]


# ---- starts --------------------------------------------------------------------------------------

LAYOUTS = {
    "starting_location_x": [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [1, 1, 1, 1, 4]],
    "starting_location_y": [[0, 0, 0, 0, 4], [4, 4, 4, 4, 0], [2, 2, 2, 2, 2]],
}


def test_tasks_choose_the_layout_from_the_next_reset_on() -> None:
    with serial("tag_grid", {**UNIT_TEST, **LAYOUTS, "episode_length": 1}, num_envs=3) as vec:
        vec.set_tasks([0, 1, 2], [2, 0, 1])
        vec.reset(seed=0)
        assert [vec.peek(env)["x"].tolist() for env in range(3)] == [
            LAYOUTS["starting_location_x"][i] for i in (2, 0, 1)
        ]
        assert [vec.peek(env)["y"].tolist() for env in range(3)] == [
            LAYOUTS["starting_location_y"][i] for i in (2, 0, 1)
        ]
        vec.set_tasks([1], 2)
        records = vec.step([0] * 15)[4].episodes
        assert records["task"].tolist() == [
            2,
            2,
            0,
            0,
            1,
            1,
        ]  # the task that an episode ran, not the next one
        vec.step([0] * 15)
        assert vec.peek(1)["x"].tolist() == LAYOUTS["starting_location_x"][2]


def test_random_starts_use_every_cell_and_change_each_episode() -> None:
    with serial(
        "tag_grid", {**UNIT_TEST, "random_starts": True, "episode_length": 1}, num_envs=100
    ) as vec:
        vec.reset(seed=3)
        first = [(vec.peek(env)["x"], vec.peek(env)["y"]) for env in range(100)]
        cells = {(int(x), int(y)) for xs, ys in first for x, y in zip(xs, ys, strict=True)}
        assert cells == {(x, y) for x in range(5) for y in range(5)}
        vec.step([0] * 500)
        vec.step([0] * 500)
        second = [vec.peek(env)["x"] for env in range(100)]
        assert sum(bool((a == b).all()) for (a, _), b in zip(first, second, strict=True)) < 5


@pytest.mark.parametrize("task", [3, 3 * 2**40 + 1, -2])
def test_a_task_beyond_the_layouts_is_refused(task: int) -> None:
    with serial("tag_grid", {**UNIT_TEST, **LAYOUTS}) as vec:
        assert vec.spec.tasks == 3
        vec.set_tasks([0], [1])
        with pytest.raises(ConfigError, match=f"tag_grid has no task {task}: its tasks are 0 to 2"):
            vec.set_tasks([0], [task])
        with pytest.raises(ConfigError, match=f"no task {task}"):
            vec.reset(seed=0, options={"task": task})
        vec.reset(seed=0)
        assert vec.peek(0)["x"].tolist() == LAYOUTS["starting_location_x"][1]
    with (
        serial("tag_grid", {**UNIT_TEST, "random_starts": True}) as vec,
        pytest.raises(ConfigError, match="only task is 0"),
    ):
        vec.set_tasks([0], 1)


def test_a_reset_pool_is_drawn_from_the_seed_and_each_episode_takes_a_layout() -> None:
    pool = {"num_taggers": 4, "grid_length": 6, "episode_length": 1, "reset_pool": 5}

    def starts(seed: int | None) -> list[tuple[int, ...]]:
        with serial("tag_grid", {**pool, "seed": seed}, num_envs=200) as vec:
            assert vec.spec.tasks == 5
            vec.reset(seed=1)
            return [
                (*vec.peek(env)["x"].tolist(), *vec.peek(env)["y"].tolist()) for env in range(200)
            ]

    found = starts(20)
    assert found == starts(20) and set(found).isdisjoint(starts(21)) and starts(None) == starts(0)
    counts = [found.count(layout) for layout in set(found)]
    assert len(counts) == 5 and min(counts) > 20
    cells = np.array(found).reshape(200, 2, 5)
    assert not cells[:, :, 4].any() and set(cells[:, :, :4].flatten()) == {1, 2, 3, 4, 5}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"reset_pool": -1}, ["reset_pool", "-1", "0"]),
        ({"reset_pool": 10_001}, ["reset_pool", "10001", "10000"]),
        ({"reset_pool": 5, "random_starts": True}, ["reset_pool", "random_starts"]),
        ({"reset_pool": 5, **CORNERS}, ["reset_pool", "starting locations"]),
        ({"reset_pool": 5, "grid_length": 1}, ["reset_pool", "grid_length is 1"]),
        ({"reset_pool": 5, "num_taggers": 0}, ["num_taggers", "0", "1 to"]),
        ({"num_taggers": 0}, ["num_taggers", "0", "1 to"]),
        ({"num_taggers": 10**6}, ["num_taggers", "1000000"]),
        ({"grid_length": 0}, ["grid_length", "0"]),
        ({"episode_length": 0}, ["episode_length", "0"]),
        ({"episode_length": -5}, ["episode_length", "-5"]),
        ({"wall_hit_penalty": float("nan")}, ["finite"]),
        ({"tag_reward_for_tagger": float("inf")}, ["finite"]),
        ({"starting_location_x": [1, 2, 3]}, ["starting_location_x", "3", "5"]),
        ({"starting_location_x": [0, 0, 0, 0, 5]}, ["contains 5", "0 to 4"]),
        ({"starting_location_y": [0, 0, 0, 0, -1]}, ["-1", "0 to 4"]),
        ({"starting_location_x": [0.5, 0, 0, 0, 0]}, ["starting_location_x", "whole numbers"]),
        ({"starting_location_x": "abc"}, ["starting_location_x"]),
        ({"starting_location_x": [[0, 0], [0]]}, ["starting_location_x"]),
        ({"starting_location_x": [2**32, 0, 0, 0, 0]}, ["starting_location_x", "4294967296"]),
        (
            {
                "starting_location_x": np.zeros((5, 2), int),
                "starting_location_y": np.zeros((5, 2), int),
            },
            ["starting_location_x", "(5, 2)"],
        ),
        (
            {
                "starting_location_x": np.zeros((2, 5), int),
                "starting_location_y": np.zeros(10, int),
            },
            ["starting_location"],
        ),
        ({"num_runners": 2}, ["num_runners", "num_taggers"]),
    ],
)
def test_unusable_settings_are_refused(settings: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        serial("tag_grid", {**UNIT_TEST, **settings})
    for word in words:
        assert word in str(caught.value)


# ---- what C refuses by itself --------------------------------------------------------------------


def refusal(settings: dict[str, Any], **params: np.ndarray) -> str:
    """Return the error of C for these settings and params; "" if it accepts them."""
    build = dataclasses.replace(ENV, build=lambda config: EnvData(params))
    try:
        serial(build, {**UNIT_TEST, **settings}).close()
    except ConfigError as error:
        return str(error)
    return ""


REWARDS = ("wall_hit_penalty", "tag_reward_for_tagger", "tag_penalty_for_runner",
           "step_cost_for_tagger")  # fmt: skip


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("num_taggers", 1, 16383), ("grid_length", 1, 100_000), ("episode_length", 1, 10_000_000),
     *((name, -1e9, 1e9) for name in REWARDS)],
)  # fmt: skip
def test_settings_have_these_bounds_and_no_others(name: str, low: Any, high: Any) -> None:
    starts = ENV.build(TagGridConfig()).params
    words = "a reward is" if name in REWARDS else f"{name} is"
    beyond = [low - 1, high + 1]
    if name in REWARDS:
        end = np.float32(high)
        beyond = [-float(np.nextafter(end, np.float32(np.inf))), np.inf, np.nan]
        beyond.append(-beyond[0])
    assert not any(words in refusal({name: value}, **starts) for value in (low, high))
    assert all(words in refusal({name: value}, **starts) for value in beyond)


def test_starts_are_checked_in_c() -> None:
    """One cell of the grid per agent and layout; the grid has 5 x 5 cells."""
    x = y = np.int32([0, 4, 0, 4, 2])
    for place in (0, 4):
        for value in (-1, 5):
            other = x.copy()
            other[place] = value
            for starts in ({"start_x": other, "start_y": y}, {"start_x": x, "start_y": other}):
                assert f"starting location {place} is (" in refusal({}, **starts)
    sizes = {(5, 5): "", (10, 10): "", (5, 10): "5 and", (10, 5): "10 and", (6, 6): "6 and",
             (0, 0): "0 and", (0, 5): "0 and"}  # fmt: skip
    for (count_x, count_y), words in sizes.items():
        starts = {"start_x": np.zeros(count_x, np.int32), "start_y": np.zeros(count_y, np.int32)}
        found = refusal({}, **starts)
        assert words in found and bool(words) == bool(found)
    assert "5 and starting_location_y 0 entries" in refusal({}, start_x=x)
    assert "0 and starting_location_y 5 entries" in refusal({}, start_y=y)


@pytest.mark.parametrize("full", [True, False])
def test_fields_of_rows_and_state(full: bool) -> None:
    """What users read of them in the spec: name, unit, shape, least, most and scale."""
    with one_env(use_full_observation=full) as vec:
        group = vec.spec.groups[0]
        found = [(of.name, of.unit, of.shape, of.low, of.high, of.scale) for of in group.fields]
        each = (5,) if full else (1,)
        places = (
            [("x", "cells", (5,), 0.0, 1.0, 4.0), ("y", "cells", (5,), 0.0, 1.0, 4.0)]
            if full
            else [("own_position", "cells", (2,), 0.0, 1.0, 4.0),
                  ("other_position", "cells", (2,), 0.0, 1.0, 4.0)]
        )  # fmt: skip
        own = [("self", "", (5,), 0.0, 1.0, 1.0)] * full
        assert found == [
            *places,
            ("agent_type", "", each, 0.0, 1.0, 1.0),
            *own,
            ("time", "steps", (1,), 0.0, 1.0, 20.0),
        ]
        assert [(of.name, of.unit, of.shape, of.low, of.high, of.scale)
                for of in vec.spec.state_fields] == [
            ("x", "", (5,), 0.0, 4.0, 1.0), ("y", "", (5,), 0.0, 4.0, 1.0),
            ("time", "", (1,), 0.0, 20.0, 1.0),
        ]  # fmt: skip


# ---- states from outside -------------------------------------------------------------------------

# An env's own bytes of a saved state, which come last.
SAVED = np.dtype(
    [("seed", "u8"), ("episode", "u8"), ("task", "i8"), ("time", "i4"), ("over", "i4"),
     ("returns", "f4", 2), ("x", "i4", 5), ("y", "i4", 5)]
)  # fmt: skip


@pytest.mark.parametrize(
    ("field", "at", "value", "refused"),
    [
        ("time", (), -1, True), ("time", (), 0, False), ("time", (), 19, False),
        ("time", (), 20, True), ("returns", (0,), np.nan, True), ("returns", (1,), np.inf, True),
        *((name, (agent,), value, value in (-1, 5)) for name in "xy" for agent in (0, 4)
          for value in (-1, 0, 4, 5)),
    ],
)  # fmt: skip
def test_bounds_of_a_saved_state(
    field: str, at: tuple[int, ...], value: float, refused: bool
) -> None:
    with one_env(**CORNERS) as vec:
        vec.reset(seed=0)
        vec.step([0] * 5)
        saved = vec.save()[0]
        own = np.frombuffer(saved[-SAVED.itemsize :], SAVED).copy()
        assert (own["time"], own["over"], own["task"], own["episode"]) == (1, 0, -1, 0)
        assert all((own[name][0] == vec.peek(0)[name]).all() for name in "xy")
        assert own["returns"][0].tolist() == pytest.approx([-0.04, 0.01])
        own[field][(0, *at)] = value
        changed = saved[: -SAVED.itemsize] + own.tobytes()
        if refused:
            with pytest.raises(PuffervecError, match="saved state: "):
                vec.load([changed])
        else:
            vec.load([changed])
            vec.recv()
            assert vec.save() == [changed]


def test_a_saved_end_is_followed_by_the_next_episode() -> None:
    with one_env() as vec:
        vec.reset(seed=0)
        saved = vec.save()[0]
        own = np.frombuffer(saved[-SAVED.itemsize :], SAVED).copy()
        own["time"], own["over"] = 20, 1
        vec.load([saved[: -SAVED.itemsize] + own.tobytes()])
        vec.recv()
        assert not vec.step([0] * 5)[4] and vec.peek(0)["time"].tolist() == [0]


def test_a_state_that_is_set_goes_on_with_its_episode_or_begins_the_next() -> None:
    far = {"x": [0, 4], "y": [0, 4]}
    with one_env(num_taggers=1, starting_location_x=[0, 4], starting_location_y=[0, 4]) as vec:
        rows = vec.halves[0].groups["agents"]

        def flags() -> tuple[bool, bool]:
            assert not rows.rewards.any() and (rows.masks.view(np.uint8) == 1).all()
            assert rows.terminals.all() == rows.terminals.any()
            assert rows.truncations.all() == rows.truncations.any()
            return bool(rows.terminals.any()), bool(rows.truncations.any())

        vec.reset(seed=0)
        vec.step([0, 0])
        vec.poke(0, {"x": [3, 4], "y": [4, 4], "time": [5]})
        assert flags() == (False, False)
        records = vec.step([1, 0])[4].episodes
        assert (records["length"].tolist(), records["episode"].tolist()) == ([6, 6], [0, 0])
        assert records["return"].tolist() == pytest.approx([-0.01 + 10.0, 0.01 - 2.0])
        vec.poke(0, {"x": [4, 4], "y": [4, 4], "time": [6]})  # it ends with a tag again
        assert flags() == (True, False)
        vec.poke(0, {**far, "time": [20]})  # it ends at the time limit
        assert flags() == (False, True)
        vec.poke(0, {**far, "time": [19]})
        assert flags() == (False, False)
        records = vec.step([0, 0])[4].episodes
        assert (records["length"].tolist(), records["episode"].tolist()) == ([20, 20], [1, 1])
        assert records["return"].tolist() == pytest.approx([-0.01, 0.01])
        vec.poke(0, {"x": [2, 2], "y": [2, 2], "time": [0]})  # a start in one place is not a tag
        assert flags() == (False, False)
        records = vec.step([0, 0])[4].episodes
        assert (records["length"].tolist(), records["episode"].tolist()) == ([1, 1], [2, 2])
