# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Settings of a vector env, checked before anything is allocated or started."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from puffervec.cores import affinity, usable_cores
from puffervec.errors import ConfigError
from puffervec.processes import START_METHODS
from puffervec.slab import SPLITS

MOST_ENVS = 2**31 - 1
MOST_WORKERS = 4096
MOST_SEED = 2**63 - 1


@dataclass(frozen=True)
class VectorSettings:
    """How envs are spread over workers and halves. See `puffervec.make` for each field."""

    num_envs: int
    num_workers: int
    num_buffers: int
    split: str
    seed: Any
    cores: tuple[int | None, ...]
    strict: bool
    copy: bool
    timeout_s: float
    start_method: str

    @property
    def learner_pauses(self) -> int:
        """Pauses before the learner yields its core; 0: the default. Only one where the workers need every core."""
        return 1 if self.num_workers >= usable_cores() else 0


def whole(name: str, value: Any, low: int, high: int = MOST_ENVS) -> int:
    """Return `value` as an int in [low, high], or raise ConfigError."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise ConfigError(f"{name} is {value!r}: give a whole number from {low} to {high:,}")
    if not low <= value <= high:
        raise ConfigError(f"{name} is {value:,}: use {low} to {high:,}")
    return int(value)


def _workers(value: Any, num_envs: int, num_buffers: int, split: str, in_process: bool) -> int:
    per_half = num_envs // num_buffers
    halves_by_workers = num_buffers == 2 and split == "workers"
    if in_process:
        if value not in ("auto", num_buffers if halves_by_workers else 1):
            raise ConfigError(f"num_workers is {value!r}: the serial backend has no workers, leave it 'auto'")
        return 2 if halves_by_workers else 1
    if isinstance(value, str):
        if value != "auto":
            raise ConfigError(f"num_workers is {value!r}: give a number or 'auto'")
        if halves_by_workers:
            return 2 * max(1, min(usable_cores(), per_half))
        return max(1, min(usable_cores(), per_half))
    workers = whole("num_workers", value, 1, MOST_WORKERS)
    if halves_by_workers and workers % 2:
        raise ConfigError(f"num_workers is {workers}: two buffers need an even number, half for each; or use split='envs'")
    share = workers // 2 if halves_by_workers else workers
    if share > per_half:
        most = per_half * (2 if halves_by_workers else 1)
        raise ConfigError(f"num_workers is {workers} for {num_envs} envs in {num_buffers} buffer(s): use at most {most}")
    return workers


def _pins(pin: Any, workers: int) -> tuple[int | None, ...]:
    cores = affinity()
    if pin == "auto":
        pin = workers <= usable_cores()
    if not isinstance(pin, (bool, np.bool_)):
        raise ConfigError(f"pin is {pin!r}: use 'auto', True or False")
    return tuple(cores[i % len(cores)] for i in range(workers)) if pin else (None,) * workers


def check_settings(
    *, num_envs: Any, num_workers: Any, num_buffers: Any, split: Any, seed: Any, pin: Any, strict: bool, copy: bool,
    timeout_s: Any, start_method: str, in_process: bool,
) -> VectorSettings:  # fmt: skip
    """Return checked settings; every refusal is a ConfigError that names the value and what is allowed."""
    envs = whole("num_envs", num_envs, 1)
    buffers = whole("num_buffers", num_buffers, 1, 2)
    if split not in SPLITS:
        raise ConfigError(f"split is {split!r}: use 'workers' or 'envs'")
    if envs % buffers:
        raise ConfigError(f"num_envs is {envs}: two buffers need an even number, half of the envs each")
    for name, value in (("strict", strict), ("copy", copy)):
        if not isinstance(value, (bool, np.bool_)):
            raise ConfigError(f"{name} is {value!r}: use True or False")
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)) or not timeout_s > 0:
        raise ConfigError(f"timeout_s is {timeout_s!r}: give seconds greater than 0")
    if start_method not in START_METHODS:
        raise ConfigError(f"start_method is {start_method!r}: use one of {', '.join(START_METHODS)}")
    if seed is not None:
        check_seed(seed, envs)
    workers = _workers(num_workers, envs, buffers, split, in_process)
    cores = (None,) * workers if in_process else _pins(pin, workers)
    return VectorSettings(envs, workers, buffers, split, seed, cores, strict, copy, float(timeout_s), start_method)


def check_seed(seed: Any, num_envs: int) -> None:
    """Raise ConfigError unless `seed` is a whole number, or a sequence of one per env."""
    if isinstance(seed, (list, tuple, np.ndarray)):
        if len(seed) != num_envs:
            raise ConfigError(f"seed has {len(seed)} entries for {num_envs} envs: give one per env, or one number")
        for entry in seed:
            whole("an entry of seed", entry, 0, MOST_SEED)
    elif isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
        if not 0 <= int(seed) <= MOST_SEED:
            raise ConfigError(f"seed is {seed}: use 0 to 2**63 - 1")
    else:
        raise ConfigError(f"seed is {seed!r}: give a whole number, a sequence with one per env, or None")


def env_seeds(seed: Any, num_envs: int) -> np.ndarray:
    """Return (num_envs,) uint64 env seeds: seed + i, or the i-th entry of a sequence.

    Raises:
        ConfigError: a negative or non-integer seed, or a sequence of another length.
    """
    check_seed(seed, num_envs)
    if isinstance(seed, (int, np.integer)):
        return np.uint64(seed) + np.arange(num_envs, dtype=np.uint64)
    return np.array([int(entry) for entry in seed], dtype=np.uint64)
