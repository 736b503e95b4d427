# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A PettingZoo parallel env with a fixed row per possible agent, as PufferLib wraps it. Needs no PettingZoo by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from puffervec.compat.pufferlib.puffer_rows import EmulatedRows, pad_agent_data
from puffervec.python.emulation.exceptions import APIUsageError, InvalidAgentError
from puffervec.python.env import PARALLEL, shared_spaces


class PettingZooPufferEnv(EmulatedRows):
    """A row for each of `possible_agents`, which share their spaces.

    A row is live (mask True) where the env gave an observation for its agent, on its last step too. The rows of absent agents
    are zero, flags and mask False. When all agents are gone, the caller resets.
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
        """The agents that are alive now."""
        return list(self.env.agents)

    @property
    def done(self) -> bool:
        """Whether the episode is over, or none has begun."""
        return self.all_done or not self.env.agents

    def observation_space(self, agent: Any) -> gymnasium.Space[Any]:
        """Return the flat observation space. Raises InvalidAgentError for an unknown agent."""
        return self._known(agent, self.single_observation_space)

    def action_space(self, agent: Any) -> gymnasium.Space[Any]:
        """Return the flat action space. Raises InvalidAgentError for an unknown agent."""
        return self._known(agent, self.single_action_space)

    def _known(self, agent: Any, space: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
        if agent not in self._index:
            raise InvalidAgentError(agent, self.possible_agents)
        return space

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Begin an episode.

        Returns:
            observations: by agent (all possible ones), views on the buffer, valid until the next call. infos: the env's.
        Raises:
            SpaceMismatchError: the first observation does not fit the space. InvalidAgentError: the env invented an agent.
        """
        observations, infos = self._reset_env(seed, options)
        self.initialized, self.all_done = True, False
        self._store(observations, {}, {}, {}, {})
        return self.dict_obs, infos

    def step(self, actions: Any) -> tuple[dict[Any, Any], ...]:
        """Step all live agents.

        Args:
            actions: flat actions by agent, or one array (A, *row) in the order of `possible_agents`. Those of absent agents
                are ignored.
        Returns:
            observations, rewards, terminals, truncations by agent for all possible ones (absent: zeros, 0, True, False), and
            infos of the env. Observations are views on the buffer, valid until the next call.
        Raises:
            APIUsageError: before reset, after the end of an episode, actions that do not fit or miss a live agent.
            InvalidAgentError: an action for an agent that cannot exist.
        """
        self._require_turn(self.done)
        before = self.agents
        observations, rewards, terminations, truncations, infos = self.env.step(self._native_actions(actions, before))
        ended = {agent: 0 for agent in before if terminations.get(agent) or truncations.get(agent)}
        self._store(observations, rewards, terminations, truncations, ended)
        self.all_done = all(terminations[agent] or truncations.get(agent, False) for agent in terminations)
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
                raise APIUsageError(f"actions have shape {rows.shape}: this env has {self.num_agents} agents")
            actions = dict(zip(self.possible_agents, rows, strict=True))
        for agent in actions:
            if agent not in self._index:
                raise InvalidAgentError(agent, self.possible_agents)
        missing = [agent for agent in live if agent not in actions]
        if missing:
            raise APIUsageError(f"there are no actions for the live agents {missing}")
        return {agent: self._native_action(self._index[agent], actions[agent]) for agent in live}

    def _store(
        self,
        observations: Mapping[Any, Any],
        rewards: Mapping[Any, Any],
        terminations: Mapping[Any, Any],
        truncations: Mapping[Any, Any],
        ended: Mapping[Any, Any],
    ) -> None:
        """Write all rows. An agent that ended without a last observation is live on a row of zeros."""
        for agent in observations:
            self._known(agent, self.single_observation_space)
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
