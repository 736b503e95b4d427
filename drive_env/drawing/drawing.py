# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Draws drive for replays, films and snapshots: the first scene of an env and its agents.

Runs in the learner. `drawing` reads the env's readable state (`vec.peek`) and the compiled scene.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.actions import axes_of, parse_action_values
from drive_env.config import DriveConfig
from drive_env.drawing.events import Events
from drive_env.drawing.objects import Objects
from drive_env.drawing.sight import ROLE, Sight
from drive_env.prepare import prepare_scenes
from drive_env.render.colours import FAILURES, GROUND, OBJECTS
from drive_env.render.ground import ground_of, lights_of, signs_of
from drive_env.render.raster import as_colours, channels_of
from drive_env.render.recording import roads_of
from drive_env.scenes.geometry import beyond
from drive_env.scenes.sceneset import SceneSet
from drive_env.sources import stamps_of
from puffervec.contract.drawing import BLUE, GREEN, PINK, Box, Circle, Drawing, Line, Shape, State

MARGIN_M = 14.0  # around the agents' logs and goals
WALKER_M = 0.7  # minimum radius of a pedestrian, so that it is visible
NOT_DRIVEN = ("car", "pedestrian", "cyclist", "object")  # by packed type
COLOURS = {
    "agent": BLUE, "goal": GREEN, "log": PINK,
    **FAILURES, "at goal": GREEN, "ran a red light": "#c4008f",
    **OBJECTS, ROLE: "#7b3ff2", **GROUND,
}  # fmt: skip
CLOSE_M = 60.0  # width of the view that follows one agent
FACTS = {
    "speed": "speed m/s",
    "steering": "steering rad",
    "model_acceleration": "acceleration m/s2",
}


def drawing(config: DriveConfig, state: State) -> Drawing:
    """Return the drawing of the first scene of an env in this state.

    Raises:
        SceneError, ConfigError: see `prepare_scenes`.
    """
    scenes, number = _scenes(config, stamps_of(config.scenes)), int(state["slot_scene"][0])
    return SceneDrawing(config, scenes, number, state).drawing()


@lru_cache(maxsize=2)
def _scenes(config: DriveConfig, stamps: tuple[tuple[int, ...], ...]) -> SceneSet:
    return prepare_scenes(config).scenes


