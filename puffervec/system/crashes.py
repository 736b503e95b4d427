# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reports of the C function that crashed (csrc/core/crash.h). Imports no NumPy.

Used in workers and in processes that step envs themselves. A crash in a worker becomes an exception
in the learner. A crash in the learner ends the process; then these lines on standard error are all
that remains.
"""

from __future__ import annotations

import re
import threading
from pathlib import PurePath

from puffervec._ffi import ffi, lib

_FRAME = re.compile(r"^  (\S+)\+0x[0-9a-f]+ in (\S+)$", re.MULTILINE)
# System libraries: for a crash in one, such as in abort, its caller is to blame.
_SYSTEM = re.compile(r"(libc|libpthread|libstdc\+\+|libgcc_s|ld-linux\S*)\b")
_IN_WORKER = ffi.new("char[]", b"C functions at the crash, innermost first:\n")
_ASKED = ffi.new("char[]", b"C functions at work, innermost first:\n")
_IN_LEARNER = ffi.new(
    "char[]",
    b"puffervec: this process, which steps envs itself (backend 'serial' or 'threading'), crashes; "
    b"in a worker process that would be an exception that names env and step (backend "
    b"'multiprocessing'). C functions, innermost first:\n",
)
# Reentrant: `watch` may trigger garbage collection of a vector env, which calls `unwatch`.
_lock = threading.RLock()
_watchers = 0


def watch_worker(fd: int) -> None:
    """Write the active C functions to a file if this process, a worker, crashes."""
    lib.pv_crash_watch(fd, _IN_WORKER)


def answer(signal_number: int) -> None:
    """Write the active C functions also when this signal arrives, before other handlers run.

    For a worker with C envs.
    """
    lib.pv_crash_answer(signal_number, _ASKED)


def watch() -> None:
    """Write the active C functions to standard error if this process crashes, until `unwatch`.

    For a process that steps envs itself. Each call needs one call of `unwatch`.
    """
    global _watchers
    with _lock:
        _watchers += 1
        if _watchers == 1:
            lib.pv_crash_watch(2, _IN_LEARNER)


def unwatch() -> None:
    """Undo one `watch`; the last one restores the previous signal handlers."""
    global _watchers
    with _lock:
        _watchers -= 1
        if not _watchers:
            lib.pv_crash_unwatch()


def blamed(trace: str) -> str:
    r"""Return ", in the C function NAME of LIBRARY" for the trace of a crash or a hang.

    The result is "" if the function is not known.

    >>> blamed("  abort+0x1 in /lib/libc.so.6\\n  step_env+0x4c in /a/line_walk/_core.so\\n")
    ', in the C function step_env of _core.so'
    """
    for name, library in _FRAME.findall(trace):
        if name != "?" and not _SYSTEM.match(PurePath(library).name):
            # compilers append .cold or .part.0
            return f", in the C function {name.partition('.')[0]} of {PurePath(library).name}"
    return ""
