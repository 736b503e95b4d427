# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A pool of frozen policies, one of which plays each episode of an env. Runs in the learner.

To a roll-out a pool is a policy with memory: what it remembers of a row is what its members
remember, and which of them plays. So a run goes on with the same opponents, and ranks and threads
change nothing. Who plays is a function of seed, env and number of the episode: no generator has a
state to save.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from puffervec.train.device.device import in_pieces
from puffervec.train.policies.distributions import Heads
from puffervec.train.policies.leaves import Observation
from puffervec.train.policies.memory import State
from puffervec.train.policies.protocol import Policy

_MIX = (
    -4658895280553007687,
    -7723592293110705685,
)  # Of SplitMix64 (Steele et al. 2014), as signed numbers.
_STEP = -7046029254386353131


class Pool(nn.Module):
    """Policies of one shape; the rows of an env all have the same one until they all begin an
    episode at once.
    """

    def __init__(self, members: Sequence[nn.Module], agents: int, seed: int) -> None:
        """Args: members: in evaluation mode; agents: rows per env; seed: of who plays."""
        super().__init__()
        self.members = nn.ModuleList(members)
        self._agents, self._seed = agents, seed

    @property
    def newest(self) -> nn.Module:
        """The last member: the one that stands for the pool outside of the roll-outs."""
        return self.members[-1]

    def initial_state(self, rows: int) -> State:
        """Return what the members remember, then (rows,) int64 who plays, and the number of the
        episode, which begins at 0.
        """
        first: Policy = self.members[0]  # type: ignore[assignment]
        return (
            *first.initial_state(rows),
            torch.zeros(rows, dtype=torch.int64),
            torch.full((rows,), -1, dtype=torch.int64),
        )

    def drawn(self, state: State, reset: Tensor, first_env: int) -> State:
        """Return the state with a member drawn for each env whose rows all begin an episode. Reads
        nothing back.

        Args: reset: (rows,) bool, as of the protocol, rows of whole envs; first_env: number of the
            first of these.
        """
        *own, who, episodes = state
        begins = reset.view(-1, self._agents).all(1)
        number = episodes[:: self._agents] + begins
        env = torch.arange(first_env, first_env + len(begins), device=reset.device)
        found = _mixed(_mixed(_mixed(env + self._seed) + number)).remainder(len(self.members))
        found = torch.where(begins, found, who[:: self._agents])
        return *own, found.repeat_interleave(self._agents), number.repeat_interleave(self._agents)

    def forward(
        self, obs: Observation, state: State, reset: Tensor | None, action_mask: Tensor | None
    ) -> tuple[Heads, Tensor, State]:
        """Act for rows (B,), each with its own member; see policies/protocol.py.

        A CPU calls each member for its own rows. Elsewhere all act for all rows: how many rows one
            has, only the device knows.
        """
        *own, who, episodes = state
        out: list[Tensor] = []
        heads = 0
        for index, member in enumerate(self.members):
            mine = who == index
            at = mine.nonzero()[:, 0] if in_pieces(who.device) else slice(None)
            if isinstance(at, Tensor) and not len(at):
                continue
            rows = (
                {key: part[at] for key, part in obs.items()} if isinstance(obs, dict) else obs[at]
            )
            found, value, after = member(
                rows, tuple(part[at] for part in own), _of(reset, at), _of(action_mask, at)
            )
            heads, parts = len(found), (*found, value, *after)
            out = out or [part.new_empty(len(who), *part.shape[1:]) for part in parts]
            for kept, new in zip(out, parts, strict=True):
                kept[at] = (
                    new
                    if isinstance(at, Tensor)
                    else torch.where(mine.view(-1, *[1] * (new.dim() - 1)), new, kept)
                )
        return tuple(out[:heads]), out[heads], (*out[heads + 1 :], who, episodes)


def newest(policy: nn.Module) -> nn.Module:
    """Return the policy that stands for a pool; any other policy itself."""
    return policy.newest if isinstance(policy, Pool) else policy


def _of(part: Tensor | None, rows: Tensor | slice) -> Tensor | None:
    return None if part is None else part[rows]


def _mixed(x: Tensor) -> Tensor:
    """One output of SplitMix64 for each int64: all bits depend on all bits."""
    x = x + _STEP
    for shift, factor in zip((30, 27), _MIX, strict=True):
        x = (x ^ _shifted(x, shift)) * factor
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, by: int) -> Tensor:
    """x >> by of the bits as an unsigned number."""
    return (x >> by) & ((1 << (64 - by)) - 1)
