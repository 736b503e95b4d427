# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Pictures of a running env for `render_mode="rgb_array"`.

`Frames` is the `Recorder` of every env that has a `NativeEnv.drawing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from puffervec.errors import CallOrderError
from puffervec.system import extras
from puffervec.viewing.render.episode import Episode

if TYPE_CHECKING:
    import numpy as np

    from puffervec.contract.evaluation import Recorder
    from puffervec.contract.native import NativeEnv


def recorder_of(native: NativeEnv, vec: Any) -> Recorder | None:
    """Return the recorder of a vector env of one env in this process; None if it cannot be drawn.

    Raises:
        MissingExtraError: a package that is needed to draw is not installed.
    """
    if native.recorder is not None:
        return native.recorder(vec)
    return None if native.drawing is None else Frames(vec)


class Frames:
    """A recorder of the first env of a vector env (puffervec.contract.evaluation.Recorder)."""

    def __init__(self, vec: Any) -> None:
        """Create a recorder; its first episode begins with `begin`.

        Args:
            vec: vector env whose env type has a drawing.

        Raises:
            MissingExtraError: Pillow is not installed.
        """
        extras.require("drawing", "PIL")
        self._vec = vec
        self._episode: Episode | None = None
        self._size: tuple[int, int] | None = None

    @property
    def episode(self) -> Episode:
        """The current episode. Raises: CallOrderError: before the first reset."""
        if self._episode is None:
            raise CallOrderError("render: call reset first")
        return self._episode

    def begin(self) -> None:
        """Start an episode with the env's current state."""
        self._episode = Episode(
            self._vec.env.name, self._vec.env.drawing, self._vec.config, self._vec.peek(0)
        )

    def add(self) -> None:
        """Add the env's current state to the episode."""
        self.episode.add(self._vec.peek(0))

    def picture(self) -> np.ndarray:
        """Return a picture of the newest state, (H, W, 3) uint8, always of the same size.

        Raises:
            CallOrderError: before the first reset.
        """
        import numpy as np

        from puffervec.viewing.render.painter import picture_of, size_of

        drawing = self.episode.drawing
        self._size = self._size or size_of(drawing)
        return np.asarray(picture_of(drawing, self.episode.moment, self._vec.env.name, self._size))
