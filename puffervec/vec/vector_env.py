# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The vector env as the learner sees it: stop 5 of an observation's path from env to policy.

The backends (backends.py) differ in what runs the envs: this process, threads or processes.

    async_reset -> recv -> send -> recv -> ...            one buffer
    async_reset -> recv A -> send A -> recv B -> send B   two buffers, strictly A B A B:
                                                          B simulates while A's policy runs

`recv` and `send` are one C call each (csrc/python/fast_turn.h). The parts: the shared memory
(rows.py), turns and their failures (turns.py), messages of Python envs that do not fit their rows
(mail.py), batches in the order in which they become ready (delivery.py), and resets and calls
outside of the loop (control.py).
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np

from puffervec._ffi import lib
from puffervec.contract import native
from puffervec.core import actions as action_border
from puffervec.core.infos import Infos
from puffervec.errors import CallOrderError, ConfigError, WorkerError
from puffervec.vec import delivery
from puffervec.vec.control import Control, Resets
from puffervec.vec.rows import AGENT_IDS, Rows
from puffervec.vec.settings import VectorSettings
from puffervec.vec.turns import (
    CLOSED,
    FORKED,
    HELD,
    PENDING,
    REPORTS,
    SLICE_NS,
    Turns,
    slice_of,
)
from puffervec.vec.workers import Workers
from puffervec.workers.process import failures

if TYPE_CHECKING:
    import gymnasium

    from puffervec.workers.python.env import PythonEnv

_alive: weakref.WeakSet[VectorEnv] = weakref.WeakSet()


def _disown_all() -> None:
    for vec in list(_alive):
        vec._disown()


os.register_at_fork(after_in_child=_disown_all)


