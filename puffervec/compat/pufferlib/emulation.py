# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""PufferLib's emulation API: nested spaces as flat rows, and single envs with such rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from puffervec.errors import APIUsageError, ConfigError, InvalidAgentError
from puffervec.workers.python.emulation import check_space, flatten_space, get_dtype_bounds
from puffervec.workers.python.emulation import struct_dtype as dtype_from_space
from puffervec.workers.python.emulation.actions import ActionPlan
from puffervec.workers.python.emulation.layout import Leaf, Node, leaves, plan
from puffervec.workers.python.emulation.resets import Reset, reset_of
from puffervec.workers.python.emulation.rows import ObservationPlan, native
from puffervec.workers.python.env import GYMNASIUM, PARALLEL, shared_spaces
from puffervec.workers.python.puffer_env import AgentRows, set_buffers

__all__ = [
    "GymnasiumPufferEnv",
    "PettingZooPufferEnv",
    "check_space",
    "dtype_from_space",
    "emulate",
    "emulate_action_space",
    "emulate_observation_space",
    "flatten_space",
    "get_dtype_bounds",
    "make_buffer",
    "make_object",
    "nativize",
    "pad_agent_data",
]


class EmulatedRows(AgentRows):
    """Rows of A agents that share spaces, and the calls that fill them.

    Attributes:
        observations: (A, *row) of `single_observation_space`.
        actions: (A, *row).
        rewards: (A,) float32.
        terminals, truncations, masks: (A,) bool. All these arrays are written in place; they belong
            to the caller if `buf` was passed.
        obs_dtype, atn_dtype: dtypes of native rows.
        emulated: the observations' dtypes in a dict.
        is_obs_emulated, is_atn_emulated: whether the flat space differs from the env's own.

    Args:
        env: an env, or None if `env_creator(*env_args, **env_kwargs)` makes it.
        buf: rows to adopt (see `set_buffers`).
        seed: seed of the first reset if that is called without one; None for a random seed.

    Raises:
        ConfigError: the agents have different spaces, or a space has no fixed size.
        APIUsageError: `buf` has other shapes.
    """

    env: Any

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
        """Read the env's spaces and plan its rows."""
        raise NotImplementedError

    def _plan(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        agents: int,
        buf: Any,
    ) -> None:
        """Plan the rows of this many agents and make or adopt the buffers."""
        self.observation_plan, self.action_plan = (
            ObservationPlan(observation_space),
            ActionPlan(action_space),
        )
        self.single_observation_space = self.observation_plan.emulated_space
        self.single_action_space = self.action_plan.emulated_space
        self.is_obs_emulated = self.single_observation_space is not observation_space
        self.is_atn_emulated = self.single_action_space is not action_space
        self.obs_dtype = self.observation_plan.dtype
        self.atn_dtype = (
            self.action_plan.dtype if self.is_atn_emulated else self.action_plan.row_dtype
        )
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
        # A separate copy, since the caller's action buffer may have another integer type.
        self._action_rows = np.zeros(
            (agents, *self.action_plan.row_shape), self.action_plan.row_dtype
        )
        self._read = self.action_plan.readers(self._action_rows)

    @property
    def obs_struct(self) -> np.ndarray:
        """A view of the rows as native observations.

        Its shape is (A, 1) with the structured dtype `obs_dtype`, or (A, *shape) for a space with
        only one leaf.
        """
        if not self.is_obs_emulated:
            return self.observations
        base, shape = self.obs_dtype.subdtype or (self.obs_dtype, (1,))
        return self.observations.view(base).reshape(self.num_agents, *shape)

    def render(self) -> Any:
        return self.env.render()

    def close(self) -> None:
        self.env.close()

    def _reset_env(self, seed: int | None, options: dict[str, Any] | None) -> tuple[Any, Any]:
        """Reset the wrapped env; at the first reset, the default seed is the constructor's."""
        if seed is None and not self.initialized:
            seed = self._first_seed
        if self._resets[0] is not self.env:  # The env was replaced.
            self._resets = self.env, reset_of(self.env)
        observation, info = self._resets[1](seed, options)
        return observation, info

    def _require_turn(self, done: bool) -> None:
        if not self.initialized:
            raise APIUsageError("step() was called before reset(): call reset() first")
        if done:
            raise APIUsageError("step() was called after the episode ended: call reset() first")

    def _native_action(self, index: int, action: Any) -> Any:
        """Return the native form of one row's flat action."""
        flat = np.asarray(action)
        plan = self.action_plan
        if flat.dtype.kind not in "biu" and plan.kind != "continuous":
            raise APIUsageError(
                f"actions have dtype {flat.dtype}: {self.single_action_space} takes integers"
            )
        try:
            self._action_rows[index, ...] = flat.reshape(plan.row_shape)
        except (ValueError, TypeError) as error:
            raise APIUsageError(
                f"an action of shape {flat.shape} does not fit {self.single_action_space} ({error})"
            ) from None
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
    """Return the instance, or the result of `object_creator(*creator_args, **creator_kwargs)`.

    Raises:
        ValueError: both an instance and a creator were passed, or neither.
        TypeError: the instance is a function or class, or the creator is not one.
    """
    if (object_instance is None) == (object_creator is None):
        raise ValueError("pass exactly one of env and env_creator")
    if object_creator is None:
        if callable(object_instance):
            raise TypeError(
                f"env is {object_instance!r}: must be an instance; pass functions and classes as "
                "env_creator"
            )
        return object_instance
    if not callable(object_creator):
        raise TypeError(
            f"env_creator is {object_creator!r}: must be a function or class that makes an env"
        )
    return object_creator(*(creator_args or ()), **(creator_kwargs or {}))


