# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Pictures as files: PNG, GIF and MP4, as bytes. Pictures of a film are taken one by one, so memory does not grow."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from PIL import Image

from puffervec import extras
from puffervec.errors import ConfigError

LAST_MS = 1500  # A GIF begins anew; its last picture stays so long.
MOST_GIF_FPS = 50  # Viewers slow down what is faster.


def png(picture: Image.Image) -> bytes:
    """Return a PNG file."""
    out = io.BytesIO()
    picture.save(out, "PNG", optimize=True)
    return out.getvalue()


def gif(pictures: Iterable[Image.Image], count: int, fps: float) -> bytes:
    """Return a GIF file that begins anew at its end. GIFs count in hundredths of a second. Args: count: of the pictures."""
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
        path, writer = Path(folder) / "film.mp4", None
        try:
            for picture in pictures:
                if writer is None:
                    writer = imageio_ffmpeg.write_frames(str(path), picture.size, fps=fps, macro_block_size=2, quality=8)
                    writer.send(None)
                writer.send(picture.tobytes())
        except (OSError, RuntimeError) as error:
            raise ConfigError(f"MP4: ffmpeg failed: {' '.join(str(error).split())}") from error
        finally:
            if writer is not None:
                writer.close()
        return path.read_bytes()


WRITERS: dict[str, Callable[[Iterable[Image.Image], int, float], bytes]] = {"mp4": mp4, "gif": gif}
