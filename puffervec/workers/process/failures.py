# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Errors for workers that failed, died or hung: what each was doing is read from the slab.

The slab survives the worker. Runs in the learner.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from puffervec._ffi import ffi, lib
from puffervec.errors import WorkerDied, WorkerError, WorkerTimeout
from puffervec.system.crashes import blamed

Traced = TypeVar("Traced", WorkerDied, WorkerTimeout)

_DOING = {
    lib.PV_IDLE: "start",
    lib.PV_RESET: "reset",
    lib.PV_STEP: "step",
    lib.PV_SAVE: "save",
    lib.PV_LOAD: "load",
    lib.PV_PEEK: "peek",
    lib.PV_POKE: "poke",
    lib.PV_CALL: "call",
    lib.PV_CLOSE: "close",
}
_MEANING = {
    "SIGSEGV": "memory fault in the env's C code",
    "SIGABRT": "abort in the env's C code",
    "SIGFPE": "arithmetic error in the env's C code, such as a division by zero",
    "SIGILL": "illegal instruction: built for another CPU, or a trap in the env's C code",
    "SIGBUS": "memory fault, or a mapped file that was cut short",
}


@dataclass(frozen=True)
class Work:
    """The current activity of a worker; see the attributes of WorkerError.

    Attributes:
        half: the half of the turn that is open or has failed; None if there is none.
    """

    doing: str = "idle"
    env: int | None = None
    step: int | None = None
    half: int | None = None

    def __str__(self) -> str:
        of = "" if self.env is None else f" of env {self.env}"
        if self.doing == "idle":
            return "while it was idle"
        if self.doing == "start":
            return f"while it made its envs{'' if self.env is None else f', at env {self.env}'}"
        return f"in step {self.step}{of}" if self.doing == "step" else f"in {self.doing}{of}"

    def of(self, worker: int) -> dict[str, Any]:
        """Return the attributes of a WorkerError."""
        return {"worker": worker, "env": self.env, "step": self.step, "doing": self.doing}


def error_slot(slab: Any, worker: int) -> Any:
    """Return the worker's `pv_error_slot*`; `slab` is a `pv_slab*`."""
    return ffi.cast("pv_error_slot*", ffi.cast("uint8_t*", slab) + slab.errors_offset) + worker


def work(slab: Any, worker: int) -> Work:
    """Return the activity of a worker.

    That is a turn that the worker has begun but not answered, or that has failed.
    """
    slot = error_slot(slab, worker)
    found = [
        (half, command, status)
        for half, command, status in _lanes(slab, worker)
        if _under_way(command, status) or (slot.code and status.semaphore == lib.PV_FAILED)
    ]
    env = None if slot.env == lib.PV_ALL_ENVS else int(slot.env)
    if not found:
        # Serial opens its envs before there are turns.
        return Work("start", env) if slot.code else Work()
    half, command, status = max(found, key=lambda lane: _has(slab, worker, lane[0], slot.env))
    doing = _DOING[command.semaphore]
    return Work(doing, env, int(status.steps) if doing == "step" else None, half)


def _lanes(slab: Any, worker: int) -> Iterator[tuple[int, Any, Any]]:
    """Yield (half, command line, status line) of each lane that a worker serves."""
    for half in range(slab.num_buffers):
        if lib.pv_slab_span(slab, worker, half).env_count:
            yield (
                half,
                lib.pv_command_line(slab, worker, half),
                lib.pv_status_line(slab, worker, half),
            )


def _under_way(command: Any, status: Any) -> bool:
    """Return whether the worker has begun the turn and not answered.

    Before it has opened its envs, return whether it was started.
    """
    return bool(
        command.turn != status.turn
        and (status.begun == command.turn or command.semaphore == lib.PV_IDLE)
    )


def _has(slab: Any, worker: int, half: int, env: int) -> bool:
    span = lib.pv_slab_span(slab, worker, half)
    return bool(span.first_env <= env < span.first_env + span.env_count)


def failed(slab: Any, worker: int) -> WorkerError | None:
    """Return the error that a worker has left in its error slot, or None."""
    slot = error_slot(slab, worker)
    if not slot.code:
        return None
    at = work(slab, worker)
    where = f"worker {worker}" + (f", env {at.env}" if at.env is not None else "")
    where += f", step {at.step}" if at.step is not None else ""
    text = ffi.string(slot.text).decode(errors="replace") or f"error code {slot.code}"
    return WorkerError(f"{where}: {text}", **at.of(worker))


def died(slab: Any, worker: int, exit_code: int | None, trace: str, killed: str) -> WorkerDied:
    """Return the error of a worker whose process has ended.

    Args:
        slab: `pv_slab*`.
        worker: index of the worker.
        exit_code: as in multiprocessing, None if unknown.
        trace: the trace that the worker left.
        killed: the likely reason for a SIGKILL.
    """
    at = work(slab, worker)
    error = WorkerDied(
        f"worker {worker} {describe_exit(exit_code, killed)} {at}{blamed(trace)}", **at.of(worker)
    )
    if exit_code is not None and exit_code < 0:
        error.signal = signal_name(exit_code)
    else:
        error.exit_code = exit_code
    return _noted(error, trace, "left this behind")


def hung(
    slab: Any, worker: int, limit_s: float, trace: str, starting: bool = False
) -> WorkerTimeout:
    """Return the error of a worker that has not answered, or opened its envs, in time.

    Args:
        slab: `pv_slab*`.
        worker: index of the worker.
        limit_s: the limit that was exceeded, in seconds.
        trace: the worker's Python stacks.
        starting: whether the worker was still opening its envs.
    """
    at = work(slab, worker)
    if starting:
        which = "" if at.env is None else f" (env {at.env})"
        text = (
            f"was not ready after {limit_s:g} s: an env's constructor hangs{which}, or takes "
            "longer; give a larger timeout_s"
        )
    else:
        where = (
            "it has not begun its turn"
            if at.doing == "idle"
            else f"an env hangs ({at}{blamed(trace)})"
        )
        text = f"gave no answer in {limit_s:g} s: {where}, or timeout_s is too short"
    return _noted(WorkerTimeout(f"worker {worker} {text}", **at.of(worker)), trace, "is here")


def _noted(error: Traced, trace: str, says: str) -> Traced:
    error.trace = trace
    if trace:
        error.add_note(f"worker {error.worker} {says}:\n{trace}")
    return error


def signal_name(exit_code: int) -> str:
    """Return the name of the signal behind a negative exit code of multiprocessing."""
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"


def describe_exit(exit_code: int | None, killed: str = "") -> str:
    """Describe an exit code of multiprocessing in words; `killed` explains a SIGKILL."""
    if exit_code is None:
        return "has ended in an unknown way, since the fork server that started it was ended too"
    if exit_code >= 0:
        return f"ended with exit status {exit_code}"
    name = signal_name(exit_code)
    meaning = killed if name == "SIGKILL" else _MEANING.get(name, "")
    return f"was ended by {name}" + (f" ({meaning})" if meaning else "")
