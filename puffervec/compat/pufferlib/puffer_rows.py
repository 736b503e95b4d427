# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What the two emulated envs share: plans, buffers, attributes, and rules on the order of calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from puffervec.python.emulation.actions import ActionPlan
from puffervec.python.emulation.buffers import set_buffers
from puffervec.python.emulation.exceptions import APIUsageError
from puffervec.python.emulation.resets import Reset, reset_of
from puffervec.python.emulation.rows import ObservationPlan


class EmulatedRows:
    """Rows of A agents that share spaces, and the calls that fill them.

    Attributes:
        observations: (A, *row) of `single_observation_space`. actions: (A, *row). rewards: (A,) float32.
        terminals, truncations, masks: (A,) bool. All are written in place; they are the caller's where `buf` was given.
        obs_dtype, atn_dtype: dtypes of native rows. emulated: the observations' dtypes in a dict.
        is_obs_emulated, is_atn_emulated: whether the flat space differs from the env's.

    Args:
        env: an env, or None where `env_creator(*env_args, **env_kwargs)` makes it.
        buf: rows to adopt (see `set_buffers`). seed: of the first reset that gets none; None for a random one.
    Raises:
        ConfigError: agents with different spaces, or a space without a fixed size. APIUsageError: a `buf` of other shapes.
    """

    env: Any
    num_agents: int
    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminals: np.ndarray
    truncations: np.ndarray
    masks: np.ndarray

    def __init__(
        self,
        env: Any = None,
        env_creator: Callable[..., Any] | None = None,
        env_args: Sequence[Any] = (),
        env_kwargs: Mapping[str, Any] | None = None,
        buf: Any = None,
        seed: int | None = 0,
    ) -> None:
        self.env = make_object(env, env_creator, env_args, env_kwargs)
        self.metadata = getattr(self.env, "metadata", {})
        self._first_seed = seed
        self._open(buf)

    def _open(self, buf: Any) -> None:
        """Look at the env and plan its rows; each kind of env has its own way."""
        raise NotImplementedError

    def _plan(self, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any], agents: int, buf: Any) -> None:
        """Plan the rows of this many agents and make or adopt the buffers."""
        self.observation_plan, self.action_plan = ObservationPlan(observation_space), ActionPlan(action_space)
        self.single_observation_space = self.observation_plan.emulated_space
        self.single_action_space = self.action_plan.emulated_space
        self.is_obs_emulated = self.single_observation_space is not observation_space
        self.is_atn_emulated = self.single_action_space is not action_space
        self.obs_dtype = self.observation_plan.dtype
        self.atn_dtype = self.action_plan.dtype if self.is_atn_emulated else self.action_plan.row_dtype
        self.emulated = {
            "observation_dtype": self.single_observation_space.dtype,
            "emulated_observation_dtype": self.obs_dtype,
        }
        self.num_agents = agents
        self.agent_ids = np.arange(agents)
        self.render_modes = ["human", "rgb_array"]
        self.render_mode: str | None = getattr(self.env, "render_mode", None)
        self.initialized = False
        self.is_observation_checked = self.is_action_checked = False
        self._resets: tuple[Any, Reset] = self.env, reset_of(self.env)
        set_buffers(self, buf, self.action_plan.row_dtype)
        self._write = self.observation_plan.writers(self.observations)
        # The env's own copy, since the caller's action buffer may have another integer type.
        self._action_rows = np.zeros((agents, *self.action_plan.row_shape), self.action_plan.row_dtype)
        self._read = self.action_plan.readers(self._action_rows)

    @property
    def driver_env(self) -> Any:
        """The env itself, as a vector env would show the env that it asks for spaces."""
        return self

    @property
    def obs_struct(self) -> np.ndarray:
        """The rows as native observations, a view: (A, 1) of the structured dtype `obs_dtype`; (A, *shape) for one leaf."""
        if not self.is_obs_emulated:
            return self.observations
        base, shape = self.obs_dtype.subdtype or (self.obs_dtype, (1,))
        return self.observations.view(base).reshape(self.num_agents, *shape)

    def render(self) -> Any:
        return self.env.render()

    def close(self) -> None:
        self.env.close()

    def _reset_env(self, seed: int | None, options: dict[str, Any] | None) -> tuple[Any, Any]:
        """Reset the wrapped env; the first time without a seed, the constructor's is taken."""
        if seed is None and not self.initialized:
            seed = self._first_seed
        if self._resets[0] is not self.env:  # another env was put in
            self._resets = self.env, reset_of(self.env)
        observation, info = self._resets[1](seed, options)
        return observation, info

    def _require_turn(self, done: bool) -> None:
        if not self.initialized:
            raise APIUsageError("step() was called before reset(): call reset() first")
        if done:
            raise APIUsageError("step() was called after the episode ended: call reset() first")

    def _native_action(self, index: int, action: Any) -> Any:
        """Return the native form of one row's action, given flat."""
        given = np.asarray(action)
        plan = self.action_plan
        if given.dtype.kind not in "biu" and plan.kind != "continuous":
            raise APIUsageError(f"actions have dtype {given.dtype}: {self.single_action_space} takes integers")
        try:
            self._action_rows[index, ...] = given.reshape(plan.row_shape)
        except (ValueError, TypeError) as error:
            raise APIUsageError(f"an action of shape {given.shape} does not fit {self.single_action_space} ({error})") from None
        native = self._read[index]()
        if not self.is_action_checked:
            if not plan.space.contains(native):
                raise APIUsageError(f"action {native!r} is not in {plan.space}")
            self.is_action_checked = True
        return native


def make_object(
    object_instance: Any = None,
    object_creator: Callable[..., Any] | None = None,
    creator_args: Sequence[Any] | None = None,
    creator_kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """Return the instance, or what `object_creator(*creator_args, **creator_kwargs)` makes; exactly one of the two is given.

    Raises:
        ValueError: both or none were given. TypeError: an instance that is a function or class, a creator that is none.
    """
    if (object_instance is None) == (object_creator is None):
        raise ValueError("give exactly one of env and env_creator")
    if object_creator is None:
        if callable(object_instance):
            raise TypeError(f"env is {object_instance!r}: give an instance there, and functions or classes as env_creator")
        return object_instance
    if not callable(object_creator):
        raise TypeError(f"env_creator is {object_creator!r}: give a function or class that makes an env")
    return object_creator(*(creator_args or ()), **(creator_kwargs or {}))


def pad_agent_data(data: Mapping[Any, Any], agents: Iterable[Any], pad_value: Any) -> dict[Any, Any]:
    """Return a value for each of `agents`, in their order: that in `data`, else `pad_value`.

    >>> pad_agent_data({"b": 1}, ["a", "b"], 0)
    {'a': 0, 'b': 1}
    """
    return {agent: data.get(agent, pad_value) for agent in agents}
