# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Pictures that agents are given, as few bytes: few colours, at most 128 pixels across, and only
those of some agents.

Runs in the learner. puffervec/viewing/web/static/pictures.js reads them back. Of an episode those
of the agents with the lowest returns are kept, as many as a number of bytes allows; of the first
one of these, steps are left out where all would be too many.
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

MOST_PX = 128  # a side
MOST_BYTES = 300_000  # of an episode
PAGE_BYTES = 1_200_000  # of all episodes of a page
BITS = 5  # of each colour, or fewer where there are more than 256 colours

Codes = NDArray[np.uint16]


class Pictures:
    """The pictures of an episode."""

    def __init__(self) -> None:
        self.size: tuple[int, int] | None = None  # height and width
        self._kept: dict[int, dict[int, bytes]] = {}  # by row and step: codes of colours, packed

    def add(self, step: int, pictures: Mapping[int, Picture]) -> None:
        """Add what the agents of some rows are given at a moment. Raises: ConfigError: they have
        several sizes.
        """
        for row, picture in pictures.items():
            codes = codes_of(smaller(picture))
            self.size = self.size or (codes.shape[0], codes.shape[1])
            if codes.shape != self.size:
                raise ConfigError(
                    f"pictures of agents are of {self.size} and of {codes.shape} pixels: give one "
                    "size"
                )
            self._kept.setdefault(row, {})[step] = zlib.compress(codes.tobytes(), 1)

    def to_json(self, rows: Iterable[int], most_bytes: int = MOST_BYTES) -> dict[str, Any] | None:
        """Return what the page shows of them, None where there are none. Args: rows: the most
        interesting ones first.
        """
        if self.size is None:
            return None
        kept: dict[int, dict[str, Any]] = {}
        left = most_bytes
        for row in (row for row in rows if row in self._kept):
            every = 1
            data = self._packed(row, every)
            while not kept and len(data) > left and every < len(self._kept[row]):
                every *= 2
                data = self._packed(row, every)
            left -= len(data)
            if left < 0 and kept:
                break
            kept[row] = {
                "every": every,
                "steps": sorted(self._kept[row])[::every],
                "data": base64.b64encode(data).decode(),
            }
        return {
            "height": self.size[0],
            "width": self.size[1],
            "rows": kept,
            "all": len(kept) == len(self._kept),
        }

    def _packed(self, row: int, every: int) -> bytes:
        """How many colours less one, the colours, then for each pixel the number of its colour."""
        steps = sorted(self._kept[row])[::every]
        codes = np.stack(
            [np.frombuffer(zlib.decompress(self._kept[row][step]), np.uint16) for step in steps]
        )
        colours, places = np.unique(codes, return_inverse=True)
        bits = BITS
        while len(colours) > 256:
            bits -= 1
            few, onto = np.unique(_coarser(colours, bits), return_inverse=True)
            colours, places = few, onto[places.reshape(-1)]
        head = bytes([len(colours) - 1]) + _rgb(colours, bits).tobytes()
        return zlib.compress(head + places.astype(np.uint8).tobytes(), 9)


def smaller(picture: Picture) -> Picture:
    """Return a picture with at most MOST_PX pixels on a side, each the mean of a square; what is
    left over is cut.

    >>> smaller(np.arange(256, dtype=np.uint8)[None]).tolist()[0][:3]
    [0, 2, 4]
    """
    by = -(-max(picture.shape[:2]) // MOST_PX)
    if by == 1:
        return picture
    down, across = min(by, picture.shape[0]), min(by, picture.shape[1])
    height, width = picture.shape[0] // down, picture.shape[1] // across
    cut = picture[: height * down, : width * across].reshape(
        height, down, width, across, *picture.shape[2:]
    )
    found: Picture = cut.mean(axis=(1, 3)).astype(np.uint8)
    return found


def codes_of(picture: Picture) -> Codes:
    """Return (height, width) codes of colours: BITS of red, of green and of blue."""
    parts: Codes = (picture >> (8 - BITS)).astype(np.uint16)
    if picture.ndim == 2:
        parts = np.repeat(parts[:, :, None], 3, axis=2)
    red, green, blue = (parts[:, :, part] for part in range(3))
    return ((red << (2 * BITS)) | (green << BITS) | blue).astype(np.uint16)


def _kept_of(bits: int) -> int:
    """The highest `bits` of BITS."""
    return (1 << BITS) - (1 << (BITS - bits))


def _coarser(colours: Codes, bits: int) -> Codes:
    """Codes with so many bits of each colour."""
    kept = _kept_of(bits)
    found: Codes = colours & np.uint16((kept << (2 * BITS)) | (kept << BITS) | kept)
    return found


def _rgb(colours: Codes, bits: int) -> NDArray[np.uint8]:
    """(n, 3) red, green and blue of codes, from 0 to 255."""
    parts = np.stack([(colours >> shift) & (2**BITS - 1) for shift in (2 * BITS, BITS, 0)], axis=-1)
    found: NDArray[np.uint8] = np.round(parts * (255 / _kept_of(bits))).astype(np.uint8)
    return found
