# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""C envs as a gymnasium.vector.VectorEnv: the vector entry point of the ids `puffervec/...`.

Runs in the learner. An env with several agents fills several rows, which appear here as separate
envs:

    4 envs of 11 agents:  num_envs = 44, env e's agent a is row 11 e + a
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from puffervec.errors import ConfigError
from puffervec.gym import arguments
from puffervec.gym.base import Seed, Step, send
from puffervec.gym.rows import copy_batch, row_of
from puffervec.gym.two_part import TwoPartVectorEnv
from puffervec.vec.backends import make
from puffervec.vec.vector_env import VectorEnv as CoreVectorEnv


class RowStatistics:
    """Sums rewards and steps of every row, and reports them when the row's episode ends.

    The reports are those of Gymnasium's RecordEpisodeStatistics. This class is only for envs with
    several agents: their records are not per row, so their rows are summed here, with a few NumPy
    calls per step. Envs with one agent have a record per episode, which costs nothing until one
    ends.

    Only transitions of live agents count: rows without an agent, and the steps that autoreset
    spends on a reset, do not.
    """

    def __init__(self, key: str, rows: int, mode: AutoresetMode) -> None:
        """Args: key: key of episodes in infos; rows: number of rows; mode: autoreset mode."""
        self._key, self._same_step = key, mode is AutoresetMode.SAME_STEP
        self._returns, self._lengths = np.zeros(rows), np.zeros(rows, np.int64)
        self._acts = np.zeros(rows, np.bool_)  # Whether the row's next action counts.

    def begin(self, reset: NDArray[np.bool_], masks: NDArray[np.bool_]) -> None:
        """Start the sums of the rows that were reset.

        Args:
            reset: (rows,) bool, the rows that were reset.
            masks: (rows,) bool, the rows with a live agent.
        """
        self._returns[reset], self._lengths[reset] = 0.0, 0
        self._acts[reset] = masks[reset]

    def add(
        self,
        batch: dict[str, Any],
        rewards: NDArray[Any],
        ended: NDArray[np.bool_],
        masks: NDArray[np.bool_],
    ) -> None:
        """Add a step, given as (rows,) arrays, and put the episodes that ended into `batch`."""
        self._returns += np.where(self._acts, rewards, 0.0)
        self._lengths += self._acts
        if ended.any():
            batch[self._key] = {
                "r": np.where(ended, self._returns, 0.0),
                "_r": ended.copy(),
                "l": np.where(ended, self._lengths, 0),
                "_l": ended.copy(),
            }
            batch[f"_{self._key}"] = ended.copy()
            self._returns[ended], self._lengths[ended] = 0.0, 0
        self._acts = masks.copy() if self._same_step else masks & ~ended


def add_records(
    batch: dict[str, Any], key: str, episodes: NDArray[Any], names: Sequence[str], num_envs: int
) -> None:
    """Add the records of finished episodes, at most one per env, to `batch` under `key`.

    Args:
        batch: infos to add to.
        key: key of the records.
        episodes: (n,) records of puffervec.core.slab.RECORD_DTYPE.
        names: names of the values in the env's records.
        num_envs: number of envs.
    """
    if not len(episodes):
        return
    mask = np.zeros(num_envs, np.bool_)
    mask[episodes["env"]] = True
    columns: dict[str, tuple[NDArray[Any], type]] = {
        "r": (episodes["return"], np.float64),
        "l": (episodes["length"], np.int64),
        **{name: (episodes["values"][:, i], np.float64) for i, name in enumerate(names)},
    }
    report: dict[str, Any] = {}
    for name, (values, dtype) in columns.items():
        report[name], report[f"_{name}"] = np.zeros(num_envs, dtype), mask.copy()
        report[name][episodes["env"]] = values
    batch[key], batch[f"_{key}"] = report, mask


