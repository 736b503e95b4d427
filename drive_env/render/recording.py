# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Drives one scene once and records it frame by frame, for a picture.

Runs in the learner with one env in process. Agents' poses come from the env's readable state
(`vec.peek`), those of other objects from the compiled log. All arrays are copies, in the scene's
local frame.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.render.colours import AREAS
from drive_env.render.ground import role_in
from drive_env.render.tracks import Roads, Tracks
from drive_env.scenes import packed
from drive_env.scenes.sceneset import SceneSet
from drive_env.scenes.schema import AREA_TYPES, Floats
from puffervec.contract.evaluation import Actor
from puffervec.vec.vector_env import VectorEnv

FLAGS = ("active", "collided", "offroad", "reached")


def record(actor: Actor, vec: VectorEnv, scenes: SceneSet, scene: int, seed: int) -> Tracks:
    """Drive a scene to the end of its episode.

    Args:
        vec: one env in process, whose config has shaping off.
        scene: index in the set.
        seed: seed of the env.
    """
    vec.set_tasks([0], [scene])
    vec.async_reset([seed])
    obs = vec.recv()[0]
    actor.reset(vec)
    states = [vec.peek(0)]
    while True:
        vec.send(actor.act(obs, vec))
        batch = vec.recv()
        obs, infos = batch[0], batch[4]
        states.append(vec.peek(0))
        if len(infos.episodes):
            return tracks_of(states, *scenes.scene(scene), vec.config.goal_radius_m)


def tracks_of(
    states: list[dict[str, NDArray[Any]]],
    head: NDArray[Any],
    arrays: dict[str, NDArray[Any]],
    goal_radius_m: float,
) -> Tracks:
    """Collect agents (from the states) and other objects (from the log) in one table.

    Args:
        states: one `peek` per frame.
        head, arrays: head and arrays of the compiled scene.
    """
    objects, frames = arrays["objects"], len(states)
    poses = np.zeros((3, frames, len(objects)))
    flags = {name: np.zeros((frames, len(objects)), dtype=np.bool_) for name in FLAGS}
    rows = np.flatnonzero((states[0]["object"] >= 0) & (states[0].get("traffic", 0) == 0))
    driven = states[0]["object"][rows]
    for frame, state in enumerate(states):
        for axis, name in enumerate(("x", "y", "heading")):
            poses[axis, frame, driven] = state[name][rows]
        for name in FLAGS:
            flags[name][frame, driven] = state[name][rows] != 0
    agent = np.zeros(len(objects), dtype=np.bool_)
    agent[driven] = True
    for index in np.flatnonzero(~agent):
        poses[:, :, index], flags["active"][:, index] = logged_poses(
            objects[index], arrays["frames"], frames
        )
    logs = np.full((2, int(head["frame_count"]), len(objects)), np.nan)
    for number, item in enumerate(objects):
        logged, there = logged_poses(item, arrays["frames"], logs.shape[1])
        logs[:, there, number] = logged[:2, there]
    return Tracks(
        x_m=poses[0],
        y_m=poses[1],
        heading_rad=poses[2],
        there=flags["active"],
        length_m=objects["length_m"].astype(np.float64),
        width_m=objects["width_m"].astype(np.float64),
        kind=objects["type"].astype(np.int64),
        agent=agent,
        log_x_m=logs[0],
        log_y_m=logs[1],
        goal_m=np.stack([objects["goal_x_m"], objects["goal_y_m"]], axis=-1).astype(np.float64),
        goal_radius_m=goal_radius_m,
        reached=np.asarray(flags["reached"].any(axis=0)),
        collided=rises(flags["collided"]),
        offroad=rises(flags["offroad"]),
    )


def logged_poses(
    item: NDArray[Any], frames: NDArray[Any], count: int
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return x, y, heading (3, count) and presence (count,) of one object.

    Only the first `count` frames of its log are returned.
    """
    poses, there = np.zeros((3, count)), np.zeros(count, dtype=np.bool_)
    first, length = int(item["frame_first"]), int(item["frame_count"])
    span = slice(first, min(first + length, count))
    own = frames[int(item["frames_index"]) :][: max(0, span.stop - first)]
    poses[:, span] = own["x_m"], own["y_m"], own["heading"] / packed.HEADING_SCALE
    there[span] = own["speed"] != packed.FRAME_INVALID
    return poses, there


def rises(flag: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the frames in which a flag rises, (F, K).

    A flag that is set in the first frame is not an event: it was set before the drive.
    """
    rising = flag.copy()
    rising[1:] &= ~flag[:-1]
    rising[0] = False
    return rising


def roads_of(arrays: dict[str, NDArray[Any]], counts: NDArray[Any], frame: int = 0) -> Roads:
    """Return the polylines of a compiled scene, put together from its segments.

    Areas, and lights and signs as they are in a frame, are included.
    """
    middle = np.stack([arrays["x"], arrays["y"]], axis=-1).astype(np.float64)
    along = (
        np.stack([arrays["ux"], arrays["uy"]], axis=-1).astype(np.float64) * arrays["half"][:, None]
    )
    breaks = np.flatnonzero(np.diff(arrays["polyline"].astype(np.int64))) + 1
    lanes_end, lines_end = int(counts[0]), int(counts[0] + counts[1])
    roads = Roads([], [], [], areas_of(arrays), signals_of(arrays, frame))
    for part in np.split(np.arange(len(middle)), breaks):
        if not len(part):
            continue
        points = np.concatenate([middle[part[:1]] - along[part[:1]], middle[part] + along[part]])
        kind = int(arrays["kind"][part[0]])
        if part[0] < lanes_end:
            roads.lanes.append(points)
        elif part[0] < lines_end:
            roads.lines.append((kind, points))
        else:
            roads.edges.append((kind, points))
    return roads


def areas_of(arrays: dict[str, NDArray[Any]]) -> list[tuple[str, Floats]]:
    """Return the name in AREAS and the outline (n, 2) of each crosswalk and speed bump."""
    areas = []
    for area in arrays["areas"]:
        name, span = (
            AREA_TYPES[area["kind"]].replace("_", " "),
            slice(int(area["first"]), int(area["first"] + area["count"])),
        )
        if name in AREAS and area["count"] > 2:
            areas.append(
                (
                    name,
                    np.stack([arrays["points_x"][span], arrays["points_y"][span]], axis=-1).astype(
                        np.float64
                    ),
                )
            )
    return areas


def signals_of(arrays: dict[str, NDArray[Any]], frame: int) -> list[tuple[str, Floats]]:
    """Return, for each control, its name in LIGHTS or SIGNS and its position (2,) in metres."""
    return [
        (role_in(control, arrays, frame), np.array([control["x_m"], control["y_m"]], np.float64))
        for control in arrays["controls"]
    ]