class VectorEnv:
    """A set of envs that are stepped together. `puffervec.make` makes one.

    Attributes:
        num_envs: number of envs, as in `make`.
        num_workers: number of workers.
        num_buffers: number of halves; a half is the part of the envs that belongs to one buffer.
        split: as in `make`, with "auto" resolved: "workers" or "envs".
        num_agents: number of rows of all envs.
        agents_per_batch: number of rows of one batch.
        spec: the env's description of its rows.
        config: the settings of a C env.
        env: the env type.
        autoreset_mode: as in `make`.
        halves: views on each half's rows.
        half: index of the half last received.
        driver_env: a Python env that was made here to read its spaces; this object for C envs.
        emulated: False for C envs; else a dict with the dtypes of native rows, as in PufferLib.
        agent_ids: ids of the rows of the half last received (dict by group if there are several).
        rows: internal part: the shared memory.
        turns: internal part: turns and their failures.
        workers: internal part: what runs the envs.
    """

    kind: type[Workers] = Workers  # what runs the envs; each backend sets its own

    def __init__(
        self, env: native.NativeEnv | PythonEnv, config: Any, settings: VectorSettings
    ) -> None:
        self.env, self.config, self.settings = env, config, settings
        self.num_envs, self.num_workers = settings.num_envs, settings.num_workers
        self.num_buffers, self.split = settings.num_buffers, settings.split
        self.autoreset_mode = settings.autoreset
        self.rows = Rows(env, config, settings, self.kind.memory_kind)
        self.spec, self.halves = self.rows.spec, self.rows.halves
        self.num_groups = len(self.spec.groups)
        self.workers = self.kind(env, settings, self.rows)
        self.turns = Turns(self.rows, self.workers.mail, settings, self.workers)
        self.num_agents, self.agents_per_batch = (
            self.num_envs * self.spec.agents,
            self.turns.agents_per_batch,
        )
        self._resets = Resets(self.turns)
        self._control = Control(self.turns, self._resets)
        self._native = (
            self.workers.mail
            if not isinstance(env, native.NativeEnv) and env.takes_native
            else None
        )
        self.workers.start(self.turns)
        _alive.add(self)

    def _disown(self) -> None:
        """Leave everything to the parent; called in a forked child."""
        self.turns.state = [FORKED] * self.num_buffers
        self.workers.disown()

    # ---- spaces (one object each, so that sampling and seeding continue) -------------------------

    @cached_property
    def single_observation_space(self) -> gymnasium.Space[Any]:
        """Space of one row; a Dict by group if there are several groups."""
        return self._by_group([group.observation_space for group in self.spec.groups])

    @cached_property
    def single_action_space(self) -> gymnasium.Space[Any]:
        """Space of one row's action; a Dict by group if there are several groups."""
        return self._by_group([group.action_space for group in self.spec.groups])

    @cached_property
    def observation_space(self) -> gymnasium.Space[Any]:
        """Space of the rows of one batch."""
        return self._by_group(
            [_batched(g.observation_space, self._rows(i)) for i, g in enumerate(self.spec.groups)]
        )

    @cached_property
    def action_space(self) -> gymnasium.Space[Any]:
        """Space of the actions of one batch."""
        return self._by_group(
            [_batched(g.action_space, self._rows(i)) for i, g in enumerate(self.spec.groups)]
        )

    def _rows(self, group: int) -> int:
        return int(
            self.halves[0].groups[self.spec.groups[group].name].rows * self.settings.batch_halves
        )

    def _by_group(self, found: list[gymnasium.Space[Any]]) -> gymnasium.Space[Any]:
        from gymnasium import spaces

        return (
            found[0]
            if self.rows.single
            else spaces.Dict(dict(zip([g.name for g in self.spec.groups], found, strict=True)))
        )

    @property
    def driver_env(self) -> Any:
        """The Python env that was made to read its spaces; this object for C envs."""
        return self if isinstance(self.env, native.NativeEnv) else self.env.driver

    @property
    def emulated(self) -> Any:
        """The dtypes of a native row, or False for C envs.

        The dict is {"observation_dtype": ..., "emulated_observation_dtype": ...}.
        """
        plan = self.spec.groups[0].observation_plan
        return (
            {"observation_dtype": plan.row_dtype, "emulated_observation_dtype": plan.dtype}
            if plan is not None
            else False
        )

    # ---- the batch last received -----------------------------------------------------------------

    @property
    def half(self) -> int:
        """Index of the half last received."""
        return self.turns.half

    @property
    def agent_ids(self) -> Any:
        """Ids of the rows of the batch last received, (rows,) int64.

        A dict by group if there are several groups.
        """
        return delivery.joined([self.rows.results[half][AGENT_IDS] for half in self.turns.batch])

    @property
    def env_ids(self) -> np.ndarray:
        """Indices of the envs of the batch last received, (envs,) int64."""
        return np.concatenate([self.halves[half].env_ids for half in self.turns.batch])

    @property
    def final_observations(self) -> Any:
        """The last observations of rows that are done in the batch last received.

        They have the layout of the observations; None unless the autoreset mode is "same_step".
        Views on shared memory as in `recv` (copies where `recv` copies).
        """
        found = [
            self.rows.by_group(self.halves[half], "final_observations") for half in self.turns.batch
        ]
        return (
            None
            if self.autoreset_mode != "same_step"
            else delivery.joined(found, self.settings.copy)
        )

    # ---- the loop --------------------------------------------------------------------------------

    def async_reset(
        self,
        seed: int | Sequence[int | None] | None = None,
        *,
        mask: Any = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Start a reset; `recv` each half afterwards.

        Turns that are under way are awaited first, and their results are dropped.

        Args:
            seed: env i gets seed + i, or the i-th entry of a sequence (None: no seed for that env).
                None: at the first reset the seed of `make` (or a random one); later the envs keep
                their seeds and begin their next episode.
            mask: (num_envs,) bool: only these envs are reset; the others stay unchanged, and only
                halves with a reset env must be received again (in first-come order: all halves of a
                batch that contains such an env; rewards that were delivered before are then 0).
            options: options for the reset of Python envs, the same for each. C envs accept {"task":
                n}: see `set_tasks`.

        Raises:
            ConfigError: an unusable seed, mask or option.
            CallOrderError: the mask includes envs with a turn under way.
            ClosedError: the vector env is closed.
            WorkerError: an env failed; also its subclasses WorkerDied and WorkerTimeout.
        """
        self._resets.start(seed, mask, options)

    def recv(self, timeout_s: float | None = None) -> tuple[Any, Any, Any, Any, Infos, Any, Any]:
        """Wait for the next batch and return its rows.

        The arrays are views on shared memory, valid until the next `send` of this half (copy=True:
        copies).

        Args:
            timeout_s: raise WorkerTimeout after this long, but leave the turn under way: a later
                `recv` continues to wait for it. None: wait up to the vector env's own `timeout_s`,
                after which the vector env is unusable.

        Returns:
            (observations, rewards, terminals, truncations, infos, agent_ids, masks): observations
            (rows, F), rewards (rows,) float32, the flags (rows,) bool; dicts by group if there are
            several groups. infos: see `puffervec.core.infos.Infos`; falsy if nothing was reported.

        Raises:
            CallOrderError: no turn was sent.
            ClosedError: the vector env is closed.
            WorkerError: an env failed; also its subclasses WorkerDied and WorkerTimeout.
        """
        turns = self.turns
        if not turns.strict_order:
            return delivery.recv(turns, timeout_s)  # type: ignore[no-any-return]
        half, flags = turns.recv_half, 0
        if turns.state[half] is PENDING:
            slice_ns = SLICE_NS if timeout_s is None else slice_of(timeout_s)
            flags = turns.fast.recv(half, slice_ns)
        else:
            turns.require_loaded(half)
        rows = turns.results[half]
        if flags:
            if flags < 0:
                flags = turns.wait_on(half, flags, timeout_s)
            turns.heed(half, flags)
            if flags & REPORTS:
                rows = (*rows[:4], turns.infos([half]), *rows[5:])
        if self.settings.copy:
            rows = _copied(rows)
        try:  # last, and without a call in between: see turns.py
            turns.state[half] = HELD
            turns.half = half
            turns.recv_half = turns.following[half]
            return rows
        except BaseException:
            turns.state = turns.interrupted
            raise

    def send(self, actions: Any) -> None:
        """Send the actions of the batch received longest ago and let its workers step.

        Args:
            actions: (rows,) for discrete, (rows, D) for several choices or continuous; any integer
                dtype or a list for discrete kinds; a dict if there are several groups; None:
                the actions are already in `halves[h].groups[...].actions`. Values out of range or
                not finite become the no-op (0) and are counted in `counters()["invalid_actions"]`;
                Python envs get them unchanged, floats in their original precision; for Python envs
                a `puffervec.core.actions.Native` is allowed too.

        Raises:
            ActionError: wrong count, shape or kind; with strict=True also a value out of range.
                Nothing was sent.
            CallOrderError: no batch was received; or, without autoreset, an env is done.
            ClosedError: the vector env is closed.
        """
        turns = self.turns
        if turns.direct:
            half = turns.send_half
            try:
                done: None = turns.fast.send(turns, half, actions)
                if done is not NotImplemented:
                    return done
            except BaseException:
                # A repeated `send` would go to the next half; with a single half, `recv` is next.
                if turns.num_buffers > 1 and turns.state[half] is PENDING:
                    turns.mark_interrupted()
                raise
        self._send_checked(actions)

    def _send_checked(self, actions: Any) -> None:
        """Send actions like `send` does, with all checks and conversions."""
        turns = self.turns
        if not turns.strict_order:
            return delivery.send(turns, actions, self._step_half)
        half = turns.send_half
        if turns.state[half] is not HELD:
            turns.refuse_send(half)
        if self.autoreset_mode == "disabled":
            turns.refuse_over(half)
        self._step_half(half, actions)

    def _step_half(self, half: int, actions: Any) -> None:
        """Convert and write the actions of a half in the state HELD, and publish its turn."""
        turns = self.turns
        if half in turns.notes:
            self._control.notify(half)
        strict, replaced = self.settings.strict, 0
        beside = (
            self._native.native(half, actions, strict)
            if self._native is not None and actions is not None
            else None
        )
        if beside is None:
            replaced = action_border.write(
                turns.slab, self.spec, self.halves[half], half, actions, strict
            )
        try:
            turns.state[half] = PENDING
            turns.send_half = turns.following[half]
            if beside is not None and self._native is not None:
                self._native.post_native(half, beside)
            turns.waiter.replaced += replaced
            lib.pv_turn_send(turns.slab, half, lib.PV_STEP, 0, 0, turns.waiter)
        except BaseException:  # a second `send` would go to the next half
            turns.state = turns.interrupted
            raise

    def reset(
        self,
        seed: int | Sequence[int | None] | None = None,
        *,
        mask: Any = None,
        options: Mapping[str, Any] | None = None,
    ) -> tuple[Any, Infos]:
        """Reset all envs (or those of `mask`) and wait: `async_reset` and `recv` in one call.

        All envs must be in one batch (num_buffers=1).

        Returns:
            (observations, infos) as in `recv`.
        """
        if self.num_buffers != 1:
            self._refuse_batches("reset", "async_reset and recv")
        self.async_reset(seed, mask=mask, options=options)
        return self.recv()[0:5:4]

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Infos]:
        """Step all envs and wait: `send` and `recv` in one call.

        All envs must be in one batch (num_buffers=1).

        Returns:
            (observations, rewards, terminals, truncations, infos) as in `recv`.
        """
        if self.num_buffers != 1:
            self._refuse_batches("step", "send and recv")
        self.send(actions)
        return self.recv()[:5]

    def _refuse_batches(self, name: str, instead: str) -> NoReturn:
        raise CallOrderError(
            f"{name} needs num_buffers=1 (batch_size=num_envs), but num_buffers is "
            f"{self.num_buffers}: use {instead}"
        )

    # ---- outside the loop ------------------------------------------------------------------------

    def set_tasks(
        self, env_ids: Sequence[int] | np.ndarray, tasks: Sequence[int] | np.ndarray | int
    ) -> None:
        """Set the task (scene index, start layout) of each env, effective from its next reset.

        Tasks are 0 to `spec.tasks` - 1; with -1 the env draws its own. A reset in a turn that is
        under way may still use the previous task.

        Raises:
            ConfigError: an env or a task that does not exist, or Python envs, which have no tasks.
        """
        self.turns.require_open(or_interrupted=True)
        self.rows.put_tasks(env_ids, tasks)

    def counters(self) -> dict[str, int]:
        """Return the counters of the env type, summed over all envs, and `invalid_actions`.

        They are exact between `recv` and `send`.
        """
        return self._control.counters()

    def timing(self, half: int) -> np.ndarray:
        """Return the begin and end of the last turn of each worker of a half.

        Returns:
            (workers of the half, 2) int64, in ns of time.monotonic_ns.
        """
        return self._control.timing(half)

    def begin(self) -> None:
        """Use Python envs as they were made, without a reset: `send` comes next.

        Their observations are zero until the first step.

        Raises:
            CallOrderError: the envs were reset before, or their turns were interrupted.
            ClosedError: the vector env is closed.
            ConfigError: the envs are C envs.
        """
        self._control.begin()

    def exact_rewards(self) -> np.ndarray:
        """Return the rewards of the half last received as its Gymnasium envs returned them.

        `recv` returns them as float32.

        Returns:
            (envs,) float64, a copy.
        """
        return self._control.exact_rewards()

    def peek(self, env: int) -> dict[str, np.ndarray]:
        """Return a copy of the readable state of one env, by field name.

        Its half must have no turn under way.
        """
        return self._control.peek(env)

    def poke(self, env: int, state: Mapping[str, Any]) -> None:
        """Put one env into a state, the inverse of `peek`; the next step starts from there.

        Its half must have no turn under way. What `peek` returned can always be set. Seed, episode
        number, task and the return so far stay unchanged, unless they are part of the state. The
        env's rows, including arrays that `recv` returned as views, become those of the new state:
        observations, masks and action masks; rewards 0; terminals or truncations True if the state
        is the last one of an episode, so that the next step is a reset. An env whose episode had
        ended begins its next episode, unless the new state ends that one too.

        Args:
            env: index of the env.
            state: values by field name, of the shapes that `peek` returns; fields that are left out
                stay unchanged. Numbers may be of any dtype that holds them.

        Raises:
            ConfigError: an impossible name, shape, dtype or number; or the env type cannot set its
                state. The env is unchanged.
        """
        self._control.poke(env, state)

    def save(self) -> list[bytes]:
        """Return the state of every env with its task and rows, one flat bytes object each.

        No turn may be under way.
        """
        return self._control.save()

    def load(self, states: Sequence[bytes]) -> None:
        """Put every env into a saved state. The next call is `recv`, which returns the saved rows.

        Raises:
            ConfigError: a wrong number of states, or a state of a wrong size or with values that
                the env cannot have saved.
        """
        self._control.load(states)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every Python env and return the results in env order.

        An attribute that is not callable is read instead. Looks through Gymnasium wrappers. No turn
        may be under way. Results cross processes by pickle.

        Raises:
            ConfigError: a C env, which has no Python methods; or arguments that cannot be pickled.
            WorkerError: an env raised an exception. The others have answered, and all stay usable.
        """
        return self._control.ask("call", name, [args] * self.num_envs, kwargs)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of every Python env, in env order, like `call`."""
        return self._control.ask("get", name, [()] * self.num_envs, {})

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every Python env.

        Args:
            name: name of the attribute.
            values: a list or tuple with one value per env, or one value for all.

        Raises:
            ConfigError: a list of another length; otherwise as `call`.
        """
        if not isinstance(values, (list, tuple)):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise ConfigError(
                f"set_attr({name!r}): {len(values)} values for {self.num_envs} envs: give one per "
                "env, or one for all"
            )
        self._control.ask("set", name, list(values), {})

    def notify(self) -> None:
        """Call `notify` of every Python env that has it, now or before its next turn.

        It does nothing for C envs.
        """
        self.turns.require_open()
        if self.workers.mail is not None and hasattr(self.driver_env, "notify"):
            self.turns.notes = set(range(self.num_buffers))
            for half, state in enumerate(self.turns.state):
                if state is not PENDING:
                    self._control.notify(half)

    def failed(self) -> list[WorkerError]:
        """Return the errors that envs raised in the turn that failed last, one per worker.

        The list is empty if none has failed.
        """
        found = (failures.failed(self.turns.slab, worker) for worker in range(self.num_workers))
        return [error for error in found if error is not None]

    # ---- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """End the workers.

        It may be called in any state and any number of times; arrays that were returned stay
        readable. In a forked child it does nothing: the workers are the parent's.
        """
        if self.turns.state[0] in (CLOSED, FORKED):
            return
        self.turns.state = [CLOSED] * self.num_buffers
        if self.turns.crowd is not None:
            self.turns.crowd.close()
        self.workers.stop(self.turns)
        if self.workers.mail is not None:
            self.workers.mail.boxes = []  # their files are closed with them
        self.env.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        split = f", split={self.split!r}" if self.num_buffers > 1 else ""
        return (
            f"{type(self).__name__}({self.env.name!r}, num_envs={self.num_envs}, "
            f"num_workers={self.num_workers}, num_buffers={self.num_buffers}{split})"
        )


def _batched(space: gymnasium.Space[Any], rows: int) -> gymnasium.Space[Any]:
    from gymnasium.vector.utils import batch_space

    return batch_space(space, rows)


def _copied(result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(map(_copied, result))
    if isinstance(result, Mapping):
        return {key: _copied(value) for key, value in result.items()}
    return result if isinstance(result, Infos) else result.copy()
