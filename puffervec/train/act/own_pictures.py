# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Film Gymnasium envs by the pictures that they render themselves (`render_mode="rgb_array"`).

Runs in the learner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from PIL import Image, ImageOps

import puffervec
from puffervec.contract.drawing import PAPER
from puffervec.contract.evaluation import Actor
from puffervec.errors import ConfigError
from puffervec.train.config.target import name_of
from puffervec.vec.vector_env import VectorEnv
from puffervec.viewing.render.painter import LINE_PX, MARGIN_PX, add_head
from puffervec.workers.python.creators import run_user_code

MODE, FPS = "rgb_array", 30.0  # The rate applies if the env does not declare one.


def _refuses_mode(error: TypeError) -> bool:
    """Return whether an env's factory was called with a `render_mode` that it does not take."""
    text = str(error)
    return "'render_mode'" in text or text.endswith("takes no arguments")


class OwnPictures:
    """One episode of a Gymnasium env.

    Attributes:
        steps: Steps taken so far.
        fps: Steps per second, as the env declares.
    """

    def __init__(
        self,
        maker: str | Callable[..., Any],
        kwargs: Mapping[str, Any] | None,
        actor: Actor,
        seed: int,
        most_steps: int,
    ) -> None:
        """Create the env and reset it.

        Args:
            maker, kwargs: See `puffervec.make`.
            most_steps: Maximum length of the episode; a longer one is cut off.

        Raises:
            ConfigError: The env has no such pictures.
        """
        self.steps, self.fps = 0, FPS
        target = maker if isinstance(maker, str) else name_of(maker)
        self._actor, self._most_steps, self._seed = actor, most_steps, seed
        settings = {**(kwargs or {}), "render_mode": MODE}
        self._vec = run_user_code(
            target,
            f"cannot be created with render_mode={MODE!r}",
            lambda: self._make(target, maker, settings, seed),
        )
        env = self._vec.driver_env
        modes = env.metadata.get("render_modes", [])
        if MODE not in modes:
            self._vec.close()
            raise ConfigError(
                f"{target} renders no pictures: its render modes are "
                f"{', '.join(map(str, modes)) or 'none'}"
            )
        self.fps = float(env.metadata.get("render_fps") or FPS)

    @staticmethod
    def _make(
        target: str, maker: str | Callable[..., Any], settings: dict[str, Any], seed: int
    ) -> VectorEnv:
        """Create the env, or raise ConfigError if its factory takes no `render_mode`."""
        try:
            return puffervec.make(
                maker, env_kwargs=settings, backend="serial", num_envs=1, seed=seed
            )
        except TypeError as error:
            if not _refuses_mode(error):
                raise
            raise ConfigError(
                f"{target} takes no render_mode: add a parameter render_mode and pass it to the "
                "env, which then returns its pictures from render()"
            ) from error

    def pictures(self, title: str, size: tuple[int, int] | None) -> Iterator[Image.Image]:
        """Play the episode and yield a picture for each of its moments.

        Args:
            size: Size of a picture in pixels; None for the size of the env's own pictures plus a
                title.
        """
        vec = self._vec
        self._actor.reset(vec)
        vec.async_reset(self._seed)
        received, total = vec.recv(), 0.0
        yield self._picture(title, total, size)
        while self.steps < self._most_steps and not vec.rows.over(0).any():
            vec.send(self._actor.act(received[0], vec))
            received = vec.recv()
            self.steps += 1
            total += float(received[1].mean())
            yield self._picture(title, total, size)

    def close(self) -> None:
        """Close the env."""
        self._vec.close()

    def _picture(self, title: str, total: float, size: tuple[int, int] | None) -> Image.Image:
        try:
            pixels = self._vec.driver_env.render()
        except Exception as error:
            raise ConfigError(
                f"{title}: its render() failed: {' '.join(str(error).split())}"
            ) from error
        if not (
            isinstance(pixels, np.ndarray)
            and pixels.dtype == np.uint8
            and pixels.ndim == 3
            and pixels.shape[2] == 3
        ):
            raise ConfigError(
                f"{title}: its render() returned {type(pixels).__name__}: must be uint8 of shape "
                "(height, width, 3)"
            )
        own = Image.fromarray(pixels)
        head = 2 * LINE_PX + 2 * MARGIN_PX
        room = (own.width + own.width % 2, own.height + own.height % 2)
        if size is not None:
            room = size[0] - 2 * MARGIN_PX, size[1] - head
            # Pixels of old games stay sharp.
            larger = room[0] >= 2 * own.width and room[1] >= 2 * own.height
            own = ImageOps.contain(
                own, room, Image.Resampling.NEAREST if larger else Image.Resampling.LANCZOS
            )
        world = Image.new("RGB", room, PAPER)
        world.paste(own, ((room[0] - own.width) // 2, (room[1] - own.height) // 2))
        return add_head(world, title, [f"step {self.steps}, return {total:.4g}"], [], {})
