# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The turns of each half: their states, waiting for them, and the errors of failed ones.

Runs in the learner.

A signal handler may raise anywhere in a call. `recv` marks a half only when it has read everything,
so that it can be called again. If an exception comes between steps that belong together, as between
publishing a turn and marking it, the state becomes INTERRUPTED: every call raises until all envs
are reset, and that reset waits for whatever was published (`recover`). `FastTurn.send` does both in
one call, after which `recv` comes next whatever happens.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from puffervec._ffi import ffi, lib
from puffervec.core.actions import batch_shape
from puffervec.core.infos import NO_INFOS, Infos
from puffervec.errors import CallOrderError, ClosedError, ForkedError, WorkerError, WorkerTimeout
from puffervec.system.patience import Patience
from puffervec.vec.crowd import Crowd
from puffervec.vec.mail import Mail
from puffervec.vec.rows import Rows
from puffervec.vec.settings import VectorSettings, whole
from puffervec.workers.process import failures

if TYPE_CHECKING:
    from puffervec.vec.workers import Workers

# The states of a half say what may be called next; error messages show these words.
IDLE = "not reset"  # -> async_reset
PENDING = "sent"  # -> recv
HELD = "received"  # -> send
READY = "loaded"  # -> recv, which returns the loaded rows
INTERRUPTED = "interrupted"  # -> async_reset of all
CLOSED = "closed"
FORKED = "inherited by a fork"

# A type of Python's C API, which cffi can only hand over as an address.
FastTurn: Any = ctypes.cast(lib.pv_fast_turn_type(), ctypes.py_object).value
SLICE_NS, ALL_WORKERS = lib.PV_SLICE_NS, lib.PV_ALL_WORKERS
REPORTS = lib.PV_TURN_RECORDS | lib.PV_TURN_INFOS


