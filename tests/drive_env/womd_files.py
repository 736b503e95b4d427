# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Writes TFRecords and WOMD Scenarios by hand, from the published field numbers.

It shares nothing with the reader: its own encoding of protobuf's wire format, its own CRC-32C.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any


def crc32c(data: bytes) -> int:
    """The Castagnoli CRC, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32


def tfrecord(records: Iterable[bytes]) -> bytes:
    out = b""
    for data in records:
        length = struct.pack("<Q", len(data))
        out += length + struct.pack("<I", masked(length)) + data + struct.pack("<I", masked(data))
    return out


# ---- protobuf's wire format ----------------------------------------------------------------------


def varint(value: int) -> bytes:
    value %= 2**64
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def integer(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def double(number: int, value: float) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<d", value)


def single(number: int, value: float) -> bytes:
    return varint(number << 3 | 5) + struct.pack("<f", value)


def block(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def packed_integers(number: int, values: Sequence[int]) -> bytes:
    return block(number, b"".join(map(varint, values)))


# ---- messages ------------------------------------------------------------------------------------


def point(x: float, y: float, z: float) -> bytes:
    return double(1, x) + double(2, y) + double(3, z)


def state(x: float, y: float, z: float, heading: float, vx: float, vy: float, **size: Any) -> bytes:
    """A valid ObjectState."""
    return (
        double(2, x) + double(3, y) + double(4, z)
        + single(5, size.get("length", 4.5)) + single(6, size.get("width", 2.0))
        + single(7, size.get("height", 1.5))
        + single(8, heading) + single(9, vx) + single(10, vy) + integer(11, 1)
    )  # fmt: skip


ABSENT = integer(11, 0)


def track(own_id: int, kind: int, states: Sequence[bytes]) -> bytes:
    return integer(1, own_id) + integer(2, kind) + b"".join(block(3, item) for item in states)


def feature(own_id: int, number: int, content: bytes) -> bytes:
    return integer(1, own_id) + block(number, content)


def polyline(points: Iterable[tuple[float, float, float]], number: int = 2) -> bytes:
    return b"".join(block(number, point(*item)) for item in points)


def neighbor(lane: int, begin: int, end: int) -> bytes:
    return integer(1, lane) + integer(2, begin) + integer(3, end)


def light(lane: int, colour: int, stop: tuple[float, float, float]) -> bytes:
    return integer(1, lane) + integer(2, colour) + block(3, point(*stop))


def scenario(
    tracks: Sequence[bytes],
    features: Sequence[bytes] = (),
    steps: Sequence[Sequence[bytes]] = (),
    *,
    frames: int,
    step_s: float = 0.1,
    name: str = "abc123",
    rest: bytes = b"",
) -> bytes:
    """A Scenario. steps: of each frame, the lights. rest: further fields, already encoded."""
    out = b"".join(double(1, frame * step_s) for frame in range(frames))
    out += b"".join(block(2, item) for item in tracks)
    out += block(5, name.encode())
    for lights in steps:
        out += block(7, b"".join(block(1, item) for item in lights))
    out += b"".join(block(8, item) for item in features)
    return out + rest
