# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The calls of a vector env outside its loop, on the learner's side.

Resets, saved states, timing, counters, and calls of Python envs.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from puffervec._ffi import lib
from puffervec.core.spec import check_state
from puffervec.errors import CallOrderError, ConfigError
from puffervec.vec import delivery
from puffervec.vec.rows import Lane
from puffervec.vec.settings import env_seeds, first_seeds
from puffervec.vec.turns import HELD, IDLE, INTERRUPTED, PENDING, READY, Turns


class Resets:
    """Starts resets: which envs begin a new episode, with which seeds, options and tasks.

    Attributes:
        seeded: whether the envs were seeded before.
    """

    def __init__(self, turns: Turns) -> None:
        self._turns, self._rows, self._mail = turns, turns.rows, turns.mail
        self.seeded = False
        # Halves whose mailboxes may still hold the options of a reset.
        self._optioned: set[int] = set()

    def start(
        self, seed: int | Sequence[int | None] | None, mask: Any, options: Mapping[str, Any] | None
    ) -> None:
        """Start a reset; see `VectorEnv.async_reset`."""
        turns = self._turns
        turns.require_open(or_interrupted=mask is None)
        chosen = None if mask is None else self._check_mask(mask)
        seeds, which = self._choose_seeds(seed, chosen)
        if options is not None and self._mail is None:
            self._take_task(options, chosen)
        halves = [
            h
            for h, views in enumerate(self._rows.halves)
            if which is None or which[views.env_ids].any()
        ]
        questions = self._questions(options, halves)
        try:
            if turns.state[0] is INTERRUPTED:
                turns.recover()
            elif chosen is None:
                turns.drain()
            if self._mail is not None:
                self._mail.post(questions)
            self._publish(halves, seeds, which)
            self._optioned = (
                self._optioned.difference(halves)
                if options is None
                else self._optioned.union(halves)
            )
        except BaseException:
            turns.mark_interrupted()
            raise

    def _check_mask(self, mask: Any) -> np.ndarray:
        """Return the envs to reset as (num_envs,) bool; raise if one has a turn under way."""
        array, envs = np.asarray(mask), self._rows.num_envs
        if array.dtype != np.bool_ or array.shape != (envs,):
            raise ConfigError(
                f"mask has dtype {array.dtype} and shape {array.shape}: give ({envs},) bool, one "
                "per env"
            )
        if not array.any():
            raise ConfigError("mask has no True: name at least one env to reset, or send actions")
        for half, views in enumerate(self._rows.halves):
            if array[views.env_ids].any():
                self._turns.require_rows(half, "reset with a mask")
        return array

    def _choose_seeds(
        self, seed: Any, mask: np.ndarray | None
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return (seeds or None, reset masks or None), as csrc/core/channel.h defines them."""
        envs = self._rows.num_envs
        if mask is None and not self.seeded:
            own = int.from_bytes(os.urandom(7), "little") if self._mail is None else None
            seed = first_seeds(seed, self._turns.settings.seed, own, num_envs=envs)
        seeds = None if seed is None else env_seeds(seed, envs)
        seeded = np.full(envs, seeds is not None)
        if seeds is not None and isinstance(seed, (list, tuple, np.ndarray)):
            seeded = np.array([entry is not None for entry in seed])
        if mask is None and (seeded.all() or not seeded.any()):
            return (seeds if seeded.all() else None), None
        which = np.where(seeded, lib.PV_RESET_SEEDED, lib.PV_RESET_KEEP).astype(np.uint8)
        return seeds, which if mask is None else np.where(mask, which, 0).astype(np.uint8)

    def _questions(
        self, options: Mapping[str, Any] | None, halves: Sequence[int]
    ) -> dict[Lane, Any]:
        """Return what to post to each lane: the options, or None to clear old ones.

        None is posted where options that no env has taken may still be in a mailbox.
        """
        left = self._turns.state[0] is INTERRUPTED or not self._optioned.isdisjoint(halves)
        if self._mail is None or (options is None and not left):
            return {}
        return self._mail.encoded(dict.fromkeys(self._rows.lanes(halves), options), "options")

    def _take_task(self, options: Mapping[str, Any], mask: np.ndarray | None) -> None:
        if not isinstance(options, Mapping) or set(options) - {"task"}:
            raise ConfigError(
                f"options are {options!r}: {self._rows.name!r} takes None or {{'task': number}}"
            )
        if options:
            envs = np.arange(self._rows.num_envs) if mask is None else np.flatnonzero(mask)
            self._rows.put_tasks(envs, options["task"])

    def _publish(
        self, halves: Sequence[int], seeds: np.ndarray | None, which: np.ndarray | None
    ) -> None:
        """Publish the turn of a reset; `seeds` and `which` are as `_choose_seeds` returns them."""
        turns, rows = self._turns, self._rows
        if seeds is not None:
            rows.seeds[:] = (
                seeds
                if which is None
                else np.where(which == lib.PV_RESET_SEEDED, seeds, rows.seeds)
            )
        for half in halves:
            # Other halves' masks stay: their workers may not have read them yet.
            if which is not None:
                rows.reset_masks[rows.halves[half].env_ids] = which[rows.halves[half].env_ids]
            turns.forget_reports(half)  # a worker without an env to reset would not clear them
            turns.state[half] = PENDING
            lib.pv_turn_send(
                turns.slab, half, lib.PV_RESET, seeds is not None, which is not None, turns.waiter
            )
        turns.recv_half = turns.send_half = halves[0]
        delivery.release(turns, halves)
        self.seeded = self.seeded or seeds is not None


class Control:
    """The calls of a vector env that are not part of its loop; `VectorEnv` documents them."""

    def __init__(self, turns: Turns, resets: Resets) -> None:
        self._turns, self._rows, self._mail, self._resets = turns, turns.rows, turns.mail, resets
        self._env_bytes = int(self._rows.spec.save_bytes + turns.slab.env_row_bytes)

    # ---- numbers ---------------------------------------------------------------------------------

    def counters(self) -> dict[str, int]:
        totals = self._rows.counters.sum(axis=(0, 1))
        named = {name: int(totals[i]) for i, name in enumerate(self._rows.spec.counter_names)}
        return {**named, "invalid_actions": int(self._turns.waiter.replaced)}

    def timing(self, half: int) -> np.ndarray:
        workers = self._rows.workers[half]
        times = np.empty((len(workers), 2), np.int64)
        for i, worker in enumerate(workers):
            line = lib.pv_status_line(self._turns.slab, worker, half)
            times[i] = line.begin_ns, line.end_ns
        return times

    def exact_rewards(self) -> np.ndarray:
        assert self._mail is not None
        return np.concatenate(
            [reader.area.rewards for _, reader in self._mail.readers[self._turns.half]]
        )

    # ---- states ----------------------------------------------------------------------------------

    def begin(self) -> None:
        turns = self._turns
        turns.require_open()
        if self._mail is None:
            raise ConfigError(
                f"begin: {self._rows.name} is a C env, whose episodes begin with a reset: call "
                "reset instead"
            )
        if any(state is not IDLE for state in turns.state):
            raise CallOrderError("begin: these envs were reset already: call recv, send or reset")
        for half in self._rows.halves:
            for rows in half.groups.values():
                rows.masks[:] = True
        turns.state = [HELD] * turns.num_buffers

    def peek(self, env: int) -> dict[str, np.ndarray]:
        *_, row = self._peek_row(env, "peek", "get_attr")
        return {field.name: np.array(row[field.name]) for field in self._rows.spec.state_fields}

    def poke(self, env: int, state: Mapping[str, Any]) -> None:
        name = self._rows.name
        worker, half, row = self._peek_row(env, "poke", "set_attr")
        for field, value in check_state(name, self._rows.spec.state_fields, state):
            row[field] = value
        refusal = self._turns.ask_one(worker, half, lib.PV_POKE, env, 1)
        if refusal is not None:
            raise ConfigError(f"poke: env {env} of {name} is unchanged, since {refusal}")

    def _peek_row(self, env: int, verb: str, instead: str) -> tuple[int, int, np.ndarray]:
        """Return an env's worker and half, and a view on its readable state.

        The view lies in the worker's transfer region.
        """
        if not self._rows.spec.state_fields:
            hint = f"; use {instead}" if self._mail is not None else ""
            raise ConfigError(f"{verb}: {self._rows.name} has no readable state{hint}")
        worker, half = self._turns.lane_of(env, verb)
        self._turns.command_one(worker, half, lib.PV_PEEK, env, 1)
        return (
            worker,
            half,
            np.frombuffer(self._rows.transfer(worker), self._rows.state_dtype, 1)[0],
        )

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
            raise ConfigError(
                f"load: {len(states)} states for {rows.num_envs} envs: give one per env"
            )
        wrong = {len(state) for state in states} - {size + 8}
        if wrong:
            found = wrong.pop()
            raise ConfigError(
                f"load: a state has {found} bytes, this env's have {size + 8}: it was saved with "
                "other settings"
            )
        self._require_sound(states)
        rows.require_tasks(
            "load", np.array([np.frombuffer(state, np.int64, 1)[0] for state in states])
        )
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

    def _require_sound(self, states: Sequence[bytes]) -> None:
        """Raise ConfigError if a saved row holds a value that its env cannot have written.

        Such values are NaN, infinity in a field with finite bounds, and flags other than 0 and 1,
        which Python would show as bools. All rows are checked, with and without an agent. Their
        layout is that of csrc/core/worker.c (move_env_rows).
        """
        for env, state in enumerate(states):
            at = np.dtype(np.int64).itemsize  # the task
            for group in self._rows.spec.groups:
                agents, finals = group.agents, self._turns.settings.autoreset == "same_step"
                observed = agents * group.observation_bytes
                rewards_at = at + observed
                flags_at = rewards_at + 4 * agents
                finals_at = flags_at + (4 + group.action_mask_size) * agents

                for start in (at, finals_at) if finals else (at,):
                    rows = np.frombuffer(state, group.row_dtype, agents, start)
                    for field in group.fields:
                        bounded = math.isfinite(field.low) and math.isfinite(field.high)
                        self._refuse_numbers(
                            env, f"{group.name}.{field.name}", rows[field.name], bounded
                        )
                self._refuse_numbers(
                    env,
                    f"{group.name}: rewards",
                    np.frombuffer(state, np.float32, agents, rewards_at),
                    True,
                )
                for number, name in enumerate(("terminals", "truncations", "masks")):
                    flags = np.frombuffer(state, np.uint8, agents, flags_at + number * agents)
                    self._refuse(env, f"{group.name}: {name}", flags, flags > 1)
                at = finals_at + observed * finals

    def _refuse_numbers(self, env: int, name: str, values: np.ndarray, bounded: bool) -> None:
        if values.dtype.kind == "f":
            self._refuse(env, name, values, ~np.isfinite(values) if bounded else np.isnan(values))

    def _refuse(self, env: int, name: str, values: np.ndarray, wrong: np.ndarray) -> None:
        if wrong.any():
            raise ConfigError(
                f"load: the saved state of env {env} has {values[wrong][0]} in {name}: it was "
                "damaged, or saved by an env that broke its own bounds; load another"
            )

    def _require_saveable(self, verb: str) -> None:
        self._turns.require_open()
        if not self._rows.spec.save_bytes:
            raise ConfigError(
                f"{verb}: the state of {self._rows.name} cannot be saved: it is not one flat "
                "block of memory"
            )

    def _transfers(self, verb: str) -> list[tuple[int, int, int, int]]:
        """Return chunks (worker, half, first env, count) that fit the transfer region, in order."""
        for half, state in enumerate(self._turns.state):
            # A vector env that was never reset may load states.
            if verb != "load" or state is PENDING:
                self._turns.require_rows(half, verb)
        cut, most = [], self._turns.slab.transfer_envs
        for worker, half in self._rows.lanes(range(self._turns.num_buffers)):
            envs = self._rows.span(worker, half)
            cut += [
                (worker, half, first, min(most, envs.stop - first))
                for first in range(envs.start, envs.stop, most)
            ]
        return cut

    # ---- calls of Python envs --------------------------------------------------------------------

    def ask(
        self, verb: str, name: str, args: list[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        """Ask every env and return the answers in env order.

        Args:
            verb: "call", "get", "set" or another verb that the envs' blocks know.
            name: name of the method or attribute.
            args: one entry per env.
            kwargs: keyword arguments, the same for all.
        """
        turns = self._turns
        turns.require_open()
        if self._mail is None:
            raise ConfigError(
                f"{verb} {name!r}: {self._rows.name} is a C env and has no Python attributes; see "
                "peek and counters"
            )
        for half, state in enumerate(turns.state):
            if state is PENDING:
                turns.require_rows(half, f"{verb} {name!r}")
        return self._ask_halves(range(turns.num_buffers), verb, name, args, kwargs)

    def notify(self, half: int) -> None:
        """Notify the envs of a half, which must have no turn under way."""
        self._turns.notes.discard(half)
        self._ask_halves([half], "call", "notify", [()] * self._rows.num_envs, {})

    def _ask_halves(
        self,
        halves: Sequence[int],
        verb: str,
        name: str,
        args: list[Any],
        kwargs: Mapping[str, Any],
    ) -> tuple[Any, ...]:
        turns, mail, lanes = self._turns, self._mail, self._rows.lanes(halves)
        assert mail is not None
        spans = [self._rows.span(worker, half) for worker, half in lanes]
        shares = [
            args[span.start] if verb == "call" else args[span.start : span.stop] for span in spans
        ]
        questions = {
            lane: (verb, name, share, kwargs) for lane, share in zip(lanes, shares, strict=True)
        }
        encoded = mail.encoded(questions, f"{verb} {name!r}")
        try:
            mail.post(encoded)
            for worker, half in lanes:
                lib.pv_turn_send_one(turns.slab, worker, half, lib.PV_CALL, 0, 0, turns.waiter)
            failed = [
                worker
                for worker, half in lanes
                if turns.await_flags(worker, half) & lib.PV_TURN_FAILED
            ]
        except BaseException:
            turns.mark_interrupted()
            raise
        if failed:
            turns.raise_of_call(failed)
        return tuple(answer for lane in lanes for answer in mail.answer(*lane))
