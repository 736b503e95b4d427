# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Assign rows to policies by `policy.map`, or one policy per row group. Runs in the learner."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Sequence

import numpy as np
from torch import nn

from puffervec.core.spec import EnvSpec, GroupSpec
from puffervec.errors import ConfigError
from puffervec.train.config.sections import PolicySection, PolicySettings, TrainConfig
from puffervec.train.config.tables import suggest
from puffervec.train.policies.registry import build_policy
from puffervec.workers.python.creators import load, run_user_code

Agent = tuple[int, int]  # The index of a row group, and a row of an env in it.
AgentMap = Callable[[int | str], str]


@dataclasses.dataclass(frozen=True)
class PolicyRows:
    """The rows that one policy acts for, and its settings.

    Attributes:
        group: The row group of these rows, with the number of agents that the policy has in an env.
        agents: The agents of an env's row group, in order; None for all.
    """

    group: GroupSpec
    settings: PolicySettings
    agents: tuple[int, ...] | None = None

    @property
    def section(self) -> PolicySection:
        """Return the settings of the network."""
        return self.settings.policy

    def build(self) -> nn.Module:
        """Build the network, see `build_policy`."""
        return build_policy(self.group, self.section)


def policy_rows(spec: EnvSpec, config: TrainConfig | None = None) -> dict[str, PolicyRows]:
    """Return the rows of each policy, by the policy's name.

    The policies are those of `policy.map`. Without a map there is one per row group, named after
    it, or `default` if there is only one group.

    Args:
        config: The config of the run; None for one without settings.

    Raises:
        ConfigError: The map leaves an agent out, assigns it twice, or names an unknown one; or
            there are settings for an unknown policy.
    """
    config = config or TrainConfig("", {})
    entries = explicit_map(spec, config.policy.map)
    if entries:
        owned = _assign_agents(spec, entries)
    else:
        whole = {
            index: [(index, row) for row in range(group.agents)]
            for index, group in enumerate(spec.groups)
        }
        owned = {
            "default" if len(whole) == 1 else spec.groups[index].name: agents
            for index, agents in whole.items()
        }
    for name in config.policies:
        if name not in owned:
            raise ConfigError(
                f"policies.{name}: this run has no policy of that name{suggest(name, list(owned))}"
            )
    return {
        name: _rows_of(name, agents, spec, config.of_policy(name)) for name, agents in owned.items()
    }


def explicit_map(spec: EnvSpec, policy_map: Sequence[str] | AgentMap) -> tuple[str, ...]:
    """Return a map's entries, each NAME=AGENT,AGENT.

    If the map is a function, or its name module:function, it is called with each agent.

    Args:
        policy_map: `policy.map`, or the function. Its argument is the agent's name in a parallel
            env, the row in a C env.

    Raises:
        ConfigError: The function does not exist, fails, or does not return a name.
    """
    if callable(policy_map):
        name_of: AgentMap = policy_map
    elif len(policy_map) == 1 and ":" in policy_map[0] and "=" not in policy_map[0]:
        path = policy_map[0]
        name_of = load(path, f"policy.map {path}")
    else:
        return tuple(policy_map)
    agents = [(group, row) for group in spec.groups for row in range(group.agents)]
    owned: dict[str, list[str]] = {}
    for number, (group, row) in enumerate(agents):
        who = (
            group.agent_names[row]
            if group.observation_plan is not None and group.agent_names
            else number
        )
        name = run_user_code(
            "policy.map", f"fails for agent {who!r}", functools.partial(name_of, who)
        )
        if not isinstance(name, str):
            raise ConfigError(
                f"policy.map: the function returned {name!r} for agent {who!r}: return the name "
                "of a policy"
            )
        owned.setdefault(name, []).append(str(who))
    return tuple(f"{name}={','.join(numbers)}" for name, numbers in owned.items())


def _assign_agents(spec: EnvSpec, entries: Sequence[str]) -> dict[str, list[Agent]]:
    """Return each policy's agents, or raise ConfigError."""
    words = _agents_by_word(spec)
    owner: dict[Agent, str] = {}
    for entry in entries:
        name, _, agents = entry.partition("=")
        if not name or not agents or name in owner.values():
            raise ConfigError(f"policy.map has {entry!r}: give NAME=AGENT,AGENT, each name once")
        for word in agents.split(","):
            if word not in words:
                raise ConfigError(
                    f"policy.map: {name!r} has {word!r}, but this env has {_list_words(words)}"
                )
            for agent in words[word]:
                if (before := owner.setdefault(agent, name)) != name:
                    raise ConfigError(
                        f"policy.map: {_describe(spec, agent)} has two policies, {before!r} and "
                        f"{name!r}: give it one"
                    )
    policies = list(dict.fromkeys(owner.values()))
    for agent in (
        (group, row) for group, rows in enumerate(spec.groups) for row in range(rows.agents)
    ):
        if agent not in owner:
            raise ConfigError(
                f"policy.map: {_describe(spec, agent)} has no policy: give it one of "
                f"{', '.join(policies)}"
            )
    return {name: sorted(agent for agent in owner if owner[agent] == name) for name in policies}


def _agents_by_word(spec: EnvSpec) -> dict[str, list[Agent]]:
    """Return the agents that each word of a map refers to: a type, an agent, a row group, a row."""
    words: dict[str, list[Agent]] = {}
    agents = [
        (index, row) for index, group in enumerate(spec.groups) for row in range(group.agents)
    ]
    for index, row in agents:
        group = spec.groups[index]
        for word in dict.fromkeys((*group.agent_names[row : row + 1], group.name)):
            words.setdefault(word, []).append((index, row))
    numbers = {str(number): [agent] for number, agent in enumerate(agents)}
    return words | {number: agent for number, agent in numbers.items() if number not in words}


def _list_words(words: Collection[str]) -> str:
    names = [word for word in words if not word.isdecimal()]
    return ", ".join(names) + f", and rows 0 to {len(words) - len(names) - 1}"


def _describe(spec: EnvSpec, agent: Agent) -> str:
    group, row = spec.groups[agent[0]], agent[1]
    return f"agent {row} of {group.name}" + (
        f" ({group.agent_names[row]})" if group.agent_names else ""
    )


def _rows_of(name: str, agents: list[Agent], spec: EnvSpec, settings: PolicySettings) -> PolicyRows:
    groups = {index for index, _ in agents}
    if len(groups) > 1:
        both = " and ".join(spec.groups[index].name for index in sorted(groups))
        raise ConfigError(
            f"policy.map: {name!r} has agents of {both}, whose rows differ: give each group its "
            "own policy"
        )
    group, rows = spec.groups[groups.pop()], tuple(row for _, row in agents)
    if len(rows) == group.agents:
        return PolicyRows(group, settings)
    return PolicyRows(dataclasses.replace(group, agents=len(rows)), settings, rows)


def places(agents: Sequence[int], per_env: int, rows: int) -> np.ndarray:
    """Return the indices of some agents of each env among the `rows` rows of a row group.

    Args:
        agents: Agents of an env's row group.
        per_env: Rows of the group in an env.

    >>> places((0, 2), 3, 6).tolist()
    [0, 2, 3, 5]
    """
    indices: np.ndarray = np.arange(0, rows, per_env)[:, None] + np.array(agents)
    return indices.reshape(-1)
