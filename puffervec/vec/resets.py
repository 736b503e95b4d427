# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Resets: which envs begin anew, with which seeds, options and tasks. Learner side."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from puffervec._ffi import lib
from puffervec.errors import ConfigError
from puffervec.vec import delivery
from puffervec.vec.rows import Lane
from puffervec.vec.settings import env_seeds, first_seeds
from puffervec.vec.turns import INTERRUPTED, PENDING, Turns


class Resets:
    """Starts resets. seeded: envs have had seeds."""

    def __init__(self, turns: Turns) -> None:
        self._turns, self._rows, self._mail = turns, turns.rows, turns.mail
        self.seeded = False
        self._optioned: set[int] = set()  # halves for which options of a reset may still stand in a mailbox

    def start(self, seed: int | Sequence[int | None] | None, mask: Any, options: Mapping[str, Any] | None) -> None:
        """Start a reset; see `VectorEnv.async_reset`."""
        turns = self._turns
        turns.require_open(or_interrupted=mask is None)
        chosen = None if mask is None else self._check_mask(mask)
        seeds, which = self._choose_seeds(seed, chosen)
        if options is not None and self._mail is None:
            self._take_task(options, chosen)
        halves = [h for h, views in enumerate(self._rows.halves) if which is None or which[views.env_ids].any()]
        questions = self._questions(options, halves)
        try:
            if turns.state[0] is INTERRUPTED:
                turns.recover()
            elif chosen is None:
                turns.drain()
            if self._mail is not None:
                self._mail.post(questions)
            self._publish(halves, seeds, which)
            self._optioned = self._optioned.difference(halves) if options is None else self._optioned.union(halves)
        except BaseException:
            turns.mark_interrupted()
            raise

    def _check_mask(self, mask: Any) -> np.ndarray:
        """Return the envs to reset as (num_envs,) bool; they must not be under way."""
        array, envs = np.asarray(mask), self._rows.num_envs
        if array.dtype != np.bool_ or array.shape != (envs,):
            raise ConfigError(f"mask has dtype {array.dtype} and shape {array.shape}: give ({envs},) bool, one per env")
        if not array.any():
            raise ConfigError("mask has no True: name at least one env to reset, or send actions")
        for half, views in enumerate(self._rows.halves):
            if array[views.env_ids].any():
                self._turns.require_rows(half, "reset with a mask")
        return array

    def _choose_seeds(self, seed: Any, mask: np.ndarray | None) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return (seeds or None, reset masks or None): what each env is to do, in the terms of csrc/channel.h."""
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

    def _questions(self, options: Mapping[str, Any] | None, halves: Sequence[int]) -> dict[Lane, Any]:
        """Return what to post to each lane: options, or None where something may still stand that no env has taken."""
        left = self._turns.state[0] is INTERRUPTED or not self._optioned.isdisjoint(halves)
        if self._mail is None or (options is None and not left):
            return {}
        return self._mail.encoded(dict.fromkeys(self._rows.lanes(halves), options), "options")

    def _take_task(self, options: Mapping[str, Any], mask: np.ndarray | None) -> None:
        if not isinstance(options, Mapping) or set(options) - {"task"}:
            raise ConfigError(f"options are {options!r}: {self._rows.name!r} takes None or {{'task': number}}")
        if options:
            envs = np.arange(self._rows.num_envs) if mask is None else np.flatnonzero(mask)
            self._rows.put_tasks(envs, options["task"])

    def _publish(self, halves: Sequence[int], seeds: np.ndarray | None, which: np.ndarray | None) -> None:
        """Publish the turn of a reset. seeds, which: as `_choose_seeds` returns them."""
        turns, rows = self._turns, self._rows
        if seeds is not None:
            rows.seeds[:] = seeds if which is None else np.where(which == lib.PV_RESET_SEEDED, seeds, rows.seeds)
        for half in halves:
            if which is not None:  # not those of other halves: their workers may not have looked yet
                rows.reset_masks[rows.halves[half].env_ids] = which[rows.halves[half].env_ids]
            turns.forget_reports(half)  # a worker without an env to reset would not
            turns.state[half] = PENDING
            lib.pv_turn_send(turns.slab, half, lib.PV_RESET, seeds is not None, which is not None, turns.waiter)
            turns.workers.sent(half)
        turns.recv_half = turns.send_half = halves[0]
        delivery.release(turns, halves)
        self.seeded = self.seeded or seeds is not None
