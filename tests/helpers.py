# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Helpers of the tests: action tables, what a vec env showed as hashes, polling with a deadline."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

import puffervec
from puffervec._ffi import ffi
from puffervec.vec.backends import Serial
from puffervec.vec.vector_env import VectorEnv
from puffervec.vec.workers import InProcess

# Rows as the worker writes them, in the order of slab.h.
WRITTEN = (
    "observations",
    "rewards",
    "terminals",
    "truncations",
    "masks",
    "agent_types",
    "action_masks",
)
# How much longer things may take than usual: in builds with sanitizers (scripts/sanitize.py), on
# slow machines.
TIME_SCALE = float(os.environ.get("PV_TIME_SCALE", "1"))
POLL_S = 60.0 * TIME_SCALE


class SomeWorkers(InProcess):
    """Any number of workers in this process."""

    several = True


class ManyInOne(Serial):
    """Serial with any number of workers, so that the share of each can be looked at without
    processes.

    serving: whether commands run when they are sent; else they stay pending until a test serves
    them (`pv_worker_serve`).
    """

    kind = SomeWorkers

    @property
    def serving(self) -> bool:
        return bool(self.turns.waiter.own)

    @serving.setter
    def serving(self, serving: bool) -> None:
        assert isinstance(self.workers, SomeWorkers)
        self.turns.waiter.own = self.workers.opened if serving else ffi.NULL


def slow_but(quick: Iterable[Any], cases: Iterable[Any]) -> list[Any]:
    """Return `cases` for `pytest.mark.parametrize`: those of `quick` run in `make test`, the others
    are slow. A tuple is a case of several arguments.
    """
    chosen = list(quick)
    return [_case(case, case not in chosen) for case in cases]


def thinned(every: int, cases: Iterable[Any]) -> list[Any]:
    """Return `cases` for `pytest.mark.parametrize`: the first of each `every` runs in `make test`,
    the others are slow.
    """
    return [_case(case, number % every != 0) for number, case in enumerate(cases)]


def _case(case: Any, slow: bool) -> Any:
    return pytest.param(
        *(case if isinstance(case, tuple) else (case,)), marks=[pytest.mark.slow] if slow else []
    )


def eventually(condition: Callable[[], Any], what: str) -> Any:
    """Poll until `condition()` is true and return it; fail with `what` after a long time (not a
    measurement).
    """
    give_up = time.monotonic() + POLL_S
    while not (found := condition()):
        assert time.monotonic() < give_up, f"waited {POLL_S:g} s for: {what}"
        time.sleep(0.002)
    return found


def action_table(
    vec: VectorEnv, steps: int, seed: int = 7, invalid: float = 0.0
) -> dict[str, np.ndarray]:
    """Return {group: (steps, rows of all envs, D) int32 or float32} drawn from `seed`; a share of
    `invalid` is out of range or, of continuous ones, not finite.
    """
    rng = np.random.default_rng(seed)
    table = {}
    for group in vec.spec.groups:
        rows = vec.num_envs * group.agents
        if group.action_kind == "continuous":
            drawn = rng.uniform(
                group.action_low, group.action_high, (steps, rows, group.action_dims)
            ).astype(np.float32)
            if invalid:
                wild = rng.random(drawn.shape) < invalid
                drawn[wild] = rng.choice(
                    np.array([np.nan, np.inf, -np.inf], np.float32), int(wild.sum())
                )
        else:
            drawn = rng.integers(
                0, group.action_sizes, (steps, rows, group.action_dims), dtype=np.int32
            )
            wild = rng.random(drawn.shape) < invalid
            drawn[wild] = rng.choice(
                np.array([-1, 1000, -(2**31), 2**31 - 1], np.int32), int(wild.sum())
            )
        table[group.name] = drawn
    return table