class Turns:
    """The turns of a vector env.

    Attributes:
        state: the state of each half; the list is replaced in one store.
        broken: the error that ended this vector env, or None.
        direct: whether `send` may hand its actions to `fast` without a check of its own.
        following: for each half, the one after it.
        recv_half: the half to receive next, in strict order.
        send_half: the half to send next, in strict order.
        half: the half last received.
        last_batch: the halves last received.
        results: for each half, what `recv` returns if nothing was reported.
        held: batches that were received and whose actions were not sent yet, if the order is not
            strict.
        fast: `send` and `recv` of a half as C functions; see csrc/python/fast_turn.h.
        notes: halves whose envs are to be notified before their next turn.
        crowd: the watcher for other programs on our cores; None if nothing has to be waited for.
    """

    def __init__(
        self, rows: Rows, mail: Mail | None, settings: VectorSettings, workers: Workers
    ) -> None:
        self.rows, self.mail, self.settings, self.workers = rows, mail, settings, workers
        self.slab, self.num_buffers = rows.slab, settings.num_buffers
        self.results = [
            (obs, rewards, terminals, truncations, NO_INFOS, ids, masks)
            for obs, rewards, terminals, truncations, ids, masks in rows.results
        ]
        self.waiter = ffi.new(
            "pv_waiter*", {"pauses": settings.pauses, "yields": settings.learner_yields}
        )
        self.fast = self._make_fast()
        self.agents_per_batch = (
            settings.num_envs * rows.spec.agents // self.num_buffers * settings.batch_halves
        )
        self.strict_order = settings.order == "strict"
        self.direct = self.strict_order and settings.autoreset != "disabled"
        self.following = [*range(1, self.num_buffers), 0]
        self.state = [IDLE] * self.num_buffers
        self.interrupted = [INTERRUPTED] * self.num_buffers  # becomes `state` in one store
        self.recv_half = self.send_half = self.half = 0
        self.last_batch = [0]
        self.held: deque[list[int]] = deque()
        self.notes: set[int] = set()
        self.broken: WorkerError | None = None
        self.crowd: Crowd | None = None

    def _make_fast(self) -> Any:
        """Return the FastTurn, which takes actions of C envs with one group unless `strict`."""
        group, views = self.rows.spec.groups[0], self.rows.halves
        direct = self.rows.single and group.action_plan is None and not self.settings.strict
        return FastTurn(
            int(ffi.cast("uintptr_t", self.slab)),
            int(ffi.cast("uintptr_t", self.waiter)),
            batch_shape(group, views[0].groups[group.name].rows) if direct else (),
            group.action_kind == "continuous",
            np.ndarray,
            tuple(half.groups[group.name].actions for half in views) if direct else (),
            HELD,
            PENDING,
        )

    @property
    def batch(self) -> list[int]:
        """The halves last received."""
        return [self.half] if self.strict_order else self.last_batch

    # ---- what may be called ----------------------------------------------------------------------

    def require_open(self, or_interrupted: bool = False) -> None:
        """Raise if the vector env is closed, broken, interrupted or owned by another process."""
        name = self.rows.name
        if self.state[0] is CLOSED:
            raise ClosedError(f"this vector env of {name!r} is closed: make a new one")
        if self.state[0] is FORKED:
            raise ForkedError(
                f"this vector env of {name!r} belongs to the process that this one was forked "
                "from, which shares its memory: make one in each process, or fork before making it"
            )
        if self.broken is not None:
            raise self.broken.again()
        if self.state[0] is INTERRUPTED and not or_interrupted:
            raise CallOrderError(
                "an exception, such as Ctrl-C, interrupted a call of this vector env, and its "
                "envs may be ahead of what was returned: call reset or async_reset for all envs "
                "to continue"
            )

    def require_rows(self, half: int, verb: str) -> None:
        """Raise if a half has a turn under way, or was never reset."""
        if self.state[half] in (PENDING, IDLE):
            expected = "recv" if self.state[half] is PENDING else "async_reset and recv"
            raise CallOrderError(
                f"{verb}: half {half} is {self.state[half]}: call {expected} first"
            )

    def require_loaded(self, half: int) -> None:
        """Raise unless `recv` may return the rows of this half, which has no turn under way."""
        self.require_open()
        if self.state[half] is not READY:
            expected = "send" if self.state[half] is HELD else "async_reset or reset"
            raise CallOrderError(f"recv: half {half} is {self.state[half]}: call {expected} first")

    def refuse_send(self, half: int) -> NoReturn:
        """Raise the error for a `send` that is out of order for this half."""
        self.require_open()
        expected = "async_reset or reset" if self.state[half] is IDLE else "recv"
        raise CallOrderError(f"send: half {half} is {self.state[half]}: call {expected} first")

    def refuse_over(self, half: int) -> None:
        """Raise if an env of the half is done and was not reset, without autoreset."""
        over = self.rows.over(half)
        if over.any():
            ids = self.rows.halves[half].env_ids[over]
            raise CallOrderError(
                f"send: env {ids[0]}"
                + (f" and {len(ids) - 1} more" if len(ids) > 1 else "")
                + " is done and autoreset_mode is 'disabled': call reset(mask=...) first, with "
                "True for each env that is done"
            )

    def lane_of(self, env: int, verb: str) -> tuple[int, int]:
        """Return the worker and the half of an env, whose half must have no turn under way."""
        self.require_open()
        index = whole(f"{verb}: env", env, 0, self.rows.num_envs - 1)
        for worker, half in self.rows.lanes(range(self.num_buffers)):
            if index in self.rows.span(worker, half):
                self.require_rows(half, verb)
                return worker, half
        raise AssertionError("every env has a worker")

    def mark_interrupted(self) -> None:
        """Mark the vector env as interrupted.

        Called when an exception came between two steps that belong together: only a reset of all
        envs helps then.
        """
        if self.state[0] is not CLOSED:
            self.state = self.interrupted

    # ---- waiting ---------------------------------------------------------------------------------

    def await_half(self, half: int) -> int:
        """Wait for the turn of a half and return its flags."""
        return self.wait_on(
            half, lib.pv_turn_recv(self.slab, half, ALL_WORKERS, self.waiter, SLICE_NS, 0)
        )

    def wait_on(self, half: int, result: int, timeout_s: float | None = None) -> int:
        """Continue waiting for the workers of a half.

        After each slice it checks that they are alive and in time.
        """
        patience = Patience()
        while result < 0:
            last = -1 - result
            late = self.first_late(half, last)
            self.check_progress(self.rows.workers[half], late, patience, timeout_s)
            slice_ns = SLICE_NS if timeout_s is None else slice_of(timeout_s)
            result = lib.pv_turn_recv(self.slab, half, last, self.waiter, slice_ns, 1)
        return int(result)

    def first_late(self, half: int, last: int = -1) -> int:
        """Return the first worker whose turn of `half` is not done, or `last` if all are done."""
        for worker in self.rows.workers[half]:
            status = lib.pv_status_line(self.slab, worker, half)
            if status.turn != lib.pv_command_line(self.slab, worker, half).turn:
                return worker
        return last

    def await_flags(self, worker: int, half: int, start_s: float | None = None) -> int:
        """Wait for the turn of one worker and return its flags."""
        patience = Patience()
        result, resume = -1, 0
        while result < 0:
            result = lib.pv_turn_recv_one(self.slab, worker, half, self.waiter, SLICE_NS, resume)
            if result < 0:
                self.check_progress([worker], worker, patience, start_s=start_s)
            resume = 1
        return int(result)

    def await_one(self, worker: int, half: int, start_s: float | None = None) -> None:
        """Wait for the turn of one worker.

        Raises:
            WorkerError: the turn failed.
        """
        if self.await_flags(worker, half, start_s) & lib.PV_TURN_FAILED:
            self.raise_failure(half)

    def command_one(self, worker: int, half: int, semaphore: int, first: int, count: int) -> None:
        """Send a command to one worker through the cache line of `half` and wait for it.

        The half must have no turn under way.
        """
        if self._failed_at(worker, half, semaphore, first, count):
            self.raise_failure(half)

    def ask_one(self, worker: int, half: int, semaphore: int, first: int, count: int) -> str | None:
        """Send a command like `command_one`, but let the env refuse it.

        Returns:
            None if the env has obeyed; its message if it refused and is unchanged.
        """
        if not self._failed_at(worker, half, semaphore, first, count):
            return None
        slot = failures.error_slot(self.slab, worker)
        if slot.code != lib.PV_ERROR_ENV:
            self.raise_failure(half)
        slot.code = 0
        return str(ffi.string(slot.text).decode(errors="replace"))

    def _failed_at(self, worker: int, half: int, semaphore: int, first: int, count: int) -> bool:
        """Send a command to one worker, wait for it, and return whether it failed."""
        try:
            lib.pv_turn_send_one(self.slab, worker, half, semaphore, first, count, self.waiter)
            return bool(self.await_flags(worker, half) & lib.PV_TURN_FAILED)
        except BaseException:
            self.mark_interrupted()
            raise

    def check_progress(
        self,
        workers: Sequence[int],
        waiting_for: int,
        patience: Patience,
        soft_s: float | None = None,
        start_s: float | None = None,
    ) -> None:
        """Raise if a worker has died or time is up; called between two slices of a wait.

        Args:
            workers: the workers to check.
            waiting_for: the worker to name in an error.
            patience: the clock of this wait.
            soft_s: limit in seconds after which only this wait is given up.
            start_s: limit in seconds while workers start, in place of the setting.
        """
        waited = patience.waited_s()
        try:
            self.workers.check(workers)
            limit_s = self.settings.timeout_s if start_s is None else start_s
            if waited > limit_s:
                trace = self.workers.trace_of(waiting_for)
                raise failures.hung(
                    self.slab, waiting_for, limit_s, trace, starting=start_s is not None
                )
        except WorkerError as error:
            self.broken = error
            raise
        if soft_s is not None and waited >= soft_s:
            at = failures.work(self.slab, waiting_for)
            text = f"worker {waiting_for} did not answer within {soft_s:g} s; its turn continues"
            raise WorkerTimeout(text, **at.of(waiting_for))

    def drain(self) -> None:
        """Wait for the turns that are under way, and drop their reports."""
        for half in range(self.num_buffers):
            if self.state[half] is PENDING and self.await_half(half) & lib.PV_TURN_FAILED:
                self.raise_failure(half)
        self._forget_answers()
        self.state = [IDLE] * self.num_buffers

    def recover(self) -> None:
        """Wait for turns published before an interruption, and drop questions and answers."""
        for half in range(self.num_buffers):
            self.await_half(half)
        for worker in range(self.rows.num_workers):
            slot = failures.error_slot(self.slab, worker)
            at = failures.work(self.slab, worker)
            if slot.code and at.doing != "call":
                assert at.half is not None
                self.raise_failure(at.half)
            slot.code = 0
        self.held.clear()
        self._forget_answers()
        self.state = [IDLE] * self.num_buffers

    def _forget_answers(self) -> None:
        if self.mail is not None:
            self.mail.forget_answers()

    # ---- what was reported -----------------------------------------------------------------------

    def heed(self, half: int, flags: int) -> None:
        """Do what the flags of a finished turn ask for.

        Raises:
            WorkerError: a worker of the half failed.
        """
        if flags & lib.PV_TURN_FAILED:
            self.raise_failure(half)
        if flags & lib.PV_TURN_LOOK and self.crowd is not None:
            self.crowd.look()

    def infos(self, halves: Sequence[int]) -> Infos:
        """Return what the workers of the halves have reported.

        Positions of envs count from the first env of the first half.
        """
        if self.mail is None:
            return Infos(self.rows.records(halves), self.rows.spec.record_names)
        return self.mail.infos(halves)

    def forget_reports(self, half: int) -> None:
        """Drop the records and infos of the last turn of a half; it must have no turn under way."""
        self.rows.forget_records(half)
        if self.mail is not None:
            self.mail.forget_infos(half)

    # ---- errors ----------------------------------------------------------------------------------

    def failure(self, worker: int) -> WorkerError | None:
        """Return the error that a worker has left, or None.

        If a Python env raised, its exception is the `__cause__` of the error.
        """
        error = failures.failed(self.slab, worker)
        if error is not None and self.mail is not None:
            error.__cause__ = self.mail.boxes[worker].exception(
                failures.work(self.slab, worker).half
            )
        return error

    def raise_failure(self, half: int) -> NoReturn:
        """Raise the error of the first worker of the half that has one."""
        for worker in self.rows.workers[half]:
            error = self.failure(worker)
            if error is not None:
                # Ctrl-C or an exit is not the env's fault, and a reset repairs it.
                if self._is_of_this_process(error):
                    failures.error_slot(self.slab, worker).code = 0
                    self.mark_interrupted()
                else:
                    self.broken = error
                self._raise(error)
        raise WorkerError(f"a worker of half {half} failed without a message")

    def raise_of_call(self, failed: Sequence[int]) -> NoReturn:
        """Raise the error of the first of the workers that failed in a call.

        The vector env stays usable.
        """
        errors = [self.failure(worker) for worker in dict.fromkeys(failed)]
        for worker in failed:
            failures.error_slot(self.slab, worker).code = 0
        assert errors[0] is not None
        if self._is_of_this_process(errors[0]):
            self.mark_interrupted()
        self._raise(errors[0])

    def _is_of_this_process(self, error: WorkerError) -> bool:
        """Return whether the error is Ctrl-C or an exit in an env of this process."""
        cause = error.__cause__
        return (
            cause is not None
            and not isinstance(cause, Exception)
            and self.mail is not None
            and not self.mail.shared
        )

    def _raise(self, error: WorkerError) -> NoReturn:
        if self._is_of_this_process(error):
            assert error.__cause__ is not None
            raise error.__cause__
        raise error


def slice_of(timeout_s: float) -> int:
    """Return the longest sleep in ns of a wait that is given up after `timeout_s`."""
    return int(min(SLICE_NS, max(1e3, timeout_s * 1e9)))
