# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Batches in the order in which they get ready, instead of round robin: PufferLib's sync_traj=False. Learner side.

    order "ready"        a batch is one half (whole workers, contiguous rows), whichever is done first; views, no copy
    order "first_come"   a batch is the workers that are done first, side by side in the order of their envs; copies

Which envs a batch holds is told by its agent_ids (and `vec.env_ids`): the order of results differs from run to run, the results
of each env do not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from puffervec._ffi import lib
from puffervec.core import actions as action_border
from puffervec.core.infos import NO_INFOS
from puffervec.errors import ActionError, CallOrderError
from puffervec.host.patience import Patience
from puffervec.states import HELD, PENDING, READY

if TYPE_CHECKING:
    from puffervec.vec.vector_env import VectorEnv


def recv(vec: VectorEnv, timeout_s: float | None) -> Any:
    """Wait for the next batch of a vector env and return its rows, as `VectorEnv.recv`."""
    vec._require_open()
    waiting = [half for half, state in enumerate(vec._state) if state in (PENDING, READY)]
    if len(waiting) < vec.settings.batch_halves:
        expected = "send" if HELD in vec._state else "async_reset"
        raise CallOrderError(
            f"recv: {len(waiting)} halves are under way, a batch has {vec.settings.batch_halves}: call {expected} first"
        )
    batch, flags, following = _wait_ready(vec, timeout_s)
    parts = [vec._results[half] for half in batch]
    obs, rewards, terminals, truncations, ids, masks = (
        joined([part[i] for part in parts], vec.settings.copy) for i in range(len(parts[0]))
    )
    infos = vec._infos(batch) if flags else NO_INFOS
    state = [HELD if half in batch else state for half, state in enumerate(vec._state)]
    held = deque([*vec._held, batch])
    try:  # only now, and without a call in between: see vector_env.py
        vec._state, vec._held, vec._last_batch, vec.half, vec._recv_half = state, held, batch, batch[0], following
        return obs, rewards, terminals, truncations, infos, ids, masks
    except BaseException:
        vec._state = vec._interrupted
        raise


def _wait_ready(vec: VectorEnv, timeout_s: float | None) -> tuple[list[int], int, int]:
    """Wait until enough halves are done. Returns them in env order, the flags of their turns, and where to look next."""
    flags, first, size = 0, vec._recv_half, vec.settings.batch_halves
    ready = [half for half, state in enumerate(vec._state) if state is READY][:size]  # nothing to wait for, nothing reported
    while len(ready) < size:
        half = _wait_any(vec, bytes(s is PENDING and h not in ready for h, s in enumerate(vec._state)), first, timeout_s)
        flags |= lib.pv_turn_flags(vec._slab, half)
        if flags & lib.PV_TURN_FAILED:
            vec._raise_failure(half)
        ready.append(half)
        first = (half + 1) % vec.num_buffers  # so that nobody waits for ever behind faster ones
    return sorted(ready), flags, first


def _wait_any(vec: VectorEnv, pending: bytes, first: int, timeout_s: float | None) -> int:
    """Return a half whose turn is done."""
    patience, resume = Patience(), 0
    while True:
        half = lib.pv_turn_recv_any(vec._slab, pending, first, vec._waiter, lib.PV_SLICE_NS, resume)
        if half >= 0:
            return int(half)
        resume = 1
        waiting = [worker for h in range(vec.num_buffers) if pending[h] for worker in vec._workers[h]]
        vec._look_around(waiting, waiting[0], patience, timeout_s)


def send(vec: VectorEnv, actions: Any) -> None:
    """Hand over the actions of the batch received longest ago, as `VectorEnv.send`."""
    vec._require_open()
    if not vec._held:
        raise CallOrderError("send: no batch is received: call recv first")
    batch = vec._held[0]
    if vec.autoreset_mode == "disabled":
        for half in batch:
            vec._refuse_done(half)
    if len(batch) == 1 or actions is None:
        pieces = [actions] * len(batch)
    else:
        pieces = _split(vec, actions, len(batch))
    if vec.settings.strict:  # all or nothing
        for half, piece in zip(batch, pieces, strict=True):
            action_border.check(vec._slab, vec.spec, vec.halves[half], half, piece, strict=True)
    try:
        for half, piece in zip(batch, pieces, strict=True):
            vec._step_half(half, piece)  # the first refuses before anything is sent; the pieces are alike
        vec._held.popleft()
    except BaseException:
        if vec._state[batch[0]] is not HELD:  # some of it was sent
            vec._break_off()
        raise


def release(vec: VectorEnv, halves: Sequence[int]) -> None:
    """Take halves that were sent a reset out of the batches that are held. The rest of such a batch is handed out again."""
    for batch in [batch for batch in vec._held if not set(batch).isdisjoint(halves)]:
        vec._held.remove(batch)
        for half in batch:
            if vec._state[half] is HELD:
                vec._state[half] = READY
                vec._forget_reports(half)
                for rows in vec.halves[half].groups.values():
                    rows.rewards[:] = 0.0  # they were handed out before


def _split(vec: VectorEnv, actions: Any, count: int) -> list[Any]:
    """Cut a batch of actions into equal pieces, one per half. Raises ActionError where that is not possible."""
    if isinstance(actions, Mapping):
        cut = {name: _split(vec, part, count) for name, part in actions.items()}
        return [{name: parts[i] for name, parts in cut.items()} for i in range(count)]
    try:
        array = np.asarray(actions)
    except (ValueError, TypeError) as error:
        raise ActionError(f"actions are no array ({error}): give one per row of the batch") from None
    if array.ndim == 0 or len(array) % count or (vec._single and len(array) != vec.agents_per_batch):
        raise ActionError(f"actions have shape {array.shape}: give one per row of the batch, {vec.agents_per_batch} in all")
    return np.split(array, count)


def joined(parts: Sequence[Any], copy: bool = False) -> Any:
    """Return the rows of several halves side by side; those of a single half as they are, unless `copy`."""
    if isinstance(parts[0], Mapping):
        return {name: joined([part[name] for part in parts], copy) for name in parts[0]}
    if len(parts) == 1:
        return parts[0].copy() if copy and parts[0] is not None else parts[0]
    return np.concatenate(parts)
