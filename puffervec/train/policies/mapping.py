# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Which policy acts for which rows: `policy.map`, else a policy per row group. Runs in the learner."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Sequence

import numpy as np
from torch import nn

from puffervec.core.spec import EnvSpec, GroupSpec
from puffervec.errors import ConfigError
from puffervec.train.config.sections import PolicySection, PolicySettings, TrainConfig, suggest
from puffervec.train.config.target import guarded
from puffervec.train.policies.registry import build_policy
from puffervec.workers.python.creators import named

Agent = tuple[int, int]  # row group, row of an env in it
AgentMap = Callable[[int | str], str]


@dataclasses.dataclass(frozen=True)
class PolicyRows:
    """The rows that one policy acts for, and its settings.

    group: the row group that they are of, with as many agents as the policy has in an env. agents:
    which agents of an env's row group, in order; None: all.
    """

    group: GroupSpec
    settings: PolicySettings
    agents: tuple[int, ...] | None = None

    @property
    def section(self) -> PolicySection:
        """What describes the network."""
        return self.settings.policy

    def build(self) -> nn.Module:
        """Return the network, see `build_policy`."""
        return build_policy(self.group, self.section)


def policy_rows(spec: EnvSpec, config: TrainConfig | None = None) -> dict[str, PolicyRows]:
    """Return what each policy acts for, by the policy's name.

    The policies of `policy.map`; else one per row group, named like it, or `default` where there is
    one group. config: of the run; None: one without settings.

    Raises: ConfigError where the map leaves an agent out, gives it twice, or names one that is not
        there, and where there are settings for a policy that is not there.
    """
    config = config or TrainConfig("", {})
    entries = explicit_map(spec, config.policy.map)
    if entries:
        owned = _mapped(spec, entries)
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


def explicit_map(spec: EnvSpec, given: Sequence[str] | AgentMap) -> tuple[str, ...]:
    """Return a map's entries, each NAME=AGENT,AGENT. A function, or module:function, is asked for
    each agent's policy.

    Args: given: `policy.map`, or the function: it is given the agent's name in a parallel env, the
    row in a C env.
    Raises: ConfigError where there is no such function, or it fails or returns no name.
    """
    if callable(given):
        asked: AgentMap = given
    elif len(given) == 1 and ":" in given[0] and "=" not in given[0]:
        asked = guarded(f"policy.map {given[0]}", "cannot be imported", lambda: named(given[0]))
    else:
        return tuple(given)
    agents = [(group, row) for group in spec.groups for row in range(group.agents)]
    owned: dict[str, list[str]] = {}
    for number, (group, row) in enumerate(agents):
        who = (
            group.agent_names[row]
            if group.observation_plan is not None and group.agent_names
            else number
        )
        name = guarded("policy.map", f"fails for agent {who!r}", functools.partial(asked, who))
        if not isinstance(name, str):
            raise ConfigError(
                f"policy.map: the function returned {name!r} for agent {who!r}: return the name "
                "of a policy"
            )
        owned.setdefault(name, []).append(str(who))
    return tuple(f"{name}={','.join(numbers)}" for name, numbers in owned.items())


def _mapped(spec: EnvSpec, entries: Sequence[str]) -> dict[str, list[Agent]]:
    """Return each policy's agents. Raises: ConfigError."""
    words = _agents_by_word(spec)
    owner: dict[Agent, str] = {}
    for entry in entries:
        name, _, given = entry.partition("=")
        if not name or not given or name in owner.values():
            raise ConfigError(f"policy.map has {entry!r}: give NAME=AGENT,AGENT, each name once")
        for word in given.split(","):
            if word not in words:
                raise ConfigError(
                    f"policy.map: {name!r} is to act for {word!r}: this env has {_listed(words)}"
                )
            for agent in words[word]:
                if (before := owner.setdefault(agent, name)) != name:
                    raise ConfigError(
                        f"policy.map: {_called(spec, agent)} is given to {before!r} and {name!r}: "
                        "give it to one"
                    )
    policies = list(dict.fromkeys(owner.values()))
    for agent in (
        (group, row) for group, rows in enumerate(spec.groups) for row in range(rows.agents)
    ):
        if agent not in owner:
            raise ConfigError(
                f"policy.map: no policy acts for {_called(spec, agent)}: give it to one of "
                f"{', '.join(policies)}"
            )
    return {name: sorted(agent for agent in owner if owner[agent] == name) for name in policies}


def _agents_by_word(spec: EnvSpec) -> dict[str, list[Agent]]:
    """Return the agents that each word of a map stands for: a type, an agent's name, a row group, a
    row.
    """
    words: dict[str, list[Agent]] = {}
    agents = [
        (index, row) for index, group in enumerate(spec.groups) for row in range(group.agents)
    ]
    for index, row in agents:
        group = spec.groups[index]
        for word in dict.fromkeys((*group.agent_names[row : row + 1], group.name)):
            words.setdefault(word, []).append((index, row))
    numbers = {str(number): [agent] for number, agent in enumerate(agents)}
    return words | {number: found for number, found in numbers.items() if number not in words}


def _listed(words: Collection[str]) -> str:
    named = [word for word in words if not word.isdecimal()]
    return ", ".join(named) + f", and rows 0 to {len(words) - len(named) - 1}"


def _called(spec: EnvSpec, agent: Agent) -> str:
    group, row = spec.groups[agent[0]], agent[1]
    return f"agent {row} of {group.name}" + (
        f" ({group.agent_names[row]})" if group.agent_names else ""
    )


def _rows_of(name: str, agents: list[Agent], spec: EnvSpec, settings: PolicySettings) -> PolicyRows:
    groups = {index for index, _ in agents}
    if len(groups) > 1:
        both = " and ".join(spec.groups[index].name for index in sorted(groups))
        raise ConfigError(
            f"policy.map: {name!r} is to act for {both}, whose rows differ: give each group a "
            "policy of its own"
        )
    group, rows = spec.groups[groups.pop()], tuple(row for _, row in agents)
    if len(rows) == group.agents:
        return PolicyRows(group, settings)
    return PolicyRows(dataclasses.replace(group, agents=len(rows)), settings, rows)


def places(agents: Sequence[int], per_env: int, rows: int) -> np.ndarray:
    """Return where some agents of each env stand among `rows` rows of a row group with `per_env` of
    them in an env.

    >>> places((0, 2), 3, 6).tolist()
    [0, 2, 3, 5]
    """
    found: np.ndarray = np.arange(0, rows, per_env)[:, None] + np.array(agents)
    return found.reshape(-1)