def pad_agent_data(
    data: Mapping[Any, Any], agents: Iterable[Any], pad_value: Any
) -> dict[Any, Any]:
    """Return a dict with each of `agents` in order: its value in `data`, or else `pad_value`.

    >>> pad_agent_data({"b": 1}, ["a", "b"], 0)
    {'a': 0, 'b': 1}
    """
    return {agent: data.get(agent, pad_value) for agent in agents}


class GymnasiumPufferEnv(EmulatedRows, gymnasium.Env[Any, Any]):
    """One agent, whose observations are written in place into one row.

    The caller must reset a done env.
    """

    emulates = GYMNASIUM

    done = True
    _next_seed: int | None = None

    def _open(self, buf: Any) -> None:
        self._plan(self.env.observation_space, self.env.action_space, 1, buf)
        self.observation_space, self.action_space = (
            self.single_observation_space,
            self.single_action_space,
        )

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode.

        Returns:
            observations: (1, *row), the buffer itself, valid until the next call. info: the env's.

        Raises:
            SpaceMismatchError: the first observation does not fit the space.
        """
        if seed is None:
            seed = self._next_seed
        self._next_seed = None
        observation, info = self._reset_env(seed, options)
        self.initialized, self.done = True, False
        self._store(observation, 0.0, False, False)
        return self.observations, info

    def seed(self, seed: int | None) -> None:
        """Seed the env's next reset.

        An env with a `seed` method (the old Gym interface) is also seeded immediately.
        """
        self._next_seed = seed
        own = getattr(self.env, "seed", None)
        if callable(own):
            own(seed)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step with a flat action: a member of `action_space`, or a batch of one.

        Returns:
            observations: (1, *row), the buffer itself, valid until the next call. The rest is the
            env's result.

        Raises:
            APIUsageError: the env was not reset, its episode is over, or the action does not fit.
        """
        self._require_turn(self.done)
        observation, reward, terminated, truncated, info = self.env.step(
            self._native_action(0, action)
        )
        self._store(observation, reward, terminated, truncated)
        self.done = bool(terminated or truncated)
        return self.observations, reward, terminated, truncated, info

    def _store(self, observation: Any, reward: Any, terminated: bool, truncated: bool) -> None:
        if not self.is_observation_checked:
            self.observation_plan.check(observation)
            self.is_observation_checked = True
        self._write[0](observation)
        self.rewards[0], self.terminals[0], self.truncations[0] = reward, terminated, truncated
        self.masks[0] = True


