# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What a vector env offers outside of its loop: saved states, timing, counters, and calls of Python envs. Learner side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from puffervec._ffi import lib
from puffervec.errors import CallOrderError, ConfigError
from puffervec.vec.resets import Resets
from puffervec.vec.turns import HELD, IDLE, PENDING, READY, Turns


class Control:
    """The calls of a vector env that are not part of its loop; `VectorEnv` documents them."""

    def __init__(self, turns: Turns, resets: Resets) -> None:
        self._turns, self._rows, self._mail, self._resets = turns, turns.rows, turns.mail, resets
        self._env_bytes = int(self._rows.spec.save_bytes + turns.slab.env_row_bytes)

    # ---- numbers --------------------------------------------------------------------------------------------------------

    def counters(self) -> dict[str, int]:
        totals = self._rows.counters.sum(axis=(0, 1))
        named = {name: int(totals[i]) for i, name in enumerate(self._rows.spec.counter_names)}
        return {**named, "invalid_actions": self._turns.invalid_actions}

    def timing(self, half: int) -> np.ndarray:
        workers = self._rows.workers[half]
        times = np.empty((len(workers), 2), np.int64)
        for i, worker in enumerate(workers):
            line = lib.pv_status_line(self._turns.slab, worker, half)
            times[i] = line.begin_ns, line.end_ns
        return times

    def exact_rewards(self) -> np.ndarray:
        assert self._mail is not None
        return np.concatenate([reader.area.rewards for _, reader in self._mail.readers[self._turns.half]])

    # ---- states ---------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        turns = self._turns
        turns.require_open()
        if self._mail is None:
            raise ConfigError(f"begin: {self._rows.name} is a C env, whose episodes begin with a reset: call reset")
        if any(state is not IDLE for state in turns.state):
            raise CallOrderError("begin: these envs were reset already: call recv, send or reset")
        for half in self._rows.halves:
            for rows in half.groups.values():
                rows.masks[:] = True
        turns.state = [HELD] * turns.num_buffers

    def peek(self, env: int) -> dict[str, np.ndarray]:
        spec = self._rows.spec
        if not spec.state_fields:
            hint = "; use get_attr" if self._mail is not None else ""
            raise ConfigError(f"peek: {self._rows.name} has no readable state{hint}")
        worker, half = self._turns.lane_of(env, "peek")
        self._turns.command_one(worker, half, lib.PV_PEEK, env, 1)
        row = np.frombuffer(self._rows.transfer(worker), self._rows.state_dtype, 1)[0]
        return {field.name: np.array(row[field.name]) for field in spec.state_fields}

    def save(self) -> list[bytes]:
        self._require_saveable("save")
        saved: list[bytes] = []
        size, tasks = self._env_bytes, self._rows.tasks
        for worker, half, first, count in self._transfers("save"):
            self._turns.command_one(worker, half, lib.PV_SAVE, first, count)
            region = self._rows.transfer(worker)
            for i in range(count):
                saved.append(tasks[first + i].tobytes() + bytes(region[i * size : (i + 1) * size]))
        return saved

    def load(self, states: Sequence[bytes]) -> None:
        turns, rows, size = self._turns, self._rows, self._env_bytes
        self._require_saveable("load")
        if len(states) != rows.num_envs:
            raise ConfigError(f"load: {len(states)} states for {rows.num_envs} envs: give one per env")
        wrong = {len(state) for state in states} - {size + 8}
        if wrong:
            found = wrong.pop()
            raise ConfigError(f"load: a state has {found} bytes, this env's have {size + 8}: it was saved with other settings")
        rows.require_tasks("load", np.array([np.frombuffer(state, np.int64, 1)[0] for state in states]))
        transfers = self._transfers("load")
        try:
            for worker, half, first, count in transfers:
                region = rows.transfer(worker)
                for i in range(count):
                    rows.tasks[first + i] = np.frombuffer(states[first + i], np.int64, 1)[0]
                    region[i * size : (i + 1) * size] = states[first + i][8:]
                turns.command_one(worker, half, lib.PV_LOAD, first, count)
            turns.held.clear()
            turns.recv_half = turns.send_half = 0
            self._resets.seeded = True
            turns.state = [READY] * turns.num_buffers
        except BaseException:
            turns.mark_interrupted()
            raise

    def _require_saveable(self, verb: str) -> None:
        self._turns.require_open()
        if not self._rows.spec.save_bytes:
            raise ConfigError(f"{verb}: the state of {self._rows.name} cannot be saved: it is not a flat piece of memory")

    def _transfers(self, verb: str) -> list[tuple[int, int, int, int]]:
        """Return (worker, half, first env, count) in env order, cut so that each fits the transfer region."""
        for half, state in enumerate(self._turns.state):
            if verb != "load" or state is PENDING:  # a vec env that was never reset may be loaded into
                self._turns.require_rows(half, verb)
        cut, most = [], self._turns.slab.transfer_envs
        for worker, half in self._rows.lanes(range(self._turns.num_buffers)):
            envs = self._rows.span(worker, half)
            cut += [(worker, half, first, min(most, envs.stop - first)) for first in range(envs.start, envs.stop, most)]
        return cut

    # ---- calls of Python envs -------------------------------------------------------------------------------------------

    def ask(self, verb: str, name: str, args: list[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """Ask every env and return the answers in env order. verb: "call", "get", "set" or another that envs' blocks know;
        args: one entry per env."""
        turns = self._turns
        turns.require_open()
        if self._mail is None:
            raise ConfigError(
                f"{verb} {name!r}: {self._rows.name} is a C env and has no Python attributes; see peek and counters"
            )
        for half, state in enumerate(turns.state):
            if state is PENDING:
                turns.require_rows(half, f"{verb} {name!r}")
        return self._ask_halves(range(turns.num_buffers), verb, name, args, kwargs)

    def notify(self, half: int) -> None:
        """Notify the envs of a half, which must not be under way."""
        self._turns.notes.discard(half)
        self._ask_halves([half], "call", "notify", [()] * self._rows.num_envs, {})

    def _ask_halves(
        self, halves: Sequence[int], verb: str, name: str, args: list[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        turns, mail, lanes = self._turns, self._mail, self._rows.lanes(halves)
        assert mail is not None
        spans = [self._rows.span(worker, half) for worker, half in lanes]
        shares = [args[span.start] if verb == "call" else args[span.start : span.stop] for span in spans]
        questions = {lane: (verb, name, share, kwargs) for lane, share in zip(lanes, shares, strict=True)}
        encoded = mail.encoded(questions, f"{verb} {name!r}")
        try:
            mail.post(encoded)
            for worker, half in lanes:
                lib.pv_turn_send_one(turns.slab, worker, half, lib.PV_CALL, 0, 0, turns.waiter)
            for half in halves:
                turns.workers.sent(half)
            failed = [worker for worker, half in lanes if turns.await_flags(worker, half) & lib.PV_TURN_FAILED]
        except BaseException:
            turns.mark_interrupted()
            raise
        if failed:
            turns.raise_of_call(failed)
        return tuple(answer for lane in lanes for answer in mail.answer(*lane))
