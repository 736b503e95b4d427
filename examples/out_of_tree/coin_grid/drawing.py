# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Pictures of coin_grid: frames for `render_mode="rgb_array"`, and the last moments of an episode for `eval --png`."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import puffervec
from puffervec.errors import CallOrderError
from puffervec.evaluation import Actor

CELL = 16  # pixels
COLOURS = {"pit": (40, 40, 40), "coin": (230, 180, 0), "agent": (0, 90, 180)}  # the agent last: it is seen on all else


def picture(state: dict[str, np.ndarray], size: int) -> np.ndarray:
    """Return (H, W, 3) uint8: a grid with its agent, coin and pit. state: as `vec.peek` returns it."""
    cells = np.full((size, size, 3), 245, np.uint8)
    for name, colour in COLOURS.items():
        x, y = state[name]
        cells[y, x] = colour
    return np.kron(cells, np.ones((CELL, CELL, 1), np.uint8))


class Frames:
    """Draws one env while it runs; see puffervec.evaluation.Recorder."""

    def __init__(self, vec: Any) -> None:
        """Draw what a vector env of one env does."""
        self._vec, self._state = vec, None

    def begin(self) -> None:
        """Look at the first state."""
        self.add()

    def add(self) -> None:
        """Look at the newest state."""
        self._state = self._vec.peek(0)

    def picture(self) -> np.ndarray:
        """Return (H, W, 3) uint8. Raises: CallOrderError: before the first reset."""
        if self._state is None:
            raise CallOrderError("render: call reset first")
        return picture(self._state, self._vec.config.size)


def draw(actor: Actor, config: Any, names: Sequence[str], *, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield a PNG for each of the report's parts: where 64 steps lead."""
    from matplotlib.image import imsave

    for name in names:
        with puffervec.make("coin_grid", env_kwargs=config, backend="serial", seed=seed) as vec:
            observations, _ = vec.reset(seed)
            actor.reset(vec)
            for _ in range(64):
                observations = vec.step(actor.act(observations, vec))[0]
            file = io.BytesIO()
            imsave(file, picture(vec.peek(0), config.size), format="png")
        yield name, file.getvalue()
