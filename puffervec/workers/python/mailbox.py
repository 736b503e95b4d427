# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The side channel between the learner and a worker with Python envs, for all but rows and numbers.

There is one message at a time each way: the learner posts a question (options, a call), the worker
an answer per half (infos that are not numbers, results, an exception). Turns (csrc/core/channel.h)
decide which side may access which slot when, so there is no lock and no waiting here. Between
processes a slot is an unnamed file in memory, of any size; in one process it is just a reference.

Messages are pickled. Both ends belong to this program, so no data from outside is unpickled here.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import struct
from collections.abc import Iterable
from typing import Any

from puffervec.system.memory_file import Descriptor, unnamed_file
from puffervec.workers.python import travel

_LENGTH = struct.Struct("<Q")


class Slot:
    """A place for at most one message, within one process, where nothing is copied."""

    def __init__(self) -> None:
        self._message: Any = None

    def encode(self, message: Any) -> Any:
        """Return the message in the form that `put` stores; pickling errors are passed on."""
        return message

    def decode(self, encoded: Any) -> Any:
        """Return the message that was encoded; unpickling errors are passed on."""
        return encoded

    def put(self, encoded: Any) -> None:
        """Store what `encode` returned, in place of the current message."""
        self._message = encoded

    def read(self) -> Any:
        """Return the message without removing it; None if the slot is empty."""
        return self._message

    def clear(self) -> None:
        """Empty the slot."""
        self._message = None

    def post(self, message: Any) -> None:
        """Encode a message and store it in place of the current one.

        If `encode` raises, the error is passed on and the slot is unchanged.
        """
        self.put(self.encode(message))

    def take(self) -> Any:
        """Return the message and empty the slot; None if it is empty."""
        message = self.read()
        self.clear()
        return message


class SharedSlot(Descriptor, Slot):
    """A slot between two processes: an unnamed file in memory (memfd).

    multiprocessing passes it on to the worker.
    """

    def __init__(self) -> None:
        Descriptor.__init__(self, unnamed_file("puffervec-mail"))
        self._maker = os.getpid()

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        self._maker = -1  # another process

    def encode(self, message: Any) -> bytes:
        return dumps(message, to_learner=self._maker != os.getpid())

    def decode(self, encoded: bytes) -> Any:
        return travel.loads(encoded)

    def put(self, encoded: bytes) -> None:
        data = memoryview(encoded)
        written = 0
        while written < len(data):
            written += os.pwrite(self.fd, data[written:], _LENGTH.size + written)
        os.ftruncate(self.fd, _LENGTH.size + written)  # a longer message may have been here
        os.pwrite(self.fd, _LENGTH.pack(written), 0)

    def read(self) -> Any:
        head = os.pread(self.fd, _LENGTH.size, 0)
        size = _LENGTH.unpack(head)[0] if head else 0
        return travel.loads(_read(self.fd, size)) if size else None

    def clear(self) -> None:
        os.ftruncate(self.fd, 0)


def _read(fd: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = os.pread(fd, size - len(data), _LENGTH.size + len(data))
        if not piece:
            raise OSError(f"a message of {size} bytes ends after {len(data)}")
        data += piece
    return bytes(data)


def dumps(message: Any, *, to_learner: bool = False) -> bytes:
    """Pickle a message.

    Objects that plain pickle cannot handle, or that a worker cannot find by their names, are sent
    by value (travel.py).

    Args:
        message: the message.
        to_learner: whether a worker writes to its learner. The classes in the worker's `__main__`
            came from the learner, so they are sent back by name: sent by value, they would replace
            the methods of the originals.
    """
    with contextlib.suppress(Exception):
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        if to_learner or not any(name.encode() in data for name in travel.MAIN_MODULES):
            return data
    return travel.dumps_for_learner(message) if to_learner else travel.dumps(message)


class Mailbox:
    """The slots of one worker: a question and an answer per half that it serves."""

    def __init__(self, halves: Iterable[int], shared: bool) -> None:
        """Make the slots.

        Args:
            halves: the halves that the worker serves.
            shared: whether the worker is another process.
        """
        kind = SharedSlot if shared else Slot
        self.shared = shared
        self.questions: dict[int, Slot] = {half: kind() for half in halves}
        self.answers: dict[int, Slot] = {half: kind() for half in halves}

    def exception(self, half: int | None = None) -> BaseException | None:
        """Empty all answers and return the exception of `half`, or any among them.

        The result is None if the exception could not be sent.
        """
        found: list[BaseException] = []
        for answer in sorted(self.answers, key=lambda of: of != half):
            # Some objects can be pickled, but not unpickled.
            with contextlib.suppress(Exception):
                message = self.answers[answer].take()
                found += [message] if isinstance(message, BaseException) else []
        return found[0] if found else None
