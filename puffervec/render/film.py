# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Pictures as files: PNG, GIF and MP4, as bytes. Pictures of a film are taken one by one, so memory does not grow."""

from __future__ import annotations

import contextlib
import io
import itertools
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from PIL import Image

from puffervec import extras
from puffervec.errors import ConfigError

_H264 = {
    "codec": "libx264",
    "macro_block_size": 2,
    "quality": 6,
    "output_params": ["-preset", "veryfast", "-movflags", "+faststart"],
}
LAST_MS = 1500  # A GIF begins anew; its last picture stays so long.


def png(picture: Image.Image) -> bytes:
    """Return a PNG file."""
    out = io.BytesIO()
    picture.save(out, "PNG", optimize=True)
    return out.getvalue()


def gif(pictures: Iterable[Image.Image], count: int, fps: float) -> bytes:
    """Return a GIF file that begins anew at its end. GIFs count in hundredths of a second. Args: count: of pictures."""
    frames = (picture.quantize(128, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE) for picture in pictures)
    out, first = io.BytesIO(), next(frames)
    times_ms = [10 * round(100 / fps)] * (count - 1) + [LAST_MS]
    first.save(out, "GIF", save_all=True, append_images=frames, duration=times_ms, loop=0)
    return out.getvalue()


def mp4(pictures: Iterable[Image.Image], count: int, fps: float) -> bytes:
    """Return an MP4 file (H.264), which browsers and slides play. Width and height must be even. Args: as of `gif`.

    Raises: MissingExtraError. ConfigError: no ffmpeg, or it failed.
    """
    extras.require("MP4", "imageio_ffmpeg")
    import imageio_ffmpeg

    with tempfile.TemporaryDirectory(prefix="puffervec-") as folder:
        path, frames = Path(folder) / "film.mp4", iter(pictures)
        first = next(frames)
        try:
            with contextlib.closing(imageio_ffmpeg.write_frames(str(path), first.size, fps=fps, **_H264)) as writer:
                writer.send(None)
                for picture in itertools.chain([first], frames):
                    writer.send(picture.tobytes())
            return path.read_bytes()
        except (OSError, RuntimeError) as error:
            raise ConfigError(f"MP4: ffmpeg failed: {' '.join(str(error).split())}") from error


WRITERS: dict[str, Callable[[Iterable[Image.Image], int, float], bytes]] = {"mp4": mp4, "gif": gif}