class NativeVectorEnv(TwoPartVectorEnv, VectorEnv[Any, Any, NDArray[Any]]):
    """Many copies of a C env, stepped by worker processes.

    Calls in two parts (`step_async`, `step_wait`, ...) and their errors are those of Gymnasium's
    AsyncVectorEnv. `call`, `get_attr` and `set_attr` raise, as C envs have no Python attributes;
    use `core.peek` and `core.counters`. Actions out of range act as the no-op; with strict=True
    they are refused. Infos of envs with several agents have "mask", (num_envs,) bool: the rows with
    a live agent's observation or its last step.

    >>> envs = NativeVectorEnv("tag_grid", 4, flatten_agents=True, backend="serial", num_taggers=10)
    >>> observations, infos = envs.reset(seed=0)
    >>> envs.num_envs, observations.shape
    (44, (44, 45))
    >>> envs.close()

    Attributes:
        num_envs: number of rows: C envs times agents per env.
        agents: rows per env.
        core: the puffervec vector env underneath.
        The others are as in gymnasium.vector.VectorEnv.
    """

    def __init__(
        self,
        env: str,
        num_envs: int = 1,
        *,
        flatten_agents: bool = False,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        backend: str | type[CoreVectorEnv] = "multiprocessing",
        num_workers: int | str = "auto",
        pin: bool | str = "auto",
        strict: bool = False,
        timeout_s: float = 60.0,
        start_method: str = "spawn",
        stats_key: str | None = "record",
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        """Start the workers.

        Args:
            env: name of a C env.
            num_envs: copies of it.
            flatten_agents: show each agent of an env with several agents as a separate env.
            autoreset_mode: an AutoresetMode or its value: "NextStep", "SameStep", "Disabled".
            copy: return copies of the observations; False: views, valid until the next call of
                `step` or `reset`.
            backend, num_workers, pin, strict, timeout_s, start_method: as in `puffervec.make`.
            stats_key: key of finished episodes in infos, {"r": return, "l": length}, each
                (num_envs,) with masks, and, for envs with one agent, the named values of their
                records; None: infos have no episodes. The default is not "episode" because
                Gymnasium's RecordEpisodeStatistics needs that key for itself.
            render_mode: must be None; for pictures make one env with `gymnasium.make`.
            settings: settings of the env, as its config names them.

        Raises:
            ConfigError: a setting cannot be used, or the env has several agents and flatten_agents
                is False.
        """
        if render_mode is not None:
            raise ConfigError(
                f"render_mode is {render_mode!r}: vector envs of {env!r} cannot be rendered, use "
                "None"
            )
        self.autoreset_mode = arguments.autoreset_mode(autoreset_mode)
        self.metadata = {"render_modes": [], "autoreset_mode": self.autoreset_mode}
        self.copy = copy
        self.core = make(
            env,
            env_kwargs=settings,
            backend=backend,
            num_envs=num_envs,
            num_workers=num_workers,
            seed=None,
            autoreset_mode=arguments.AUTORESET[self.autoreset_mode],
            pin=pin,
            strict=strict,
            timeout_s=timeout_s,
            start_method=start_method,
        )
        try:
            self._describe(env, flatten_agents)
        except BaseException:
            self.core.close()
            raise
        self._reset_rows = np.ones(self.num_envs, np.bool_)  # Rows of the pending reset.
        # C envs that have a task for the pending reset.
        self._envs_with_task: NDArray[np.intp] | None = None
        self._stats_key = stats_key
        sums = stats_key is not None and self.agents > 1
        self._statistics = (
            RowStatistics(stats_key or "", self.num_envs, self.autoreset_mode) if sums else None
        )

    def _describe(self, env: str, flatten_agents: bool) -> None:
        """Read the spaces and the number of rows from the core."""
        spec = self.core.spec
        if len(spec.groups) > 1:
            raise ConfigError(
                f"{env!r} has agents of {len(spec.groups)} kinds with different spaces: use "
                "puffervec.pettingzoo"
            )
        self.agents = spec.agents
        if self.agents > 1 and not flatten_agents:
            raise ConfigError(
                f"{env!r} has {self.agents} agents: use flatten_agents=True to show each as a "
                "separate env, or use puffervec.pettingzoo"
            )
        self.num_envs = self.core.num_agents
        self.single_observation_space = self.core.single_observation_space
        self.single_action_space = self.core.single_action_space
        self.observation_space, self.action_space = (
            self.core.observation_space,
            self.core.action_space,
        )

    def reset_async(self, seed: Seed = None, options: Mapping[str, Any] | None = None) -> None:
        """Start a reset of all envs, or of those in `options["reset_mask"]`, for `reset_wait`.

        Args:
            seed: C env i gets seed + i, or the i-th entry of a sequence with one per C env (not per
                row; entries may be None); None: the envs continue with their next episodes, and
                begin with random ones.
            options: "reset_mask": (num_envs,) bool, equal for all agents of an env; "task": the
                task (scene, start layout) that the envs run next, one whole number or one per C
                env.

        Raises:
            ValueError, TypeError: the seeds, the mask or the tasks cannot be used, or an option is
                unknown.
        """
        super().reset_async(seed, options)
        if isinstance(seed, (int, np.integer)):
            VectorEnv.reset(self, seed=int(seed))  # This seeds np_random.

    def _send_reset(
        self,
        seeds: list[int | None],
        mask: NDArray[np.bool_] | None,
        options: dict[str, Any] | None,
    ) -> None:
        arguments.check_options(options, ("reset_mask", "task"), self.core.env.name)
        # The first reset must be of all envs: a mask that is True everywhere counts as one.
        envs = None if mask is None or mask.all() else self._whole_envs(mask)
        self._clear_tasks()  # Those of a reset that timed out.
        if options and options.get("task") is not None:
            self._set_tasks(envs, options["task"])
        self.core.async_reset(seeds, mask=envs)
        self._reset_rows = np.ones(self.num_envs, np.bool_) if mask is None else mask.copy()

    def _recv_reset(self, timeout_s: float | None) -> tuple[Any, dict[str, Any]]:
        observations, _, _, _, _, _, masks = self.core.recv(timeout_s)
        self._clear_tasks()  # They were for this reset only.
        if self._statistics is not None:
            self._statistics.begin(self._reset_rows, masks)
        return (copy_batch(observations) if self.copy else observations), self._infos({}, masks)

    def _whole_envs(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Reduce a mask over rows to (C envs,) bool; raise if the rows of one env differ."""
        table = mask.reshape(-1, self.agents)
        some: NDArray[np.bool_] = np.any(table, axis=1)
        torn = np.flatnonzero(some != np.all(table, axis=1)).tolist()
        if torn:
            raise ValueError(
                f"`options['reset_mask']` has some of the {self.agents} agents of env {torn[0]}, "
                "which can only be reset together: set all of its rows, or none"
            )
        return some

    def _set_tasks(self, envs: NDArray[np.bool_] | None, tasks: Any) -> None:
        if np.ndim(tasks) and len(tasks) != self.core.num_envs:
            raise ConfigError(
                f"options['task'] has {len(tasks)} entries for {self.core.num_envs} envs of "
                f"{self.core.env.name!r}: must have one per env, or be one number"
            )
        ids = np.arange(self.core.num_envs) if envs is None else np.flatnonzero(envs)
        self.core.set_tasks(ids, np.asarray(tasks)[ids] if np.ndim(tasks) else tasks)
        self._envs_with_task = ids

    def _clear_tasks(self) -> None:
        """Let envs that have a fixed task draw tasks again."""
        if self._envs_with_task is not None:
            self.core.set_tasks(self._envs_with_task, -1)
            self._envs_with_task = None

    def _send_step(self, actions: Any) -> None:
        if np.ndim(actions) == 0:
            raise TypeError(
                f"Unable to iterate over the actions {actions!r}: they need one action per row "
                f"({self.num_envs})"
            )
        send(self.core, actions)

    def _recv_step(self, timeout_s: float | None) -> Step:
        observations, rewards, terminals, truncations, infos, _, masks = self.core.recv(timeout_s)
        batch: dict[str, Any] = {}
        ended = terminals | truncations
        if self.autoreset_mode is AutoresetMode.SAME_STEP and ended.any():
            self._add_final(batch, ended)
        if self._statistics is not None:
            self._statistics.add(batch, rewards, ended, masks)
        elif self._stats_key is not None and infos:
            add_records(
                batch, self._stats_key, infos.episodes, self.core.spec.record_names, self.num_envs
            )
        return (
            copy_batch(observations) if self.copy else observations,
            rewards.astype(np.float64),
            terminals.copy(),
            truncations.copy(),
            self._infos(batch, masks),
        )

    def _add_final(self, batch: dict[str, Any], ended: NDArray[np.bool_]) -> None:
        final = np.full(self.num_envs, None, object)
        for row in np.flatnonzero(ended).tolist():
            final[row] = row_of(self.core.final_observations, row)
        batch.update(
            final_obs=final, _final_obs=ended.copy(), final_info={}, _final_info=ended.copy()
        )

    def _infos(self, batch: dict[str, Any], masks: NDArray[np.bool_]) -> dict[str, Any]:
        if self.agents > 1:
            batch["mask"], batch["_mask"] = masks.copy(), np.ones(self.num_envs, np.bool_)
        return batch

    def get_attr(self, name: str) -> tuple[Any, ...]:
        self._begin("get_attr", "call")
        return self.core.get_attr(name)

    def _one_each(self, values: Any) -> list[Any]:
        return [values] * self.core.num_envs  # Whatever the value, the core raises.

    def render(self) -> None:
        """Return None: vector envs have no pictures."""


def flattened(**arguments: Any) -> NativeVectorEnv:
    """Make a NativeVectorEnv with flatten_agents=True: a vector entry point for Gymnasium."""
    return NativeVectorEnv(**{"flatten_agents": True, **arguments})
