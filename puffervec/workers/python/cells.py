# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The loops that reset and step a worker's Python envs of one half and write their rows.

There is one loop per kind of env. They are written for speed: everything per row is looked up once;
rewards are collected in a list and written together; flags are only written when an episode ends;
observations are fully checked against the space only at an env's first reset and step, and by shape
after that.
"""

from __future__ import annotations

import struct
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from puffervec.core.info_area import InfoWriter
from puffervec.workers.python.emulation import ActionPlan, ObservationPlan
from puffervec.workers.python.emulation.resets import reset_of
from puffervec.workers.python.results import (
    REWARD_ERRORS,
    FlatRows,
    RewardWriter,
    checked_step,
    first_reset_pair,
    reset_pair,
)

_WHOLE = slice(None)
_BUFFERS = ("observations", "rewards", "terminals", "truncations", "masks")  # of a PufferEnv


@dataclass(frozen=True)
class Rows:
    """Views on the slab's rows of a block: N rows, env by env.

    Attributes:
        observations: (N, *row_shape).
        actions: (N, *row_shape).
        rewards: (N,) float32.
        terminals: (N,) uint8.
        truncations: (N,) uint8.
        masks: (N,) uint8.
        final_observations: (N, *row_shape) or None.
    """

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminals: np.ndarray
    truncations: np.ndarray
    masks: np.ndarray
    final_observations: np.ndarray | None


@dataclass(frozen=True)
class CurrentEnv:
    """The place where the index of the current env is stored.

    An error can then name the env if it fails or kills the process.

    Attributes:
        at: (1,) uint32, the index of the current env among all envs.
        first: the index of the block's first env.
    """

    at: memoryview
    first: int


class EnvLoop:
    """The loop over the envs of one block."""

    def __init__(
        self,
        envs: Sequence[Any],
        rows: Rows,
        observation: ObservationPlan,
        action: ActionPlan,
        infos: InfoWriter,
        autoreset: str,
        place: CurrentEnv,
    ) -> None:
        """Prepare the loop.

        Args:
            envs: the envs, in order.
            rows: the rows of the envs.
            observation: the plan of one observation row.
            action: the plan of one action row.
            infos: the writer of infos.
            autoreset: the autoreset mode.
            place: the place where the index of the current env is stored.
        """
        self.envs, self.rows, self.infos = envs, rows, infos
        self.resets = [reset_of(env) for env in envs]
        self.observation, self.action = observation, action
        self.same_step, self.next_step = autoreset == "same_step", autoreset == "next_step"
        self.write = observation.writers(rows.observations)
        self.write_final = (
            observation.writers(rows.final_observations)
            if rows.final_observations is not None
            else []
        )
        self.at, self.first = place.at, place.first
        self.write_rewards = RewardWriter(rows.rewards)

    def reset(self, which: Sequence[int], seeds: Sequence[int | None], options: Any) -> None:
        """Reset the envs in `which` (positions), each with its seed, and the same options.

        The infos of this turn have been cleared already.
        """
        for env, seed in zip(which, seeds, strict=True):
            self.at[0] = self.first + env
            self.reset_one(env, seed, options)

    def reset_one(self, env: int, seed: int | None, options: Any) -> None:
        """Reset one env and write its rows."""
        raise NotImplementedError

    def step(self, native: list[Any] | None) -> None:
        """Step all envs.

        Args:
            native: one action per row; None: use the actions in the rows.
        """
        raise NotImplementedError


class GymnasiumLoop(EnvLoop):
    """The loop for gymnasium.Env: one row each."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        count = len(self.envs)
        # The results of an env's steps are checked until it has taken its first step.
        self._steps = [checked_step(env.step) for env in self.envs]
        self._over = [False] * count
        self._ended: list[int] = []
        self._reset_checked, self._step_checked = [False] * count, False
        self._rewards = [0.0] * count
        self._pack_exact = struct.Struct(f"={count}d").pack_into
        self._readers = None if self.action.is_plain else self.action.readers(self.rows.actions)
        # A plain observation is assigned to its row in the loop itself, which saves the call of a
        # writer.
        self._flat = (
            FlatRows(self.rows.observations, self.observation) if self.observation.is_flat else None
        )

    def reset_one(self, env: int, seed: int | None, options: Any) -> None:
        observation, info = self._begin(env, seed, options)
        self.write[env](observation)
        rows = self.rows
        rows.rewards[env] = self._rewards[env] = 0.0
        rows.terminals[env] = rows.truncations[env] = 0
        rows.masks[env] = 1
        if info:
            self.infos.put(env, info)

    def _begin(self, env: int, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        """Begin an episode and return its first observation and info."""
        result = self.resets[env](seed, options)
        if not self._reset_checked[env]:
            self.observation.check(first_reset_pair(result, self.observation)[0])
            self._reset_checked[env] = True
        self._over[env] = False
        observation, info = result
        return observation, info

    def step(self, native: list[Any] | None) -> None:
        self.infos.begin()
        if self._ended:
            self._forget_ends()
        actions = self._actions() if native is None else native
        over, rewards, write, flat, put = (
            self._over,
            self._rewards,
            self.write,
            self._flat,
            self.infos.put,
        )
        targets, misfits = (None, ()) if flat is None else (flat.targets, flat.misfits)
        check, at, first = (
            None if self._step_checked else self.observation.check,
            self.at,
            self.first,
        )
        for env, (step, action) in enumerate(zip(self._steps, actions, strict=True)):
            at[0] = first + env
            if over[env]:
                observation, info = self._begin(env)
                rewards[env], terminated, truncated = 0.0, False, False
            else:
                observation, rewards[env], terminated, truncated, info = step(action)
            if check is not None:
                check(observation)
            if terminated or truncated:
                observation, info = self._end(env, observation, terminated, truncated, info)
            if targets is None:
                write[env](observation)
            else:
                try:
                    targets[env][_WHOLE] = observation
                except misfits:
                    flat.other(env, observation)  # type: ignore[union-attr]
            if info:
                put(env, info)
        if flat is not None and flat.copies:
            flat.finish()
        if check is not None:
            self._step_checked, self._steps = True, [env.step for env in self.envs]
        self._write_rewards()
        self._keep_exact()

    def _actions(self) -> list[Any]:
        """Return the actions in the rows; envs may keep them."""
        if self._readers is not None:
            return [read() for read in self._readers]
        rows = self.rows.actions
        return list(rows if rows.ndim == 1 else rows.copy())  # numbers are copies already

    def _end(
        self, env: int, observation: Any, terminated: Any, truncated: Any, info: Any
    ) -> tuple[Any, Any]:
        """Record the end of an episode and return the observation and the info of this turn's row.

        In same-step mode these are the first ones of the next episode; the last observation is
        stored separately.
        """
        rows = self.rows
        rows.terminals[env], rows.truncations[env] = bool(terminated), bool(truncated)
        self._ended.append(env)
        if not self.same_step:
            self._over[env] = True
            return observation, info
        self.write_final[env](observation)
        if info:
            self.infos.put(env, {"final_info": info})
        return self._begin(env)

    def _forget_ends(self) -> None:
        """Clear the flags of the previous turn."""
        for env in self._ended:
            self.rows.terminals[env] = self.rows.truncations[env] = 0
        self._ended.clear()

    def _write_rewards(self) -> None:
        try:
            self.write_rewards.all(self._rewards)
        except REWARD_ERRORS:
            for env, reward in enumerate(self._rewards):
                self.at[0] = self.first + env
                self.write_rewards.one(env, reward)

    def _keep_exact(self) -> None:
        """Store the rewards in their original precision, which rows do not have."""
        try:
            # struct needs half the time that NumPy needs for a list.
            self._pack_exact(self.infos.area.rewards.data, 0, *self._rewards)
        except struct.error:  # arrays of one number, which some envs return
            self.infos.area.rewards[:] = [
                np.asarray(reward).reshape(-1)[0] for reward in self._rewards
            ]


class ParallelLoop(EnvLoop):
    """The loop for PettingZoo ParallelEnv: a row per possible agent.

    Absent agents have zero rows and mask 0.

    Attributes:
        absent_terminal: the terminal flag of absent agents' rows.
    """

    absent_terminal = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._agents = tuple(self.envs[0].possible_agents)
        self._readers = self.action.readers(self.rows.actions)
        self._over = [False] * len(self.envs)
        self._steps = [checked_step(env.step) for env in self.envs]

    def _first_row(self, env: int) -> int:
        return env * len(self._agents)

    def reset_one(self, env: int, seed: int | None, options: Any) -> None:
        observations, infos = reset_pair(self.resets[env](seed, options))
        self._over[env] = False
        self._write(env, observations, {}, {}, {}, check=True)
        self._put(env, infos)

    def step(self, native: list[Any] | None) -> None:
        self.infos.begin()
        for env, parallel in enumerate(self.envs):
            self.at[0] = self.first + env
            if self._over[env]:
                self.reset_one(env, None, None)
                continue
            first = self._first_row(env)
            live = set(parallel.agents)
            own = slice(first, first + len(self._agents))
            if native is None:
                actions = {
                    agent: read()
                    for agent, read in zip(self._agents, self._readers[own], strict=True)
                    if agent in live
                }
            else:
                actions = {
                    agent: action
                    for agent, action in zip(self._agents, native[own], strict=True)
                    if agent in live
                }
            observations, rewards, terminals, truncations, infos = self._steps[env](actions)
            self._write(env, observations, rewards, terminals, truncations, check=False)
            # Some envs keep their agents in the list when all of them are done.
            ended = not parallel.agents or (
                bool(terminals)
                and all(terminals[agent] or truncations.get(agent, False) for agent in terminals)
            )
            self._put(env, {"final_info": infos} if ended and self.same_step and infos else infos)
            if ended:
                self._end(env)

    def _put(self, env: int, infos: Any) -> None:
        kept = (
            {key: info for key, info in infos.items() if info or not isinstance(info, Mapping)}
            if infos
            else None
        )
        if kept:
            self.infos.put(env, kept)

    def _write(
        self,
        env: int,
        observations: Any,
        rewards: Any,
        terminals: Any,
        truncations: Any,
        *,
        check: bool,
    ) -> None:
        rows = self.rows
        for row, agent in enumerate(self._agents, self._first_row(env)):
            there = agent in observations
            if there:
                if check:
                    self.observation.check(observations[agent])
                self.write[row](observations[agent])
            elif rows.masks[row]:
                rows.observations[row] = 0
            rows.masks[row] = there
            self.write_rewards.one(row, rewards.get(agent, 0.0))
            rows.terminals[row] = bool(terminals.get(agent, self.absent_terminal and not there))
            rows.truncations[row] = bool(truncations.get(agent, False))
            if self.same_step and (rows.terminals[row] or rows.truncations[row]):
                rows.final_observations[row] = rows.observations[row]  # type: ignore[index]

    def _end(self, env: int) -> None:
        """Record that no agent is left.

        In same-step mode, begin the next episode, but keep the rewards and flags of the last step.
        """
        if not self.same_step:
            self._over[env] = True
            return
        rows, first = self.rows, self._first_row(env)
        span = slice(first, first + len(self._agents))
        kept = [array[span].copy() for array in (rows.rewards, rows.terminals, rows.truncations)]
        self.reset_one(env, None, None)
        for array, values in zip(
            (rows.rewards, rows.terminals, rows.truncations), kept, strict=True
        ):
            array[span] = values


class PufferLoop(EnvLoop):
    """The loop for PufferEnv: the env has adopted the rows as its buffers and writes them itself.

    The env also resets itself. Actions are the exception: index actions are int32, as PufferLib's C
    envs expect, so they are copied from the rows. Arrays that an env has made itself, because its
    creator did not pass `buf` on, are copied too.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._outside: list[list[str]] = []
        for env, puffer in enumerate(self.envs):
            rows = [(name, getattr(self.rows, name)[self._span(env)]) for name in _BUFFERS]
            self._outside.append(
                [name for name, own in rows if not np.may_share_memory(getattr(puffer, name), own)]
            )

    def _span(self, env: int) -> slice:
        agents = self.envs[env].num_agents
        return slice(env * agents, (env + 1) * agents)

    def reset_one(self, env: int, seed: int | None, options: Any) -> None:
        puffer = self.envs[env]
        puffer.masks[:] = True
        puffer.rewards[:] = puffer.terminals[:] = puffer.truncations[:] = 0
        result = self.resets[env](seed, options)
        self._adopt(env, result[:1])
        self._put(env, result[1] if len(result) > 1 else None)

    def step(self, native: list[Any] | None) -> None:
        self.infos.begin()
        actions = self.rows.actions
        for env, puffer in enumerate(self.envs):
            self.at[0] = self.first + env
            # Only a subclass of an emulation wrapper can be done, and its caller must reset it. A
            # PufferEnv is never done.
            if puffer.done:
                self.reset_one(env, None, None)
                continue
            np.copyto(puffer.actions, actions[self._span(env)], casting="unsafe")
            *arrays, infos = puffer.step(puffer.actions)
            self._adopt(env, arrays)
            self._put(env, infos)

    def _adopt(self, env: int, arrays: Sequence[Any]) -> None:
        """Copy arrays that are not in the rows already.

        These are arrays that the env returned without having written them in place, and those that
        it keeps outside of the rows.
        """
        puffer = self.envs[env]
        for array, name in zip(arrays, _BUFFERS, strict=False):
            own = getattr(puffer, name)
            # A dict has views by agent, whose contents are in the rows already.
            if array is not None and array is not own and not isinstance(array, dict):
                own[...] = np.asarray(array).reshape(own.shape)
        for name in self._outside[env]:
            getattr(self.rows, name)[self._span(env)] = getattr(puffer, name)

    def _put(self, env: int, infos: Any) -> None:
        if isinstance(infos, (list, tuple)):
            if infos:
                self.infos.put_list(env, infos)
        elif infos:
            self.infos.put(env, infos)


def close_all(envs: Sequence[Any]) -> None:
    """Close every env.

    Exceptions are printed to stderr, since the learner no longer listens.
    """
    for env in envs:
        try:
            close = getattr(env, "close", None)
            if close is not None:
                close()
        except Exception:
            traceback.print_exc()


LOOPS: dict[str, Callable[..., EnvLoop]] = {
    "gymnasium": GymnasiumLoop,
    "parallel": ParallelLoop,
    "puffer": PufferLoop,
}
