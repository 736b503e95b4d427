# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A Stable-Baselines3 VecEnv over a puffervec vector env: Python envs, or the rows of a C env.

    venv = puffervec.sb3.make_vec_env("CartPole-v1", n_envs=8, seed=0)
    model = stable_baselines3.PPO("MlpPolicy", venv).learn(100_000)

    SB3's algorithms  ->  this file  ->  puffervec.vec.vector_env.VectorEnv (autoreset "same_step")
    ->  workers, slab

`make_vec_env` replaces that of stable_baselines3.common.env_util. This file runs in the learner;
worker_env.py runs in the workers.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from puffervec import envs as registry
from puffervec.contract.native import NativeEnv
from puffervec.core.actions import Native
from puffervec.errors import CallOrderError, ConfigError, SpaceError, WorkerError
from puffervec.gym import arguments
from puffervec.gym.rows import ActionWriter, copy_batch, row_of
from puffervec.sb3.worker_env import EnvMaker, IndexedEnvMaker, class_name
from puffervec.sb3.worker_env import Monitor as OwnMonitor
from puffervec.system import extras
from puffervec.vec import backends
from puffervec.vec.vector_env import VectorEnv
from puffervec.workers.process.processes import AUTO, START_METHODS

with extras.required("puffervec.sb3"):
    import stable_baselines3.common.monitor
    import stable_baselines3.common.vec_env

EnvFn = Callable[[], gymnasium.Env[Any, Any]]
Indices = int | Iterable[int] | None
Step = tuple[Any, np.ndarray, np.ndarray, list[dict[str, Any]]]

_MONITORS = (stable_baselines3.common.monitor.Monitor, OwnMonitor)


