# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The base class of Python envs with many agents that write their rows in place.

Its interface is PufferLib's.

    class Env(PufferEnv):
        def __init__(self, num_agents=8, buf=None, seed=0):
            self.single_observation_space, self.single_action_space = Box(...), Discrete(...)
            self.num_agents = num_agents
            # makes or adopts observations, actions, rewards, terminals, truncations, masks
            super().__init__(buf)

Such an env is its own vector env: it resets its agents by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from puffervec.errors import APIUsageError

_REQUIRED = ("single_observation_space", "single_action_space", "num_agents")


class AgentRows:
    """Base of envs whose arrays `set_buffers` makes or adopts."""

    num_agents: int
    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminals: np.ndarray
    truncations: np.ndarray
    masks: np.ndarray

    @property
    def driver_env(self) -> Self:
        """The env itself, for code that asks a vector env for the env with its spaces."""
        return self


class PufferEnv(AgentRows):
    """An env with A agents in rows.

    The subclass sets the first three attributes. The arrays alias `buf` if it was passed.

    Attributes:
        single_observation_space: a Box.
        single_action_space: Discrete, MultiDiscrete or Box.
        num_agents: the number of agents, A.
        observations: (A, *shape).
        actions: (A, *shape), int32 unless a Box.
        rewards: (A,) float32.
        terminals: (A,) bool.
        truncations: (A,) bool.
        masks: (A,) bool.
        observation_space: space of all agents.
        action_space: space of all agents' actions.
        agent_ids: (A,) 0 to A - 1.
        infos: infos of the last async call.
    """

    emulated = False  # the rows are the env's own
    done = False  # it resets its agents by itself
    single_observation_space: gymnasium.Space[Any]
    single_action_space: gymnasium.Space[Any]

    def __init__(self, buf: Any = None) -> None:
        """Check the subclass's attributes, then make the buffers or adopt those of `buf`.

        Args:
            buf: a mapping, or an object with attributes.

        Raises:
            APIUsageError: a required attribute is missing or of the wrong kind, or `buf` has other
                shapes.
        """
        self._check_setup()
        set_buffers(self, buf)
        self.observation_space = batch_space(self.single_observation_space, self.num_agents)
        self.action_space = batch_space(self.single_action_space, self.num_agents)
        self.agent_ids = np.arange(self.num_agents)
        self.infos: list[dict[str, Any]] = []

    def _check_setup(self) -> None:
        for name in _REQUIRED:
            if not hasattr(self, name):
                raise APIUsageError(
                    f"{type(self).__name__} has no {name}: set it before super().__init__(buf)"
                )
        for name in ("observation_space", "action_space"):
            if hasattr(self, name):
                raise APIUsageError(
                    f"{type(self).__name__} sets {name}: set single_{name}, the space of one agent"
                )
        if self.num_agents < 1:
            raise APIUsageError(f"num_agents is {self.num_agents}: use at least 1")
        if not isinstance(self.single_observation_space, spaces.Box):
            raise APIUsageError(
                f"single_observation_space is {self.single_observation_space}: use a Box"
            )
        if not isinstance(
            self.single_action_space, (spaces.Discrete, spaces.MultiDiscrete, spaces.Box)
        ):
            raise APIUsageError(
                f"single_action_space is {self.single_action_space}: use Discrete, MultiDiscrete "
                "or Box"
            )

    @property
    def agents_per_batch(self) -> int:
        """Number of rows that one `recv` returns: all of them."""
        return self.num_agents

    agent_per_batch = agents_per_batch  # PufferLib's name in this class

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, list[dict[str, Any]]]:
        """Begin all episodes; implemented by the subclass.

        Returns:
            `observations` and a list of infos.
        """
        raise NotImplementedError(f"{type(self).__name__} has no reset(seed)")

    def step(
        self, actions: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Step all agents; implemented by the subclass.

        Args:
            actions: (A, *shape) in the order of the rows.

        Returns:
            observations, rewards, terminals, truncations (the buffers) and a list of infos.
        """
        raise NotImplementedError(f"{type(self).__name__} has no step(actions)")

    def close(self) -> None:
        """Free the env's resources; implemented by the subclass if it has any."""

    def async_reset(self, seed: int | None = None) -> None:
        """Reset all agents; `recv` returns the rows.

        Raises:
            APIUsageError: `reset` does not return a list of infos.
        """
        _, infos = self.reset(seed)
        self.infos = self._info_list(infos)

    def send(self, actions: Any) -> None:
        """Step all agents; `recv` returns the rows.

        Raises:
            APIUsageError: `step` does not return a list of infos.
        """
        *_, infos = self.step(actions)
        self.infos = self._info_list(infos)

    def recv(self) -> tuple[Any, ...]:
        """Return the buffers themselves, in the order of `VectorEnv.recv`.

        Returns:
            observations, rewards, terminals, truncations, infos, agent_ids, masks.
        """
        return (
            self.observations,
            self.rewards,
            self.terminals,
            self.truncations,
            self.infos,
            self.agent_ids,
            self.masks,
        )

    def _info_list(self, infos: Any) -> list[dict[str, Any]]:
        if not isinstance(infos, list):
            raise APIUsageError(
                f"{type(self).__name__} returned infos of type {type(infos).__name__}: return a "
                "list of dicts"
            )
        return infos


NAMES = ("observations", "actions", "rewards", "terminals", "truncations", "masks")


def set_buffers(env: Any, buf: Any = None, action_dtype: Any = None) -> None:
    """Set the arrays `observations`, `actions`, `rewards`, `terminals`, `truncations` and `masks`.

    Args:
        env: has `num_agents` (A), `single_observation_space` and `single_action_space`.
        buf: arrays to adopt, as a mapping or an object with these attributes; None to make new
            arrays (masks all True, the others zero). observations: (A, *observation shape) of the
            space's dtype. actions: (A, *action shape). rewards: (A,) float32. terminals,
            truncations, masks: (A,) bool. Adopted arrays stay the caller's memory.
        action_dtype: dtype of new action rows; None: that of a Box, and int32 for other spaces (as
            native envs expect).

    Raises:
        APIUsageError: an array of `buf` is missing or has another shape, or observations have
            another dtype.
    """
    agents, seen, act = env.num_agents, env.single_observation_space, env.single_action_space
    if buf is None:
        dtype = action_dtype or (act.dtype if isinstance(act, spaces.Box) else np.int32)
        env.observations = np.zeros((agents, *seen.shape), seen.dtype)
        env.actions = np.zeros((agents, *act.shape), dtype)
        env.rewards = np.zeros(agents, np.float32)
        env.terminals, env.truncations = np.zeros(agents, np.bool_), np.zeros(agents, np.bool_)
        env.masks = np.ones(agents, np.bool_)
        return
    for name in NAMES:
        setattr(env, name, _adopted(buf, name, _shape(env, name), seen))


def _shape(env: Any, name: str) -> tuple[int, ...]:
    space = {"observations": env.single_observation_space, "actions": env.single_action_space}.get(
        name
    )
    return (env.num_agents, *(space.shape if space is not None else ()))


def _adopted(buf: Any, name: str, shape: tuple[int, ...], seen: gymnasium.Space[Any]) -> np.ndarray:
    array = buf.get(name) if isinstance(buf, Mapping) else getattr(buf, name, None)
    if not isinstance(array, np.ndarray):
        raise APIUsageError(f"buf has no array {name!r}: give it {', '.join(NAMES)}")
    if array.shape != shape:
        raise APIUsageError(f"buf's {name} have shape {array.shape}: this env needs {shape}")
    if name == "observations" and array.dtype != seen.dtype:
        raise APIUsageError(
            f"buf's observations have dtype {array.dtype}: this env writes {seen.dtype}"
        )
    return array
