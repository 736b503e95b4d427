# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/envs/_tag_drawing.py: what the games of Tag look like, for states written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import puffervec
from puffervec.contract.drawing import Circle
from puffervec.envs import get
from puffervec.envs._tag_drawing import COLOURS, LEFT, drawing_of_grid, drawing_of_plane
from puffervec.envs.tag_grid import TagGridConfig
from puffervec.viewing.render.episode import Episode, Moment


def circles(moment: Moment) -> dict[str, Circle]:
    return {
        shape.name: shape for shape in moment.shapes if isinstance(shape, Circle) and shape.filled
    }


def grid(time: int, *cells: tuple[int, int]) -> dict[str, np.ndarray]:
    x, y = np.array(cells, np.int32).T
    return {"x": x, "y": y, "time": np.array([time])}


def test_the_grid() -> None:
    config = TagGridConfig(num_taggers=2, grid_length=4)
    episode = Episode("tag_grid", drawing_of_grid, config, grid(0, (2, 2), (2, 2), (0, 0)))
    first = circles(episode.moment)
    assert {name: shape.role for name, shape in first.items()} == {
        "tagger_0": "tagger",
        "tagger_1": "tagger",
        "runner_0": "runner",
    }
    assert (first["runner_0"].x, first["runner_0"].y) == (0, 0)
    assert first["tagger_0"].x != first["tagger_1"].x, "two on a cell are both seen"
    assert episode.moment.numbers == {LEFT: 1.0} and not episode.moment.events
    episode.add(grid(1, (1, 2), (1, 1), (1, 0)))
    last = episode.add(grid(2, (1, 1), (1, 0), (1, 0)))
    ((step, event),) = last.events
    runner = circles(last)["runner_0"]
    assert (step, event.x, event.y, event.role) == (2, runner.x, runner.y, "tag") and runner.faded
    assert last.numbers == {LEFT: 0.0} and set(COLOURS) == {"tagger", "runner", "tag"}
    assert len(last.trails) == 3 and len(last.trails[0][1]) == 3


def test_a_start_on_one_cell_is_no_tag() -> None:
    episode = Episode(
        "tag_grid",
        drawing_of_grid,
        TagGridConfig(num_taggers=1, grid_length=1),
        grid(0, (0, 0), (0, 0)),
    )
    assert not episode.moment.events and episode.moment.numbers == {LEFT: 1.0}


def plane(x: list[float], left: list[int]) -> dict[str, np.ndarray]:
    zeros = np.zeros(len(x), np.float32)
    return {"x": np.float32(x), "y": zeros, "direction": zeros, "still_in_the_game": np.array(left)}


class PlaneConfig:
    """Settings of a game in the plane, as far as the drawing reads them."""

    grid_length, tagging_distance, runner_exits_game_after_tagged = 10.0, 0.1, True


def in_the_plane(**settings: Any) -> Episode:
    """A tagger between two runners. The first runner is tagged, then nothing happens."""
    config = type("Config", (PlaneConfig,), settings)()
    types = np.array([0, 1, 0])
    make: Any = lambda config, state: drawing_of_plane(config, types, {})  # noqa: E731
    episode = Episode("tag_continuous", make, config, plane([1, 3, 8], [1, 1, 1]))
    stays = int(not config.runner_exits_game_after_tagged)
    episode.add(plane([2, 2.5, 8], [stays, 1, 1]))
    episode.add(plane([2, 4.0, 8], [stays, 1, 1]))
    return episode


def test_the_plane() -> None:
    last = in_the_plane().moment
    drawn = circles(last)
    assert list(drawn) == ["runner_0", "runner_2", "tagger_1"] and [
        shape.faded for shape in drawn.values()
    ] == [
        True,
        False,
        False,
    ]
    assert [(step, event.x, event.y) for step, event in last.events] == [(1, 2, 0)]
    assert last.numbers == {LEFT: 1.0}
    (reach,) = [shape for shape in last.shapes if isinstance(shape, Circle) and not shape.filled]
    assert (reach.x, reach.radius) == (4.0, pytest.approx(1.0))


def test_runners_that_stay_are_marked_where_they_were_tagged() -> None:
    last = in_the_plane(runner_exits_game_after_tagged=False).moment
    assert [event.x for _, event in last.events] == [2.0] and last.numbers == {LEFT: 2.0}
    assert not circles(last)["runner_0"].faded


@pytest.mark.parametrize("leaves", [True, False])
def test_each_tag_of_the_game_is_marked(leaves: bool) -> None:
    """By the env's own record of an episode."""
    settings = {
        "num_taggers": 3,
        "tagging_distance": 0.1,
        "episode_length": 40,
        "runner_exits_game_after_tagged": leaves,
    }
    env, tags = get("tag_continuous"), np.zeros(0)
    assert env.drawing is not None
    with puffervec.make(env, env_kwargs=settings, backend="serial", num_envs=1) as vec:
        vec.reset(seed=3)
        episode, rng = (
            Episode(env.name, env.drawing, vec.config, vec.peek(0)),
            np.random.default_rng(3),
        )
        while not len(tags):
            infos = vec.step(rng.integers(0, 11, (vec.num_agents, 2)))[4]
            moment = episode.add(vec.peek(0))
            tags = (
                infos.episodes["values"][:, vec.spec.record_names.index("tags")] if infos else tags
            )
    assert 3 < len(moment.events) == tags.max()
    assert moment.numbers[LEFT] == (10 - len(moment.events) if leaves else 10)


def test_actions_have_names() -> None:
    """What the env does with an action is what the page calls it."""
    drawn = drawing_of_grid(TagGridConfig(num_taggers=1, grid_length=4), grid(0, (2, 2), (0, 0)))
    assert drawn.actions is not None
    places = {"stay": (2, 2), "right": (3, 2), "left": (1, 2), "up": (2, 3), "down": (2, 1)}
    settings = {"num_taggers": 1, "grid_length": 4}
    with puffervec.make("tag_grid", env_kwargs=settings, backend="serial", num_envs=1) as vec:
        for action in range(5):
            vec.reset(seed=0)
            vec.step([action, 0])
            state = vec.peek(0)
            told = drawn.words["move"][int(drawn.actions(np.array([action, 0]))["move"][0])]
            assert (int(state["x"][0]), int(state["y"][0])) == places[told]


def test_actions_in_the_plane_are_what_they_change() -> None:
    settings = {
        "num_taggers": 1,
        "num_runners": 1,
        "grid_length": 20.0,
        "starting_directions": [0.0, 0.0],
    }
    settings |= {
        "starting_location_x": [5.0, 15.0],
        "starting_location_y": [5.0, 15.0],
        "skill_level_tagger": 1.0,
    }
    env = get("tag_continuous")
    with puffervec.make(env, env_kwargs=settings, backend="serial", num_envs=1) as vec:
        vec.reset(seed=0)
        drawn = env.drawing(vec.config, vec.peek(0))
        vec.step(np.array([[3, 2], [0, 0]]))
        told, state = drawn.actions(np.array([[3, 2], [0, 0]])), vec.peek(0)
        assert (
            list(told) == ["acceleration", "turn rad"]
            and told["acceleration"][1] == told["turn rad"][1] == 0
        )
        turned = (told["turn rad"][0] - float(state["direction"][0])) % (2 * np.pi)
        assert min(turned, 2 * np.pi - turned) < 1e-5
        assert float(state["speed"][0]) == pytest.approx(
            np.clip(told["acceleration"][0], 0, vec.config.max_speed), abs=1e-6
        )
