# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Motion models (csrc/drive/motion/models.h) without an env: steps of one body, and expert actions.

Runs in the learner. `python -m drive_env.motion FOLDER` prints how well each model's expert actions
follow the logs.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drive_env.actions import action_params, axes_of, parse_action_values
from drive_env.config import Actions, DriveConfig, Dynamics
from drive_env.prepare import prepare_scenes
from drive_env.scenes import packed
from drive_env.scenes.sceneset import SceneSet
from drive_env.scenes.schema import FRAME_S, OBJECT_TYPES, VEHICLE
from puffervec._ffi import ffi, lib
from puffervec.contract.native import pack_config, pack_params
from puffervec.errors import ConfigError, SceneError

Floats = NDArray[np.float32]
INVALID = lib.PV_FRAME_INVALID
MOST_AXES = 4


@dataclass(frozen=True)
class Body:
    """State of one body; angles are counter-clockwise.

    Attributes:
        x, y: centre, m.
        heading: rad.
        speed: m/s along the heading, negative backward.
        acceleration, lateral: m/s^2, of the last step.
        steering: rad, of the front wheels.
        length: m, of the body; its wheelbase is a share of it.
    """

    x: float = 0.0
    y: float = 0.0
    heading: float = 0.0
    speed: float = 0.0
    acceleration: float = 0.0
    lateral: float = 0.0
    steering: float = 0.0
    length: float = 4.5


def move(
    config: DriveConfig,
    body: Body,
    action: tuple[float, ...],
    kind: str = "vehicle",
    dt_s: float = FRAME_S,
) -> Body:
    """Return the body after one step, as the env moves it (float32).

    Args:
        action: a number per axis of `config.dynamics`, in its units (`drive_env.actions.axes_of`).
        kind: "vehicle", "pedestrian", "cyclist" or "other".

    Raises:
        ConfigError: the number of axes is wrong, or the kind is unknown.
    """
    axes = axes_of(config.dynamics)
    if len(action) != len(axes) or kind not in OBJECT_TYPES:
        names = ", ".join(axis.name for axis in axes)
        raise ConfigError(
            f"move: action is {action!r} and kind {kind!r}; the action must be ({names}), and the "
            f"kind one of {', '.join(OBJECT_TYPES)}"
        )
    state = ffi.new("float[]", list(dataclasses.astuple(body)))
    values = ffi.new("float[]", list(action))
    lib.pv_drive_move(_struct(config), dt_s, OBJECT_TYPES.index(kind), state, values)
    return Body(*state)


@dataclass(frozen=True)
class Experts:
    """Expert actions of the objects of one scene.

    Attributes:
        objects: (n,) int64, their indices in the scene.
        values: (n, T - 1, D) float32, by axis and in its units, within the action space.
        actions: the same actions as the env takes them: (n, T - 1, D) float32 if actions are
            continuous, (n, T - 1, D) int32 if they are multi-discrete, (n, T - 1) int32 if they are
            discrete.
        poses: (n, T, 4) float32, where the actions lead the model: x, y (m, relative to the scene's
            origin), heading (rad), speed (m/s).
        errors: (n, T) float32, distance to the log in m; NaN where the log has a gap.
    """

    objects: NDArray[np.int64]
    values: Floats
    actions: NDArray[Any]
    poses: Floats
    errors: Floats


def expert_actions(
    config: DriveConfig, scene: int | str = 0, scenes: SceneSet | None = None
) -> Experts:
    """Return the actions by which the model of `config` follows each vehicle's log.

    Only vehicles that are present in the first frame are included. Models that set poses follow
    their log exactly. The actions of other models have two numbers, but a pose has three, so each
    action also corrects earlier deviations (csrc/drive/motion/inverse.c). An env with
    `expert_actions=1` plays the same actions.

    Args:
        config: only `scenes`, `dynamics`, `actions`, `action_values`, the limits and the bicycle's
            settings matter.
        scene: its number or its name.
        scenes: the compiled set; None: `config.scenes` is compiled, or found in the cache.

    Raises:
        ConfigError: the model has no inverse, or there is no such scene.
        SceneError: see `prepare_scenes`.
    """
    if config.dynamics == "jerk":
        raise ConfigError("expert_actions: dynamics=jerk cannot be inverted: use another model")
    scene_set = prepare_scenes(config).scenes if scenes is None else scenes
    index = _index(scene_set, scene)
    _, arrays = scene_set.scene(index)
    head, objects = scene_set.scene(index)[0], arrays["objects"]
    frames = int(head["frame_count"])
    chosen = np.array(
        [
            o
            for o, item in enumerate(objects)
            if item["type"] == VEHICLE and _log_of(arrays, o, frames)[0, 3] == 1
        ]
    )
    values = np.zeros((len(chosen), frames, MOST_AXES), np.float32)
    poses = np.zeros((len(chosen), frames, 4), np.float32)
    errors = np.full((len(chosen), frames), np.nan, np.float32)
    context, _alive = _context(config, scene_set)
    for row, o in enumerate(chosen):
        targets = ffi.from_buffer("float[]", values[row]), ffi.from_buffer("float[]", poses[row])
        if lib.pv_drive_expert_actions(context, index, o, 0, *targets):
            raise ConfigError(
                f"expert_actions: object {o} of {scene_set.names[index]} cannot be followed"
            )
        log = _log_of(arrays, o, frames)
        there = log[:, 3] == 1
        errors[row, there] = np.hypot(*(poses[row, there, :2] - log[there, :2]).T)
    values = values[:, : frames - 1, : len(axes_of(config.dynamics))]
    return Experts(
        np.array(chosen, np.int64), values, in_action_space(config, values), poses, errors
    )


