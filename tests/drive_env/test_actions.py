# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Action spaces of the driving env (csrc/drive/motion/actions.c, drive_env/actions.py): what is
declared is what moves the cars.
"""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from drive_env.actions import axes_of
from drive_env.config import CHOICES, DriveConfig
from drive_env.env import params_of
from drive_env.motion import Body
from puffervec.contract.native import EnvData, NativeEnv
from puffervec.errors import ConfigError
from tests.drive_env.worlds import make_env, random_scene, write_world
from tests.helpers import serial, thinned
from tests.twins import drive_models as twin

OBJECTS = ("vehicle", "pedestrian", "cyclist", "other")
SHOWN = {"acceleration": "model_acceleration", "lateral": "model_lateral"}  # in the readable state
OWN = ("acceleration=-2,0,3", "steering=-0.25,0.5")
SPACES: list[tuple[dict[str, Any], Any]] = [
    ({}, gymnasium.spaces.Discrete(91)),
    ({"actions": "multi_discrete"}, gymnasium.spaces.MultiDiscrete([7, 13])),
    ({"dynamics": "classic_gpudrive", "actions": "continuous"},
     gymnasium.spaces.Box(np.float32([-4, -1]), np.float32([4, 1]))),
    ({"dynamics": "jerk"}, gymnasium.spaces.Discrete(12)),
    ({"dynamics": "delta_local"}, gymnasium.spaces.Discrete(8000)),
    ({"action_values": OWN}, gymnasium.spaces.Discrete(6)),
    ({"action_values": OWN, "actions": "multi_discrete"}, gymnasium.spaces.MultiDiscrete([3, 2])),
    ({"action_values": OWN[1:], "actions": "continuous"},
     gymnasium.spaces.Box(np.float32([-4, -0.25]), np.float32([4, 0.5]))),
    ({"action_values": {"steering": [0.0, 0.5]}}, gymnasium.spaces.Discrete(14)),
]  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("actions") / "set"
    write_world(path, [random_scene(seed, objects=12, spread_m=50.0, frames=40) for seed in (1, 2)])
    return path


@pytest.mark.parametrize(("settings", "space"), SPACES, ids=str)
def test_the_space_is_declared(world: Path, settings: dict[str, Any], space: Any) -> None:
    with make_env(world, **settings) as vec:
        assert vec.single_action_space == space


AXES = [
    ({"dynamics": "car"}, (6, 11)),
    ({"dynamics": "car", "actions": "multi_discrete"}, (6, 11)),
    ({"action_values": OWN}, (3, 2)),
    ({"actions": "continuous"}, ()),
]


@pytest.mark.parametrize(("settings", "sizes"), AXES, ids=str)
def test_the_numbers_that_choices_stand_for_are_declared(
    world: Path, settings: dict[str, Any], sizes: tuple[int, ...]
) -> None:
    with make_env(world, **settings) as vec:
        axes = vec.spec.groups[0].action_axes
    config = DriveConfig(**settings)
    assert tuple(map(len, axes)) == sizes
    if sizes:
        every = itertools.product(*axes)
        joint = dataclasses.replace(config, actions="discrete")
        for index, numbers in enumerate(every):
            assert values_of(joint, np.array(index)) == pytest.approx(numbers, rel=1e-6)


MOVED = [
    {"actions": "multi_discrete"},
    {"action_values": OWN},
    {
        "actions": "continuous",
        "max_acceleration_mps2": 2.5,
        "max_steering_rate_radps": 1.0,
        "max_lateral_mps2": 2.0,
    },
    {"dynamics": "classic_gpudrive", "max_jerk_mps3": 20.0},
    {"dynamics": "classic_pufferdrive", "actions": "continuous"},
    {"dynamics": "invertible_bicycle", "actions": "multi_discrete"},
    {"dynamics": "delta_local"},
    {"dynamics": "state", "actions": "continuous"},
    {"dynamics": "jerk", "actions": "continuous"},
]


def values_of(config: DriveConfig, action: np.ndarray) -> tuple[float, ...]:
    """What an action says on each axis."""
    given = dict(text.split("=") for text in config.action_values)
    lists = [
        [float(v) for v in given[a.name].split(",")] if a.name in given else a.values
        for a in axes_of(config.dynamics)
    ]
    if config.actions == "continuous":
        return tuple(float(v) for v in action)
    if config.actions == "discrete":
        return list(itertools.product(*lists))[int(action)]
    return tuple(values[int(i)] for values, i in zip(lists, action, strict=True))


@pytest.mark.parametrize("settings", thinned(2, MOVED), ids=str)
def test_agents_move_as_their_actions_say(world: Path, settings: dict[str, Any]) -> None:
    """Each step from the state that the env shows; with it the block of the previous action and the
    state of the limits.
    """
    rng, moves = np.random.default_rng(5), 0
    with make_env(
        world, control="valid", num_agents=24, observe_previous_action=1, **settings
    ) as vec:
        vec.reset(1)
        vec.action_space.seed(3)
        state = vec.peek(0)
        for _ in range(12):
            actions = vec.action_space.sample()
            if vec.config.dynamics == "state":
                actions[:, :2] = rng.uniform(-40, 40, (24, 2))
            vec.step(actions)
            before, state = state, vec.peek(0)
            for row in np.flatnonzero((state["active"] == 1) & (before["reached"] == 0)):
                start, expected = (body_of(s, row) for s in (before, state))
                found = twin.step(vec.config, start, values_of(vec.config, actions[row]))
                names = (
                    "x",
                    "y",
                    "speed",
                    *(("acceleration", "lateral", "steering") if "steering" in state else ()),
                )
                for name in names:
                    assert getattr(found, name) == pytest.approx(
                        getattr(expected, name), abs=2e-3, rel=1e-4
                    ), name
                assert twin.wrapped(found.heading - expected.heading) == pytest.approx(0, abs=1e-4)
                moves += 1
    assert moves > 50


def body_of(state: dict[str, np.ndarray], row: int) -> Body:
    names = {
        name: SHOWN.get(name, name)
        for name in ("x", "y", "heading", "speed", *SHOWN, "steering", "length")
    }
    return Body(
        **{name: float(state[shown][row]) for name, shown in names.items() if shown in state}
    )


@pytest.mark.parametrize(
    "dynamics", ["classic_gpudrive", "invertible_bicycle", "delta_local", "jerk"]
)
def test_the_previous_action_is_shown_in_units_of_its_model(world: Path, dynamics: str) -> None:
    from drive_env.evaluate.observation import ObservationReader

    with make_env(
        world, dynamics=dynamics, observe_previous_action=1, actions="multi_discrete"
    ) as vec:
        reader = ObservationReader(vec)
        (block,) = [name for name in reader.blocks if name.startswith("previous")]
        first, _ = vec.reset(1)
        assert all(not column.any() for column in reader.read(first)[block].values())
        actions = np.full((vec.num_agents, len(axes_of(dynamics))), 2)
        shown = reader.read(vec.step(actions)[0])[block]
        live = vec.halves[0].groups["agents"].masks
        for axis in axes_of(dynamics):
            assert (
                shown[axis.name][live] == pytest.approx(min(axis.values[2], 1e9), rel=1e-5)
                or abs(axis.values[2]) > 1
            )


@pytest.mark.parametrize("dynamics", CHOICES["dynamics"])
def test_actions_that_are_no_numbers_are_counted_and_taken_for_0(
    world: Path, dynamics: str
) -> None:
    with make_env(world, dynamics=dynamics, actions="continuous") as vec:
        vec.reset(2)
        before = vec.peek(0)
        vec.step(np.full((vec.num_agents, len(axes_of(dynamics))), np.nan, np.float32))
        assert vec.counters()["invalid_actions"] == vec.num_agents * len(axes_of(dynamics))
        after = vec.peek(0)
        for row in np.flatnonzero((before["active"] == 1) & (after["active"] == 1)):
            expected = twin.step(vec.config, body_of(before, row), (0.0,) * len(axes_of(dynamics)))
            assert (after["x"][row], after["y"][row]) == pytest.approx(
                (expected.x, expected.y), abs=1e-3
            )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"action_values": ("speed=1,2",)},
            "'speed=1,2'; each must be AXIS=NUMBER,NUMBER,..., once for an axis of dynamics=",
        ),
        ({"action_values": ("steering=1,2", "steering=3")}, "'steering=3'; each must be"),
        ({"action_values": ("steering",)}, "'steering'; each must be"),
        ({"action_values": ("steering=",)}, "must list 1 to 64 different numbers"),
        ({"action_values": ("steering=1,nan",)}, "must list 1 to 64 different numbers"),
        ({"action_values": ("steering=1,1",)}, "must list 1 to 64 different numbers"),
        ({"action_values": {"steering": [1e9]}}, "must list 1 to 64 different numbers"),
        ({"action_values": "steering=1"}, "must be a list of AXIS=NUMBER"),
        ({"action_values": {"steering": 3}}, "must be a list of AXIS=NUMBER"),
        (
            {"dynamics": "state"},
            "actions is 'discrete', but dynamics=state has no values to choose from",
        ),
        (
            {"dynamics": "state", "actions": "continuous", "max_jerk_mps3": 1.0},
            "max_jerk_mps3 is 1.0, but dynamics=state",
        ),
        ({"dynamics": "jerk", "expert_actions": 1}, "dynamics=jerk cannot be inverted"),
        (
            {"dynamics": "classic"},
            "dynamics is 'classic'; it must be one of bicycle, classic_gpudrive",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        DriveConfig(**settings)
    assert words in str(caught.value)


ACCELERATION = ("acceleration", "m/s^2", -4, 4, np.linspace(-4, 4, 7))
STEERING = ("steering", "rad", -1, 1, np.linspace(-1, 1, 13))
CURVES, ANGLES = np.array([0.005, 0.01, 0.025, 0.05, 0.1, 0.2]), np.array([2, 6, 15, 30, 55]) / 100
# Of each axis: name, unit, bounds of a continuous action, and values, rounded to millimetres.
MODELS: dict[str, list[tuple[str, str, float, float, Any]]] = {
    "bicycle": [ACCELERATION, STEERING],
    "classic_gpudrive": [ACCELERATION, (*STEERING[:4], np.linspace(-np.pi, np.pi, 13))],
    "classic_pufferdrive": [ACCELERATION, STEERING],
    "invertible_bicycle": [
        ("acceleration", "m/s^2", -6, 6, ACCELERATION[4]),
        ("curvature", "1/m", -3, 3, [*-CURVES[::-1], 0, *CURVES]),
    ],
    "delta_local": [
        ("dx", "m", -6, 6, np.linspace(-2, 2, 20)), ("dy", "m", -6, 6, np.linspace(-2, 2, 20)),
        ("dyaw", "rad", -np.pi, np.pi, np.linspace(-3.14, 3.14, 20)),
    ],
    "state": [
        ("x", "m", -1e4, 1e4, []), ("y", "m", -1e4, 1e4, []),
        ("heading", "rad", -np.pi, np.pi, []), ("speed", "m/s", -100, 100, []),
    ],
    "jerk": [("jerk", "m/s^3", -15, 4, [-15, -4, 0, 4]),
             ("lateral_jerk", "m/s^3", -4, 4, [-4, 0, 4])],
    "car": [("acceleration", "m/s^2", -4, 2, [-4, -2, -1, 0, 1, 2]),
            ("steering", "rad", -0.55, 0.55, [*-ANGLES[::-1], 0, *ANGLES])],
}  # fmt: skip


def test_models_have_these_axes() -> None:
    assert list(MODELS) == list(CHOICES["dynamics"])
    for model, wanted in MODELS.items():
        axes = axes_of(model)
        assert [(axis.name, axis.unit) for axis in axes] == [axis[:2] for axis in wanted]
        for axis, (_, _, low, high, values) in zip(axes, wanted, strict=True):
            assert (axis.low, axis.high) == pytest.approx((low, high), abs=1e-6)
            assert axis.values == pytest.approx(tuple(values), abs=5.1e-4)


def test_values_in_params_are_counted_in_c(world: Path) -> None:
    """Two axes with 2 and 3 values of five; other numbers are refused before a value is read."""

    def refusal(counts: list[int], values: int) -> str:
        params = {
            "action_counts": np.array(counts, np.uint32),
            "action_values": np.arange(values, dtype=np.float32),
        }
        env = NativeEnv(
            "drive", DriveConfig, lambda config: EnvData({**params_of(config), **params}, world)
        )
        try:
            serial(env).close()
        except ConfigError as error:
            return str(error)
        return ""

    assert refusal([2, 3], 5) == refusal([0, 5], 5) == refusal([64, 0], 64) == ""
    for counts, values in (([2, 4], 5), ([6, 0], 5), ([0, 6], 5), ([65, 0], 65)):
        assert "action_counts and action_values do not fit each other" in refusal(counts, values)
    for counts in ([5], [1, 2, 2]):
        assert "action_counts must have one number per axis" in refusal(counts, 5)


def test_too_many_combinations_are_refused(world: Path) -> None:
    many = ",".join(str(i / 10) for i in range(64))
    few = ",".join(many.split(",")[:16])
    values = (f"dx={many}", f"dy={many}", f"dyaw={few}")
    with make_env(world, dynamics="delta_local", action_values=values) as vec:
        assert vec.single_action_space == gymnasium.spaces.Discrete(65536)
    with pytest.raises(
        ConfigError, match="262144 combinations; a discrete action has at most 65536"
    ):
        make_env(
            world,
            dynamics="delta_local",
            action_values=(f"dx={many}", f"dy={many}", f"dyaw={many}"),
        )


@pytest.mark.parametrize(
    "settings",
    [{"dynamics": "jerk"}, {"max_jerk_mps3": 5.0, "max_steering_rate_radps": 0.5}],
    ids=str,
)
def test_accelerations_and_wheels_are_saved_and_can_be_set(
    world: Path, settings: dict[str, Any]
) -> None:
    with make_env(
        world, control="all", num_agents=24, observe_previous_action=1, **settings
    ) as vec:
        vec.reset(1)
        vec.action_space.seed(2)
        actions = [vec.action_space.sample() for _ in range(9)]
        for action in actions:
            vec.step(action)
        state, saved = vec.peek(0), vec.save()
        assert (
            np.abs(state["steering"]).max() > 0.01
            and np.abs(state["model_acceleration"]).max() > 0.1
        )
        expected = [vec.step(action)[0].copy() for action in actions]
        for bring_back in (lambda: vec.load(saved), lambda: vec.poke(0, state)):
            bring_back()
            found = vec.peek(0)
            for name in ("x", "speed", "steering", "model_acceleration", "model_lateral"):
                np.testing.assert_array_equal(found[name], state[name])
        vec.load(saved)
        vec.recv()
        for action, rows in zip(actions, expected, strict=True):
            np.testing.assert_array_equal(vec.step(action)[0], rows)


def test_the_default_has_none_of_it_in_its_state(world: Path) -> None:
    with make_env(world) as vec:
        vec.reset(0)
        assert not {"steering", "model_acceleration", "model_lateral"} & set(vec.peek(0))
