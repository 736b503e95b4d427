# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Pictures of an env while it runs, for `render_mode="rgb_array"`: the `Recorder` of every env with a `NativeEnv.drawing`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from puffervec import extras
from puffervec.errors import CallOrderError
from puffervec.render.episode import Episode

if TYPE_CHECKING:
    import numpy as np


class Frames:
    """Draws the first env of a vector env while it runs; see puffervec.evaluation.Recorder."""

    def __init__(self, vec: Any) -> None:
        """Args: vec: its env type has a drawing. Raises: MissingExtraError: Pillow is not installed."""
        extras.require("drawing", "PIL")
        self._vec = vec
        self._episode: Episode | None = None
        self._size: tuple[int, int] | None = None

    @property
    def episode(self) -> Episode:
        """The episode under way. Raises: CallOrderError: before the first reset."""
        if self._episode is None:
            raise CallOrderError("render: call reset first")
        return self._episode

    def begin(self) -> None:
        """Begin an episode."""
        self._episode = Episode(self._vec.env.name, self._vec.env.drawing, self._vec.config, self._vec.peek(0))

    def add(self) -> None:
        """Look at the newest state."""
        self.episode.add(self._vec.peek(0))

    def picture(self) -> np.ndarray:
        """Return (H, W, 3) uint8, always of the same size. Raises: CallOrderError: before the first reset."""
        import numpy as np

        from puffervec.render.painter import picture_of, size_of

        drawing = self.episode.drawing
        self._size = self._size or size_of(drawing)
        return np.asarray(picture_of(drawing, self.episode.moment, self._vec.env.name, self._size))
