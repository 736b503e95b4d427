# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What Ctrl-C, SIGTERM and a closed terminal do to a command, by what it is at."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from puffervec.train.run.trainer import Trainer


class Stoppable(Protocol):
    """A trainer, or a sweep of them."""

    def request_stop(self) -> None:
        """Come to an end soon. Safe in a signal handler."""


class StopSignals:
    """What Ctrl-C and SIGTERM do within the block, by the phase of the command.

    Nothing is held (imports, evaluation): end at once. Starting: KeyboardInterrupt, so that what was begun is undone. Training:
    stop it, which saves. A second signal ends the process at once in all phases; workers end by themselves when it is gone.
    A terminal that is closed (SIGHUP) is no reason to stop what is being trained; without a trainer it ends the process.
    """

    def __init__(self) -> None:
        self.received = 0  # The number of the first signal.
        self.starting = False
        self.trainer: Stoppable | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._handle) for number in (signal.SIGINT, signal.SIGTERM)}
            if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:  # Else it is ignored already, as under nohup.
                self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._hang_up)
        return self

    def __exit__(self, *error: object) -> None:
        """Set back what was there before, unless a signal came: then the process is about to end, without a traceback."""
        for number, handler in self._before.items() if not self.received else ():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received or (self.trainer is None and not self.starting):
            os._exit(128 + number)
        self.received = number
        if self.trainer is None:
            raise KeyboardInterrupt
        self.trainer.request_stop()
        with contextlib.suppress(OSError):
            os.write(2, b"\nstopping: saving a checkpoint (once more to quit at once)\n")

    def _hang_up(self, number: int, frame: FrameType | None) -> None:
        if self.trainer is None and not self.starting:
            os._exit(128 + number)

    def start(self, make: Callable[[], Trainer]) -> Trainer:
        """Make a trainer. Raises: KeyboardInterrupt where a signal came meanwhile."""
        self.starting = True
        try:
            trainer = make()
        except Exception:
            if self.received:  # What the interrupted code made of it.
                raise KeyboardInterrupt from None
            raise
        finally:
            self.starting = False
        if self.received:  # It was lost in a callback.
            trainer.close()
            raise KeyboardInterrupt
        return trainer

    @contextlib.contextmanager
    def training(self, trainer: Stoppable) -> Iterator[None]:
        """Within the block the first signal stops the trainer."""
        self.trainer = trainer
        try:
            yield
        finally:
            self.trainer = None
