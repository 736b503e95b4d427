# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Pictures of a drive env while it runs, for `render_mode="rgb_array"`: the first scene, with the paths driven so far.

Runs in the learner, beside one env in this process. All pictures have one size, as a video needs: what they show is chosen at
the reset, from the scene's log.
"""

from __future__ import annotations

import io

import numpy as np

from drive_env.prepare import prepare_scenes
from drive_env.render.recording import roads_of, tracks_of
from drive_env.render.render import View, fixed_view, png_of, require_matplotlib
from puffervec.errors import CallOrderError
from puffervec.vec.vector_env import VectorEnv


class FrameRecorder:
    """Notes the poses of the first scene of an env step by step, and draws them; see puffervec.evaluation.Recorder."""

    def __init__(self, vec: VectorEnv) -> None:
        """Raises: MissingExtraError: matplotlib is not installed."""
        require_matplotlib()
        self._vec = vec
        self._scenes = prepare_scenes(vec.config).scenes
        self._states: list[dict[str, np.ndarray]] = []
        self._scene = -1
        self._view: View | None = None

    def begin(self) -> None:
        """Forget the last episode and note the first frame of this one."""
        self._states = []
        self._view = None
        self.add()
        self._scene = int(self._vec.peek(0)["slot_scene"][0])

    def add(self) -> None:
        """Note the newest frame, unless the scene has ended or started again."""
        state = self._vec.peek(0)
        if int(state["slot_clock"][0]) == len(self._states):
            own = state["slot"] == 0
            self._states.append({name: value[own] for name, value in state.items() if value.shape == own.shape})

    def picture(self) -> np.ndarray:
        """Return (H, W, 3) uint8. Raises: CallOrderError: before the first reset."""
        from matplotlib.image import imread

        if not self._states:
            raise CallOrderError("render: call reset first")
        head, arrays = self._scenes.scene(self._scene)
        tracks = tracks_of(self._states, head, arrays, self._vec.config.goal_radius_m)
        self._view = self._view or fixed_view(tracks)
        roads = roads_of(arrays, head["segment_count"])
        shares = np.asarray(imread(io.BytesIO(png_of(self._scenes.names[self._scene], roads, tracks, self._view))))
        return np.asarray(np.round(shares[:, :, :3] * 255), np.uint8)  # (H, W, 4) float32 in [0, 1] before