def in_action_space(config: DriveConfig, values: Floats) -> NDArray[Any]:
    """Return the nearest actions that the env can take for values (..., D) by axis."""
    if config.actions == "continuous":
        return values
    own = parse_action_values(config.action_values, config.dynamics)
    lists = [
        np.array(own.get(axis.name, axis.values), np.float32) for axis in axes_of(config.dynamics)
    ]
    indices = [
        np.abs(values[..., i, None] - listed).argmin(axis=-1) for i, listed in enumerate(lists)
    ]
    if config.actions == "multi_discrete":
        return np.stack(indices, axis=-1).astype(np.int32)
    joint = np.ravel_multi_index(tuple(indices), tuple(len(listed) for listed in lists))
    return np.asarray(joint, dtype=np.int32)


def _index(scenes: SceneSet, scene: int | str) -> int:
    if isinstance(scene, str) and scene in scenes.names:
        return list(scenes.names).index(scene)
    if isinstance(scene, int) and 0 <= scene < len(scenes):
        return scene
    raise ConfigError(
        f"there is no scene {scene!r}: give a number from 0 to {len(scenes) - 1} or a name of the "
        "set's scenes"
    )


def _log_of(arrays: dict[str, NDArray[Any]], o: int, frames: int) -> Floats:
    """Return a log as (T, 4): x, y, heading, and 1 where the object is present."""
    item = arrays["objects"][o]
    first, count, start = (
        int(item["frame_first"]),
        int(item["frame_count"]),
        int(item["frames_index"]),
    )
    listed = arrays["frames"][start : start + count]
    log = np.zeros((frames, 4), np.float32)
    log[first : first + count] = np.stack(
        [
            listed["x_m"],
            listed["y_m"],
            listed["heading"] * (np.pi / 32768),
            listed["speed"] != INVALID,
        ],
        axis=-1,
    )
    return log


@functools.lru_cache(maxsize=16)
def _struct(config: DriveConfig) -> object:
    return ffi.new("uint8_t[]", pack_config(config))


def _context(config: DriveConfig, scenes: SceneSet) -> tuple[object, object]:
    """Return a C context, and the buffers that must live as long as it."""
    blob = pack_params(action_params(config.action_values, config.dynamics))
    params = ffi.new("uint64_t[]", len(blob) // 8 + 1)
    ffi.memmove(params, blob, len(blob))
    data = ffi.from_buffer("uint8_t[]", scenes.data)
    struct = _struct(config)
    context = ffi.new("pv_context*")
    context.config, context.params = struct, ffi.cast("const pv_params*", params)
    context.data, context.data_bytes = data, len(scenes.data)
    return context, (params, data, struct)


TRACKED_M = 0.5
TRACKED_FRAMES = 91  # 9 s


class TrackingCounts(NamedTuple):
    """Counts of vehicles, and of those that expert actions keep within 0.5 m of their log for 9 s.

    `moving` are those whose goal is at least 2 m away.
    """

    close: int
    vehicles: int
    close_moving: int
    moving: int


def count_tracked(config: DriveConfig) -> TrackingCounts:
    """Count the vehicles of `config.scenes` that expert actions keep to their logs."""
    scenes = prepare_scenes(config).scenes
    counts = TrackingCounts(0, 0, 0, 0)
    for index in range(len(scenes)):
        experts = expert_actions(config, index, scenes)
        if len(experts.objects):
            close = np.nanmax(experts.errors[:, :TRACKED_FRAMES], axis=1) <= TRACKED_M
            moves = scenes.scene(index)[1]["objects"]["flags"][experts.objects] & packed.MOVES > 0
            more = close.sum(), len(close), (close & moves).sum(), moves.sum()
            counts = TrackingCounts(*(int(a + b) for a, b in zip(counts, more, strict=True)))
    return counts


def main(arguments: list[str]) -> int:
    """Print how many vehicles each model's expert actions keep to their logs, and their share."""
    if len(arguments) != 1:
        print(
            "usage: python -m drive_env.motion SCENES (a folder, a file, or generated:N)",
            file=sys.stderr,
        )
        return 2
    for dynamics, actions in TRACKED_MODELS:
        try:
            counts = count_tracked(
                DriveConfig(scenes=arguments[0], dynamics=dynamics, actions=actions)
            )
        except SceneError as error:
            print(f"drive_env.motion: {error}", file=sys.stderr)
            return 2
        every = (
            f"{counts.close} of {counts.vehicles} vehicles, "
            f"{counts.close / max(1, counts.vehicles):.1%}"
        )
        moving_text = (
            f"{counts.close_moving} of {counts.moving} that move, "
            f"{counts.close_moving / max(1, counts.moving):.1%}"
        )
        print(f"{dynamics:20} {actions:11} {every}; {moving_text}")
    return 0


# Models and action spaces whose tracking `main` prints.
TRACKED_MODELS: tuple[tuple[Dynamics, Actions], ...] = (
    ("state", "continuous"),
    ("delta_local", "continuous"),
    ("invertible_bicycle", "continuous"),
    ("bicycle", "continuous"),
    ("classic_gpudrive", "continuous"),
    ("classic_pufferdrive", "continuous"),
    ("bicycle", "discrete"),
)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
