# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A drop-in replacement for gymnasium.vector.SyncVectorEnv, over the serial backend."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import gymnasium
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from puffervec.errors import WorkerError
from puffervec.gym import arguments
from puffervec.gym.base import EnvFn, PythonVectorEnv, Seed, Step, raise_original
from puffervec.gym.side_channel import wrap
from puffervec.vec.backends import make


class SyncVectorEnv(PythonVectorEnv, VectorEnv[Any, Any, NDArray[Any]]):
    """Steps several envs in this process, one after another.

    >>> import gymnasium
    >>> envs = SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 2)
    >>> observations, infos = envs.reset(seed=0)
    >>> observations.shape, infos
    ((2, 4), {})
    >>> envs.close()

    Attributes:
        envs: the sub-envs. See `PythonVectorEnv` for the others.
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        copy: bool = True,
        observation_mode: Any = "same",
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    ) -> None:
        """Make the envs. Arguments and errors are those of `AsyncVectorEnv`."""
        super().__init__(env_fns, copy, observation_mode, autoreset_mode)
        self.envs = [env_fn() for env_fn in self.env_fns]
        name = type(self).__name__
        spaces = [env.observation_space for env in self.envs]
        self._describe(self.envs[0], spaces)
        arguments.check_spaces(name, observation_mode, self.single_observation_space, spaces)
        arguments.check_action_spaces([env.action_space for env in self.envs])
        self._start()

    def _start(self) -> None:
        creators = [functools.partial(_Unowned, wrap(env, self._side_channel)) for env in self.envs]
        mode = arguments.AUTORESET[self.autoreset_mode]
        try:
            self._open(
                make(
                    creators,
                    backend="serial",
                    num_envs=self.num_envs,
                    seed=None,
                    autoreset_mode=mode,
                )
            )
        except WorkerError as error:
            raise_original(error)

    def _restart(self, error: WorkerError) -> NoReturn:
        """Restart the backend, so that all envs can be reset, and raise the env's exception."""
        self.core.close()
        self._start()
        raise_original(error)

    def reset(
        self, *, seed: Seed = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all envs, or those in `options["reset_mask"]`, and return (observations, infos).

        Arguments and errors are those of `AsyncVectorEnv.reset_async`.
        """
        seeds = arguments.env_seeds(seed, self.num_envs)
        mask, rest = arguments.split_options(options, self.num_envs)
        try:
            self._send_reset(seeds, mask, rest)
            return self._recv_reset(None)
        except WorkerError as error:
            self._restart(error)

    def step(self, actions: Any) -> Step:
        """Step all envs; see `AsyncVectorEnv.step_async` and `step_wait`.

        Exceptions of envs are raised here, with a note.
        """
        try:
            self._send_step(actions)
            try:
                return self._recv_step(None)
            except WorkerError:
                raise
            except BaseException:  # Such as Ctrl-C, which loses the result.
                self.core.turns.mark_interrupted()
                raise
        except WorkerError as error:
            self._restart(error)

    def __getstate__(self) -> dict[str, Any]:
        """Return all attributes but the backend, for pickle.

        The unpickled copy has its own envs, and needs a reset before its first step.
        """
        rebuilt = ("core", "_observations", "_actions")
        return {name: value for name, value in self.__dict__.items() if name not in rebuilt}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        entries = [env.get_wrapper_attr(name) for env in self.envs]
        return tuple(entry(*args, **kwargs) if callable(entry) else entry for entry in entries)

    def set_attr(self, name: str, values: Any) -> None:
        for env, value in zip(self.envs, self._one_each(values), strict=True):
            env.set_wrapper_attr(name, value)

    def close_extras(self, **kwargs: Any) -> None:
        """Close the envs. After a `reset` they can be used again, as far as they allow it."""
        for env in getattr(self, "envs", []):
            env.close()


class _Unowned(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A sub-env that the backend steps but does not close: it belongs to the SyncVectorEnv."""

    def reset(self, **kwargs: Any) -> Any:
        """Pass on only the arguments given: an env's reset need not accept seed and options."""
        return self.env.reset(**kwargs)

    def close(self) -> None:
        """Leave the env open."""