class VecEnv(stable_baselines3.common.vec_env.VecEnv):
    """A `stable_baselines3.common.vec_env.VecEnv` that replaces DummyVecEnv and SubprocVecEnv.

    Args:
        env_fns: functions that make one Gymnasium env each; or the name of a C env (or a
            NativeEnv), of which `num_envs` copies are made.
        num_envs: number of copies of a C env. Each of its agents is a row, so `VecEnv.num_envs` is
            num_envs x agents.
        env_kwargs: settings of a C env.
        backend: "multiprocessing"; "serial" steps everything in this process; "threading" for C
            envs.
        num_workers: processes or threads; each steps several envs. "auto": as many as usable cores.
        start_method: how processes are started, as in `puffervec.make`; None is "auto". Scripts
            need no main guard with any of them.
        timeout_s: longest wait for a worker.

    Attributes:
        num_envs: number of rows.
        vec: the vector env underneath.
        envs: the Python envs, with backend="serial" only.
        reset_infos: infos of the last reset of each row's env, autoresets included.

    Autoreset: an env is reset in the step that ends its episode. The observation returned is the
        first of the next episode; the last of the old one is `infos[i]["terminal_observation"]`,
        and `infos[i]["TimeLimit.truncated"]` tells whether only a time limit ended the episode.
    Rows of a C env: `infos[i]["episode"]` has return "r", length "l" and time "t" of the row's
        episode, as from a Monitor. A row that has no agent at present (in drive, it waits for the
        others of its scene, or is padding) has reward 0, done False and `infos[i]["mask"]` False.
        SB3 has no masks, so it learns from such rows as from any other.
    Aliasing: everything returned is a copy. Blocking: `step_wait` and `reset` wait for the workers,
        `step_async` does not.

    Raises:
        ConfigError: a setting cannot be used, the rows are of several groups, or an env function
            does not return a gymnasium.Env.
        SpaceError: a Dict or Tuple space contains another one. The error is both a ConfigError and
            a NotImplementedError, which SB3's own VecEnvs raise.
        WorkerError: an env could not be made.
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFn] | str | NativeEnv,
        *,
        num_envs: int | None = None,
        env_kwargs: Mapping[str, Any] | None = None,
        backend: str | type[VectorEnv] = "multiprocessing",
        num_workers: int | str = "auto",
        start_method: str | None = "auto",
        timeout_s: float = 60.0,
    ) -> None:
        if start_method not in (None, AUTO, *START_METHODS):
            raise ConfigError(
                f"cannot find context for {start_method!r}: use one of "
                f"{', '.join((AUTO, *START_METHODS))}"
            )
        creators, copies = _creators(env_fns, num_envs, env_kwargs)
        try:
            self.vec = backends.make(
                creators,
                None,
                env_kwargs,
                backend=backend,
                num_envs=copies,
                seed=None,
                num_workers=num_workers,
                autoreset_mode="same_step",
                start_method=start_method or AUTO,
                timeout_s=timeout_s,
            )
        except WorkerError as error:
            if isinstance(error.__cause__, ConfigError):  # The functions' envs cannot be used.
                raise error.__cause__ from None
            raise
        try:
            _check_rows(self.vec)
        except ConfigError:
            self.vec.close()
            raise
        self._agents = self.vec.spec.agents
        self._group, self._rows = (
            self.vec.spec.groups[0],
            next(iter(self.vec.halves[0].groups.values())),
        )
        self._observations = self._native(self._rows.observations)
        self._final = self._native(self._rows.final_observations)
        self._is_native = self._group.observation_plan is None
        self._monitored = self._is_native  # This class counts the episodes of a C env's rows.
        self._began_s = time.monotonic()
        self._was_reset = False
        self._returns, self._lengths = (
            np.zeros(self._rows.rows),
            np.zeros(self._rows.rows, np.int64),
        )
        # Rows that held an agent in the last result.
        self._present = np.zeros(self._rows.rows, np.bool_)
        super().__init__(self._rows.rows, *self._spaces())
        if not self._is_native:
            self.metadata = dict(self.vec.driver_env.metadata)
            batched = batch_space(self.action_space, self.num_envs)
            self._actions = ActionWriter(
                self._group.action_plan, self.action_space, batched, self.num_envs
            )

    def _native(self, rows: Any) -> Any:
        """Return views on observation rows, nested as in the env's space."""
        plan = self._group.observation_plan
        return rows if plan is None else plan.views(rows)

    def _spaces(self) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
        observation, action = self._group.observation_plan, self._group.action_plan
        if observation is None or action is None:
            return self._group.observation_space, self._group.action_space
        return observation.space, action.space

    # ---- the loop --------------------------------------------------------------------------------

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Set the seeds of the next reset: env i gets seed + i, which all its rows share.

        With None the seed is drawn at random.

        Returns: the seed of each row's env.
        """
        first = super().seed(seed)[0]
        assert first is not None
        self._seeds = [first + row // self._agents for row in range(self.num_envs)]
        return self._seeds

    def reset(self) -> Any:
        """Reset all envs with the seeds and options that were set, and clear these.

        Returns: observations: (num_envs, ...) array, or a dict of arrays; copies.

        Raises:
            WorkerError, WorkerDied, WorkerTimeout: a worker failed.
            ClosedError: the VecEnv is closed.
        """
        self._was_reset = True
        seeds, options = self._seeds[:: self._agents], self._options[:: self._agents]
        seeds_or_none = None if all(seed is None for seed in seeds) else seeds
        reset = self._reset_native if self._is_native else self._reset_python
        self.reset_infos = reset(seeds_or_none, options)
        self._reset_seeds()
        self._reset_options()
        self._returns[:] = 0.0
        self._lengths[:] = 0
        self._present = self._rows.masks.copy()
        return copy_batch(self._observations)

    def _reset_native(self, seeds: Any, options: list[dict[str, Any]]) -> list[dict[str, Any]]:
        self.vec.set_tasks(
            range(len(options)), [env_options.get("task", -1) for env_options in options]
        )
        self.vec.reset(seed=seeds)
        return [{} for _ in range(self.num_envs)]

    def _reset_python(self, seeds: Any, options: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if any(options):
            self._ask("sb3_options", options)
        return self.vec.reset(seed=seeds)[1].per_env(self.num_envs)

    def step_async(self, actions: np.ndarray) -> None:
        """Let all envs take a step; `step_wait` returns the results.

        Args:
            actions: (num_envs, ...), one action per row; for Dict and Tuple spaces a list with one
                action per row.

        Raises:
            ActionError: number, shape or kind of the actions is wrong; nothing was sent.
            CallOrderError, ClosedError: a step is pending, or the VecEnv is closed.
        """
        rows = np.asarray(actions) if self._is_native else self._rows_of(actions)
        try:
            self.vec.send(rows)
        except CallOrderError:
            if self._was_reset or arguments.needs_reset(self.vec.driver_env, *_MONITORS):
                raise
            self._was_reset = True
            self.vec.begin()
            self.vec.send(rows)

    def _rows_of(self, actions: Any) -> Any:
        if isinstance(self.action_space, (spaces.Dict, spaces.Tuple)):
            return Native(list(actions))
        return self._actions.rows(actions)

    def step_wait(self) -> Step:
        """Wait for the step and return (observations, rewards, dones, infos).

        Returns:
            observations: (num_envs, ...) array or dict of arrays; rewards: (num_envs,) float32;
            dones: (num_envs,) bool; infos: one dict per row. Copies.

        Raises:
            CallOrderError: no step is pending.
            ClosedError: the VecEnv is closed.
            WorkerError, WorkerDied, WorkerTimeout: a worker failed.
        """
        infos = self.vec.recv()[4]
        try:
            return self._make_step(infos)
        except BaseException:  # Such as Ctrl-C, which loses the result.
            self.vec.turns.mark_interrupted()
            raise

    def _make_step(self, infos: Any) -> Step:
        rows = self._rows
        dones = rows.terminals | rows.truncations
        per_row = (
            [{} for _ in range(self.num_envs)]
            if self._is_native or not infos
            else infos.per_env(self.num_envs)
        )
        for info in per_row:
            info["TimeLimit.truncated"] = False
        if self._is_native:
            self._count(per_row, dones)
        if dones.any():
            self._finish(per_row, np.flatnonzero(dones).tolist())
        return copy_batch(self._observations), rows.rewards.copy(), dones, per_row

    def _finish(self, infos: list[dict[str, Any]], done: list[int]) -> None:
        """Complete the infos of rows whose episode ended; move the reset's infos to `reset_infos`.

        `infos` gets the last info, the last observation and whether the end was a truncation.
        """
        for i in done:
            if not self._is_native:
                last = infos[i].pop("final_info", {})
                del infos[i]["TimeLimit.truncated"]
                self.reset_infos[i], infos[i] = infos[i], last
            infos[i]["TimeLimit.truncated"] = bool(
                self._rows.truncations[i] and not self._rows.terminals[i]
            )
            infos[i]["terminal_observation"] = row_of(self._final, i)

    def _count(self, infos: list[dict[str, Any]], dones: np.ndarray) -> None:
        """Add this step to the episodes of a C env's rows and report those that ended.

        The infos of rows without an agent get "mask" False.
        """
        active = self._rows.masks | dones
        self._returns += self._rows.rewards
        # A row that only begins, or whose agent had left before, took no step.
        self._lengths += self._present & active
        self._present = self._rows.masks.copy()
        for i in np.flatnonzero(~active).tolist():
            infos[i]["mask"] = False
        if not dones.any():
            return
        elapsed_s = round(time.monotonic() - self._began_s, 6)
        for i in np.flatnonzero(dones).tolist():
            infos[i]["episode"] = {
                "r": round(float(self._returns[i]), 6),
                "l": int(self._lengths[i]),
                "t": elapsed_s,
            }
        self._returns[dones] = 0.0
        self._lengths[dones] = 0

    def close(self) -> None:
        """Close all envs and end the workers. May be called any number of times."""
        self.vec.close()

    @property
    def envs(self) -> list[gymnasium.Env[Any, Any]]:
        """The Python envs as their functions made them, if they are in this process.

        Raises:
            AttributeError: the envs live in worker processes, or are C envs.
        """
        if self._is_native or not isinstance(self.vec, backends.Serial):
            raise AttributeError(
                "the envs are not in this process: they are in worker processes "
                "(backend='serial' keeps them here), or in C"
            )
        return [indexed.env for indexed in self.vec.envs]

    # ---- attributes and calls --------------------------------------------------------------------

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """Return an attribute of the envs at `indices` (None: of all); for C envs, a setting.

        Raises:
            AttributeError: an env has no such attribute.
        """
        envs = self._select(indices)
        if self._is_native:
            if attr_name == "render_mode":
                return [None for _ in envs]
            return [getattr(self.vec.config, attr_name) for _ in envs]
        answers = self._ask("sb3_get", envs, attr_name)
        missing = [env for env in envs if not answers[env][0]]
        if missing:
            raise AttributeError(f"env {missing[0]} has no attribute {attr_name!r}")
        return [answers[env][1] for env in envs]

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Set an attribute of the outermost wrapper of the envs at `indices`.

        Raises:
            AttributeError: the envs are C envs.
        """
        self._require_python(f"set_attr({attr_name!r})")
        self._ask("sb3_set", self._select(indices), attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of the envs at `indices`; return one result per env.

        Raises:
            AttributeError: the envs are C envs.
            Exception: whatever the method raises.
        """
        self._require_python(f"env_method({method_name!r})")
        envs = self._select(indices)
        answers = self._ask("sb3_call", envs, method_name, method_args, method_kwargs)
        return [answers[env] for env in envs]

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Indices = None) -> list[bool]:
        """Return for each env at `indices` whether it has such a wrapper.

        puffervec's Monitor counts as SB3's Monitor, and the other way round.
        """
        envs = self._select(indices)
        if self._is_native:
            return [self._monitored and wrapper_class in _MONITORS for _ in envs]
        names = [
            class_name(kind)
            for kind in (_MONITORS if wrapper_class in _MONITORS else (wrapper_class,))
        ]
        answers = self._ask("sb3_is_wrapped", envs, names)
        return [answers[env] for env in envs]

    def get_images(self) -> Sequence[np.ndarray | None]:
        """Return a picture of every env, (H, W, 3) uint8; None without render_mode "rgb_array"."""
        if self.render_mode != "rgb_array":
            warnings.warn(
                f"render_mode is {self.render_mode!r}: make the envs with 'rgb_array' for pictures",
                stacklevel=2,
            )
            return [None for _ in range(self.num_envs)]
        return self.env_method("render")

    def _select(self, indices: Indices) -> list[int]:
        wanted = (
            range(self.num_envs)
            if indices is None
            else [indices]
            if isinstance(indices, int)
            else list(indices)
        )
        envs = [int(index) + (self.num_envs if index < 0 else 0) for index in wanted]
        for index in envs:
            if not 0 <= index < self.num_envs:
                raise ConfigError(
                    f"indices: {index} of {self.num_envs} envs: use 0 to {self.num_envs - 1}"
                )
        return envs

    def _ask(self, name: str, *args: Any) -> tuple[Any, ...]:
        """Call a method of every `IndexedEnv`; an exception from the env is raised unchanged."""
        try:
            answers: tuple[Any, ...] = self.vec.call(name, *args)
            return answers
        except WorkerError as error:
            if isinstance(error.__cause__, Exception):
                raise error.__cause__ from error
            raise

    def _require_python(self, call: str) -> None:
        if self._is_native:
            raise AttributeError(
                f"{call}: {self.vec.env.name} is a C env, whose rows are not Python objects"
            )


def make_vec_env(
    env_id: str | Callable[..., gymnasium.Env[Any, Any]] | NativeEnv,
    n_envs: int = 1,
    seed: int | None = None,
    start_index: int = 0,
    monitor_dir: str | None = None,
    wrapper_class: Callable[..., gymnasium.Env[Any, Any]] | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    vec_env_cls: type[stable_baselines3.common.vec_env.VecEnv] | None = None,
    vec_env_kwargs: Mapping[str, Any] | None = None,
    monitor_kwargs: Mapping[str, Any] | None = None,
    wrapper_kwargs: Mapping[str, Any] | None = None,
) -> stable_baselines3.common.vec_env.VecEnv:
    """Make a monitored VecEnv, with the arguments of SB3's `make_vec_env`.

    Args:
        env_id: a Gymnasium id, a class or function that makes an env, or the name of a C env
            ("tag_grid"): its agents are rows.
        n_envs: number of envs.
        seed: seed of the first reset: env i gets seed + i; also seeds the action spaces.
        start_index: added to the number of each env for its monitor file and action space.
        monitor_dir: folder for monitor files ("0.monitor.csv", ...), or None.
        wrapper_class: wraps each env, outside its monitor.
        env_kwargs: keyword arguments for the env.
        vec_env_cls: VecEnv, a subclass, or None; SB3's SubprocVecEnv is equivalent to None, its
            DummyVecEnv to backend="serial".
        vec_env_kwargs: keyword arguments for VecEnv: backend, num_workers, start_method, timeout_s.
        monitor_kwargs: keyword arguments for the monitor: allow_early_resets, reset_keywords,
            info_keywords, override_existing.
        wrapper_kwargs: keyword arguments for wrapper_class.

    Returns: a VecEnv. For a C env with monitor_dir it is wrapped in SB3's VecMonitor, which writes
    one file for all rows.

    Raises:
        ConfigError: see VecEnv; or a C env got wrapper_class or monitor_kwargs.
    """
    settings = dict(vec_env_kwargs or {})
    kind = _kind_of(vec_env_cls, settings)
    env: Any = env_id
    venv: stable_baselines3.common.vec_env.VecEnv
    if _is_c_env(env):
        if wrapper_class is not None or monitor_kwargs:
            raise ConfigError(
                f"{env_id!r} is a C env: it takes no wrapper_class or monitor_kwargs; wrap the "
                "VecEnv instead"
            )
        native = kind(env, num_envs=n_envs, env_kwargs=env_kwargs, **settings)
        venv = (
            native
            if monitor_dir is None
            else _add_monitor(native, Path(monitor_dir) / str(start_index))
        )
    else:
        makers = [
            EnvMaker(
                env,
                start_index + i,
                seed,
                monitor_dir,
                wrapper_class,
                env_kwargs or {},
                monitor_kwargs or {},
                wrapper_kwargs or {},
            )
            for i in range(n_envs)
        ]
        venv = kind(makers, **settings)
    venv.seed(seed)
    return venv


def _kind_of(vec_env_cls: Any, settings: dict[str, Any]) -> Any:
    """Return the class that `vec_env_cls` stands for, and complete its settings."""
    if vec_env_cls is stable_baselines3.common.vec_env.DummyVecEnv:
        settings.setdefault("backend", "serial")
    if vec_env_cls in (
        None,
        stable_baselines3.common.vec_env.DummyVecEnv,
        stable_baselines3.common.vec_env.SubprocVecEnv,
    ):
        return VecEnv
    if not (isinstance(vec_env_cls, type) and issubclass(vec_env_cls, VecEnv)):
        raise ConfigError(
            f"vec_env_cls is {vec_env_cls!r}: use puffervec.sb3.VecEnv, a subclass of it, or SB3's "
            "SubprocVecEnv or DummyVecEnv"
        )
    return vec_env_cls


def _add_monitor(venv: VecEnv, path: Path) -> stable_baselines3.common.vec_env.VecMonitor:
    """Wrap in SB3's VecMonitor, which counts episodes instead of the VecEnv and writes a file."""
    venv._monitored = False
    path.parent.mkdir(parents=True, exist_ok=True)
    return stable_baselines3.common.vec_env.VecMonitor(venv, str(path))


def _is_c_env(env: Any) -> bool:
    return isinstance(env, NativeEnv) or (
        isinstance(env, str) and (env in registry.names() or env.startswith(registry.OCEAN))
    )


def _creators(env_fns: Any, num_envs: int | None, env_kwargs: Any) -> tuple[Any, int]:
    """Return the creators for `make`, and the number of envs."""
    if _is_c_env(env_fns):
        return env_fns, 1 if num_envs is None else num_envs
    if (
        isinstance(env_fns, str)
        or not isinstance(env_fns, Sequence)
        or not all(callable(fn) for fn in env_fns)
        or not env_fns
    ):
        raise ConfigError(
            f"env_fns is {env_fns!r}: must be functions that make one env each, or the name of a "
            "C env"
        )
    if num_envs not in (None, len(env_fns)) or env_kwargs:
        raise ConfigError(
            "num_envs and env_kwargs are for C envs: env_fns make one env each, with their own "
            "settings"
        )
    return [IndexedEnvMaker(fn, i) for i, fn in enumerate(env_fns)], len(env_fns)


def _check_rows(vec: VectorEnv) -> None:
    """Raise if SB3 cannot use these rows: SpaceError for nested spaces, else ConfigError."""
    groups = vec.spec.groups
    if len(groups) != 1:
        names = ", ".join(group.name for group in groups)
        raise ConfigError(
            f"{vec.env.name} has rows of several kinds ({names}): Stable-Baselines3 takes one "
            "space for all rows"
        )
    plan = groups[0].observation_plan
    parts = getattr(plan.space, "spaces", ()) if plan is not None else ()
    nested = [
        part
        for part in (parts.values() if isinstance(parts, Mapping) else parts)
        if hasattr(part, "spaces")
    ]
    if nested:
        raise SpaceError(
            f"{vec.env.name} observes {nested[0]} inside a Dict or Tuple: SB3 does not take nested "
            "spaces, flatten them"
        )
