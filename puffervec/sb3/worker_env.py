# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The wrappers of a Python env in a worker of the Stable-Baselines3 adapter (vec_env.py).

    core  ->  IndexedEnv  ->  wrapper_class  ->  Monitor  ->  env

`IndexedEnv` answers calls that concern only some of the envs. This file runs in workers, so it
imports neither Stable-Baselines3 nor torch, which would cost each worker seconds and memory.
"""

from __future__ import annotations

import csv
import datetime
import functools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium

from puffervec.errors import ConfigError

MONITOR_SUFFIX = "monitor.csv"


class Monitor(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Reports each episode's return, length and time in `info["episode"]`, and optionally a file.

    Arguments, file format and methods are those of `stable_baselines3.common.monitor.Monitor`.

    Args:
        env: the env.
        filename: where to write one line per episode, or None; ".monitor.csv" is appended.
        allow_early_resets: False: raise if the env is reset in the middle of an episode.
        reset_keywords: arguments of `reset` to report.
        info_keywords: keys of the last info to report.
        override_existing: False: append to an existing file.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        filename: str | None = None,
        allow_early_resets: bool = True,
        reset_keywords: Sequence[str] = (),
        info_keywords: Sequence[str] = (),
        override_existing: bool = True,
    ) -> None:
        super().__init__(env)
        self.allow_early_resets = allow_early_resets
        self.reset_keywords, self.info_keywords = tuple(reset_keywords), tuple(info_keywords)
        self.needs_reset = True
        self.episode_returns: list[float] = []
        self.episode_lengths: list[int] = []
        self.episode_times: list[float] = []
        self._steps_before = 0  # Steps before the current episode.
        self.current_reset_info: dict[str, Any] = {}
        self._return, self._length = 0.0, 0
        self._began_s = time.monotonic()
        self._path = None if filename is None else _monitor_path(filename)
        self._override = override_existing
        self._file: Any = None

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode.

        Raises:
            RuntimeError: an episode is not over, and allow_early_resets is False.
            ValueError: a reset keyword is missing.
        """
        if not self.allow_early_resets and not self.needs_reset:
            raise RuntimeError(
                "reset before the episode is over: make the monitor with allow_early_resets=True"
            )
        for key in self.reset_keywords:
            if arguments.get(key) is None:
                raise ValueError(f"reset got no {key!r}, which is among reset_keywords: pass it")
            self.current_reset_info[key] = arguments[key]
        # Not in the constructor, because an env may be made only to read its spaces.
        if self._path is not None and self._file is None:
            self._open_file(self._path)
        self._steps_before = self.total_steps
        self._return, self._length, self.needs_reset = 0.0, 0, False
        return self.env.reset(**arguments)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the env. Raises: RuntimeError: the env must be reset first."""
        if self.needs_reset:
            raise RuntimeError("step after the end of an episode: call reset")
        result = self.env.step(action)
        self._return += float(result[1])
        self._length += 1
        if result[2] or result[3]:
            self._finish(result[4])
        return result

    def _finish(self, info: dict[str, Any]) -> None:
        self.needs_reset = True
        elapsed_s = time.monotonic() - self._began_s
        self.episode_returns.append(self._return)
        self.episode_lengths.append(self._length)
        self.episode_times.append(elapsed_s)
        episode: dict[str, Any] = {
            "r": round(self._return, 6),
            "l": self._length,
            "t": round(elapsed_s, 6),
        }
        episode |= {key: info[key] for key in self.info_keywords} | self.current_reset_info
        if self._file is not None:
            self._writer.writerow(episode)
            self._file.flush()
        info["episode"] = episode

    def _open_file(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w" if self._override else "a", newline="\n")
        self._writer = csv.DictWriter(
            self._file, ("r", "l", "t", *self.reset_keywords, *self.info_keywords)
        )
        if self._override:
            began = datetime.datetime.now().timestamp() - (time.monotonic() - self._began_s)
            spec = self.env.spec
            self._file.write(
                f"#{json.dumps({'t_start': began, 'env_id': str(spec.id if spec else None)})}\n"
            )
            self._writer.writeheader()
        self._file.flush()

    def close(self) -> None:
        super().close()
        if self._file is not None:
            self._file.close()

    @property
    def total_steps(self) -> int:
        """Steps since the monitor was made."""
        return self._steps_before + self._length

    def get_total_steps(self) -> int:
        return self.total_steps

    def get_episode_rewards(self) -> list[float]:
        """Return the returns of all finished episodes."""
        return self.episode_returns

    def get_episode_lengths(self) -> list[int]:
        """Return the lengths in steps of all finished episodes."""
        return self.episode_lengths

    def get_episode_times(self) -> list[float]:
        """Return when each finished episode ended, in seconds since the monitor was made."""
        return self.episode_times


def _monitor_path(filename: str) -> Path:
    path = Path(filename)
    if filename.endswith(MONITOR_SUFFIX):
        return path
    return (
        path / MONITOR_SUFFIX if path.is_dir() else path.with_name(f"{path.name}.{MONITOR_SUFFIX}")
    )


class IndexedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Answers those of the adapter's calls that concern this env; steps and resets like the env."""

    def __init__(self, env: gymnasium.Env[Any, Any], index: int) -> None:
        """Args: env: the env; index: its index in the vector env."""
        super().__init__(env)
        self._index = index
        # Instance attributes hide the class's methods, which would cost one more call per step.
        vars(self).update(step=env.step, reset=env.reset)

    def sb3_options(self, options: Sequence[Mapping[str, Any]]) -> None:
        """Store this env's options for its next reset; empty ones are not passed on."""
        own = options[self._index]
        if own:
            vars(self)["reset"] = functools.partial(self._reset_with, own)

    def _reset_with(self, own: Mapping[str, Any], **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Reset with the stored options, and without them from then on."""
        vars(self)["reset"] = self.env.reset
        return self.env.reset(**{**arguments, "options": dict(own)})

    def sb3_get(self, chosen: Sequence[int], name: str) -> tuple[bool, Any]:
        """Return (True, attribute) of the outermost wrapper that has it, or (False, None)."""
        if self._index not in chosen:
            return True, None
        try:
            return True, self.env.get_wrapper_attr(name)
        except AttributeError:
            return False, None

    def sb3_set(self, chosen: Sequence[int], name: str, value: Any) -> None:
        """Set an attribute of the outermost wrapper."""
        if self._index in chosen:
            setattr(self.env, name, value)

    def sb3_call(
        self, chosen: Sequence[int], name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Return the result of a method of the outermost wrapper that has it."""
        return self.env.get_wrapper_attr(name)(*args, **kwargs) if self._index in chosen else None

    def sb3_is_wrapped(self, chosen: Sequence[int], names: Sequence[str]) -> bool:
        """Return whether a wrapper is an instance of a class in `names` (see `class_name`)."""
        env: Any = self.env
        while self._index in chosen and isinstance(env, gymnasium.Wrapper):
            if any(class_name(kind) in names for kind in type(env).__mro__):
                return True
            env = env.env
        return False


def class_name(kind: type) -> str:
    """Return "module:name", by which the learner names a class without the worker importing it.

    >>> class_name(Monitor)
    'puffervec.sb3.worker_env:Monitor'
    """
    return f"{kind.__module__}:{kind.__qualname__}"


@dataclass(frozen=True)
class IndexedEnvMaker:
    """Makes one `IndexedEnv` when called. It is pickled and sent to a worker."""

    make: Callable[[], Any]
    index: int

    def __call__(self) -> IndexedEnv:
        """Return the env. Raises: ConfigError: `make` did not return a gymnasium.Env."""
        env = self.make()
        if not isinstance(env, gymnasium.Env):
            kind = f"{type(env).__module__}.{type(env).__qualname__}"
            raise ConfigError(
                f"an env function returned {kind}: Stable-Baselines3 needs functions that make a "
                "gymnasium.Env"
            )
        return IndexedEnv(env, self.index)


@dataclass(frozen=True)
class EnvMaker:
    """Makes one env as Stable-Baselines3's `make_vec_env` does. It is pickled for a worker.

    Attributes: as the arguments of `make_vec_env`; rank: start_index + number of the env.
    """

    env_id: str | Callable[..., gymnasium.Env[Any, Any]]
    rank: int
    seed: int | None = None
    monitor_dir: str | None = None
    wrapper_class: Callable[..., gymnasium.Env[Any, Any]] | None = None
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    monitor_kwargs: Mapping[str, Any] = field(default_factory=dict)
    wrapper_kwargs: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self) -> gymnasium.Env[Any, Any]:
        env = self._make_bare()
        if self.seed is not None:
            env.action_space.seed(self.seed + self.rank)
        filename = (
            None if self.monitor_dir is None else str(Path(self.monitor_dir) / str(self.rank))
        )
        env = Monitor(env, filename, **self.monitor_kwargs)
        return env if self.wrapper_class is None else self.wrapper_class(env, **self.wrapper_kwargs)

    def _make_bare(self) -> gymnasium.Env[Any, Any]:
        if not isinstance(self.env_id, str):
            return self.env_id(**self.env_kwargs)
        try:  # With pictures, unless env_kwargs has another render mode.
            return gymnasium.make(self.env_id, **{"render_mode": "rgb_array", **self.env_kwargs})
        except TypeError:
            return gymnasium.make(self.env_id, **self.env_kwargs)