class PettingZooPufferEnv(EmulatedRows):
    """A row for each of `possible_agents`, which share their spaces.

    A row is live (mask True) if the env returned an observation for its agent, or ended its agent's
    episode in this step. The rows of absent agents have zero observations and rewards, terminal
    True, truncation and mask False. When all agents are gone, the caller must reset.
    """

    emulates = PARALLEL

    all_done = True

    def _open(self, buf: Any) -> None:
        self.possible_agents = list(self.env.possible_agents)
        self._index = {agent: i for i, agent in enumerate(self.possible_agents)}
        spaces = shared_spaces(self.env, self.possible_agents)
        self.env_single_observation_space, self.env_single_action_space = spaces
        self._plan(*spaces, len(self.possible_agents), buf)
        self.dict_obs = {agent: self.observations[i, ...] for agent, i in self._index.items()}
        self.mask = dict.fromkeys(self.possible_agents, False)

    @property
    def agents(self) -> list[Any]:
        """The agents that are alive."""
        return list(self.env.agents)

    @property
    def done(self) -> bool:
        """Whether the episode is over, or none has begun."""
        return self.all_done or not self.env.agents

    def observation_space(self, agent: Any) -> gymnasium.Space[Any]:
        """Return the flat observation space. Raises: InvalidAgentError: the agent is unknown."""
        return self._check_agent(agent, self.single_observation_space)

    def action_space(self, agent: Any) -> gymnasium.Space[Any]:
        """Return the flat action space. Raises: InvalidAgentError: the agent is unknown."""
        return self._check_agent(agent, self.single_action_space)

    def _check_agent(self, agent: Any, space: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
        if agent not in self._index:
            raise InvalidAgentError(agent, self.possible_agents)
        return space

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Begin an episode.

        Returns:
            observations: for each possible agent a view of the buffer, valid until the next call.
            infos: the env's infos.

        Raises:
            SpaceMismatchError: the first observation does not fit the space.
            InvalidAgentError: the env returned an unknown agent.
        """
        observations, infos = self._reset_env(seed, options)
        self.initialized, self.all_done = True, False
        self._store(observations, {}, {}, {}, {})
        return self.dict_obs, infos

    def step(self, actions: Any) -> tuple[dict[Any, Any], ...]:
        """Step all live agents.

        Args:
            actions: flat actions by agent, or one array (A, *row) in the order of
                `possible_agents`. Those of absent agents are ignored.

        Returns:
            observations, rewards, terminals, truncations, each a dict with all possible agents
            (absent ones have zeros, 0, True, False), and the env's infos. Observations are views on
            the buffer, valid until the next call.

        Raises:
            APIUsageError: the env was not reset, its episode is over, an action does not fit, or a
                live agent's action is missing.
            InvalidAgentError: an action is for an agent that is not in `possible_agents`.
        """
        self._require_turn(self.done)
        before = self.agents
        observations, rewards, terminations, truncations, infos = self.env.step(
            self._native_actions(actions, before)
        )
        ended = {agent: 0 for agent in before if terminations.get(agent) or truncations.get(agent)}
        self._store(observations, rewards, terminations, truncations, ended)
        self.all_done = all(
            terminations[agent] or truncations.get(agent, False) for agent in terminations
        )
        return (
            self.dict_obs,
            pad_agent_data(rewards, self.possible_agents, 0),
            pad_agent_data(terminations, self.possible_agents, True),
            pad_agent_data(truncations, self.possible_agents, False),
            infos,
        )

    def _native_actions(self, actions: Any, live: Sequence[Any]) -> dict[Any, Any]:
        """Return the live agents' native actions."""
        if not isinstance(actions, Mapping):
            rows = np.asarray(actions)
            if rows.shape[:1] != (self.num_agents,):
                raise APIUsageError(
                    f"actions have shape {rows.shape}: this env has {self.num_agents} agents"
                )
            actions = dict(zip(self.possible_agents, rows, strict=True))
        for agent in actions:
            if agent not in self._index:
                raise InvalidAgentError(agent, self.possible_agents)
        missing = [agent for agent in live if agent not in actions]
        if missing:
            raise APIUsageError(f"actions are missing for the live agents {missing}")
        return {agent: self._native_action(self._index[agent], actions[agent]) for agent in live}

    def _store(
        self,
        observations: Mapping[Any, Any],
        rewards: Mapping[Any, Any],
        terminations: Mapping[Any, Any],
        truncations: Mapping[Any, Any],
        ended: Mapping[Any, Any],
    ) -> None:
        """Write all rows. An agent that ended without a last observation is live, and all zeros."""
        for agent in observations:
            self._check_agent(agent, self.single_observation_space)
            if not self.is_observation_checked:
                self.observation_plan.check(observations[agent])
        self.is_observation_checked = self.is_observation_checked or bool(observations)
        for agent, i in self._index.items():
            seen = agent in observations
            live = seen or agent in ended
            if seen:
                self._write[i](observations[agent])
            else:
                self.observations[i, ...] = 0
            self.rewards[i] = rewards.get(agent, 0) if live else 0
            self.terminals[i] = terminations.get(agent, False) if live else True
            self.truncations[i] = live and truncations.get(agent, False)
            self.masks[i] = self.mask[agent] = live


def emulate_observation_space(
    space: gymnasium.Space[Any],
) -> tuple[gymnasium.Space[Any], np.dtype[Any]]:
    """Return the flat Box of one row and the dtype of one native row.

    A plain Box is returned unchanged.

    Raises:
        ConfigError: the space has no fixed size.
    """
    plan = ObservationPlan(space)
    return plan.emulated_space, plan.dtype


def emulate_action_space(space: gymnasium.Space[Any]) -> tuple[gymnasium.Space[Any], np.dtype[Any]]:
    """Return the flat space of one action row and the dtype that `nativize` needs.

    Box, Discrete and one-dimensional MultiDiscrete spaces are returned unchanged, with their own
    dtype; nested discrete spaces become a MultiDiscrete.

    Raises:
        ConfigError: the space has no fixed size.
    """
    plan = ActionPlan(space)
    return plan.emulated_space, plan.row_dtype if plan.emulated_space is space else plan.dtype


def nativize(arr: Any, space: gymnasium.Space[Any], struct_dtype: Any) -> Any:
    """Return the native value of one row.

    Args:
        arr: one row in any shape: the bytes of `struct_dtype`, or, if all leaves have one dtype,
            its elements (integers of another width are converted).
        space: the env's own space.
        struct_dtype: as `emulate_observation_space` or `emulate_action_space` returned it.

    Returns: dicts, tuples and arrays as in the space. Arrays are views on `arr` if it needs no
    conversion; a Discrete value becomes a NumPy integer.

    Raises:
        ConfigError: `arr` is not one row of this space.
    """
    dtype = np.dtype(struct_dtype)
    tree = plan(space, dtype)
    return native(tree, _row_bytes(np.ascontiguousarray(arr).reshape(-1), tree, dtype)[None])


def _row_bytes(row: np.ndarray, tree: Node | Leaf, dtype: np.dtype[Any]) -> np.ndarray:
    """Return `row` as a view of bytes, with integers converted to the row's integer type."""
    parts = list(leaves(tree))
    dtypes = {leaf.dtype for leaf in parts}
    common = dtypes.pop() if len(dtypes) == 1 else np.dtype(np.uint8)
    if (
        row.dtype != common
        and {row.dtype.kind, common.kind} <= {"i", "u"}
        and row.size == sum(leaf.size for leaf in parts)
    ):
        row = row.astype(common)
    wanted = tree.size * tree.dtype.itemsize if isinstance(tree, Leaf) else dtype.itemsize
    if row.nbytes != wanted or row.dtype not in (common, np.dtype(np.uint8)):
        raise ConfigError(
            f"{row.size} elements of {row.dtype} are not one row: it has {wanted} bytes, as "
            f"{common} or uint8"
        )
    return row.view(np.uint8)


def make_buffer(
    arr_dtype: Any, struct_dtype: Any, struct: np.ndarray, n: int | None = None
) -> np.ndarray:
    """Return a flat view of structured rows: (n, elements), or (elements,) if n is None.

    Args:
        arr_dtype: dtype of the elements.
        struct_dtype: dtype of `struct`.
        struct: (rows,) contiguous.
        n: number of rows.

    Raises:
        ConfigError: `struct` has another dtype, or not n rows (one, if n is None).
    """
    if struct.dtype != np.dtype(struct_dtype) or struct.size != (1 if n is None else n):
        raise ConfigError(
            f"struct has {struct.size} rows of {struct.dtype}: must have {n or 1} of "
            f"{np.dtype(struct_dtype)}"
        )
    flat: np.ndarray = struct.reshape(-1).view(arr_dtype)
    return flat if n is None else flat.reshape(n, -1)


def emulate(struct: Any, sample: Any) -> None:
    """Write a nested value into a structured array or record, field by field.

    Args:
        struct: one record (or arrays of one) of the dtype from `emulate_observation_space`.
        sample: dicts by field name, tuples, arrays and numbers.
    """
    if not isinstance(sample, (dict, tuple)):
        struct[...] = sample
        return
    for key, value in (
        sample.items()
        if isinstance(sample, dict)
        else ((f"f{i}", part) for i, part in enumerate(sample))
    ):
        if isinstance(value, (dict, tuple)):
            emulate(struct[key], value)
        else:
            struct[key] = value  # Set through the parent: there is no view of a record's number.
