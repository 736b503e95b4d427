# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/viewing/render/film.py: what is written is decoded again."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL")
from PIL import Image, ImageDraw

from puffervec.contract.drawing import Box, Circle, Drawing, Line
from puffervec.viewing.render import film
from puffervec.viewing.render.episode import Moment

COUNT, SIZE = 7, (64, 48)


def pictures() -> Iterator[Image.Image]:
    """A bar that grows."""
    for number in range(COUNT):
        picture = Image.new("RGB", SIZE, "#FBFAF7")
        ImageDraw.Draw(picture).rectangle((0, 0, 8 * number + 4, SIZE[1]), "#D55E00")
        yield picture


def widths(frames: list[np.ndarray]) -> list[int]:
    return [round(int((frame[24, :, 2] < 128).sum()) / 8) for frame in frames]


def test_gif() -> None:
    decoded = Image.open(io.BytesIO(film.gif(pictures(), 20)))
    assert (decoded.n_frames, decoded.size, decoded.info["loop"]) == (COUNT, SIZE, 0)
    times, frames = [], []
    for number in range(COUNT):
        decoded.seek(number)
        times.append(decoded.info["duration"])
        frames.append(np.asarray(decoded.convert("RGB")))
    assert times == [50] * (COUNT - 1) + [film.LAST_MS]
    assert widths(frames) == list(range(1, COUNT + 1))


def test_mp4(tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg")
    cv2 = pytest.importorskip("cv2")
    path = tmp_path / "film.mp4"
    path.write_bytes(film.mp4(pictures(), 12.5))
    decoded = cv2.VideoCapture(str(path))
    frames = [frame[:, :, ::-1] for there, frame in iter(decoded.read, (False, None)) if there]
    fourcc = int(decoded.get(cv2.CAP_PROP_FOURCC)).to_bytes(4, "little")
    assert (fourcc, decoded.get(cv2.CAP_PROP_FPS), frames[0].shape) == (
        b"h264",
        12.5,
        (SIZE[1], SIZE[0], 3),
    )
    assert widths(frames) == list(range(1, COUNT + 1))


def test_png() -> None:
    assert Image.open(io.BytesIO(film.png(next(pictures())))).size == SIZE


def test_the_followed_agent_is_in_the_middle_within_a_ring() -> None:
    """And no other agent has one; once it is gone, the camera stays where it was."""
    drawing = Drawing((0, 0, 20, 20), lambda state, before: (), close=8.0)
    agents = (Circle(3, 4, 1, name="a"), Box(12, 9, 4, 2, name="b"))
    camera = film.Camera(drawing, "b")
    for moment, rings in ((Moment(1, agents), 2), (Moment(2, agents[:1]), 0)):
        shown, marked = camera.at(moment)
        assert shown.view == (8, 5, 16, 13)
        assert marked.shapes[: len(moment.shapes)] == moment.shapes
        added = marked.shapes[len(moment.shapes) :]
        assert len(added) == rings
        for ring in added:
            assert isinstance(ring, Line)
            distances = [math.dist(point, (12, 9)) for point in ring.points]
            assert max(distances) < 4 and min(distances) > math.hypot(2, 1)
    assert film.Camera(drawing).at(Moment(1, agents)) == (drawing, Moment(1, agents))
