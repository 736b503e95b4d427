# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What a vector env offers beside its loop: tasks, counters, timing, saving and loading, calls of Python envs, and the details
of resets. Learner side.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from puffervec._ffi import lib
from puffervec.core import actions as action_border
from puffervec.core.actions import Native
from puffervec.errors import CallOrderError, ConfigError, WorkerError
from puffervec.host.patience import Patience
from puffervec.native import NativeEnv
from puffervec.process import failures
from puffervec.states import CLOSED, HELD, IDLE, INTERRUPTED, PENDING, READY
from puffervec.vec import delivery
from puffervec.vec.settings import env_seeds, first_seeds, whole

if TYPE_CHECKING:
    from puffervec.core.info_area import InfoReader
    from puffervec.core.slab import Half
    from puffervec.core.spec import EnvSpec
    from puffervec.python.mailbox import Mailbox


Lane = tuple[int, int]  # (worker, half)


class Aside:
    """Base of VectorEnv (vector_env.py), which has the attributes that are only declared here."""

    num_envs: int
    num_buffers: int
    half: int
    num_workers: int
    spec: EnvSpec
    env: Any
    settings: Any
    _state: list[str]
    _interrupted: list[str]
    _seeds: np.ndarray
    _reset_masks: np.ndarray
    _workers: list[range]
    _info_readers: list[list[tuple[int, InfoReader]]]
    _mailboxes: list[Mailbox]
    _slab: Any
    _waiter: Any
    _buffer: memoryview
    _counters: np.ndarray
    _tasks: np.ndarray
    _state_dtype: np.dtype[Any]
    _invalid_actions: int
    _recv_half: int
    _send_half: int
    _seeded: bool
    _held: deque[list[int]]
    _optioned: set[int]
    halves: tuple[Half, ...]
    _notify: set[int]
    _broken: WorkerError | None

    def _require_open(self, or_interrupted: bool = False) -> None:
        raise NotImplementedError

    def _wait_on(self, half: int, result: int, timeout_s: float | None = None) -> int:
        raise NotImplementedError

    def _look_around(
        self,
        workers: Sequence[int],
        waiting_for: int,
        patience: Patience,
        soft_s: float | None = None,
        start_s: float | None = None,
    ) -> None:
        raise NotImplementedError

    def _sent(self, half: int) -> None:
        raise NotImplementedError

    def _sent_one(self, worker: int, half: int) -> None:
        raise NotImplementedError

    def set_tasks(self, env_ids: Sequence[int] | np.ndarray, tasks: Sequence[int] | np.ndarray | int) -> None:
        """Say which task (scene index, start layout) each env runs from its next reset on; -1: the env draws its own.

        Tasks are 0 to `spec.tasks` - 1. A reset in a turn that is under way may still take the task before.

        Raises:
            ConfigError: an env or a task that is not there, or Python envs, which have none.
        """
        self._require_open(or_interrupted=True)
        self._put_tasks(env_ids, tasks)

    def _put_tasks(self, env_ids: Any, tasks: Any) -> None:
        ids, wanted = _whole_numbers("env ids", env_ids), _whole_numbers("tasks", tasks)
        if ids.size and (ids.min() < 0 or ids.max() >= self.num_envs):
            raise ConfigError(f"set_tasks: env ids {ids.min()} to {ids.max()}: the envs are 0 to {self.num_envs - 1}")
        if wanted.ndim and wanted.shape != ids.shape:
            raise ConfigError(f"set_tasks: {wanted.size} tasks for {ids.size} envs: give one per env, or one number")
        self._require_tasks("set_tasks", wanted)
        self._tasks[ids] = wanted

    def _require_tasks(self, verb: str, wanted: np.ndarray) -> None:
        missing = wanted[(wanted < -1) | (wanted >= self.spec.tasks)]
        if not missing.size:
            return
        if not self.spec.tasks:
            raise ConfigError(f"{verb}: {self.env.name} is a Python env and has no tasks: use reset(options=...)")
        there = "its only task is 0" if self.spec.tasks == 1 else f"its tasks are 0 to {self.spec.tasks - 1}"
        raise ConfigError(f"{verb}: {self.env.name} has no task {missing[0]}: {there}, and -1 is the env's own choice")

    def counters(self) -> dict[str, int]:
        """Return the running sums that the env keeps, over all envs, and `invalid_actions`. Exact between `recv` and `send`."""
        totals = self._counters.sum(axis=(0, 1))
        named = {name: int(totals[i]) for i, name in enumerate(self.spec.counter_names)}
        return {**named, "invalid_actions": self._invalid_actions}

    def timing(self, half: int) -> np.ndarray:
        """Return (workers of the half, 2) int64: begin and end of each worker's last turn, in the ns of time.monotonic_ns."""
        times = np.empty((len(self._workers[half]), 2), np.int64)
        for i, worker in enumerate(self._workers[half]):
            line = lib.pv_status_line(self._slab, worker, half)
            times[i] = line.begin_ns, line.end_ns
        return times

    def begin(self) -> None:
        """Take Python envs as they were made, without a reset: `send` comes next. Their observations are zero until then.

        Raises:
            CallOrderError: they were reset before, or their turns were interrupted. ClosedError. ConfigError: C envs.
        """
        self._require_open()
        if not self._mailboxes:
            raise ConfigError(f"begin: {self.env.name} is a C env, whose episodes begin with a reset: call reset")
        if any(state is not IDLE for state in self._state):
            raise CallOrderError("begin: these envs were reset already: call recv, send or reset")
        for half in self.halves:
            for rows in half.groups.values():
                rows.masks[:] = True
        self._state = [HELD] * self.num_buffers

    def exact_rewards(self) -> np.ndarray:
        """Return (envs,) float64, a copy: the rewards of the half last received as its Gymnasium envs returned them.

        `recv` returns them as float32.
        """
        return np.concatenate([reader.area.rewards for _, reader in self._info_readers[self.half]])

    def peek(self, env: int) -> dict[str, np.ndarray]:
        """Return a copy of the readable state of one env, by field name. Its half must not be under way."""
        if not self.spec.state_fields:
            raise ConfigError(f"peek: {self.env.name} has no readable state" + ("; use get_attr" if self._mailboxes else ""))
        worker, half = self._worker_of(env, "peek")
        self._command_one(worker, half, lib.PV_PEEK, env, 1)
        row = np.frombuffer(self._transfer(worker), self._state_dtype, 1)[0]
        return {field.name: np.array(row[field.name]) for field in self.spec.state_fields}

    def save(self) -> list[bytes]:
        """Return the state of every env with its task and rows, as flat bytes, one piece each. No turn may be under way."""
        self._require_saveable("save")
        saved: list[bytes] = []
        size = self._saved_bytes
        for worker, half, first, count in self._transfers("save"):
            self._command_one(worker, half, lib.PV_SAVE, first, count)
            region = self._transfer(worker)
            for i in range(count):
                saved.append(self._tasks[first + i].tobytes() + bytes(region[i * size : (i + 1) * size]))
        return saved

    def load(self, states: Sequence[bytes]) -> None:
        """Put every env into a saved state. The next call is `recv`, which returns the saved rows.

        Raises:
            ConfigError: another number of envs, or states of another size.
        """
        self._require_saveable("load")
        size = self._saved_bytes
        if len(states) != self.num_envs:
            raise ConfigError(f"load: {len(states)} states for {self.num_envs} envs: give one per env")
        wrong = {len(state) for state in states} - {size + 8}
        if wrong:
            found = wrong.pop()
            raise ConfigError(f"load: a state has {found} bytes, this env's have {size + 8}: it was saved with other settings")
        self._require_tasks("load", np.array([np.frombuffer(state, np.int64, 1)[0] for state in states]))
        transfers = self._transfers("load")
        try:
            for worker, half, first, count in transfers:
                region = self._transfer(worker)
                for i in range(count):
                    self._tasks[first + i] = np.frombuffer(states[first + i], np.int64, 1)[0]
                    region[i * size : (i + 1) * size] = states[first + i][8:]
                self._command_one(worker, half, lib.PV_LOAD, first, count)
            self._held.clear()
            self._recv_half = self._send_half = 0
            self._seeded = True
            self._state = [READY] * self.num_buffers
        except BaseException:
            self._break_off()
            raise

    # ---- what a reset is to do ----------------------------------------------------------------------------------------

    def _choose_seeds(self, seed: Any, mask: np.ndarray | None) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return (seeds or None, reset masks or None): what each env is to do, in the terms of csrc/channel.h."""
        if mask is None and not self._seeded:
            own = int.from_bytes(os.urandom(7), "little") if isinstance(self.env, NativeEnv) else None
            seed = first_seeds(seed, self.settings.seed, own, num_envs=self.num_envs)
        seeds = None if seed is None else env_seeds(seed, self.num_envs)
        seeded = np.full(self.num_envs, seeds is not None)
        if seeds is not None and isinstance(seed, (list, tuple, np.ndarray)):
            seeded = np.array([entry is not None for entry in seed])
        if mask is None and (seeded.all() or not seeded.any()):
            return (seeds if seeded.all() else None), None
        which = np.where(seeded, lib.PV_RESET_SEEDED, lib.PV_RESET_KEEP).astype(np.uint8)
        return seeds, which if mask is None else np.where(mask, which, 0).astype(np.uint8)

    def _check_mask(self, mask: Any) -> np.ndarray:
        """Return the envs to reset as (num_envs,) bool; they must not be under way."""
        array = np.asarray(mask)
        if array.dtype != np.bool_ or array.shape != (self.num_envs,):
            raise ConfigError(
                f"mask has dtype {array.dtype} and shape {array.shape}: give ({self.num_envs},) bool, one per env"
            )
        if not array.any():
            raise ConfigError("mask has no True: name at least one env to reset, or send actions")
        for half, views in enumerate(self.halves):
            if array[views.env_ids].any():
                self._require_rows(half, "reset with a mask")
        return array

    def _publish_reset(self, halves: Sequence[int], seeds: np.ndarray | None, which: np.ndarray | None) -> None:
        """Publish the turn of a reset. seeds, which: as `_choose_seeds` returns them."""
        if seeds is not None:
            self._seeds[:] = seeds if which is None else np.where(which == lib.PV_RESET_SEEDED, seeds, self._seeds)
        for half in halves:
            if which is not None:  # not those of other halves: their workers may not have looked yet
                self._reset_masks[self.halves[half].env_ids] = which[self.halves[half].env_ids]
            self._forget_reports(half)  # a worker without an env to reset would not
            self._state[half] = PENDING
            lib.pv_turn_send(self._slab, half, lib.PV_RESET, seeds is not None, which is not None, self._waiter)
            self._sent(half)
        self._recv_half = self._send_half = halves[0]
        delivery.release(self, halves)  # type: ignore[arg-type]
        self._seeded = self._seeded or seeds is not None

    def _drain(self) -> None:
        """Wait for the turns that are under way, and drop what they reported."""
        for half in range(self.num_buffers):
            if self._state[half] is PENDING and self._await_half(half) & lib.PV_TURN_FAILED:
                self._raise_failure(half)
        self._forget_answers()
        self._state = [IDLE] * self.num_buffers

    def _realign(self) -> None:
        """After an interruption: wait for whatever was published, and forget what was asked and answered."""
        for half in range(self.num_buffers):
            self._sent(half)  # Serial has perhaps not run it
            self._await_half(half)
        for worker in range(self.num_workers):
            slot = failures.error_slot(self._slab, worker)
            at = failures.work(self._slab, worker)
            if slot.code and at.doing != "call":
                assert at.half is not None
                self._raise_failure(at.half)
            slot.code = 0
        self._held.clear()
        self._forget_answers()
        self._state = [IDLE] * self.num_buffers

    def _await_half(self, half: int) -> int:
        return self._wait_on(half, lib.pv_turn_recv(self._slab, half, 0, self._waiter, lib.PV_SLICE_NS, 0))

    def _forget_answers(self) -> None:
        for mailbox in self._mailboxes:
            for answer in mailbox.answers.values():
                answer.clear()

    def _options_for(self, options: Mapping[str, Any] | None, halves: Sequence[int]) -> dict[Lane, Any]:
        """Return what to post to each lane: options, or None where something may still stand that no env has taken."""
        left = self._state[0] is INTERRUPTED or not self._optioned.isdisjoint(halves)
        if not self._mailboxes or (options is None and not left):
            return {}
        return self._encoded({(worker, half): options for half in halves for worker in self._workers[half]}, "options")

    def _take_task(self, options: Mapping[str, Any], mask: np.ndarray | None) -> None:
        if set(options) - {"task"}:
            raise ConfigError(f"options are {options!r}: {self.env.name} knows only 'task'")
        elif options:
            self._put_tasks(np.arange(self.num_envs) if mask is None else np.flatnonzero(mask), options["task"])

    def _forget_reports(self, half: int) -> None:
        """Drop the records and infos of the last turn of a half, which must not be under way."""
        for worker in self._workers[half]:
            np.frombuffer(self._buffer, np.uint32, 2, lib.pv_slab_records(self._slab, worker, half))[:] = 0
        for _, reader in self._info_readers[half]:
            reader.forget()

    def _break_off(self) -> None:
        """Note that an exception came between two steps that belong together: only a reset of all envs helps."""
        if self._state[0] is not CLOSED:
            self._state = self._interrupted

    def _read_infos(self, worker: int, half: int) -> list[tuple[int, Any]]:
        """Return the infos of a lane that are no numbers, with the positions of their envs. They stay where they are."""
        slot = self._mailboxes[worker].answers[half]
        first = lib.pv_slab_span(self._slab, worker, half).first_env
        found = []
        for position, encoded in slot.read():
            try:
                found.append((position, slot.decode(encoded)))
            except Exception as error:
                raise WorkerError(
                    f"worker {worker}, env {first + position}: its info was sent, but cannot be read in the learner: "
                    f"{type(error).__name__}: {error}",
                    worker=worker, env=first + position, doing="step",
                ) from error  # fmt: skip
        return found

    def _require_saveable(self, verb: str) -> None:
        self._require_open()
        if not self.spec.save_bytes:
            raise ConfigError(f"{verb}: the state of {self.env.name} cannot be saved: it is not a flat piece of memory")

    @property
    def _saved_bytes(self) -> int:
        return int(self.spec.save_bytes + self._slab.env_row_bytes)

    def _worker_of(self, env: int, verb: str) -> tuple[int, int]:
        """Return the worker and the half of an env whose half is not under way."""
        self._require_open()
        index = whole(f"{verb}: env", env, 0, self.num_envs - 1)
        for half in range(self.num_buffers):
            for worker in self._workers[half]:
                if index in env_range(lib.pv_slab_span(self._slab, worker, half)):
                    self._require_rows(half, verb)
                    return worker, half
        raise AssertionError("every env has a worker")

    def _require_rows(self, half: int, verb: str) -> None:
        if self._state[half] in (PENDING, IDLE):
            expected = "recv" if self._state[half] is PENDING else "async_reset and recv"
            raise CallOrderError(f"{verb}: half {half} is {self._state[half]}: call {expected} first")

    def _transfers(self, verb: str) -> list[tuple[int, int, int, int]]:
        """Return (worker, half, first env, count) in env order, cut so that each fits the transfer region."""
        for half, state in enumerate(self._state):
            if verb != "load" or state is PENDING:  # a vec env that was never reset may be loaded into
                self._require_rows(half, verb)
        cut = []
        for half in range(self.num_buffers):
            for worker in self._workers[half]:
                envs = env_range(lib.pv_slab_span(self._slab, worker, half))
                for first in range(envs.start, envs.stop, self._slab.transfer_envs):
                    cut.append((worker, half, first, min(self._slab.transfer_envs, envs.stop - first)))
        return cut

    def _transfer(self, worker: int) -> memoryview:
        offset = self._slab.transfers_offset + worker * self._slab.transfer_bytes
        return self._buffer[offset : offset + self._slab.transfer_bytes]

    def _command_one(self, worker: int, half: int, semaphore: int, first: int, count: int) -> None:
        """Send a command to one worker on the line of `half`, which must have no turn under way, and wait for it."""
        try:
            lib.pv_turn_send_one(self._slab, worker, half, semaphore, first, count, self._waiter)
            self._sent_one(worker, half)
            self._await_one(worker, half)
        except BaseException:
            self._break_off()
            raise

    def _await_one(self, worker: int, half: int, start_s: float | None = None) -> None:
        if self._await_flags(worker, half, start_s) & lib.PV_TURN_FAILED:
            self._raise_failure(half)

    def _await_flags(self, worker: int, half: int, start_s: float | None = None) -> int:
        """Wait for the turn of one worker and return its flags."""
        patience = Patience()
        result, resume = -1, 0
        while result < 0:
            result = lib.pv_turn_recv_one(self._slab, worker, half, self._waiter, lib.PV_SLICE_NS, resume)
            if result < 0:
                self._look_around([worker], worker, patience, start_s=start_s)
            resume = 1
        return int(result)

    # ---- calls of Python envs -----------------------------------------------------------------------------------------

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every Python env (or read the attribute, if it is none) and return the results in env order.

        Looks through Gymnasium wrappers. No turn may be under way. Results cross processes by pickle.

        Raises:
            ConfigError: a C env, which has no Python methods; or arguments that cannot be pickled. WorkerError: an env raised;
                the others have answered, and all can go on.
        """
        return self._ask("call", name, [args] * self.num_envs, kwargs)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of every Python env, in env order; as `call`."""
        return self._ask("get", name, [()] * self.num_envs, {})

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every Python env. values: a list or tuple with one per env, or one value for all.

        Raises:
            ConfigError: a list of another length. Else as `call`.
        """
        if not isinstance(values, (list, tuple)):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise ConfigError(
                f"set_attr({name!r}): {len(values)} values for {self.num_envs} envs: give one per env, or one for all"
            )
        self._ask("set", name, list(values), {})

    def _ask(self, verb: str, name: str, args: list[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        self._require_open()
        if not self._mailboxes:
            raise ConfigError(
                f"{verb} {name!r}: {self.env.name} is a C env and has no Python attributes; see peek and counters"
            )
        for half, state in enumerate(self._state):
            if state is PENDING:
                self._require_rows(half, f"{verb} {name!r}")
        return self._ask_halves(range(self.num_buffers), verb, name, args, kwargs)

    def _notify_half(self, half: int) -> None:
        """Notify the envs of a half, which must not be under way."""
        self._notify.discard(half)
        self._ask_halves([half], "call", "notify", [()] * self.num_envs, {})

    def _ask_halves(
        self, halves: Sequence[int], verb: str, name: str, args: list[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        lanes = [(worker, half) for half in halves for worker in self._workers[half]]
        spans = [env_range(lib.pv_slab_span(self._slab, worker, half)) for worker, half in lanes]
        shares = [args[span.start] if verb == "call" else args[span.start : span.stop] for span in spans]
        questions = {lane: (verb, name, share, kwargs) for lane, share in zip(lanes, shares, strict=True)}
        encoded = self._encoded(questions, f"{verb} {name!r}")
        try:
            self._post(encoded)
            for worker, half in lanes:
                lib.pv_turn_send_one(self._slab, worker, half, lib.PV_CALL, 0, 0, self._waiter)
            for half in halves:
                self._sent(half)
            failed = [worker for worker, half in lanes if self._await_flags(worker, half) & lib.PV_TURN_FAILED]
        except BaseException:
            self._break_off()
            raise
        return tuple(self._answers(lanes, failed))

    def _native(self, half: int, actions: Any) -> dict[Lane, Any] | None:
        """Return actions that the rows of Python envs cannot hold as their mailboxes take them; None where rows can."""
        group, views = self.spec.groups[0], self.halves[half]
        if actions is None or not self.env.takes_native:
            return None
        native = action_border.native(group, views.groups[group.name], actions, self.settings.strict)
        if native is None:
            return None
        first, shares = int(views.env_ids[0]), {}
        for worker in self._workers[half]:
            span = env_range(lib.pv_slab_span(self._slab, worker, half))
            rows = slice((span.start - first) * group.agents, (span.stop - first) * group.agents)
            shares[worker, half] = Native(native.entries[rows])
        return self._encoded(shares, "actions")

    def _post_native(self, half: int, encoded: Mapping[Lane, Any]) -> None:
        self._post(encoded)
        for _, reader in self._info_readers[half]:
            reader.area.head["native"] = 1

    def _encoded(self, questions: Mapping[Lane, Any], what: str) -> dict[Lane, Any]:
        """Return the questions as mailboxes take them, or raise ConfigError."""
        try:
            return {(w, half): self._mailboxes[w].questions[half].encode(asked) for (w, half), asked in questions.items()}
        except Exception as error:
            raise ConfigError(f"{what}: what was given cannot be sent to workers ({type(error).__name__}: {error})") from error

    def _post(self, encoded: Mapping[Lane, Any]) -> None:
        for (worker, half), question in encoded.items():
            self._mailboxes[worker].questions[half].put(question)

    def _answers(self, lanes: Sequence[Lane], failed: Sequence[int]) -> list[Any]:
        """Return all answers, or raise the error of the first worker that failed; the vec env can go on after it."""
        if not failed:
            return [answer for lane in lanes for answer in self._answer(*lane)]
        errors = [self._failure(worker) for worker in dict.fromkeys(failed)]
        for worker in failed:
            failures.error_slot(self._slab, worker).code = 0
        assert errors[0] is not None
        if self._is_of_this_process(errors[0]):
            self._break_off()
        return self._raise(errors[0])

    def _answer(self, worker: int, half: int) -> list[Any]:
        try:
            return list(self._mailboxes[worker].answers[half].take())
        except Exception as error:
            envs = env_range(lib.pv_slab_span(self._slab, worker, half))
            raise WorkerError(
                f"worker {worker}: what its envs {envs.start} to {envs.stop - 1} answered cannot be read in the learner: "
                f"{type(error).__name__}: {error}",
                worker=worker, doing="call",
            ) from error  # fmt: skip

    # ---- errors -------------------------------------------------------------------------------------------------------

    def _failure(self, worker: int) -> WorkerError | None:
        """Return the error that a worker has left, with the exception of a Python env as its cause; None if it has none."""
        error = failures.failed(self._slab, worker)
        if error is not None and self._mailboxes:
            error.__cause__ = self._mailboxes[worker].exception(failures.work(self._slab, worker).half)
        return error

    def failed(self) -> list[WorkerError]:
        """Return what envs have raised in the turn that failed last, one error per worker; [] where none has failed."""
        found = (failures.failed(self._slab, worker) for worker in range(self.num_workers))
        return [error for error in found if error is not None]

    def _raise_failure(self, half: int) -> None:
        """Raise the error of the first worker of the half that has one."""
        for worker in self._workers[half]:
            error = self._failure(worker)
            if error is not None:
                if self._is_of_this_process(error):  # the env is not to blame, and a reset makes it whole
                    failures.error_slot(self._slab, worker).code = 0
                    self._break_off()
                else:
                    self._broken = error
                self._raise(error)
        raise WorkerError(f"a worker of half {half} failed without a message")

    def _is_of_this_process(self, error: WorkerError) -> bool:
        """Return whether it was Ctrl-C or exit in an env of this very process."""
        cause = error.__cause__
        return cause is not None and not isinstance(cause, Exception) and not self._mailboxes[0].shared

    def _raise(self, error: WorkerError) -> NoReturn:
        if self._is_of_this_process(error):
            assert error.__cause__ is not None
            raise error.__cause__
        raise error


def _whole_numbers(name: str, given: Any) -> np.ndarray:
    """Return `given` as an int64 array, or raise ConfigError."""
    try:
        array = np.asarray(given)
        if array.size and array.dtype.kind in "iu" and array.max() <= np.iinfo(np.int64).max:
            return array.astype(np.int64)
        if array.size == 0:
            return np.zeros(array.shape, np.int64)
    except (ValueError, OverflowError):
        pass
    raise ConfigError(f"set_tasks: {name} are {given!r}: give whole numbers below 2**63")


def env_range(span: Any) -> range:
    """Return the envs of a `pv_span`."""
    return range(span.first_env, span.first_env + span.env_count)
