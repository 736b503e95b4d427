# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Calls in two parts (`step_async`, `step_wait`, ...), in the order that Gymnasium prescribes.

    idle -- reset_async / step_async / call_async -->  pending  -- *_wait -->  idle
                                                          `-- *_wait timed out -->  late
                                                              -- reset_async or close -->

Runs in the learner. `AsyncVectorEnv` (Python envs) and `NativeVectorEnv` (C envs) use it.
"""

from __future__ import annotations

import functools
import multiprocessing
import threading
from collections.abc import Callable, Mapping
from typing import Any

from gymnasium import logger
from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from puffervec.errors import ConfigError, WorkerError, WorkerTimeout
from puffervec.gym import arguments
from puffervec.gym.base import Seed, Step, log_errors, raise_original
from puffervec.vec.vector_env import VectorEnv as CoreVectorEnv


class Background:
    """One function that runs in a thread.

    The core's `call` blocks without a time limit; run in a thread, it can be waited for with one.
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._value: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="puffervec-call", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value = self._function()
        except BaseException as error:
            self._error = error

    def result(self, timeout_s: float | None) -> Any:
        """Return the function's result, or raise what it raised.

        Raises:
            WorkerTimeout: the function still runs after timeout_s.
        """
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise WorkerTimeout(f"no answer in {timeout_s} s")
        if self._error is not None:
            raise self._error
        return self._value

    def finish(self) -> None:
        """Wait until the function has returned or raised."""
        self._thread.join()


# Time for which `close` without a timeout waits for a running call.
PENDING_CLOSE_S = 10.0
# Calls that would bypass the vector env if they went to the sub-envs.
RESERVED = ("reset", "step", "close")


class TwoPartVectorEnv(VectorEnv[Any, Any, NDArray[Any]]):
    """A vector env over a puffervec backend whose calls can be begun and then waited for.

    All calls raise ClosedEnvironmentError after `close`. `*_async` raises AlreadyPendingCallError
    while another call is pending; `*_wait` raises NoAsyncCallError if no call of its kind is
    pending. Exceptions of envs are raised in this process, with a note (C envs: as WorkerError).
    `*_wait(timeout)` raises multiprocessing.TimeoutError after `timeout` seconds; then call `reset`
    or `close`. With timeout=None it waits until a worker dies or the vector env's own limit is
    reached.

    Attributes:
        core: the puffervec vector env underneath.
    """

    core: CoreVectorEnv
    # Subclasses define these. _send_reset(seeds, mask, options) starts a reset of all envs, or of
    # the rows in mask, (num_envs,) bool. _recv_*(timeout_s) waits, and raises WorkerTimeout when
    # the time is up. _one_each(values) returns one value per env.
    _send_reset: Callable[[list[int | None], Any, dict[str, Any] | None], None]
    _recv_reset: Callable[[float | None], tuple[Any, dict[str, Any]]]
    _send_step: Callable[[Any], None]
    _recv_step: Callable[[float | None], Step]
    _one_each: Callable[[Any], list[Any]]
    _pending: str | None = None  # The call that has begun: "reset", "step" or "call".
    _late = ""  # The call that timed out.
    _call: Background

    # ---- order of calls --------------------------------------------------------------------------

    def _begin(self, name: str, verb: str) -> None:
        """Raise unless the vector env is open and idle."""
        self._require_open()
        if self._pending is not None:
            raise AlreadyPendingCallError(
                f"Calling `{name}` while waiting for a pending call to `{self._pending}` to "
                "complete.",
                self._pending,
            )
        if self._late and verb != "reset":
            raise AlreadyPendingCallError(
                f"Calling `{name}` after a call to `{self._late}` timed out: it may still be "
                "running in the workers, and its results are lost. Call `reset`, which waits for "
                "it, or `close`.",
                self._late,
            )

    def _end(self, verb: str) -> None:
        """Raise unless a call of that kind is pending."""
        self._require_open()
        if self._pending != verb:
            raise NoAsyncCallError(
                f"Calling `{verb}_wait` without any prior call to `{verb}_async`.", verb
            )

    def _require_open(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError(
                f"Trying to operate on `{type(self).__name__}`, after a call to `close()`."
            )

    def _wait(
        self, verb: str, timeout: float | None, receive: Callable[[float | None], Any]
    ) -> Any:
        """Run `receive` and convert its errors to those of Gymnasium."""
        self._end(verb)
        self._pending = None
        try:
            return receive(timeout)
        except WorkerTimeout as error:
            # The vector env's own limit is reached, so it cannot continue.
            if timeout is None or timeout >= self.core.settings.timeout_s:
                raise_original(error)
            self._late = verb
            raise multiprocessing.TimeoutError(
                f"The call to `{verb}_wait` has timed out after {timeout} second(s)."
            ) from None
        except WorkerError as error:
            if verb != "call" and error.__cause__ is not None:
                log_errors(self.core.failed())
            raise_original(error)
        except ConfigError:  # Raised before anything was sent.
            raise
        except BaseException:  # Such as Ctrl-C, which loses the result.
            self.core.turns.mark_interrupted()
            raise

    # ---- reset -----------------------------------------------------------------------------------

    def reset(
        self, *, seed: Seed = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all envs, or those in `options["reset_mask"]`, and wait.

        See `reset_async` and `reset_wait`.
        """
        self.reset_async(seed=seed, options=options)
        return self.reset_wait()

    def reset_async(self, seed: Seed = None, options: Mapping[str, Any] | None = None) -> None:
        """Start a reset of all envs, or of those in `options["reset_mask"]`, for `reset_wait`.

        Args:
            seed: env i gets seed + i, or the i-th entry of a sequence (entries may be None); None:
                the envs continue their random sequences.
            options: passed to each env, except "reset_mask": (num_envs,) bool, the envs to reset;
                the others keep their state.

        Raises:
            ValueError, TypeError: the seeds, the options or the mask cannot be used.
        """
        self._require_open()
        seeds = arguments.env_seeds(seed, self.core.num_envs)
        self._begin("reset_async", "reset")
        mask, rest = arguments.split_options(options, self.num_envs)
        if self._late and mask is not None:
            raise AlreadyPendingCallError(
                f"A call to `{self._late}` timed out, so all envs have to be reset: call `reset` "
                "without a reset_mask.",
                self._late,
            )
        try:
            if self._late == "call":
                self._call.finish()
            self._send_reset(seeds, mask, rest)
        except WorkerError as error:
            raise_original(error)
        self._pending, self._late = "reset", ""

    def reset_wait(self, timeout: float | None = None) -> tuple[Any, dict[str, Any]]:
        """Wait for the reset that `reset_async` started and return (observations, infos)."""
        return self._wait("reset", timeout, self._recv_reset)  # type: ignore[no-any-return]

    # ---- step ------------------------------------------------------------------------------------

    def step(self, actions: Any) -> Step:
        """Step all envs and wait. See `step_async` and `step_wait`."""
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions: Any) -> None:
        """Send the actions and let the workers step; `step_wait` returns the results.

        Args:
            actions: an element of `action_space`, or a list with one action per env. In a Tuple or
                Dict action space each part has one entry per env, and may be a list (so a list
                counts as the tuple of parts, not as one tuple per env).

        Raises:
            ValueError, TypeError: the actions cannot be used.
            DoneEnvError: an env is done and autoreset is disabled.
        """
        self._begin("step_async", "step")
        self._send_step(actions)
        self._pending = "step"

    def step_wait(self, timeout: float | None = None) -> Step:
        """Wait for the step that `step_async` started.

        Returns:
            (observations, rewards (num_envs,) float64, terminations and truncations (num_envs,)
            bool, infos).
        """
        return self._wait("step", timeout, self._recv_step)  # type: ignore[no-any-return]

    # ---- call, get_attr, set_attr ----------------------------------------------------------------

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every sub-env, or read an attribute that is not callable.

        Returns: one result per env (copies).

        Raises:
            ValueError: `name` is `reset`, `step` or `close`; call these directly.
            ConfigError: C envs have no methods.
        """
        self._begin_call(name)
        try:
            return self.core.call(name, *args, **kwargs)
        except WorkerError as error:
            raise_original(error)

    def call_async(self, name: str, /, *args: Any, **kwargs: Any) -> None:
        """Start a call of a method (or a read of an attribute) of every sub-env, for `call_wait`.

        Raises: as `call`.
        """
        self._begin_call(name)
        self._call = Background(functools.partial(self.core.call, name, *args, **kwargs))
        self._pending = "call"

    def _begin_call(self, name: str) -> None:
        self._begin("call_async", "call")
        if name in RESERVED:
            raise ValueError(
                f"Trying to call function `{name}` with `call`, use `{name}` directly instead."
            )

    def call_wait(self, timeout: float | None = None) -> tuple[Any, ...]:
        """Wait for the results of `call_async`, one per env."""
        result: tuple[Any, ...] = self._wait(
            "call", timeout, lambda timeout_s: self._call.result(timeout_s)
        )
        return result

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every sub-env to one value, or to the entries of a list or tuple.

        Raises:
            ValueError: the list or tuple has another length.
            ConfigError: C envs have no attributes.
        """
        self._require_open()
        each = self._one_each(values)
        self._begin("set_attr", "call")
        try:
            self.core.set_attr(name, each)
        except WorkerError as error:
            raise_original(error)

    # ---- closing ---------------------------------------------------------------------------------

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        """End the workers, which close their envs.

        Waits for a pending call, and kills the worker processes if it does not end in time. Threads
        cannot be killed: the backend "threading" waits until they have finished the call.

        Args:
            timeout: longest wait in seconds; None: 10.
            terminate: kill worker processes immediately, without waiting.
        """
        if self._pending is not None:
            logger.warn(
                f"Calling `close` while waiting for a pending call to `{self._pending}` to "
                "complete."
            )
        if self._pending is not None and not terminate:
            terminate = not self._finishes(PENDING_CLOSE_S if timeout is None else timeout)
        if terminate or self._late:
            self._kill()
        self.core.close()
        if self._pending == "call" or self._late == "call":
            self._call.finish()

    def _finishes(self, timeout_s: float) -> bool:
        """Wait for the pending call and return whether it ended, with or without an error."""
        try:
            (self._call.result if self._pending == "call" else self.core.recv)(timeout_s)
        except WorkerTimeout:
            return False
        except Exception:
            return True
        return True

    def _kill(self) -> None:
        """End worker processes, whatever they are doing."""
        for process in getattr(self.core, "processes", []):
            process.kill()  # An env that hangs, and some that draw, would ignore SIGTERM.

    def __del__(self) -> None:
        """End the workers of a vector env that was not closed."""
        if "core" in self.__dict__ and not self.closed:
            self.closed = True
            self._kill()
            self.core.close()
