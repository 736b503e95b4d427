# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The main function of a worker process.

It imports neither the user's main module nor NumPy nor torch, but only this module and the C core.
"""

from __future__ import annotations

import contextlib
import gc
import mmap
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from puffervec.errors import ConfigError
from puffervec.system import limits
from puffervec.system.memory_file import Descriptor
from puffervec.system.output import steady

MATH_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")

HELD_AT_START = (signal.SIGINT, signal.SIGTERM)  # the learner blocks them until `_protect`


class SharedFile(Descriptor):
    """A read-only file that the learner has open.

    Workers get the descriptor, so its path may be renamed or deleted.
    """

    def map(self) -> mmap.mmap:
        """Map the whole file, shared and read-only."""
        return mmap.mmap(self.fd, 0, prot=mmap.PROT_READ)


class Learner:
    """The identity of the learner process, which its workers watch.

    They watch a pidfd if the system has pidfds, since a pid may be reused.
    """

    def __init__(self) -> None:
        self.pid, self.pidfd = os.getpid(), Descriptor(open_pidfd(os.getpid()))


def open_pidfd(pid: int) -> int:
    """Return a descriptor that becomes readable when the process ends.

    The result is -1 if the system has none.
    """
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


def _core_check() -> int:
    """Return the checksum of the sources that the C core of this process was built from."""
    from puffervec._ffi import lib

    return int(lib.PV_SOURCE_CHECK)


@dataclass(frozen=True)
class WorkerTask:
    """The parameters of a worker process.

    Attributes:
        memory: the slab (puffervec.core.shared_memory.SharedMemory).
        index: number of the worker.
        env_name: name of the env type.
        data: the file that every worker maps, or None.
        core: the core to run on, or None.
        pauses: number of pauses before a wait yields the core (`pv_waiter`).
        trace: file for traces of crashes (puffervec.system.traces.TraceFile).
        learner: the learner process; the worker ends when it ends.
        shared_library: location of a C env type of another package.
        python: the pickled PythonSource, for Python envs.
        mailbox: the worker's puffervec.workers.python.mailbox.Mailbox, for Python envs.
        environ: the learner's environment variables, for Python envs.
        folder: the learner's current folder, for Python envs.
        core_check: checksum of the learner's build of the C core.
    """

    memory: Any
    index: int
    env_name: str
    data: SharedFile | None
    core: int | None
    pauses: int
    trace: Any
    learner: Learner
    shared_library: str | None = None
    python: bytes | None = None
    mailbox: Any = None
    environ: Mapping[str, str] = field(default_factory=dict)
    folder: str = "."
    core_check: int = field(default_factory=_core_check)


def _protect(task: WorkerTask) -> int:
    """Prepare the process: signals, process group, crash traces and OOM score.

    Ctrl-C and SIGTERM are left to the learner, and the worker is killed before the learner if
    memory runs out.

    Returns:
        the process group that this process was in.
    """
    from puffervec.system import oom

    group = os.getpgrp()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A forked worker has the learner's handler, which would not end it.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with contextlib.suppress(OSError):
        # In its own process group, a worker does not get the Ctrl-C or SIGTERM that is sent to the
        # learner's group, so the learner can still save; the worker ends with the learner anyway.
        # Processes that an env starts are in the worker's group and can be killed with it.
        os.setpgid(0, 0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_AT_START)
    multiprocessing.current_process().daemon = False  # envs may use multiprocessing
    task.trace.enable(c_envs=task.python is None)
    oom.raise_own_score()
    return group


def _end_group(group: int) -> None:
    """Kill the processes that the envs have started and left behind.

    Args:
        group: the process group to move to, since a group cannot be killed without its leader.
    """
    from puffervec._ffi import lib

    lib.pv_end_descendants(os.getpid())  # also those with a group of their own
    # OSError: the group is empty, or the learner is gone and pv_watch_learner ends everything.
    with contextlib.suppress(OSError):
        if os.getpgrp() == os.getpid() != group:
            os.setpgid(0, group)
            os.killpg(os.getpid(), signal.SIGKILL)


def watch_learner(learner: Learner) -> None:
    """Start the thread that ends this process with the learner.

    Without it a worker might outlive its learner.
    """
    from puffervec._ffi import lib

    parent = multiprocessing.parent_process()
    code = (
        lib.pv_watch_learner(parent.sentinel, learner.pidfd.fd, learner.pid)
        if parent is not None
        else 0
    )
    if code:
        error = OSError(code, os.strerror(code))
        raise ConfigError(f"the worker cannot start a thread: {limits.in_words(error) or error}")


def _require_same_core(task: WorkerTask) -> None:
    """End this process if its C core is not the learner's.

    Another core may expect another layout of the slab.
    """
    if task.core_check != _core_check():
        raise SystemExit(
            f"puffervec: worker {task.index} has a C core that was built from other sources "
            f"(checksum {_core_check():#010x}) than the learner's ({task.core_check:#010x}): it "
            "was rebuilt after the learner started; start the program again"
        )


def _env_type(task: WorkerTask, slab: Any) -> Any:
    """Return the worker's `const pv_env_type*`, after loading the source of Python envs."""
    if task.python is None:
        from puffervec.contract.env_types import find

        return find(task.env_name, task.shared_library)
    os.environ.clear()  # a fork server has the variables of the time when it was started
    os.environ.update({**task.environ, **dict.fromkeys(MATH_THREADS, "1")})
    with contextlib.suppress(OSError):
        os.chdir(task.folder)
    # An env's output must not end a run.
    sys.stdout, sys.stderr = steady(sys.stdout), steady(sys.stderr)
    from puffervec.workers.python import block
    from puffervec.workers.python import env as python_env

    source = python_env.load_source(task.python)
    block.register(source, block.block_contexts(slab, task.memory.buffer, task.index, task.mailbox))
    return block.TYPE


