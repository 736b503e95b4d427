# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Pictures of a scene while it is driven, for `render_mode="rgb_array"`.

Each shows the whole episode so far. Runs in the learner.
"""

from __future__ import annotations

import numpy as np

from drive_env.prepare import prepare_scenes
from drive_env.render.raster import as_colours, channels_of, inset
from drive_env.render.recording import roads_of, tracks_of
from drive_env.render.tracks import View, fixed_view
from puffervec.errors import CallOrderError
from puffervec.system import extras
from puffervec.vec.vector_env import VectorEnv


class FrameRecorder:
    """Recorder of the first scene of an env (see puffervec.contract.evaluation.Recorder).

    With a raster in the observation, a corner shows what the first agent sees. All pictures have
    one size, as a video needs: the view is chosen at the reset, from the scene's log.
    """

    def __init__(self, vec: VectorEnv) -> None:
        """Prepare the scenes.

        Raises:
            MissingExtraError: Pillow is not installed.
        """
        extras.require("drawing", "PIL")
        self._vec = vec
        self._scenes = prepare_scenes(vec.config).scenes
        self._states: list[dict[str, np.ndarray]] = []
        self._scene = -1
        self._view: View | None = None

    def begin(self) -> None:
        """Drop the last episode and record the first frame of this one."""
        self._states = []
        self._view = None
        self.add()
        self._scene = int(self._vec.peek(0)["slot_scene"][0])

    def add(self) -> None:
        """Record the newest frame, unless the scene has ended or started again."""
        state = self._vec.peek(0)
        if int(state["slot_clock"][0]) == len(self._states):
            own = state["slot"] == 0
            self._states.append(
                {name: value[own] for name, value in state.items() if value.shape == own.shape}
            )

    def picture(self) -> np.ndarray:
        """Return the picture, (H, W, 3) uint8.

        Raises:
            CallOrderError: before the first reset.
        """
        from drive_env.render.picture import picture_of

        if not self._states:
            raise CallOrderError("render: call reset first")
        head, arrays = self._scenes.scene(self._scene)
        tracks = tracks_of(self._states, head, arrays, self._vec.config.goal_radius_m)
        self._view = self._view or fixed_view(tracks)
        roads = roads_of(
            arrays, head["segment_count"], self._vec.config.init_step + len(self._states) - 1
        )
        picture = np.array(picture_of(self._scenes.names[self._scene], roads, tracks, self._view))
        if self._vec.config.raster:
            inset(
                picture,
                as_colours(channels_of(self._vec.halves[0].groups["agents"].observations, 0)),
            )
        return picture
