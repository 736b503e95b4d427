# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A look-alike of gymnasium.vector.AsyncVectorEnv: envs in worker processes, over the multiprocessing backend.

Two things differ from the original on purpose: a worker steps several envs (as many workers as usable cores, not one per env),
and nothing travels through pipes in `step`.
"""

from __future__ import annotations

import functools
import math
import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import logger, spaces
from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError
from gymnasium.vector import AutoresetMode

from puffervec.backends import Multiprocessing, make
from puffervec.cores import usable_cores
from puffervec.errors import ConfigError, WorkerError, WorkerTimeout
from puffervec.gym import arguments
from puffervec.gym.background import Background
from puffervec.gym.base import EnvFn, PythonVectorEnv, Seed, Step, raise_original
from puffervec.gym.beside import make_fitting

# What `close` grants a call that is still running, where it is given no timeout.
PENDING_CLOSE_S = 10.0
# Calls that would upset the vector env if they went to the sub-envs behind its back.
RESERVED = ("reset", "step", "close")


class AsyncVectorEnv(PythonVectorEnv):
    """Steps several envs in worker processes, which write into memory shared with this process.

    Each worker steps a share of the envs, so that 64 envs on 8 cores need 8 processes. Scripts need no main guard. After an env
    has raised, or a worker died, only `close` is left to call.

    Attributes:
        processes: the worker processes. See `PythonVectorEnv` for the others.
    """

    core: Multiprocessing

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        shared_memory: bool = True,
        copy: bool = True,
        context: str | None = None,
        daemon: bool = True,
        worker: Callable[..., None] | None = None,
        observation_mode: Any = "same",
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        max_concurrency: int | None = None,
        *,
        num_workers: int | str = "auto",
    ) -> None:
        """Start the workers and make the envs in them.

        Args:
            env_fns: functions that make one env each, with equal action spaces. They travel by cloudpickle.
            shared_memory: observations go through shared memory in any case; False lets those without a fixed size (Graph,
                Sequence, OneOf, own kinds of spaces) be pickled instead.
            copy: return copies of the observations; False: views, valid until the next call of `step` or `reset`.
            context: how processes are started: "spawn", "forkserver" or "fork". None: "spawn".
            daemon: accepted; workers always are daemonic: they end with this process and cannot use multiprocessing themselves.
            worker: None. A function that talks over pipes cannot be used here.
            observation_mode: "same": equal observation spaces; "different": spaces of one shape and dtype with other bounds; or
                a pair (batched space, single space) that is taken as it is.
            autoreset_mode: an AutoresetMode or its value: "NextStep", "SameStep", "Disabled".
            max_concurrency: how many envs may run at once: the most workers there will be.
            num_workers: number of worker processes; "auto": one per usable core, at most one per env.
        Raises:
            RuntimeError: spaces that do not fit together. ValueError: an argument that cannot be used. What an env's
            constructor raises is raised here, with a note.
        """
        super().__init__(env_fns, copy, observation_mode, autoreset_mode)
        self.shared_memory, self.context, self.daemon, self.worker = shared_memory, context, daemon, worker
        self.max_concurrency = _checked_concurrency(max_concurrency)
        if worker is not None:
            raise ConfigError(
                "worker= is a function that talks over pipes, and there are none here: put what it does into a "
                "gymnasium.Wrapper around each env, or use gymnasium.vector.AsyncVectorEnv"
            )
        self._pending: str | None = None
        self._late = ""
        self._probe()
        self._open(self._make_core(context or "spawn", _workers(num_workers, self.max_concurrency, self.num_envs)))
        try:
            self._check_spaces()
        except BaseException:
            self.core.close()
            raise

    def _probe(self) -> None:
        """Make envs here for a moment, to ask them for their spaces: the first, or all where each may have its own."""
        count = self.num_envs if self.observation_mode == "different" else 1
        envs = []
        try:
            for env_fn in self.env_fns[:count]:
                envs.append(env_fn())
            self._describe(envs[0], [env.observation_space for env in envs] * (self.num_envs // count))
        finally:
            for env in envs:
                env.close()
        if self._beside.observations and self.shared_memory and not isinstance(self.single_observation_space, spaces.Text):
            raise ValueError(
                f"observations of {self.single_observation_space} have no fixed size, so shared memory cannot hold them: give "
                "shared_memory=False, which pickles them and is slower"
            )

    def _make_core(self, start_method: str, num_workers: int) -> Any:
        env_fns = self.env_fns
        if self._beside:
            env_fns = [functools.partial(make_fitting, env_fn, self._beside) for env_fn in self.env_fns]
        try:
            return make(
                env_fns, backend="multiprocessing", num_envs=self.num_envs, num_workers=num_workers, seed=None,
                autoreset_mode=arguments.AUTORESET[self.autoreset_mode], timeout_s=math.inf, start_method=start_method,
            )  # fmt: skip
        except WorkerError as error:
            raise_original(error)

    def _check_spaces(self) -> None:
        name = type(self).__name__
        spaces = self.core.get_attr("observation_space")
        arguments.check_spaces(name, self.observation_mode, self.single_observation_space, spaces)
        arguments.check_action_spaces(self.core.get_attr("action_space"))

    # ---- what may be called when --------------------------------------------------------------------------------------

    def _begin(self, name: str, verb: str) -> None:
        """Raise unless the vector env is open and idle."""
        self._require_open()
        if self._pending is not None:
            raise AlreadyPendingCallError(
                f"Calling `{name}` while waiting for a pending call to `{self._pending}` to complete.", self._pending
            )
        if self._late and verb != "reset":
            raise AlreadyPendingCallError(
                f"Calling `{name}` after a call to `{self._late}` timed out: it may still be running in the workers, and its "
                "results are lost. Call `reset`, which waits for it, or `close`.",
                self._late,
            )

    def _end(self, verb: str) -> None:
        """Raise unless a call of that kind is under way."""
        self._require_open()
        if self._pending != verb:
            raise NoAsyncCallError(f"Calling `{verb}_wait` without any prior call to `{verb}_async`.", verb)

    def _require_open(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError(f"Trying to operate on `{type(self).__name__}`, after a call to `close()`.")

    def _wait(self, verb: str, timeout: float | None, receive: Callable[[float | None], Any]) -> Any:
        """Run `receive` and turn its errors into those of Gymnasium."""
        self._end(verb)
        self._pending = None
        try:
            return receive(timeout)
        except WorkerTimeout:
            self._late = verb
            raise multiprocessing.TimeoutError(f"The call to `{verb}_wait` has timed out after {timeout} second(s).") from None
        except WorkerError as error:
            raise_original(error)

    # ---- reset --------------------------------------------------------------------------------------------------------

    def reset(self, *, seed: Seed = None, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset all envs, or those in `options["reset_mask"]`, and wait. See `reset_async` and `reset_wait`."""
        self.reset_async(seed=seed, options=options)
        return self.reset_wait()

    def reset_async(self, seed: Seed = None, options: Mapping[str, Any] | None = None) -> None:
        """Start a reset of all envs, or of those in `options["reset_mask"]`; `reset_wait` returns its results.

        Args:
            seed: env i gets seed + i, or the i-th entry of a sequence (entries may be None); None: the envs go on drawing.
            options: handed to each env, without "reset_mask", (num_envs,) bool: the envs to reset; the others keep their state.
        Raises:
            ClosedEnvironmentError, AlreadyPendingCallError. ValueError, TypeError: seeds or a mask that cannot be used.
        """
        self._require_open()
        seeds = arguments.env_seeds(seed, self.num_envs)
        self._begin("reset_async", "reset")
        mask, rest = arguments.split_options(options, self.num_envs)
        if self._late and mask is not None:
            raise AlreadyPendingCallError(
                f"A call to `{self._late}` timed out, so all envs have to be reset: call `reset` without a reset_mask.",
                self._late,
            )
        try:
            if self._late == "call":
                self._called.finish()
            self._send_reset(seeds, mask, rest)
        except WorkerError as error:
            raise_original(error)
        self._pending, self._late = "reset", ""

    def reset_wait(self, timeout: float | None = None) -> tuple[Any, dict[str, Any]]:
        """Wait for the reset that was started and return (observations, infos).

        Args:
            timeout: seconds; None waits as long as the workers live.
        Raises:
            ClosedEnvironmentError, NoAsyncCallError. multiprocessing.TimeoutError: call `reset` or `close` next. What an env
            raises is raised here, with a note.
        """
        result: tuple[Any, dict[str, Any]] = self._wait("reset", timeout, self._recv_reset)
        return result

    # ---- step ---------------------------------------------------------------------------------------------------------

    def step(self, actions: Any) -> Step:
        """Step all envs and wait. See `step_async` and `step_wait`."""
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions: Any) -> None:
        """Hand over the actions and let the workers step; `step_wait` returns the results.

        Args:
            actions: an element of `action_space`, or a list with one action per env.
        Raises:
            ClosedEnvironmentError, AlreadyPendingCallError. ValueError, TypeError: actions that cannot be used. DoneEnvError:
            an env is done and autoreset is disabled.
        """
        self._begin("step_async", "step")
        self._send_step(actions)
        self._pending = "step"

    def step_wait(self, timeout: float | None = None) -> Step:
        """Wait for the step that was started.

        Args:
            timeout: seconds; None waits as long as the workers live.
        Returns:
            (observations, rewards (num_envs,) float64, terminations and truncations (num_envs,) bool, infos).
        Raises:
            ClosedEnvironmentError, NoAsyncCallError. multiprocessing.TimeoutError: call `reset` or `close` next. What an env
            raises is raised here, with a note.
        """
        result: Step = self._wait("step", timeout, self._recv_step)
        return result

    # ---- call, get_attr, set_attr -------------------------------------------------------------------------------------

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every sub-env, or read an attribute that is not callable. Returns one result per env (copies)."""
        self._begin_call(name)
        try:
            return self.core.call(name, *args, **kwargs)
        except WorkerError as error:
            raise_original(error)

    def call_async(self, name: str, /, *args: Any, **kwargs: Any) -> None:
        """Ask every sub-env for a method's result or an attribute; `call_wait` returns them.

        Raises:
            ClosedEnvironmentError, AlreadyPendingCallError. ValueError: a name that has a call of its own here.
        """
        self._begin_call(name)
        self._called = Background(functools.partial(self.core.call, name, *args, **kwargs))
        self._pending = "call"

    def _begin_call(self, name: str) -> None:
        self._begin("call_async", "call")
        if name in RESERVED:
            raise ValueError(f"Trying to call function `{name}` with `call`, use `{name}` directly instead.")

    def call_wait(self, timeout: float | None = None) -> tuple[Any, ...]:
        """Wait for the results of `call_async`, one per env.

        Args:
            timeout: seconds; None waits as long as the workers live.
        Raises:
            ClosedEnvironmentError, NoAsyncCallError. multiprocessing.TimeoutError: call `reset` or `close` next. What an env
            raises is raised here, with a note.
        """
        result: tuple[Any, ...] = self._wait("call", timeout, lambda timeout_s: self._called.result(timeout_s))
        return result

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every sub-env: a list or tuple has one value per env, anything else goes to all.

        Raises:
            ValueError: a list or tuple of another length. ClosedEnvironmentError, AlreadyPendingCallError.
        """
        self._require_open()
        given = self._one_each(values)
        self._begin("set_attr", "call")
        try:
            self.core.set_attr(name, given)
        except WorkerError as error:
            raise_original(error)

    # ---- the end ------------------------------------------------------------------------------------------------------

    @property
    def processes(self) -> list[Any]:
        """The worker processes; [] after `close`."""
        return list(self.core.processes)

    def __getattr__(self, name: str) -> Any:
        """Say why Gymnasium's pipes are missing."""
        if name in ("parent_pipes", "error_queue"):
            raise AttributeError(
                f"{type(self).__name__} has no {name}: workers share memory with this process instead of pipes"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        """End the workers, which close their envs.

        A call that is under way is waited for: `timeout` seconds, or 10 where that is None; then the workers are killed.

        Args:
            timeout: seconds. terminate: do not wait, kill the workers at once.
        """
        if self._pending is not None:
            logger.warn(f"Calling `close` while waiting for a pending call to `{self._pending}` to complete.")
        if self._pending is not None and not terminate:
            terminate = not self._finishes(PENDING_CLOSE_S if timeout is None else timeout)
        if terminate or self._late:
            for process in self.core.processes:
                process.kill()  # SIGTERM does not get through to an env that hangs, nor to some that draw
        self.core.close()
        if self._pending == "call" or self._late == "call":
            self._called.finish()

    def _finishes(self, timeout_s: float) -> bool:
        """Wait for the call that is under way and return whether it came to an end; how is no concern of `close`."""
        try:
            (self._called.result if self._pending == "call" else self.core.recv)(timeout_s)
        except WorkerTimeout:
            return False
        except Exception:
            return True
        return True

    def __del__(self) -> None:
        """End the workers of a vector env that nobody closed, whatever they are doing."""
        if "core" in self.__dict__ and not self.closed:
            self.closed = True
            for process in self.core.processes:
                process.kill()
            self.core.close()


def _checked_concurrency(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ValueError(f"`max_concurrency` must be an integer or None, got {type(value)}.")
    if value < 1:
        raise ValueError(f"`max_concurrency` must be a positive or None, got {value}.")
    return int(value)


def _workers(num_workers: int | str, max_concurrency: int | None, num_envs: int) -> Any:
    """Return the number of workers: what was asked for, or one per usable core, within max_concurrency and num_envs."""
    most = min(num_envs, max_concurrency or num_envs)
    if num_workers == "auto":
        return min(usable_cores(), most)
    if max_concurrency is not None and isinstance(num_workers, int) and num_workers > max_concurrency:
        raise ConfigError(f"num_workers is {num_workers}, but max_concurrency is {max_concurrency}: use at most that many")
    return num_workers
