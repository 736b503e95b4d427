# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Finds the C function that crashed (csrc/crash.h), in workers and in processes that step envs
themselves. Imports no NumPy.

A crash in a worker becomes an exception in the learner. A crash in the learner ends the process;
then these lines on standard error are all that is left.
"""

from __future__ import annotations

import re
import threading
from pathlib import PurePath

from puffervec._ffi import ffi, lib

_FRAME = re.compile(r"^  (\S+)\+0x[0-9a-f]+ in (\S+)$", re.MULTILINE)
_SYSTEM = re.compile(
    r"(libc|libpthread|libstdc\+\+|libgcc_s|ld-linux\S*)\b"
)  # their caller is to blame, as with abort
_IN_WORKER = ffi.new("char[]", b"C functions at the crash, innermost first:\n")
_ASKED = ffi.new("char[]", b"C functions at work, innermost first:\n")
_IN_LEARNER = ffi.new(
    "char[]",
    b"puffervec: this process, which steps envs itself (backend 'serial' or 'threading'), crashes; in a worker process that "
    b"would be an exception that names env and step (backend 'multiprocessing'). C functions, innermost first:\n",
)
_lock = (
    threading.RLock()
)  # `watch` may run the garbage collector, which may find a vector env and `unwatch` it
_watchers = 0


def watch_worker(fd: int) -> None:
    """In a worker: write the C functions to a file from now on, should this process crash."""
    lib.pv_crash_watch(fd, _IN_WORKER)


def answer(signal_number: int) -> None:
    """In a worker with C envs: write the C functions when this signal comes too, before what else
    handles it.
    """
    lib.pv_crash_answer(signal_number, _ASKED)


def watch() -> None:
    """In a process that steps envs itself: write the C functions to standard error from now on,
    until `unwatch`. Counted.
    """
    global _watchers
    with _lock:
        _watchers += 1
        if _watchers == 1:
            lib.pv_crash_watch(2, _IN_LEARNER)


def unwatch() -> None:
    """Undo one `watch`; the last one sets back the signal handlers that were there before."""
    global _watchers
    with _lock:
        _watchers -= 1
        if not _watchers:
            lib.pv_crash_unwatch()


def blamed(trace: str) -> str:
    """Return ", in the C function NAME of LIBRARY" for what a crash or a hang has left, "" where
    that is not known.

    >>> blamed("  abort+0x1 in /lib/libc.so.6\\n  step_env+0x4c in /a/line_walk/_core.so\\n")
    ', in the C function step_env of _core.so'
    """
    for name, library in _FRAME.findall(trace):
        if name != "?" and not _SYSTEM.match(PurePath(library).name):
            # .cold, .part.0: of compilers
            return f", in the C function {name.partition('.')[0]} of {PurePath(library).name}"
    return ""