def actions_of(vec: VectorEnv, table: dict[str, np.ndarray], step: int, half: int) -> Any:
    """Return what `send` wants for `half` at `step`: this half's rows of the table."""
    given = {}
    for group in vec.spec.groups:
        rows = vec.halves[half].groups[group.name].rows
        drawn = table[group.name][step % len(table[group.name]), half * rows : (half + 1) * rows]
        given[group.name] = drawn[:, 0] if group.action_kind == "discrete" else drawn
    return given if len(given) > 1 else next(iter(given.values()))


def raw_rows(
    vec: VectorEnv, half: int, array: str, group: str, part: slice | None = None
) -> np.ndarray:
    """Return the bytes of one array of one half as (rows, bytes per row), a view on the slab;
    `part` picks rows.
    """
    at = vec.halves[half]
    rows = at.groups[group]
    width = {
        "observations": rows.spec.observation_bytes,
        "rewards": 4,
        "action_masks": rows.spec.action_mask_size,
    }.get(array, 1)
    if array == "actions":
        width = rows.spec.action_bytes
    begin = at.offsets[group, array]
    return at.block[begin : begin + rows.rows * width].reshape(rows.rows, width)[
        part or slice(None)
    ]


class Recorder:
    """Hashes all that a vec env shows, so that runs with other backends, workers and halves can be
    compared.

    There is one hash per array and per half of the envs, also where the vec env itself has one
    buffer. `digests` has an entry for every `every` steps, so that a difference tells when it
    began.
    """

    def __init__(self, vec: VectorEnv, every: int = 100) -> None:
        self.vec, self.every = vec, every
        self.digests: list[dict[str, str]] = []
        self._pieces: list[list[tuple[Any, np.ndarray]]] = []
        self._hashes: dict[str, Any] = {}
        self._episodes: list[np.ndarray] = []
        self._seen = 0
        for half in range(vec.num_buffers):
            self._pieces.append(
                [piece for group in vec.spec.groups for piece in self._views(half, group)]
            )

    def _views(self, half: int, group: Any) -> Iterator[tuple[Any, np.ndarray]]:
        parts = 2 // self.vec.num_buffers if self.vec.num_envs % 2 == 0 else 1
        for array in WRITTEN:
            if (group.name, array) not in self.vec.halves[half].offsets:
                continue
            rows = raw_rows(self.vec, half, array, group.name)
            for part, view in enumerate(np.split(rows, parts)):
                name = f"{group.name}.{array} of part {half + part}"
                self._hashes[name] = hashlib.sha256()
                yield self._hashes[name], view

    def add(self, infos: dict[str, Any]) -> None:
        """Take in the half last received."""
        for digest, view in self._pieces[self.vec.half]:
            digest.update(view)
        if infos:
            self._episodes.append(infos.episodes)
        self._seen += 1
        if self._seen % (self.every * self.vec.num_buffers) == 0:
            self.digests.append({name: digest.hexdigest() for name, digest in self._hashes.items()})

    def result(self) -> dict[str, Any]:
        """Return digests, the episode records in an order that does not depend on the halves, and
        the counters.
        """
        found = np.concatenate(self._episodes) if self._episodes else np.zeros(0)
        episodes = sorted(record.tobytes() for record in found)
        return {
            "digests": self.digests,
            "episodes": hashlib.sha256(b"".join(episodes)).hexdigest(),
            "counters": self.vec.counters(),
        }


def run(
    vec: VectorEnv, steps: int, table: dict[str, np.ndarray], seed: Any = 0, every: int = 100
) -> dict[str, Any]:
    """Reset and step `vec` with the actions of `table`; return what it showed."""
    recorder = Recorder(vec, every)
    vec.async_reset(seed)
    for step in range(steps):
        for half in range(vec.num_buffers):
            recorder.add(vec.recv()[4])
            vec.send(actions_of(vec, table, step, half))
    for _ in range(vec.num_buffers):
        recorder.add(vec.recv()[4])
    return recorder.result()


def serial(env: str, kwargs: dict[str, Any] | None = None, **settings: Any) -> VectorEnv:
    """Make a vec env in this process."""
    return puffervec.make(env, env_kwargs=kwargs, backend="serial", **settings)
