# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The drivers of the logs as experts whose actions can be cloned (puffervec/contract/experts.py).

In each step the env plays the action, from the run's action space, by which the dynamics model best
follows the log from the car's current pose (csrc/drive/motion/expert.c). An action counts as known
if the log has the object both before and after the step. Runs in the learner.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.config import PLAYERS, DriveConfig
from drive_env.motion import INVALID, in_action_space
from drive_env.prepare import prepare_scenes
from drive_env.scenes.sceneset import SceneSet
from puffervec.contract.drawing import State
from puffervec.contract.experts import Experts

# The logs of most data sets have 91 frames. An expert drives a scene the same way each time, so new
# scenes are drawn after one episode.
EPISODE_STEPS = 91
KEPT_SCENES = 4096


def experts(config: DriveConfig) -> Experts:
    """Return how the env plays the drivers of the logs.

    Raises:
        ConfigError: the model of motion has no inverse.
    """
    changes: dict[str, Any] = {
        **dict.fromkeys(PLAYERS, 0),
        "expert_actions": 1,
        "metrics": 1,  # ade_m: how far the expert drives from its log
        "resample_steps": min(config.resample_steps, config.max_steps or EPISODE_STEPS),
    }
    settings = dataclasses.replace(config, **changes)
    return Experts(settings, _Reader(settings).read)


class _Reader:
    """Reads the actions that an env has played; opens the scenes at its first call."""

    def __init__(self, config: DriveConfig) -> None:
        self._config = config
        self._logged = functools.lru_cache(KEPT_SCENES)(self._logged_frames)

    @functools.cached_property
    def _scenes(self) -> SceneSet:
        return prepare_scenes(self._config).scenes

    def read(self, state: State) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the actions of the last step, and which of them are known; see `Experts`."""
        actions = in_action_space(self._config, state["played"])
        known = np.zeros(len(state["slot"]), np.bool_)
        for slot, (scene, clock) in enumerate(
            zip(state["slot_scene"].tolist(), state["slot_clock"].tolist(), strict=True)
        ):
            rows = np.flatnonzero(state["slot"] == slot)
            frame = clock + self._config.init_step
            if not len(rows) or frame < 1:
                continue
            logged = self._logged(scene)
            if frame < logged.shape[1]:
                known[rows] = logged[state["object"][rows], frame - 1 : frame + 1].all(axis=1)
        return actions, known

    def _logged_frames(self, scene: int) -> NDArray[np.bool_]:
        """Return whether the log has each object in each frame, (objects, frames) bool."""
        head, arrays = self._scenes.scene(scene, ("objects", "frames"))
        objects = arrays["objects"]
        logged = np.zeros((len(objects), int(head["frame_count"])), np.bool_)
        present = arrays["frames"]["speed"] != INVALID
        for row, item in zip(logged, objects, strict=True):
            first, count, start = (
                int(item["frame_first"]),
                int(item["frame_count"]),
                int(item["frames_index"]),
            )
            row[first : first + count] = present[start : start + count]
        return logged
