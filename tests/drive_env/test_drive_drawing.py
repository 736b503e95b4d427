# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""drive_env/drawing/: drawing.py, ground.py, objects.py and sight.py beside what the env says of
itself.

drive_env/drawing/drawing.py, drive_env/render/ground.py, drive_env/drawing/objects.py and
drive_env/drawing/sight.py are tested together: what agents observe in C must lie where the same
things are drawn.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import puffervec
from drive_env.actions import axes_of
from drive_env.config import DriveConfig
from drive_env.drawing.drawing import drawing
from drive_env.drawing.sight import ROLE
from drive_env.generate.streets import street_scene
from drive_env.prepare import prepare_scenes
from drive_env.render.colours import AREAS, SIGNS
from drive_env.render.ground import lights_of
from drive_env.render.raster import as_colours, channel_names
from drive_env.scenes.json_scene import json_bytes
from puffervec.contract.drawing import Box, Circle, Drawing, Event, Line, Polygon, Shape
from puffervec.viewing.render.sight import fields_of, rows_of
from tests.drive_env.conftest import make_tree

STREETS = {"scenes": "streets:3", "num_agents": 64, "max_speed_mps": 12.0}
PLACE_M = 0.02  # float32 in the car's frame, and back


class Ride:
    """An env of one scene that is driven at random, its drawing, and what it shows now."""

    def __init__(self, vec: Any, seed: int = 3) -> None:
        self.vec, self.random = vec, np.random.default_rng(seed)
        vec.set_tasks([0], [1])
        vec.reset(seed=seed)
        self.before, self.state = None, vec.peek(0)
        self.drawing: Drawing = drawing(vec.config, self.state)
        self.rewards = np.zeros(vec.num_agents)

    def go(self, steps: int = 1) -> Any:
        for _ in range(steps):
            group = self.vec.spec.groups[0]
            size = (self.vec.num_agents, *group.action_shape)
            if group.action_kind == "continuous":
                actions = self.random.uniform(group.action_low, group.action_high, size).astype(
                    np.float32
                )
            else:
                actions = self.random.integers(
                    group.action_sizes, size=(self.vec.num_agents, group.action_dims)
                ).reshape(size)
            self.vec.step(actions)
            self.before, self.state = self.state, self.vec.peek(0)
        return actions

    def shapes(self) -> list[Shape]:
        return list(self.drawing.shapes(self.state, self.before))

    def bodies(self) -> dict[str, Box | Circle]:
        """What is there, by name: not goals and lights."""
        roles = ("agent", "car", "pedestrian", "cyclist", "object")
        return {
            shape.name: shape
            for shape in self.shapes()
            if shape.role in roles and isinstance(shape, (Box, Circle))
        }

    def seen(self) -> dict[str, list[Shape]]:
        view = self.vec.halves[0].groups["agents"]
        assert self.drawing.observed is not None
        found = self.drawing.observed(
            fields_of(self.vec.spec.groups[0], view.observations), self.state
        )
        return {name: list(shapes) for name, shapes in found.items()}


@pytest.fixture
def ride() -> Iterator[Any]:
    """Makes rides: ride(setting=value, ...)."""
    made = []

    def make(**settings: Any) -> Ride:
        vec = puffervec.make(
            "drive", env_kwargs={**STREETS, **settings}, backend="serial", num_envs=1
        )
        made.append(vec)
        return Ride(vec)

    yield make
    for vec in made:
        vec.close()


def of_kind(shapes: list[Shape], kind: type[Shape], **parts: Any) -> list[Any]:
    return [
        s
        for s in shapes
        if isinstance(s, kind) and all(getattr(s, key) == value for key, value in parts.items())
    ]


