# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reads TFRecord files, without TensorFlow: records of bytes, each between two checksums.

    uint64 length | uint32 checksum of the length | length bytes | uint32 checksum of the bytes

All numbers are little-endian. A checksum is the CRC-32C, rotated right by 15 bits, plus a constant
(tensorflow/core/lib/io/record_writer.h and tensorflow/core/lib/hash/crc32c.h). The length of a
record counts only if its checksum fits, so a damaged length can neither allocate memory nor skip
records.

Listing the records of a file reads 16 bytes of each. Runs in the learner and in helper processes.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from drive_env.scenes.check import unreadable
from puffervec.errors import SceneError
from puffervec.system import extras

HEAD, TAIL = struct.Struct("<QI"), struct.Struct("<I")
MOST_RECORD_BYTES = 64 << 20
MOST_RECORDS = 1_000_000
MASK = 0xA282EAD8
# The names of public files, such as training.tfrecord-00000-of-01000.
NAME = re.compile(r"tfrecord(-\d+-of-\d+)?$", re.IGNORECASE)


@dataclass(frozen=True)
class Record:
    """One record of a file.

    Attributes:
        begin: offset in bytes of its length in the file.
        length: length of its content in bytes.
        checksum: checksum of its content, as stored in the file.
    """

    begin: int
    length: int
    checksum: int


def has_record_name(name: str) -> bool:
    """Return whether a file's name is that of a TFRecord file.

    >>> has_record_name("training.tfrecord-00000-of-01000"), has_record_name("a.tfrecord")
    (True, True)
    >>> has_record_name("tfrecord-00000-of-01000_325.json")
    False
    """
    return NAME.search(name) is not None


def begins_with_record(head: bytes) -> bool:
    """Return whether a file that begins with these bytes (12 are enough) is a TFRecord file."""
    if len(head) < HEAD.size:
        return False
    length, checksum = HEAD.unpack_from(head)
    return bool(length <= MOST_RECORD_BYTES) and masked_crc(head[:8]) == checksum


def is_record_file(path: Path) -> bool:
    """Return whether a file is one of TFRecords, by its name or because it begins with a record.

    Raises:
        SceneError: the file cannot be read.
    """
    if has_record_name(path.name):
        return True
    with opened(path) as file:
        return extras.installed("google_crc32c") and begins_with_record(os.pread(file, 12, 0))


def masked_crc(data: bytes) -> int:
    """Return the checksum of bytes as the format stores it."""
    import google_crc32c

    crc: int = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + MASK) & 0xFFFFFFFF


def list_records(path: Path) -> list[Record]:
    """Return the records of a file; checks all lengths, but not the contents.

    Raises:
        SceneError: the file cannot be read, is cut off, has a damaged length or no record; the
            message names the byte.
        MissingExtraError: google-crc32c is not installed.
    """
    extras.require(f"{path.name}, a TFRecord file,", "google_crc32c", "google.protobuf")
    with opened(path) as file:
        size = os.fstat(file).st_size
        records = list(_records(file, size, str(path)))
    if not records:
        raise SceneError(f"{path}: the file is empty: it has no records")
    return records


def _records(file: int, size: int, source: str) -> Iterator[Record]:
    at = number = 0
    while at < size:
        head = os.pread(file, HEAD.size, at)
        if len(head) < HEAD.size:
            raise SceneError(
                f"{source}: byte {at}: expected the length of record {number} (12 bytes), got the "
                f"end of the file after {len(head)}"
            )
        length, checksum = HEAD.unpack(head)
        if masked_crc(head[:8]) != checksum:
            raise SceneError(
                f"{source}: byte {at}: the length of record {number} does not fit its checksum: "
                "the file is damaged, or is not one of TFRecords"
            )
        if length > MOST_RECORD_BYTES:
            raise SceneError(
                f"{source}: byte {at}: expected a record of at most {MOST_RECORD_BYTES} bytes, "
                f"got {length}"
            )
        end = at + HEAD.size + length
        tail = os.pread(file, TAIL.size, end)
        if len(tail) < TAIL.size:
            raise SceneError(
                f"{source}: byte {at}: record {number} needs {length} bytes and a checksum, the "
                f"file ends at byte {size}: it is cut off"
            )
        yield Record(at, length, TAIL.unpack(tail)[0])
        at, number = end + TAIL.size, number + 1
        if number > MOST_RECORDS:
            raise SceneError(f"{source}: more than {MOST_RECORDS:,} records")


def read_record(path: Path, record: Record) -> bytes:
    """Return the content of a record.

    Raises:
        SceneError: the file cannot be read, or the content does not fit the checksum.
    """
    with opened(path) as file:
        data = os.pread(file, record.length, record.begin + HEAD.size)
    if len(data) != record.length or masked_crc(data) != record.checksum:
        raise SceneError(
            f"{path}: byte {record.begin + HEAD.size}: the {record.length} bytes of the record do "
            "not fit their checksum: the file is damaged"
        )
    return data


@contextmanager
def opened(path: Path, what: str = "scene file") -> Iterator[int]:
    """Open a plain file for reading and yield its descriptor."""
    try:
        if not path.is_file():
            raise SceneError(f"{path}: no such {what}")
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise unreadable(path, error) from error
    try:
        yield file
    except OSError as error:
        raise unreadable(path, error) from error
    finally:
        os.close(file)
