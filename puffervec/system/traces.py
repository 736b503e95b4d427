# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The stack traces that a worker's interpreter writes (faulthandler), on a crash or on request.

Each worker has an unnamed file in memory for them, which it inherits from the learner and which the
learner can still read when the worker is gone. Neither NumPy nor anything slow is imported here.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import time

from puffervec.system.memory_file import Descriptor, unnamed_file

MOST_BYTES = 64 * 1024
ASK_TIMEOUT_S = 2.0  # an answer takes 10 ms, but on a busy machine a worker may wait for a core
WHOLE_S = 0.06  # an answer comes in several pieces, between which the worker may lose its core
_POLL_S = 0.003


class TraceFile(Descriptor):
    """The file for one worker's traces."""

    def __init__(self) -> None:
        super().__init__(unnamed_file("puffervec-trace"))

    def enable(self, c_envs: bool = False) -> None:
        """Write a trace at each fatal signal and at each SIGUSR1 from now on; called in the worker.

        Writing a trace needs neither the GIL nor an allocation.

        Args:
            c_envs: whether to include C functions at SIGUSR1; those of a Python env add nothing to
                its Python stack.
        """
        # Imported here because learners need it only if they step envs themselves.
        from puffervec.system import crashes

        faulthandler.enable(self.fd)
        crashes.watch_worker(self.fd)  # its handler writes first, then faulthandler's
        faulthandler.register(signal.SIGUSR1, self.fd, all_threads=True)
        if c_envs:
            crashes.answer(signal.SIGUSR1)

    def read(self, begin: int = 0) -> str:
        """Return what was written from byte `begin` on, at most 64 KiB."""
        return os.pread(self.fd, MOST_BYTES, begin).decode(errors="replace").strip()

    def ask(self, pid: int) -> str:
        """Return the Python stacks of the worker with this process id, or why there are none."""
        if _is_stopped(pid):
            return "the process is stopped (by SIGSTOP or a debugger): send it SIGCONT to go on"
        begin = size = os.fstat(self.fd).st_size
        os.kill(pid, signal.SIGUSR1)
        grown = time.monotonic()
        give_up = grown + ASK_TIMEOUT_S
        while (now := time.monotonic()) < give_up:
            before, size = size, os.fstat(self.fd).st_size
            if size != before:
                grown = now
            elif size > begin and now - grown > WHOLE_S:
                break
            time.sleep(_POLL_S)
        return self.read(begin)


def _is_stopped(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            stat = file.read()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] in ("T", "t")