def test_agents_are_where_the_env_says(ride: Any) -> None:
    car = ride()
    car.go(12)
    state, drawn = car.state, car.drawing
    names = [name for name in drawn.agents if name]
    assert len(names) == int((state["slot"] == 0).sum()) > 3 and len(set(names)) == len(names)
    facts = drawn.facts(state)
    for row, name in enumerate(drawn.agents):
        if not state["active"][row]:
            assert name not in facts and name not in car.bodies()
            continue
        shape = car.bodies()[name]
        assert (shape.x, shape.y, shape.angle_rad) == tuple(
            float(state[key][row]) for key in ("x", "y", "heading")
        )
        assert (shape.width, shape.height) == (
            float(state["length"][row]),
            float(state["width"][row]),
        )
        assert facts[name]["speed m/s"] == float(state["speed"][row])
        goal = next(s for s in car.shapes() if s.name == f"goal of {name}")
        away = math.dist((goal.x, goal.y), (shape.x, shape.y))
        assert facts[name]["goal m"] == pytest.approx(away)
        assert (goal.x, goal.y, goal.of) == (
            float(state["goal_x"][row]),
            float(state["goal_y"][row]),
            name,
        )
    assert drawn.title == prepare_scenes(car.vec.config).scenes.names[1] and drawn.fps == 10


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"observation": "driver", "dynamics": "car"},
        {"observation": "pufferdrive"},
        {"observation": "gpudrive"},
        {"others": "static", "init_step": 7},
        {"others": "idm", "control": "sdc"},
        {"control": "all", "init_step": 3},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())) or "default",
)
def test_what_is_observed_lies_where_it_is_drawn(settings: dict[str, Any], ride: Any) -> None:
    """Cars, cyclists and pedestrians that agents see are drawn bodies; segments lie on lanes, lines
    and kerbs.
    """
    car = ride(**settings)
    scenes = prepare_scenes(car.vec.config).scenes
    _, arrays = scenes.scene(1)
    middles = np.stack([arrays["x"], arrays["y"]], axis=-1).astype(np.float64)
    boxes = segments = 0
    for _ in range(4):
        car.go(6)
        bodies = car.bodies()
        places = np.array([(body.x, body.y) for body in bodies.values()])
        for shapes in car.seen().values():
            for shape in of_kind(shapes, Box):
                away = np.hypot(*(places - (shape.x, shape.y)).T)
                body = list(bodies.values())[int(away.argmin())]
                assert away.min() < PLACE_M, "a car that is not drawn"
                if isinstance(body, Box):
                    assert (shape.width, shape.height) == pytest.approx(
                        (body.width, body.height), abs=PLACE_M
                    )
                    assert np.cos(shape.angle_rad - body.angle_rad) > 1 - 1e-4
                boxes += 1
            lines = of_kind(shapes, Line)
            for line in lines[:: max(1, len(lines) // 20)]:
                middle = np.mean(line.points, axis=0)
                on_stop_line = any(
                    np.hypot(*(np.mean(s.points, axis=0) - middle)) < PLACE_M
                    for s in stop_lines(car)
                )
                assert on_stop_line or np.hypot(*(middles - middle).T).min() < PLACE_M
                segments += 1
    assert boxes > 10 and segments > 50


def stop_lines(car: Ride) -> list[Line]:
    shapes = [*car.drawing.still, *car.shapes()]
    return [
        shape
        for shape in shapes
        if isinstance(shape, Line) and shape.role.endswith((" light", " sign", " is off"))
    ]


def test_rays_end_at_kerbs_and_bodies(ride: Any) -> None:
    car = ride(lidar_rays=24, lidar_fov_deg=200, lanes=0, lines=0, edges=0)
    car.go(5)
    _, arrays = prepare_scenes(car.vec.config).scenes.scene(1)
    edges = arrays["x"][
        -int(np.asarray(prepare_scenes(car.vec.config).scenes.scene(1)[0]["segment_count"])[2]) :
    ]
    kerbs = slice(len(arrays["x"]) - len(edges), None)
    ends = 0
    for name, shapes in car.seen().items():
        body = car.bodies()[name]
        for ray in of_kind(shapes, Line):
            assert ray.points[0] == (body.x, body.y)
            end = np.array(ray.points[1])
            d = end - np.stack([arrays["x"][kerbs], arrays["y"][kerbs]], axis=-1)
            along = np.clip(
                (d * np.stack([arrays["ux"][kerbs], arrays["uy"][kerbs]], -1)).sum(1),
                -arrays["half"][kerbs],
                arrays["half"][kerbs],
            )
            off = d - along[:, None] * np.stack([arrays["ux"][kerbs], arrays["uy"][kerbs]], -1)
            near = np.hypot(*off.T).min()
            others = [b for other, b in car.bodies().items() if other != name]
            assert near < PLACE_M or any(on_side(b, end) for b in others)
            ends += 1
    assert ends > 20


def on_side(body: Box | Circle, point: np.ndarray) -> bool:
    """Whether a point lies on the outline of a body's box; pedestrians are drawn enlarged."""
    if isinstance(body, Circle):
        return bool(np.hypot(point[0] - body.x, point[1] - body.y) < body.radius)
    dx, dy = point[0] - body.x, point[1] - body.y
    cos, sin = np.cos(body.angle_rad), np.sin(body.angle_rad)
    a, b = abs(cos * dx + sin * dy) - body.width / 2, abs(cos * dy - sin * dx) - body.height / 2
    return bool(max(a, b) < PLACE_M and max(a, b) > -PLACE_M)


@pytest.mark.parametrize("metrics", [0, 1])
def test_events_are_what_the_env_counts(metrics: int, ride: Any) -> None:
    car = ride(metrics=metrics, goal_radius_m=20.0, reward_collision=-1.0)
    counted = {"collision": 0, "at goal": 0, "off-road": 0}
    flags = {"collision": "collided", "at goal": "reached", "off-road": "offroad"}
    expected = dict.fromkeys(counted, 0)
    for _ in range(60):
        car.go()
        for event in of_kind(car.shapes(), Event):
            counted[event.role] = counted.get(event.role, 0) + 1
            if event.role == "collision":  # It counts for each agent that is a party.
                counted[event.role] += (
                    sum(name in car.drawing.agents for name in (event.of, event.other)) - 1
                )
                continue
            row = car.drawing.agents.index(event.of)
            assert (event.x, event.y) == (float(car.state["x"][row]), float(car.state["y"][row]))
        if not metrics:
            for role, flag in flags.items():
                expected[role] += int(
                    (car.state[flag] > car.before[flag])[car.state["slot"] == 0].sum()
                )
    if metrics:
        sums = {"collision": "contacts", "off-road": "departures"}
        expected |= {
            role: int(car.state[key][car.state["slot"] == 0].sum()) for role, key in sums.items()
        }
        expected["at goal"] = int((car.state["goal_step"] > 0).sum())
    assert {role: counted[role] for role in expected} == expected and counted["off-road"] > 3


def test_an_agent_whose_row_has_ended_drives_no_longer(ride: Any) -> None:
    """It is still in the scene, so the last moment of a film shows it at its goal."""
    here = ride()
    rows = np.flatnonzero(here.state["slot"] == 0)
    assert here.drawing.numbers(here.state)["driving"] == 1 and len(rows) > 1
    arrived = {name: here.state[name].copy() for name in ("reached", "ended")}
    for values in arrived.values():
        values[rows[0]] = 1
    found = here.drawing.numbers({**here.state, **arrived})
    assert found["driving"] == pytest.approx(1 - 1 / len(rows))
    assert found["at goal"] == pytest.approx(1 / len(rows))


@pytest.mark.parametrize("actions", ["discrete", "multi_discrete", "continuous"])
@pytest.mark.parametrize("values", [(), ("steering=-0.3,0,0.2,0.1",)])
def test_actions_mean_what_the_env_takes_them_for(
    actions: str, values: tuple[str, ...], ride: Any
) -> None:
    """The next observation shows what was chosen."""
    car = ride(actions=actions, action_values=values, observe_previous_action=1, dynamics="bicycle")
    for _ in range(3):
        told = car.drawing.actions(car.go())
        assert list(told) == [
            f"action: {axis.name} {axis.unit}".replace("^", "") for axis in axes_of("bicycle")
        ]
        rows = fields_of(car.vec.spec.groups[0], car.vec.halves[0].groups["agents"].observations)[
            "previous_action"
        ]
        active = np.flatnonzero(car.state["active"])
        for number, (numbers, scale) in enumerate(zip(told.values(), (4.0, 1.0), strict=True)):
            assert np.asarray(numbers)[active] == pytest.approx(
                rows[active, number] * scale, abs=1e-5
            )


@pytest.mark.parametrize("alone", [0, 1])
def test_the_birds_eye_view_is_shown(alone: int, ride: Any) -> None:
    """Of each agent that is there, what stands in its row."""
    car = ride(raster=16, raster_alone=alone)
    car.go(30)
    raster = rows_of(car.vec)["raster"]
    shown = car.drawing.pictures(rows_of(car.vec), car.state)
    there = np.flatnonzero(car.state["active"] & (car.state["slot"] == 0)).tolist()
    assert sorted(shown) == sorted(car.drawing.agents[row] for row in there)
    for row in there:
        picture = shown[car.drawing.agents[row]]
        assert picture.shape == (16, 16, 3)
        np.testing.assert_array_equal(
            picture, as_colours(dict(zip(channel_names(), raster[row], strict=False)))
        )
    assert len({picture.tobytes() for picture in shown.values()}) > 1
    without = ride()
    assert without.drawing.pictures(rows_of(without.vec), without.state) == {}


def test_the_ground_is_the_scene(ride: Any) -> None:
    """Lengths of lanes and kerbs, and the areas, beside the compiled scene."""
    still = list(ride().drawing.still)
    scenes = prepare_scenes(DriveConfig(**STREETS)).scenes
    head, arrays = scenes.scene(1)
    counts, half = np.cumsum(head["segment_count"]), arrays["half"].astype(np.float64)
    for role, part in (
        ("road", slice(0, counts[0])),
        ("lane", slice(0, counts[0])),
        ("kerb", slice(counts[1], counts[2])),
    ):
        drawn = sum(
            np.hypot(*np.diff(line.points, axis=0).T).sum()
            for line in of_kind(still, Line, role=role)
        )
        assert drawn == pytest.approx(2 * half[part].sum(), rel=0.01), role
    drawn_areas = [shape for shape in of_kind(still, Polygon) if shape.role in AREAS]
    assert len(drawn_areas) == int((arrays["areas"]["kind"] < 2).sum())
    signs = [shape for shape in still if shape.role in SIGNS and not isinstance(shape, Line)]
    assert len(signs) == int((arrays["controls"]["kind"] != 1).sum()) > 0


@pytest.mark.slow
@pytest.mark.parametrize("init_step", [0, 20])
def test_lights_are_drawn_as_they_are_at_that_moment(
    ride: Any, tmp_path: Path, init_step: int
) -> None:
    """In each step the colour of each light is that of its log, in the frame that the episode has
    reached.
    """
    scenes = [street_scene(7, number, family="signal") for number in (2, 3)]
    for scene in scenes:
        (tmp_path / scene.name).write_bytes(json_bytes(scene))
    words = {
        "stop": "red light",
        "caution": "yellow light",
        "go": "green light",
        "unknown": "light that is off",
    }
    found = ride(scenes=str(tmp_path), init_step=init_step)
    logs = [
        light["state"]
        for light in sorted(scenes, key=lambda scene: scene.name)[1].traffic_lights.values()
    ]
    seen = set()
    for step in range(60):
        shown = [
            shape.role
            for shape in found.shapes()
            if shape.role in words.values() and not isinstance(shape, Line)
        ]
        assert sorted(shown) == sorted(words[log[init_step + step]] for log in logs), step
        seen.add(tuple(sorted(shown)))
        found.go()
    assert len(seen) > 1, "colours change"


def test_lights_show_their_colour(ride: Any) -> None:
    """Colours change with the frame, and hold after the last one."""
    _, arrays = prepare_scenes(DriveConfig(**STREETS)).scenes.scene(1)
    control = (
        arrays["controls"][:1].copy()
        if len(arrays["controls"])
        else np.zeros(1, arrays["controls"].dtype)
    )
    control["kind"], control["states"], control["state_count"] = 1, 0, 4
    made = {"controls": control, "states": np.array([1, 2 | 8, 3 | 16, 4], np.uint8)}
    roles = [list(lights_of(made, frame))[-1].role for frame in range(6)]
    assert roles == ["red light", "yellow light", "green light", *["light that is off"] * 3]
    drawn = ride().drawing
    assert set(roles) | {ROLE, "agent"} <= set(drawn.colours)


@pytest.mark.filterwarnings("ignore::puffervec.errors.SceneWarning")
def test_the_view_leaves_out_a_goal_that_no_road_leads_to(tmp_path: Path) -> None:
    """It lies 10 km away: the page opens on what the agents do."""
    spans = []
    for name, goal in (("near", None), ("far", {"x": 8000.0, "y": 6000.0, "z": 0.0})):
        tree = make_tree()
        if goal is not None:
            tree["objects"][0]["goalPosition"] = goal
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(tree))
        settings = {"scenes": str(path), "num_agents": 2}
        with puffervec.make("drive", backend="serial", num_envs=1, env_kwargs=settings) as vec:
            vec.reset(seed=1)
            left, low, right, high = drawing(DriveConfig(**settings), vec.peek(0)).view
        spans.append((right - left, high - low))
    np.testing.assert_allclose(spans[1], spans[0], atol=1.0)