class SceneDrawing:
    """The drawing of one episode of one scene."""

    def __init__(self, config: DriveConfig, scenes: SceneSet, number: int, state: State) -> None:
        self.config, self.title = config, scenes.names[number]
        self.head, self.arrays = scenes.scene(number)
        self.rows = np.flatnonzero(state["slot"] == 0)
        self.agents = state["object"][self.rows].astype(np.int64)
        self.objects = Objects(config, self.head, self.arrays, self.agents)
        self.names = [self.objects.names[agent] for agent in self.agents]
        self.sight = Sight(config)
        self.dt_s = float(self.head["dt_s"])
        self.events = Events(self.objects, self.rows, self.agents, self.dt_s)

    def drawing(self) -> Drawing:
        """Return the whole drawing."""
        by_row = [""] * (int(self.rows.max()) + 1 if len(self.rows) else 0)
        for row, name in zip(self.rows.tolist(), self.names, strict=True):
            by_row[row] = name
        logs = [
            (name, self.objects.log_of(agent))
            for name, agent in zip(self.names, self.agents.tolist(), strict=True)
        ]
        roads = roads_of(self.arrays, self.head["segment_count"])
        ways = [Line(way, role="log", of=name) for name, way in logs if len(way) > 1]
        return Drawing(
            view=self.view(),
            shapes=self.shapes,
            colours=COLOURS,
            still=[*ground_of(roads), *signs_of(self.arrays), *ways],
            numbers=self.numbers,
            fps=round(1 / self.dt_s, 3),
            step_s=round(self.dt_s, 6),
            unit="m",
            close=CLOSE_M,
            title=self.title,
            agents=by_row,
            facts=self.facts,
            actions=self.actions,
            observed=lambda rows, state: self.sight.of(rows, self.poses(state)),
            pictures=self.pictures,
        )

    def view(self) -> tuple[float, float, float, float]:
        """Return the box around the logs and goals of the agents, without goals far from roads."""
        points = [point for agent in self.agents.tolist() for point in self.objects.log_of(agent)]
        goals = [
            (float(item["goal_x_m"]), float(item["goal_y_m"]))
            for item in self.objects.records[self.agents]
        ]
        roads = np.stack([self.arrays["x"], self.arrays["y"]], axis=-1)
        far = beyond(
            np.reshape(goals, (-1, 2)), np.concatenate([np.reshape(points, (-1, 2)), roads])
        )
        points += [goal for goal, is_far in zip(goals, far, strict=True) if not is_far]
        places = np.array(points or [(0.0, 0.0)])
        low, high = places.min(axis=0) - MARGIN_M, places.max(axis=0) + MARGIN_M
        return float(low[0]), float(low[1]), float(high[0]), float(high[1])

    def shapes(self, state: State, before: State | None) -> Iterator[Shape]:
        """Yield goals, lights, other objects, agents, and the events of this step."""
        present = self.present(state)
        for row, name in present:
            if not state["reached"][row]:
                goal = float(state["goal_x"][row]), float(state["goal_y"][row])
                yield Circle(
                    *goal,
                    self.config.goal_radius_m,
                    role="goal",
                    name=f"goal of {name}",
                    of=name,
                    filled=False,
                )
        yield from lights_of(self.arrays, self.config.init_step + int(state["slot_clock"][0]))
        for number, *pose in self.objects.others(state):
            item = self.objects.records[number]
            size = float(item["length_m"]), float(item["width_m"])
            yield self.body(
                self.objects.names[number], NOT_DRIVEN[int(item["type"])], tuple(pose), size
            )
        for row, name in present:
            x, y, heading, length, width = (
                float(state[key][row]) for key in ("x", "y", "heading", "length", "width")
            )
            yield self.body(name, "agent", (x, y, heading), (length, width))
        yield from self.events.of(state, before)

    def body(
        self, name: str, role: str, pose: tuple[float, ...], size: tuple[float, float]
    ) -> Shape:
        """Return a car or cyclist as a box, a pedestrian as a circle."""
        x, y, heading = pose
        if name.startswith("pedestrian"):
            return Circle(x, y, max(WALKER_M, *(side / 2 for side in size)), role=role, name=name)
        return Box(x, y, *size, heading, role=role, name=name, front=True)

    def present(self, state: State) -> list[tuple[int, str]]:
        """Return row and name of each agent that is in the scene."""
        pairs = zip(self.rows.tolist(), self.names, strict=True)
        return [(row, name) for row, name in pairs if state["active"][row]]

    def poses(self, state: State) -> dict[str, tuple[int, tuple[float, float, float]]]:
        """Return row and pose of each agent that is in the scene, by name."""
        return {
            name: (
                row,
                (float(state["x"][row]), float(state["y"][row]), float(state["heading"][row])),
            )
            for row, name in self.present(state)
        }

    def pictures(
        self, rows: Mapping[str, NDArray[Any]], state: State
    ) -> dict[str, NDArray[np.uint8]]:
        """Return the bird's-eye view of each agent, in colours; {} if the env has no raster."""
        there = self.present(state) if "raster" in rows else []
        return {name: as_colours(channels_of(rows, row)) for row, name in there}

    def facts(self, state: State) -> dict[str, dict[str, float]]:
        """Return each agent's speed, other state of its dynamics, and distance to the goal."""
        facts = {}
        for row, name in self.present(state):
            away = np.hypot(
                state["goal_x"][row] - state["x"][row], state["goal_y"][row] - state["y"][row]
            )
            facts[name] = {
                label: float(state[key][row]) for key, label in FACTS.items() if key in state
            }
            facts[name]["goal m"] = float(away)
        return facts

    def numbers(self, state: State) -> dict[str, float]:
        """Return shares of the agents; contacts and departures only if the settings count them."""
        keys = {"at goal": "reached", "collided": "contacts", "left the road": "departures"}
        # An agent is still active in the step that ends its row, and leaves in the next one.
        found = {"driving": (state["active"] > 0) & (state["ended"] == 0)}
        found |= {name: state[key] > 0 for name, key in keys.items() if key in state}
        return {name: float(of_rows[self.rows].mean()) for name, of_rows in found.items()}

    def actions(self, rows: NDArray[Any]) -> Mapping[str, NDArray[Any]]:
        """Return the actions in the units of the model's axes (csrc/drive/motion/actions.c)."""
        axes, config = axes_of(self.config.dynamics), self.config
        own = parse_action_values(config.action_values, config.dynamics)
        values = [np.array(own.get(axis.name, axis.values)) for axis in axes]
        names = [f"action: {axis.name} {axis.unit}".strip().replace("^", "") for axis in axes]
        if config.actions == "continuous":
            return dict(zip(names, rows.T, strict=True))
        if config.actions == "discrete":
            chosen = np.unravel_index(rows, tuple(len(part) for part in values))
        else:
            chosen = tuple(rows.T)
        return {name: part[index] for name, part, index in zip(names, values, chosen, strict=True)}
