# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Let a pool of frozen policies act, one of which plays each episode of an env.

To a rollout, a pool is a policy with memory. The state of a row is the state of its member and the
index of that member, so a resumed run continues with the same opponents, and ranks and threads
change nothing. The member is a function of seed, env and episode number, so no generator has a
state to save. Runs in the learner.
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

# Constants of SplitMix64 (Steele et al. 2014), as signed numbers.
_FACTORS = (-4658895280553007687, -7723592293110705685)
_STEP = -7046029254386353131


class Pool(nn.Module):
    """Policies of one shape, one of which acts for all rows of an env.

    An env gets another member when all of its rows begin an episode in the same step.
    """

    def __init__(self, members: Sequence[nn.Module], agents: int, seed: int) -> None:
        """Take the members.

        Args:
            members: Policies in evaluation mode.
            agents: Rows per env.
            seed: Determines which member plays.
        """
        super().__init__()
        self.members = nn.ModuleList(members)
        self._agents, self._seed = agents, seed

    @property
    def newest(self) -> nn.Module:
        """Return the last member, which represents the pool outside rollouts."""
        return self.members[-1]

    def initial_state(self, rows: int) -> State:
        """Return the members' state, then (rows,) int64 member indices and episode numbers.

        Episodes are counted from 0; the state begins at -1, before the first one.
        """
        first: Policy = self.members[0]  # type: ignore[assignment]
        return (
            *first.initial_state(rows),
            torch.zeros(rows, dtype=torch.int64),
            torch.full((rows,), -1, dtype=torch.int64),
        )

    def draw_members(self, state: State, reset: Tensor, first_env: int) -> State:
        """Return the state with a new member for each env whose rows all begin an episode.

        Reads nothing back from the device.

        Args:
            reset: (rows,) bool, see protocol.py; rows of whole envs.
            first_env: Number of the first of these envs.
        """
        *own, who, episodes = state
        begins = reset.view(-1, self._agents).all(1)
        number = episodes[:: self._agents] + begins
        env = torch.arange(first_env, first_env + len(begins), device=reset.device)
        member = _mix(_mix(_mix(env + self._seed) + number)).remainder(len(self.members))
        member = torch.where(begins, member, who[:: self._agents])
        return *own, member.repeat_interleave(self._agents), number.repeat_interleave(self._agents)

    def forward(
        self, obs: Observation, state: State, reset: Tensor | None, action_mask: Tensor | None
    ) -> tuple[Heads, Tensor, State]:
        """Act for rows (B,), each with its own member; see protocol.py.

        On a CPU each member acts for its own rows. On other devices all members act for all rows,
        because only the device knows which rows belong to a member.
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
            logits, value, after = member(
                rows, tuple(part[at] for part in own), _select(reset, at), _select(action_mask, at)
            )
            heads, parts = len(logits), (*logits, value, *after)
            out = out or [part.new_empty(len(who), *part.shape[1:]) for part in parts]
            for target, new in zip(out, parts, strict=True):
                target[at] = (
                    new
                    if isinstance(at, Tensor)
                    else torch.where(mine.view(-1, *[1] * (new.dim() - 1)), new, target)
                )
        return tuple(out[:heads]), out[heads], (*out[heads + 1 :], who, episodes)


def newest(policy: nn.Module) -> nn.Module:
    """Return the newest member of a pool, or any other policy itself."""
    return policy.newest if isinstance(policy, Pool) else policy


def _select(part: Tensor | None, rows: Tensor | slice) -> Tensor | None:
    return None if part is None else part[rows]


def _mix(x: Tensor) -> Tensor:
    """Return one output of SplitMix64 for each int64: every bit depends on all bits."""
    x = x + _STEP
    for shift, factor in zip((30, 27), _FACTORS, strict=True):
        x = (x ^ _shift_right(x, shift)) * factor
    return x ^ _shift_right(x, 31)


def _shift_right(x: Tensor, by: int) -> Tensor:
    """Return x >> by, with the bits taken as an unsigned number."""
    return (x >> by) & ((1 << (64 - by)) - 1)
