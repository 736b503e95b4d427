# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Places the objects that no agent moves: in their log, at rest, or as IDM followers.

csrc/drive/motion/follow.c moves the followers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.config import DriveConfig
from drive_env.render.recording import logged_poses
from drive_env.scenes import packed
from drive_env.scenes.schema import MOVE_M, OBJECT_TYPES, VEHICLE
from puffervec.contract.drawing import State

# DRIVE_FOLLOWS_LOG and DRIVE_FOLLOWS_LANE in csrc/drive/state.h
FOLLOWS_LOG, FOLLOWS_LANE = 1, 2
Pose = tuple[int, float, float, float]  # object, x, y, heading
_NOUNS = {"vehicle": "car", "other": "object"}


class Objects:
    """The objects of a scene, with their logs.

    Attributes:
        names: name of each object.
        records: (objects,) packed.OBJECT.
        poses: (3, frames, objects) x, y, heading.
        there: (frames, objects) bool, whether the object is present.
    """

    def __init__(
        self,
        config: DriveConfig,
        head: Any,
        arrays: dict[str, NDArray[Any]],
        agents: NDArray[np.int64],
    ) -> None:
        """Set up the objects of a scene.

        Args:
            agents: the objects that agents move.
        """
        self.config, self.arrays = config, arrays
        self.records = arrays["objects"]
        count, frames = len(self.records), int(head["frame_count"])
        self.poses, self.there = np.zeros((3, frames, count)), np.zeros((frames, count), np.bool_)
        for number, item in enumerate(self.records):
            self.poses[:, :, number], self.there[:, number] = logged_poses(
                item, arrays["frames"], frames
            )
        kinds = [OBJECT_TYPES[kind] for kind in self.records["type"]]
        self.names = [f"{_NOUNS.get(kind, kind)} {number}" for number, kind in enumerate(kinds)]
        self.followers = self._followers(agents) if config.others == "idm" else []
        moved = {*agents.tolist(), *self.followers}
        self._logged = [number for number in range(count) if number not in moved]

    def others(self, state: State) -> Iterator[Pose]:
        """Yield the objects that are present and that no agent moves.

        Args:
            state: readable state of an env whose first scene this is.
        """
        start = self.config.init_step
        frame = start if self.config.others == "static" else start + int(state["slot_clock"][0])
        if frame < len(self.there):
            for number in self._logged:
                if self.there[frame, number]:
                    x, y, heading = self.poses[:, frame, number].tolist()
                    yield number, x, y, heading
        for place, number in enumerate(self.followers):
            if state["follower_phase"][place] in (FOLLOWS_LOG, FOLLOWS_LANE):
                yield number, *self._follower(state, place, number)

    def log_of(self, number: int) -> list[tuple[float, float]]:
        """Return the logged path of an object, from the start on."""
        span = self.there[self.config.init_step :, number]
        return [
            (float(x), float(y)) for x, y in self.poses[:2, self.config.init_step :, number].T[span]
        ]

    def _followers(self, agents: NDArray[np.int64]) -> list[int]:
        """Return the objects that follow their log by IDM, in the order of the env's state."""
        followers = []
        for number in np.flatnonzero(self.records["type"] == VEHICLE).tolist():
            frames = (
                np.flatnonzero(self.there[self.config.init_step :, number]) + self.config.init_step
            )
            if number in agents or not len(frames):
                continue
            first, last = self.poses[:2, frames[0], number], self.poses[:2, frames[-1], number]
            if np.hypot(*(last - first)) >= MOVE_M:
                followers.append(number)
        return followers

    def _follower(self, state: State, place: int, number: int) -> tuple[float, float, float]:
        """Return x, y and heading of a follower on its piece of path."""
        x, y, heading = (
            float(state[f"follower_from_{name}"][place]) for name in ("x", "y", "heading")
        )
        to, along = int(state["follower_to"][place]), float(state["follower_along"][place])
        if state["follower_phase"][place] == FOLLOWS_LOG:
            item = self.records[number]
            end = self.arrays["frames"][int(item["frames_index"]) + to - int(item["frame_first"])]
            end_x, end_y, end_heading = (
                float(end["x_m"]),
                float(end["y_m"]),
                float(end["heading"]) / packed.HEADING_SCALE,
            )
        else:
            ux, uy, half = (float(self.arrays[name][to]) for name in ("ux", "uy", "half"))
            end_x, end_y = (
                float(self.arrays["x"][to]) + half * ux,
                float(self.arrays["y"][to]) + half * uy,
            )
            end_heading = float(np.arctan2(uy, ux))
        length = float(np.hypot(end_x - x, end_y - y))
        share = min(along / length, 1.0) if length > 0 else 0.0
        turn = (end_heading - heading + np.pi) % (2 * np.pi) - np.pi
        return x + share * (end_x - x), y + share * (end_y - y), heading + share * turn
