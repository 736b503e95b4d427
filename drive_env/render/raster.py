# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Draws what an agent sees in its bird's-eye view (csrc/drive/observe/raster.c).

The channels appear side by side, or as one coloured picture.

    python -m drive_env.render.raster docs/images/raster.png

draws what the agent in one row of a scene sees. Runs in the learner; matplotlib is imported only
where a sheet is drawn.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.config import CHOICES, DriveConfig
from puffervec._ffi import ffi, lib
from puffervec.contract.drawing import INK
from puffervec.system import extras

Picture = NDArray[np.uint8]
GROUND, FRAME = (38, 41, 48), tuple(bytes.fromhex(INK[1:]))
# From the bottom layer to the top one; a channel that is not named here is white, on top.
COLOURS: dict[str, tuple[int, int, int]] = {
    "crosswalks": (96, 96, 140), "lanes": (74, 80, 92),
    "lines": (232, 221, 176), "edges": (150, 158, 172),
    "goal": (72, 201, 140), "vehicles": (240, 158, 60),
    "others": (170, 120, 90), "cyclists": (235, 100, 190),
    "pedestrians": (255, 90, 80), "own": (84, 160, 255),
    "stops": (255, 140, 140), "green": (60, 230, 90),
    "yellow": (250, 220, 60), "red": (255, 40, 40),
}  # fmt: skip
# A crossing, with the goal behind it
EXAMPLE = {"scenes": "generated:8", "row": 46, "steps": 40, "seed": 5}
COLUMNS, TILE_IN, DPI = 5, 2.2, 110


def as_colours(channels: Mapping[str, Picture]) -> Picture:
    """Return one picture (size, size, 3) of the channels (size, size) of a raster.

    The brighter a pixel of a channel, the more it covers the channels below.
    """
    shape = next(iter(channels.values())).shape
    out = np.broadcast_to(np.array(GROUND, np.float32), (*shape, 3)).copy()
    for name in sorted(channels, key=lambda name: [*COLOURS, name].index(name)):
        share = channels[name][..., None].astype(np.float32) / 255
        out += share * (np.array(COLOURS.get(name, (255, 255, 255)), np.float32) - out)
    return np.round(out).astype(np.uint8)


def channel_names() -> tuple[str, ...]:
    """Return the names of all channels (csrc/drive/tables.h), in their order.

    A picture has all of them, or the first few.
    """
    count = ffi.new("uint32_t*")
    blocks = {ffi.string(block.name): block for block in lib.pv_drive_blocks(count)[0 : count[0]]}
    raster = blocks[b"raster"]
    return tuple(
        ffi.string(column.name).decode() for column in raster.columns[0 : raster.column_count]
    )


def channels_of(observations: Any, row: int) -> dict[str, Picture]:
    """Return views of the channels of one row by name, (size, size) uint8 each.

    Args:
        observations: as `recv` returns them.
    """
    pictures = observations["raster"] if isinstance(observations, Mapping) else observations
    return dict(zip(channel_names()[: pictures.shape[1]], pictures[row], strict=True))


def inset(picture: Picture, raster: Picture) -> None:
    """Draw a raster (size, size, 3) into the upper right corner of a picture (H, W, 3).

    It gets a third of the picture's height.
    """
    side, edge = min(picture.shape[:2]) // 3, 3
    at = np.arange(side) * len(raster) // side
    picture[: side + edge, -side - edge :] = FRAME
    picture[:side, -side:] = raster[at][:, at]


def sheet(channels: Mapping[str, Picture], title: str) -> bytes:
    """Draw the channels and the coloured picture side by side and return a PNG file.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    extras.require("drawing", "matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    tiles: dict[str, Any] = {"all of them": as_colours(channels), **channels}
    lines = -(-len(tiles) // COLUMNS)
    figure = Figure(
        figsize=(COLUMNS * TILE_IN, lines * (TILE_IN + 0.25) + 0.35), dpi=DPI, layout="constrained"
    )
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=10)
    axes = figure.subplots(lines, COLUMNS, squeeze=False).reshape(-1)
    for place, (name, tile) in zip(axes, tiles.items(), strict=False):
        place.imshow(tile, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        place.set_title(name, fontsize=9)
    for place in axes:
        place.set_axis_off()
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    return drawn.getvalue()


def raster_after(config: DriveConfig, row: int, steps: int, seed: int = 0) -> dict[str, Picture]:
    """Return what the agent in a row sees after some steps, while all cars follow their log."""
    import puffervec

    logged = dataclasses.replace(config, replay_log=1, idm_agents=0, expert_actions=0)
    with puffervec.make("drive", env_kwargs=logged, backend="serial", num_envs=1) as vec:
        observations, _ = vec.reset(seed=seed)
        for _ in range(steps):
            observations = vec.step(np.zeros(vec.num_agents, np.int32))[0]
        return {name: picture.copy() for name, picture in channels_of(observations, row).items()}


def main(arguments: list[str] | None = None) -> None:
    """Draw a sheet into a file."""
    flags = argparse.ArgumentParser(description=main.__doc__)
    flags.add_argument("out", type=Path)
    flags.add_argument("--scenes", default=EXAMPLE["scenes"])
    flags.add_argument("--pixels", type=int, default=96)
    flags.add_argument("--pixel-m", type=float, default=0.5)
    flags.add_argument("--ahead", type=float, default=0.75)
    flags.add_argument("--channels", choices=CHOICES["raster_channels"], default="basic")
    for name in ("row", "steps", "seed"):
        flags.add_argument(f"--{name}", type=int, default=EXAMPLE[name])
    options = flags.parse_args(arguments)
    config = DriveConfig(
        scenes=options.scenes,
        raster=options.pixels,
        raster_pixel_m=options.pixel_m,
        raster_ahead=options.ahead,
        raster_channels=options.channels,
    )
    title = (
        f"{options.pixels} x {options.pixels} pixels of {options.pixel_m:g} m, "
        f"{options.ahead:.0%} of them ahead of the car"
    )
    options.out.write_bytes(
        sheet(raster_after(config, options.row, options.steps, options.seed), title)
    )


if __name__ == "__main__":
    main()