def _refuse(task: WorkerTask, slab: Any, error: Exception) -> None:
    """Answer the learner's first command with an error.

    Used when this worker could not get as far as opening its envs.
    """
    from puffervec._ffi import ffi, lib

    worker = ffi.new("pv_worker*", {"slab": slab, "index": task.index})
    slot = ffi.cast("pv_error_slot*", ffi.cast("uint8_t*", slab) + slab.errors_offset) + task.index
    text = "".join(traceback.format_exception(error)).encode(errors="replace")[
        -(lib.PV_ERROR_TEXT - 1) :
    ]
    slot.env, slot.code = lib.PV_ALL_ENVS, lib.PV_ERROR_CONFIG
    ffi.memmove(slot.text, text + b"\0", len(text) + 1)
    lib.pv_worker_refuse(worker)


def main(task: WorkerTask) -> None:
    """Open the envs and serve commands until told to close.

    The C loop that serves commands holds no GIL and runs no Python per step of a C env.
    """
    gc.freeze()  # the learner destroys the objects that a forked worker has inherited
    gc.enable()  # it was off while this process was started
    group = _protect(task)
    try:
        _serve(task)
    finally:
        _end_group(group)


def _serve(task: WorkerTask) -> None:
    from puffervec._ffi import ffi, lib

    _require_same_core(task)
    anywhere = ffi.new("pv_cores*")
    lib.pv_cores_read(anywhere)
    if task.core is not None:
        with contextlib.suppress(OSError):  # the core may have been taken away meanwhile
            os.sched_setaffinity(0, {task.core})
    slab = ffi.from_buffer("uint8_t[]", task.memory.buffer)
    mapped = task.data.map() if task.data is not None else None
    data = ffi.from_buffer("uint8_t[]", mapped) if mapped is not None else ffi.NULL
    worker = ffi.new("pv_worker*")
    try:
        watch_learner(task.learner)
        lib.pv_keep_from_forks(slab, task.memory.size)
        env_type = _env_type(task, ffi.cast("pv_slab*", slab))
    except Exception as error:
        _refuse(task, ffi.cast("pv_slab*", slab), error)
        return
    code = lib.pv_worker_open(
        worker, slab, task.index, env_type, data, len(mapped) if mapped is not None else 0
    )
    if code:
        lib.pv_worker_refuse(worker)
    else:
        worker.waiter.pauses = task.pauses
        worker.placement.anywhere = anywhere[0]
        lib.pv_worker_alone(worker)
        lib.pv_worker_run(worker)
    lib.pv_worker_close(worker)
