# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A drop-in replacement for gymnasium.vector.AsyncVectorEnv, over the multiprocessing backend.

It differs from the original in two ways on purpose: a worker steps several envs (as many workers as
usable cores, not one per env), and `step` sends nothing through pipes.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from puffervec.errors import ConfigError, WorkerError
from puffervec.gym import arguments
from puffervec.gym.base import EnvFn, PythonVectorEnv, raise_original
from puffervec.gym.side_channel import make_wrapped
from puffervec.gym.two_part import TwoPartVectorEnv
from puffervec.system.cores import usable_cores
from puffervec.vec.backends import Multiprocessing, make
from puffervec.workers.python.emulation.layout import LEAF_SPACES


class AsyncVectorEnv(PythonVectorEnv, TwoPartVectorEnv, VectorEnv[Any, Any, NDArray[Any]]):
    """Steps several envs in worker processes, which write into memory shared with this process.

    Each worker steps a share of the envs, so 64 envs on 8 cores need 8 processes. Scripts need no
    main guard. After an env has raised, or a worker died, only `close` can be called.

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
        timeout_s: float = math.inf,
    ) -> None:
        """Start the workers and make the envs in them.

        Args:
            env_fns: functions that make one env each, with equal action spaces. They are sent with
                cloudpickle.
            shared_memory: True refuses observation spaces that shared memory cannot hold (Graph,
                Sequence, custom ones); False pickles those observations. Text and OneOf are pickled
                in any case.
            copy: True: return copies of the observations; False: views, valid until the next call
                of `step` or `reset`.
            context: how processes are started: "spawn", "forkserver" or "fork". None: "forkserver".
            daemon: True and False are equivalent: workers end with this process, and envs may use
                multiprocessing.
            worker: must be None: a function that communicates over pipes cannot be used here.
            observation_mode: "same": equal observation spaces; "different": spaces of equal shape
                and dtype with other bounds; or a pair (batched space, single space), which is not
                checked.
            autoreset_mode: an AutoresetMode or its value: "NextStep", "SameStep", "Disabled".
            max_concurrency: the most envs that may run simultaneously. It limits the number of
                workers.
            num_workers: number of worker processes; "auto": one per usable core, at most one per
                env.
            timeout_s: longest wait for a worker in any call. After it, WorkerTimeout is raised, and
                only `close` can be called.

        Raises:
            RuntimeError: the envs' spaces do not fit together.
            ValueError: an argument cannot be used.
            TypeError: an observation space has a Graph or Sequence, and shared_memory is True.
            Exception: whatever an env's constructor raises, with a note.
        """
        super().__init__(env_fns, copy, observation_mode, autoreset_mode)
        self.shared_memory, self.context, self.daemon, self.worker = (
            shared_memory,
            context,
            daemon,
            worker,
        )
        self.max_concurrency = _check_concurrency(max_concurrency)
        if worker is not None:
            _check_worker(worker)
            raise ConfigError(
                "worker= is a function that communicates over pipes, which are not used here: put "
                "its work into a gymnasium.Wrapper around each env, or use "
                "gymnasium.vector.AsyncVectorEnv"
            )
        self._probe()
        workers = _workers(num_workers, self.max_concurrency, self.num_envs)
        self._open(self._make_core(context or "auto", workers, timeout_s))
        try:
            self._check_spaces()
        except BaseException:
            self.core.close()
            raise

    def _probe(self) -> None:
        """Make envs in this process, read their spaces, and close the envs.

        One env is enough, unless the envs may have different spaces.
        """
        count = self.num_envs if self.observation_mode == "different" else 1
        envs = []
        try:
            for env_fn in self.env_fns[:count]:
                envs.append(env_fn())
            self._describe(
                envs[0], [env.observation_space for env in envs] * (self.num_envs // count)
            )
        finally:
            for env in envs:
                env.close()
        if self.shared_memory:
            _check_shared(self.single_observation_space)

    def _make_core(self, start_method: str, num_workers: int, timeout_s: float) -> Any:
        env_fns = self.env_fns
        if self._side_channel:
            env_fns = [
                functools.partial(make_wrapped, env_fn, self._side_channel)
                for env_fn in self.env_fns
            ]
        try:
            return make(
                env_fns,
                backend="multiprocessing",
                num_envs=self.num_envs,
                num_workers=num_workers,
                seed=None,
                autoreset_mode=arguments.AUTORESET[self.autoreset_mode],
                timeout_s=timeout_s,
                start_method=start_method,
            )
        except WorkerError as error:
            raise_original(error)

    def _check_spaces(self) -> None:
        name = type(self).__name__
        spaces = self.core.get_attr("observation_space")
        arguments.check_spaces(name, self.observation_mode, self.single_observation_space, spaces)
        arguments.check_action_spaces(self.core.get_attr("action_space"))

    @property
    def processes(self) -> list[Any]:
        """The worker processes; [] after `close`."""
        return list(self.core.processes)

    def __getattr__(self, name: str) -> Any:
        """Explain why Gymnasium's pipes are missing."""
        if name in ("parent_pipes", "error_queue"):
            raise AttributeError(
                f"{type(self).__name__} has no {name}: workers share memory with this process "
                "instead of pipes"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _check_worker(worker: Callable[..., None]) -> None:
    """Raise ValueError unless the function takes the 8 arguments of Gymnasium's workers."""
    try:
        inspect.signature(worker).bind(*(None,) * 8)
    except TypeError as error:
        raise ValueError(
            f"A custom `worker` must accept 8 arguments, this one takes {inspect.signature(worker)}"
        ) from error


def _check_shared(space: spaces.Space[Any]) -> None:
    """Raise for an observation space that Gymnasium's shared memory cannot hold.

    With shared_memory=False such observations go through the side channel.

    Raises:
        TypeError: the space is a Graph or a Sequence, or contains one at any depth.
        ValueError: the space, or a part of it, is of a user's own kind.
    """
    if isinstance(space, (spaces.Dict, spaces.Tuple, spaces.OneOf)):
        for part in space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces:
            _check_shared(part)
    elif isinstance(space, (spaces.Graph, spaces.Sequence)):
        raise TypeError(
            f"{space} has a dynamic shape so its not possible to make a static shared memory. "
            "Use shared_memory=False, which pickles the observations and is slower"
        )
    elif not isinstance(space, (*LEAF_SPACES, spaces.Text)):
        raise ValueError(
            f"observations of {space} have no fixed size, so shared memory cannot hold them: use "
            "shared_memory=False, which pickles them and is slower"
        )


def _check_concurrency(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ValueError(f"`max_concurrency` must be an integer or None, got {type(value)}.")
    if value < 1:
        raise ValueError(f"`max_concurrency` must be a positive or None, got {value}.")
    return int(value)


def _workers(num_workers: int | str, max_concurrency: int | None, num_envs: int) -> Any:
    """Return the number of workers; "auto" is limited by max_concurrency and num_envs."""
    most = min(num_envs, max_concurrency or num_envs)
    if num_workers == "auto":
        return min(usable_cores(), most)
    if (
        max_concurrency is not None
        and isinstance(num_workers, int)
        and num_workers > max_concurrency
    ):
        raise ConfigError(
            f"num_workers is {num_workers}, but max_concurrency is {max_concurrency}: use at most "
            "that many"
        )
    return num_workers
