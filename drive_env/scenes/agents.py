# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Selects the agents of compiled scenes, as the env does (csrc/drive/scene/control.c).

It also explains why a scene has none. Runs in the learner, before workers start.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.config import CONTROLS, DriveConfig
from drive_env.scenes import packed
from drive_env.scenes.check import MAP_ALONE
from drive_env.scenes.schema import CYCLIST, MOVE_M, VEHICLE
from puffervec.errors import ConfigError, SceneError

Arrays = dict[str, NDArray[Any]]
SceneArrays = tuple[Any, Arrays]  # as SceneSet.scene returns them
IDS_SHOWN = 8
COUNTED = ("objects", "frames")  # sections that determine which objects are agents


def agent_mask(head: Any, arrays: Arrays, config: DriveConfig) -> NDArray[np.bool_]:
    """Return which objects of a scene are agents, (objects,) bool. Distances are float32, as in C.

    Raises:
        IndexError: an object's frames do not lie in the file.
    """
    objects, start = arrays["objects"], config.init_step
    at = start - objects["frame_first"].astype(np.int64)
    there = (at >= 0) & (at < objects["frame_count"])
    frames = (
        arrays["frames"][np.where(there, objects["frames_index"] + at, 0)] if there.any() else None
    )
    if frames is None or (not config.max_steps and start + 1 >= head["frame_count"]):
        return np.zeros(len(objects), bool)
    there &= (frames["speed"] != packed.FRAME_INVALID) & (objects["type"] <= CYCLIST)
    with np.errstate(all="ignore"):  # a damaged file may contain any number
        dx, dy = objects["goal_x_m"] - frames["x_m"], objects["goal_y_m"] - frames["y_m"]
        square = dx * dx + dy * dy
    flags = objects["flags"]
    if config.control in ("predict", "sdc"):
        return np.asarray(
            there & (flags & (packed.TO_PREDICT if config.control == "predict" else packed.SDC) > 0)
        )
    if config.control == "ids":
        return np.asarray(there & np.isin(objects["id"], config.control_ids))
    there &= ~(square <= np.float32(config.goal_radius_m) ** 2)
    if config.control != "all":
        there &= objects["type"] == VEHICLE
    if config.control == "moving":
        moves = square >= np.float32(MOVE_M) ** 2 if start else flags & packed.MOVES > 0
        there &= moves & (flags & packed.EXPERT == 0)
    return np.asarray(there)


def check_agents(
    config: DriveConfig,
    counts: Sequence[int],
    scenes: Callable[[], list[SceneArrays]],
    names: list[str],
) -> None:
    """Refuse scenes if none has an agent, or if one has more than an env has rows.

    Args:
        counts: agents per scene.
        names: names of the scenes.
        scenes: returns the scenes as `SceneSet.scene` does; called only if a message, or
            control=ids, needs them.

    Raises:
        SceneError, ConfigError: the message tells what the scenes have, and which setting would
            work.
    """
    if bool(config.control_ids) != (config.control == "ids"):
        remedy = (
            "set control to ids, or leave control_ids out"
            if config.control_ids
            else "set control_ids to the agents' track ids"
        )
        raise ConfigError(
            f"drive: control is {config.control} and control_ids is {config.control_ids}: {remedy}"
        )
    if config.control == "ids":
        _check_ids(config, scenes())
    if max(counts) == 0:
        raise SceneError(
            f"{config.scenes}: none of its {len(counts)} scenes has an agent: "
            f"{_describe_alternatives(config, scenes())}"
        )
    if max(counts) > config.num_agents:
        name = names[counts.index(max(counts))]
        raise ConfigError(
            f"drive: num_agents is {config.num_agents}, but {name} has {max(counts)} agents; "
            "raise num_agents to at least that"
        )


def _check_ids(config: DriveConfig, scenes: list[SceneArrays]) -> None:
    """Raise ConfigError for ids that no scene has."""
    there = np.unique(
        np.concatenate(
            [arrays["objects"]["id"][arrays["objects"]["type"] <= CYCLIST] for _, arrays in scenes]
        )
    )
    missing = [number for number in config.control_ids if number not in there]
    if missing:
        some = ", ".join(map(str, there[:IDS_SHOWN])) + (", ..." if len(there) > IDS_SHOWN else "")
        raise ConfigError(
            f"drive: control_ids names {', '.join(map(str, missing))}, but no scene of "
            f"{config.scenes} has a vehicle, pedestrian or cyclist with that id; its ids are {some}"
        )


def _describe_alternatives(config: DriveConfig, scenes: list[SceneArrays]) -> str:
    """Return a text on how many agents the other modes would find."""
    if not any(len(arrays["objects"]) for _, arrays in scenes):
        return f"they have no objects: {MAP_ALONE}"
    longest = max(int(head["frame_count"]) for head, _ in scenes)
    if config.init_step + 1 >= longest and not config.max_steps:
        allowed = (
            f"it must be at most {longest - 2}, or set max_steps"
            if longest > 1
            else "set max_steps"
        )
        return (
            f"init_step is {config.init_step}, but the longest of their logs has {longest} "
            f"frames: {allowed}"
        )
    others = [
        dataclasses.replace(config, control=name)
        for name in CONTROLS
        if name not in ("ids", config.control)
    ]
    counts = {
        other.control: sum(int(agent_mask(*scene, other).sum()) for scene in scenes)
        for other in others
    }
    some = ", ".join(f"{count} under control={name}" for name, count in counts.items() if count)
    return (
        f"control is {config.control}; there are "
        f"{some or 'no vehicles, pedestrians or cyclists with a goal to drive to'}"
    )
