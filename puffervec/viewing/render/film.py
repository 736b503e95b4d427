# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Encoders of pictures as PNG, GIF and MP4 files, and the camera of a film.

MP4 encodes pictures one by one; GIF holds all of them in memory, one byte per pixel.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import itertools
import math
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from PIL import Image

from puffervec.contract.drawing import Box, Circle, Drawing, Line
from puffervec.errors import ConfigError
from puffervec.viewing.render.episode import Moment

_H264 = {
    "codec": "libx264",
    "macro_block_size": 2,
    "quality": 6,
    "output_params": ["-preset", "veryfast", "-movflags", "+faststart"],
}
# Share of the view that is visible around a followed agent, if the drawing does not set `close`.
ALONE = 0.4
# The ring around the followed agent: its smallest radius, its width with pale edges, and its width
# without them, as shares of the view; and the number of its corners.
RING_LEAST, RING_EDGE, RING_WIDTH, RING_POINTS = 0.02, 0.011, 0.005, 48
LAST_MS = 1500  # duration of the last picture of a GIF, before it starts again


def png(picture: Image.Image) -> bytes:
    """Return a picture as the bytes of a PNG file."""
    out = io.BytesIO()
    picture.save(out, "PNG", optimize=True)
    return out.getvalue()


def gif(pictures: Iterable[Image.Image], fps: float) -> bytes:
    """Return pictures as the bytes of a looping GIF file; times are rounded to 10 ms."""
    frames = [
        picture.quantize(128, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        for picture in pictures
    ]
    out = io.BytesIO()
    times_ms = [10 * round(100 / fps)] * (len(frames) - 1) + [LAST_MS]
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:], duration=times_ms, loop=0)
    return out.getvalue()


def mp4(pictures: Iterable[Image.Image], fps: float) -> bytes:
    """Return pictures as the bytes of an MP4 file (H.264), which browsers and slides play.

    Width and height must be even.

    Raises:
        ConfigError: there is no ffmpeg, or it failed.
    """
    import imageio_ffmpeg

    with tempfile.TemporaryDirectory(prefix="puffervec-") as folder:
        path, frames = Path(folder) / "film.mp4", iter(pictures)
        first = next(frames)
        try:
            with contextlib.closing(
                imageio_ffmpeg.write_frames(str(path), first.size, fps=fps, **_H264)
            ) as writer:
                writer.send(None)
                for picture in itertools.chain([first], frames):
                    writer.send(picture.tobytes())
            return path.read_bytes()
        except (OSError, RuntimeError) as error:
            raise ConfigError(f"MP4: ffmpeg failed: {' '.join(str(error).split())}") from error


class Camera:
    """The view of a film: the whole world, or the surroundings of one agent.

    After the agent has disappeared, the view stays at its last position.
    """

    def __init__(self, drawing: Drawing, follow: str | None = None) -> None:
        """Create the camera of a drawing.

        Args:
            drawing: drawing of the episode.
            follow: name of an agent's shape; None shows the whole view.
        """
        left, bottom, right, top = drawing.view
        self._drawing, self._follow = drawing, follow
        self._across = drawing.close or ALONE * max(right - left, top - bottom)
        self._at = (left + right) / 2, (bottom + top) / 2

    def at(self, moment: Moment) -> tuple[Drawing, Moment]:
        """Return the drawing with its view at a moment, and the moment.

        The moment has a ring around the followed agent.
        """
        if self._follow is None:
            return self._drawing, moment
        shapes = moment.shapes
        for shape in moment.shapes:
            if shape.name == self._follow and isinstance(shape, (Box, Circle)):
                self._at = shape.x, shape.y
                shapes = (*shapes, *ring_around(shape, self._across))
        (x, y), half = self._at, self._across / 2
        view = (x - half, y - half, x + half, y + half)
        return (
            dataclasses.replace(self._drawing, view=view),
            dataclasses.replace(moment, shapes=shapes),
        )


def ring_around(shape: Box | Circle, across: float) -> list[Line]:
    """Return a dark ring with pale edges around a shape; `across` is the size of the view."""
    size = 2 * shape.radius if isinstance(shape, Circle) else math.hypot(shape.width, shape.height)
    radius = max(0.65 * size, RING_LEAST * across)
    turns = [2 * math.pi * part / RING_POINTS for part in range(RING_POINTS + 1)]
    points = [
        (shape.x + radius * math.cos(turn), shape.y + radius * math.sin(turn)) for turn in turns
    ]
    return [
        Line(points, width * across, role=role)
        for width, role in ((RING_EDGE, "paper"), (RING_WIDTH, ""))
    ]


WRITERS: dict[str, Callable[[Iterable[Image.Image], float], bytes]] = {"mp4": mp4, "gif": gif}
