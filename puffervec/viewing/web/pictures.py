# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Compact pictures that agents observe: few colours, at most 128 pixels a side, of some agents.

A limit on bytes determines for how many agents of an episode pictures are kept; agents with the
lowest returns come first. If the pictures of one agent already exceed the limit, some steps are
left out. static/pictures.js reads them. Runs in the learner.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from puffervec.errors import ConfigError
from puffervec.viewing.render.sight import Picture

MOST_PX = 128  # Pixels on a side.
MOST_BYTES = 300_000  # Limit for an episode.
PAGE_BYTES = 1_200_000  # Limit for all episodes of a page.
BITS = 5  # Bits of red, green and blue each; fewer if there are more than 256 colours.

Codes = NDArray[np.uint16]


class Pictures:
    """The pictures of an episode."""

    def __init__(self) -> None:
        self.size: tuple[int, int] | None = None  # Height and width.
        self._codes: dict[int, dict[int, bytes]] = {}  # Compressed colour codes, by row and step.

    def add(self, step: int, pictures: Mapping[int, Picture]) -> None:
        """Add the pictures of some rows at a moment. Raises: ConfigError: they differ in size."""
        for row, picture in pictures.items():
            codes = codes_of(shrink(picture))
            self.size = self.size or (codes.shape[0], codes.shape[1])
            if codes.shape != self.size:
                raise ConfigError(
                    f"pictures of agents are of {self.size} and of {codes.shape} pixels: all must "
                    "have one size"
                )
            self._codes.setdefault(row, {})[step] = zlib.compress(codes.tobytes(), 1)

    def to_json(self, rows: Iterable[int], most_bytes: int = MOST_BYTES) -> dict[str, Any] | None:
        """Return the pictures for a page, or None if there are none.

        Args:
            rows: rows of the agents, the most interesting ones first.
            most_bytes: limit on the bytes of all pictures together.
        """
        if self.size is None:
            return None
        kept: dict[int, dict[str, Any]] = {}
        left = most_bytes
        for row in (row for row in rows if row in self._codes):
            every = 1
            data = self._pack(row, every)
            while not kept and len(data) > left and every < len(self._codes[row]):
                every *= 2
                data = self._pack(row, every)
            left -= len(data)
            if left < 0 and kept:
                break
            kept[row] = {
                "every": every,
                "steps": sorted(self._codes[row])[::every],
                "data": base64.b64encode(data).decode(),
            }
        return {
            "height": self.size[0],
            "width": self.size[1],
            "rows": kept,
            "all": len(kept) == len(self._codes),
        }

    def _pack(self, row: int, every: int) -> bytes:
        """Return the number of colours minus one, the colours, and each pixel's colour index."""
        steps = sorted(self._codes[row])[::every]
        codes = np.stack(
            [np.frombuffer(zlib.decompress(self._codes[row][step]), np.uint16) for step in steps]
        )
        colours, places = np.unique(codes, return_inverse=True)
        bits = BITS
        while len(colours) > 256:
            bits -= 1
            few, onto = np.unique(_reduce(colours, bits), return_inverse=True)
            colours, places = few, onto[places.ravel()]
        head = bytes([len(colours) - 1]) + _rgb(colours, bits).tobytes()
        return zlib.compress(head + places.astype(np.uint8).tobytes(), 9)


def shrink(picture: Picture) -> Picture:
    """Return a picture with at most MOST_PX pixels on a side, each the mean of a square.

    A remainder at the border is cut off.

    >>> shrink(np.arange(256, dtype=np.uint8)[None]).tolist()[0][:3]
    [0, 2, 4]
    """
    by = -(-max(picture.shape) // MOST_PX)
    if by == 1:
        return picture
    down, across = min(by, picture.shape[0]), min(by, picture.shape[1])
    height, width = picture.shape[0] // down, picture.shape[1] // across
    cut = picture[: height * down, : width * across].reshape(
        height, down, width, across, *picture.shape[2:]
    )
    means: Picture = cut.mean(axis=(1, 3)).astype(np.uint8)
    return means


def codes_of(picture: Picture) -> Codes:
    """Return (height, width) codes of colours: BITS of red, of green and of blue."""
    parts: Codes = (picture >> (8 - BITS)).astype(np.uint16)
    if picture.ndim == 2:
        parts = np.stack([parts] * 3, axis=2)
    red, green, blue = np.moveaxis(parts, 2, 0)
    codes: Codes = ((red << (2 * BITS)) | (green << BITS) | blue).astype(np.uint16)
    return codes


def _mask(bits: int) -> int:
    """Return a mask of the highest `bits` of BITS."""
    return (1 << BITS) - (1 << (BITS - bits))


def _reduce(colours: Codes, bits: int) -> Codes:
    """Return codes that keep only `bits` bits of each colour."""
    mask = _mask(bits)
    reduced: Codes = colours & np.uint16((mask << (2 * BITS)) | (mask << BITS) | mask)
    return reduced


def _rgb(colours: Codes, bits: int) -> NDArray[np.uint8]:
    """Return (n, 3) red, green and blue of codes, from 0 to 255."""
    parts = np.stack([(colours >> shift) & (2**BITS - 1) for shift in (2 * BITS, BITS, 0)], axis=-1)
    rgb: NDArray[np.uint8] = np.round(parts * (255 / _mask(bits))).astype(np.uint8)
    return rgb
