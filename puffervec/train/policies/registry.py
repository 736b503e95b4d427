# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Which policy acts for which rows: the policies of this package by `policy.kind`, and those of users."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence

import numpy as np
from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from puffervec.core.spec import EnvSpec, GroupSpec
from puffervec.errors import ConfigError
from puffervec.python.creators import resolve
from puffervec.train.config.sections import PolicySection
from puffervec.train.policies.convolution import has_pictures, picture_policy
from puffervec.train.policies.mlp import MLPPolicy
from puffervec.train.policies.object_set import ObjectSetPolicy, has_object_sets
from puffervec.train.policies.protocol import Policy


@dataclasses.dataclass(frozen=True)
class PolicyRows:
    """The rows that one policy acts for, and what describes its network.

    group: the row group that they are of, with as many agents as the policy has in an env. agents: which agents of an env's row
    group, in order; None: all.
    """

    group: GroupSpec
    section: PolicySection
    agents: tuple[int, ...] | None = None

    def build(self) -> nn.Module:
        """Return the network, see `build_policy`."""
        return build_policy(self.group, self.section)


def policy_rows(spec: EnvSpec, section: PolicySection | None = None) -> dict[str, PolicyRows]:
    """Return what each policy acts for, by the policy's name.

    The policies of `policy.map`; else one per row group, named like it, or `default` where there is one group.

    Raises: ConfigError where the map leaves an agent out, gives it twice, or names one that is not there.
    """
    section = section or PolicySection()
    if not section.map:
        return {"default" if len(spec.groups) == 1 else group.name: PolicyRows(group, section) for group in spec.groups}
    words = _agents_by_word(spec)
    owner: dict[Agent, str] = {}
    for entry in section.map:
        name, _, given = entry.partition("=")
        if not name or not given or name in owner.values():
            raise ConfigError(f"policy.map has {entry!r}: give NAME=AGENT,AGENT, each name once")
        for word in given.split(","):
            if word not in words:
                raise ConfigError(f"policy.map: {name!r} is to act for {word!r}: this env has {_listed(words)}")
            for agent in words[word]:
                if (before := owner.setdefault(agent, name)) != name:
                    raise ConfigError(f"policy.map: {_called(spec, agent)} is given to {before!r} and {name!r}: give it to one")
    policies = list(dict.fromkeys(owner.values()))
    for agent in ((group, row) for group, rows in enumerate(spec.groups) for row in range(rows.agents)):
        if agent not in owner:
            raise ConfigError(f"policy.map: no policy acts for {_called(spec, agent)}: give it to one of {', '.join(policies)}")
    return {name: _rows_of(name, sorted(agent for agent in owner if owner[agent] == name), spec, section) for name in policies}


Agent = tuple[int, int]  # row group, row of an env in it


def _agents_by_word(spec: EnvSpec) -> dict[str, list[Agent]]:
    """Return the agents that each word of a map stands for: a type, an agent's name, a row group, a row."""
    words: dict[str, list[Agent]] = {}
    agents = [(index, row) for index, group in enumerate(spec.groups) for row in range(group.agents)]
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
    return f"agent {row} of {group.name}" + (f" ({group.agent_names[row]})" if group.agent_names else "")


def _rows_of(name: str, agents: list[Agent], spec: EnvSpec, section: PolicySection) -> PolicyRows:
    groups = {index for index, _ in agents}
    if len(groups) > 1:
        named = " and ".join(spec.groups[index].name for index in sorted(groups))
        raise ConfigError(f"policy.map: {name!r} is to act for {named}, whose rows differ: give each group a policy of its own")
    group, rows = spec.groups[groups.pop()], tuple(row for _, row in agents)
    if len(rows) == group.agents:
        return PolicyRows(group, section)
    return PolicyRows(dataclasses.replace(group, agents=len(rows)), section, rows)


def places(agents: Sequence[int], per_env: int, rows: int) -> np.ndarray:
    """Return where some agents of each env stand among `rows` rows of a row group with `per_env` of them in an env.

    >>> places((0, 2), 3, 6).tolist()
    [0, 2, 3, 5]
    """
    found: np.ndarray = np.arange(0, rows, per_env)[:, None] + np.array(agents)
    return found.reshape(-1)


def draws(policy: nn.Module) -> bool:
    """Return True where a forward pass draws random numbers, as far as torch's own layers tell."""
    return any(
        isinstance(layer, (_DropoutNd, nn.RReLU))
        or (isinstance(layer, (nn.RNNBase, nn.MultiheadAttention)) and layer.dropout > 0)
        for layer in policy.modules()
    )


def build_policy(group: GroupSpec, section: PolicySection) -> nn.Module:
    """Return the policy that `section` asks for, with fresh weights from torch's global generator.

    Raises: ConfigError where the kind does not fit the group's observations.
    """
    kind = section.kind if section.kind != "auto" else fitting_kind(group)
    if ":" in kind:
        return _own_policy(kind, group, section)
    known = kinds()
    if kind not in known:
        raise ConfigError(f"policy.kind is {kind!r}: use auto, {', '.join(known)}, or module:Class for your own")
    return known[kind](group, section)


def kinds() -> dict[str, Callable[[GroupSpec, PolicySection], nn.Module]]:
    """Return the policies of this package by `policy.kind`."""
    return {"mlp": MLPPolicy, "object_set": ObjectSetPolicy, "cnn": picture_policy}


def fitting_kind(group: GroupSpec) -> str:
    """Return the kind of policy that fits the group's rows."""
    if has_pictures(group):
        return "cnn"
    # A Python env's table may be a matrix.
    return "object_set" if group.observation_plan is None and has_object_sets(group) else "mlp"


def _own_policy(name: str, group: GroupSpec, section: PolicySection) -> nn.Module:
    """Make a user's policy. Raises: ConfigError with the user's own words where that fails."""
    try:
        made = resolve(name)(group, section)
    except Exception as error:
        raise ConfigError(f"policy.kind {name}: {type(error).__name__}: {error}") from error
    if not isinstance(made, nn.Module) or not isinstance(made, Policy):
        raise ConfigError(
            f"policy.kind {name} gave a {type(made).__name__}: give an nn.Module with initial_state(rows) and "
            "forward(obs, state, reset, action_mask), see puffervec.train.policies.protocol"
        )
    return made
