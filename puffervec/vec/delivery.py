# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Delivery of batches as they become ready (PufferLib's sync_traj=False), on the learner's side.

    order "ready"        a batch is one half (whole workers, contiguous rows), whichever is done
                         first; views, no copy
    order "first_come"   a batch is the workers that are done first, in the order of their envs;
                         copies

A batch's agent_ids (and `vec.env_ids`) say which envs it holds: the order of results differs from
run to run, the results of each env do not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from puffervec._ffi import lib
from puffervec.core import actions as action_border
from puffervec.core.infos import NO_INFOS
from puffervec.errors import ActionError, CallOrderError
from puffervec.system.patience import Patience
from puffervec.vec.turns import HELD, PENDING, READY, REPORTS

if TYPE_CHECKING:
    from puffervec.vec.turns import Turns


def recv(turns: Turns, timeout_s: float | None) -> Any:
    """Wait for the next batch of a vector env and return its rows, like `VectorEnv.recv`."""
    turns.require_open()
    waiting = [half for half, state in enumerate(turns.state) if state in (PENDING, READY)]
    if len(waiting) < turns.settings.batch_halves:
        expected = "send" if HELD in turns.state else "async_reset"
        raise CallOrderError(
            f"recv: {len(waiting)} halves are under way, a batch has "
            f"{turns.settings.batch_halves}: call {expected} first"
        )
    batch, flags, following = _wait_ready(turns, timeout_s)
    parts = [turns.rows.results[half] for half in batch]
    obs, rewards, terminals, truncations, ids, masks = (
        joined([part[i] for part in parts], turns.settings.copy) for i in range(len(parts[0]))
    )
    infos = turns.infos(batch) if flags & REPORTS else NO_INFOS
    state = [HELD if half in batch else state for half, state in enumerate(turns.state)]
    held = deque([*turns.held, batch])
    try:  # last, and without a call in between: see turns.py
        turns.state, turns.held, turns.last_batch, turns.half, turns.recv_half = (
            state,
            held,
            batch,
            batch[0],
            following,
        )
        return obs, rewards, terminals, truncations, infos, ids, masks
    except BaseException:
        turns.state = turns.interrupted
        raise


def _wait_ready(turns: Turns, timeout_s: float | None) -> tuple[list[int], int, int]:
    """Wait until enough halves are done.

    Returns:
        The halves in env order, the flags of their turns, and the half to check first next time.
    """
    flags, first, size = 0, turns.recv_half, turns.settings.batch_halves
    # Loaded halves need no wait and have reported nothing.
    ready = [half for half, state in enumerate(turns.state) if state is READY][:size]
    while len(ready) < size:
        half = _wait_any(
            turns,
            bytes(s is PENDING and h not in ready for h, s in enumerate(turns.state)),
            first,
            timeout_s,
        )
        flags |= lib.pv_turn_flags(turns.slab, half, turns.waiter)
        turns.heed(half, flags)
        ready.append(half)
        first = (half + 1) % turns.num_buffers  # so that slower halves get their turn too
    return sorted(ready), flags, first


def _wait_any(turns: Turns, pending: bytes, first: int, timeout_s: float | None) -> int:
    """Wait for any of the pending halves and return one whose turn is done."""
    patience, resume = Patience(), 0
    while True:
        half = lib.pv_turn_recv_any(
            turns.slab, pending, first, turns.waiter, lib.PV_SLICE_NS, resume
        )
        if half >= 0:
            return int(half)
        resume = 1
        waiting = [
            worker
            for h in range(turns.num_buffers)
            if pending[h]
            for worker in turns.rows.workers[h]
        ]
        turns.check_progress(waiting, waiting[0], patience, timeout_s)


def send(turns: Turns, actions: Any, step: Callable[[int, Any], None]) -> None:
    """Send the actions of the batch received longest ago, like `VectorEnv.send`.

    Args:
        turns: the turns of the vector env.
        actions: the actions of the batch.
        step: publishes the turn of a half whose actions `turns.fast` does not accept.
    """
    turns.require_open()
    if not turns.held:
        raise CallOrderError("send: no batch is received: call recv first")
    batch = turns.held[0]
    if turns.settings.autoreset == "disabled":
        for half in batch:
            turns.refuse_over(half)
    if len(batch) == 1 or actions is None:
        pieces = [actions] * len(batch)
    else:
        pieces = _split(turns, actions, len(batch))
    if turns.settings.strict:  # all or nothing
        for half, piece in zip(batch, pieces, strict=True):
            action_border.check(
                turns.slab, turns.rows.spec, turns.rows.halves[half], half, piece, strict=True
            )
    try:
        for half, piece in zip(batch, pieces, strict=True):
            # All pieces have the same form: if they are refused, the first one is, and nothing was
            # sent.
            if turns.fast.send(turns, half, piece) is NotImplemented:
                step(half, piece)
        turns.held.popleft()
    except BaseException:
        if turns.state[batch[0]] is not HELD:  # a part of the batch was sent
            turns.mark_interrupted()
        raise


def release(turns: Turns, halves: Sequence[int]) -> None:
    """Drop the held batches that contain any of `halves`, which are being reset.

    The other halves of such a batch are delivered again.
    """
    for batch in [batch for batch in turns.held if not set(batch).isdisjoint(halves)]:
        turns.held.remove(batch)
        for half in batch:
            if turns.state[half] is HELD:
                turns.state[half] = READY
                turns.forget_reports(half)
                for rows in turns.rows.halves[half].groups.values():
                    rows.rewards[:] = 0.0  # they were delivered before


def _split(turns: Turns, actions: Any, count: int) -> list[Any]:
    """Split a batch of actions into equal pieces, one per half.

    Raises:
        ActionError: the actions cannot be split.
    """
    if isinstance(actions, Mapping):
        cut = {name: _split(turns, part, count) for name, part in actions.items()}
        return [{name: parts[i] for name, parts in cut.items()} for i in range(count)]
    try:
        array = np.asarray(actions)
    except (ValueError, TypeError) as error:
        raise ActionError(
            f"actions are not an array ({error}): give one per row of the batch"
        ) from None
    rows = turns.agents_per_batch
    if array.ndim == 0 or len(array) % count or (turns.rows.single and len(array) != rows):
        raise ActionError(
            f"actions have shape {array.shape}: give one per row of the batch, {rows} in all"
        )
    return np.split(array, count)


def joined(parts: Sequence[Any], copy: bool = False) -> Any:
    """Concatenate the rows of several halves.

    The rows of a single half are returned as they are, unless `copy` is true.
    """
    if isinstance(parts[0], Mapping):
        return {name: joined([part[name] for part in parts], copy) for name in parts[0]}
    if len(parts) == 1:
        return parts[0].copy() if copy and parts[0] is not None else parts[0]
    return np.concatenate(parts)
