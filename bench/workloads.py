# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Workloads: envs with fixed settings, seeds and actions, and the C loop that bounds their speed.

The C loop has one thread. All modes of stepping a workload start from the same seed and use the
same actions in the same order, so they pass through the same states.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import puffervec
from puffervec import envs as registry
from puffervec._ffi import ffi, lib
from puffervec.core.spec import EnvSpec, GroupSpec
from puffervec.errors import ConfigError, PuffervecError
from puffervec.system.cores import affinity, usable_cores
from puffervec.vec.vector_env import VectorEnv

SEED = 1
ACTION_BYTES = 1 << 20  # Bytes of all action batches, which must not evict the envs from caches.
FEWEST_BATCHES, MOST_BATCHES = 5, 64


@dataclass(frozen=True)
class Workload:
    """An env with all settings that determine its work.

    Attributes:
        name: name in tables and files.
        env, kwargs: see `puffervec.make`.
        num_envs: number of envs over all halves.
        episode_turns: the length of an episode with its reset, after which the mix of states
            roughly repeats.
    """

    name: str
    env: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    num_envs: int = 1
    episode_turns: int = 100

    def make(self, backend: str, **settings: Any) -> VectorEnv:
        """Return a new vector env of this workload, for which `async_reset` was called."""
        vec = puffervec.make(
            self.env,
            env_kwargs=self.kwargs,
            **{"num_envs": self.num_envs, "backend": backend, **settings},
        )
        vec.async_reset(SEED)
        return vec

    def halved(self) -> Workload:
        """Return the workload of one of two halves."""
        return dataclasses.replace(self, num_envs=self.num_envs // 2)


# The defaults: a tiny env, so that the library's own cost dominates, the discrete game of
# WarpDrive's throughput figures (five agents on 101 x 101 cells), and driving in bundles of 256
# rows, enough for one worker per core and half.
PRESETS = {
    "probe": Workload("probe", "probe", {"episode_length": 100}, num_envs=4096, episode_turns=101),
    "cartpole": Workload("cartpole", "cartpole", {}, num_envs=4096, episode_turns=60),
    "tag_grid": Workload(
        "tag_grid",
        "tag_grid",
        {"num_taggers": 4, "grid_length": 100},
        num_envs=4096,
        episode_turns=101,
    ),
    "drive": Workload("drive", "drive", {}, num_envs=2 * max(4, usable_cores()), episode_turns=91),
}


def preset(name: str, num_envs: int | None = None, **kwargs: Any) -> Workload:
    """Return the preset of that name, optionally with other numbers of envs or env settings.

    Raises:
        ConfigError: the preset does not exist.
    """
    if name not in PRESETS:
        raise ConfigError(f"no workload is called {name!r}: use {', '.join(PRESETS)}")
    workload = PRESETS[name]
    return dataclasses.replace(
        workload, num_envs=num_envs or workload.num_envs, kwargs={**workload.kwargs, **kwargs}
    )


def missing(workload: Workload) -> str:
    """Return the reason why this workload cannot run here, "" if it can."""
    try:
        registry.get(workload.env)
    except (ImportError, PuffervecError) as error:
        return f"{workload.name} is left out: {error}"
    return ""


# ---- actions -------------------------------------------------------------------------------------


def _group_actions(
    group: GroupSpec, batches: int, rows: int, rng: np.random.Generator
) -> np.ndarray:
    if group.action_kind == "continuous":
        low, high = (
            np.asarray(group.action_low, np.float32),
            np.asarray(group.action_high, np.float32),
        )
        return rng.uniform(low, high, (batches, rows, group.action_dims)).astype(np.float32)
    actions = rng.integers(
        0, np.asarray(group.action_sizes), (batches, rows, group.action_dims), dtype=np.int32
    )
    return actions[:, :, 0] if group.action_kind == "discrete" else actions


def draw_actions(spec: EnvSpec, num_envs: int) -> dict[str, np.ndarray]:
    """Return random actions by group, the same ones in every run.

    They have shape (batches, rows) or (batches, rows, D), and are int32 or float32.
    """
    rng = np.random.default_rng(SEED)
    row_bytes = 4 * sum(group.agents * group.action_dims for group in spec.groups)
    batches = int(np.clip(ACTION_BYTES // (row_bytes * num_envs), FEWEST_BATCHES, MOST_BATCHES))
    return {
        group.name: np.ascontiguousarray(
            _group_actions(group, batches, num_envs * group.agents, rng)
        )
        for group in spec.groups
    }


def actions_of(workload: Workload) -> dict[str, np.ndarray]:
    """Return `draw_actions` for all envs of a workload."""
    with dataclasses.replace(workload, num_envs=1).make("serial") as vec:
        return draw_actions(vec.spec, workload.num_envs)


def half_actions(vec: VectorEnv, actions: Mapping[str, np.ndarray]) -> list[list[Any]]:
    """Return the batches of each half in the format of `send`.

    They are arrays, or dicts of arrays if there are several groups.
    """
    halves: list[list[Any]] = []
    for half in vec.halves:
        first = int(half.env_ids[0])
        parts: dict[str, list[np.ndarray]] = {}
        for group in vec.spec.groups:
            rows = slice(first * group.agents, first * group.agents + half.groups[group.name].rows)
            parts[group.name] = [np.ascontiguousarray(batch[rows]) for batch in actions[group.name]]
        if len(parts) == 1:
            halves.append(next(iter(parts.values())))
        else:
            halves.append(
                [
                    dict(zip(parts, batch, strict=True))
                    for batch in zip(*parts.values(), strict=True)
                ]
            )
    return halves


# ---- how many of the rows are steps --------------------------------------------------------------


@dataclass(frozen=True)
class Shares:
    """The steps in one turn of all envs.

    Attributes:
        env_steps: transitions of envs.
        agent_steps: transitions of agents (valid rows).
    """

    env_steps: float
    agent_steps: float


def _by_env(vec: VectorEnv, arrays: Any, envs: int) -> np.ndarray:
    by_group = arrays if isinstance(arrays, dict) else {vec.spec.groups[0].name: arrays}
    return np.concatenate(
        [by_group[group.name].reshape(envs, group.agents) for group in vec.spec.groups], axis=1
    )


def count_shares(workload: Workload, actions: Mapping[str, np.ndarray], turns: int) -> Shares:
    """Count the transitions of `turns` turns and return them per turn.

    A row's transition to the next one is valid iff its mask is set and neither flag is; that of an
    env iff that of any of its rows is.
    """
    env_steps = agent_steps = 0
    with workload.make("serial") as vec:
        batches = half_actions(vec, actions)[0]
        for turn in range(turns):
            _, _, terminals, truncations, _, _, masks = vec.recv()
            alive, ended, cut = (
                _by_env(vec, arrays, workload.num_envs)
                for arrays in (masks, terminals, truncations)
            )
            valid = alive & ~ended & ~cut
            agent_steps += int(np.count_nonzero(valid))
            env_steps += int(np.count_nonzero(valid.any(axis=1)))
            vec.send(batches[turn % len(batches)])
        vec.recv()
    return Shares(env_steps / turns, agent_steps / turns)


# ---- the simulation limit ------------------------------------------------------------------------


@contextlib.contextmanager
def on_one_core() -> Iterator[None]:
    """Pin this thread to its first usable core, like a pinned worker."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {affinity()[0]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def c_loop(
    workload: Workload,
    actions: Mapping[str, np.ndarray],
    turns: int,
    warmup: int,
    warm: Callable[[], None] | None = None,
) -> float:
    """Measure the seconds per turn of a thread that calls the C batch step in a tight loop.

    Each turn steps all rows of the workload.

    Args:
        warm: called between the warm-up and the timed turns.

    Raises:
        ConfigError: the loop does not support the env: it has several groups or continuous actions.
    """
    with workload.make("serial") as vec, on_one_core():
        vec.recv()
        group = vec.spec.groups[0]
        if len(vec.spec.groups) > 1 or group.action_kind == "continuous":
            raise ConfigError(
                f"{workload.name}: the C loop takes envs with one group of discrete actions"
            )
        batches = actions[group.name]
        buffer = ffi.from_buffer("int32_t[]", batches)
        worker = vec.workers.opened  # type: ignore[attr-defined]

        def steps(count: int) -> float:
            seconds = float(lib.pv_bench_steps(worker, buffer, len(batches), count))
            if seconds < 0:
                raise PuffervecError(
                    f"{workload.name}: the env reported a failure within the C loop"
                )
            return seconds

        steps(warmup)
        if warm is not None:
            warm()
        return steps(turns) / turns
