# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The settings of a vector env, checked before anything is allocated or started."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from puffervec._ffi import lib
from puffervec.core.slab import SPLITS
from puffervec.core.spec import AUTORESET_MODES
from puffervec.errors import ConfigError
from puffervec.system.cores import affinity, usable_cores
from puffervec.workers.process.processes import AUTO, START_METHODS

MOST_ENVS = 2**31 - 1
MOST_SEED = 2**63 - 1


@dataclass(frozen=True)
class VectorSettings:
    """The distribution of envs over workers and halves. See `puffervec.make` for each field.

    Attributes:
        order: the order in which `recv` takes halves: "strict" round robin; "ready": whichever is
            ready first; "first_come": batches of `batch_halves` halves (of one worker each) that
            are ready first, concatenated by copying.
    """

    num_envs: int
    num_workers: int
    num_buffers: int
    split: str
    order: str
    batch_halves: int
    autoreset: str
    seed: Any
    cores: tuple[int | None, ...]
    strict: bool
    copy: bool
    timeout_s: float
    start_method: str

    @property
    def pauses(self) -> int:
        """Number of pause instructions before learner and workers yield; 0 means the default.

        It is 1 if the workers need every core: a worker that is done would otherwise spin on the
        core that it shares with the learner, which costs 0.6 us of a turn of 8 us.
        """
        return 1 if self.num_workers >= usable_cores() else 0

    @property
    def learner_yields(self) -> int:
        """Number of yields before the learner sleeps; 0 means the default.

        It is large (about 2 ms) if the learner has a core to itself. Turns of Python envs take
        longer than the default's 0.1 ms, and a futex wake-up costs tens of microseconds: one worker
        with 64 CartPoles reaches 0.92 instead of 0.86 of the speed of a plain loop.
        """
        return 4000 if self.num_workers < usable_cores() else 0


def whole(name: str, value: Any, low: int, high: int = MOST_ENVS) -> int:
    """Return `value` as an int in [low, high], or raise ConfigError."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise ConfigError(f"{name} is {value!r}: give a whole number from {low} to {high:,}")
    if not low <= value <= high:
        raise ConfigError(f"{name} is {value:,}: use {low} to {high:,}")
    return int(value)


def choose_split(num_workers: int | str, num_envs: int, num_buffers: int) -> str:
    """Return the split that "auto" stands for.

    With "envs", one worker per core keeps all cores busy. With "workers", the workers of one half
    take cores away from those of the other halves, unless each worker has its own core. So
    "workers" is only chosen if each worker has its own core, or if more workers are requested than
    one half can keep busy.

    Args:
        num_workers: as in `make`, a number or "auto".
        num_envs: number of envs of all halves.
        num_buffers: number of halves.
    """
    cores = usable_cores()
    busy = min(cores, num_envs // num_buffers)  # workers of a half that can run simultaneously
    if isinstance(num_workers, str):
        apart = num_buffers * busy <= cores
    else:
        apart = num_workers > busy and num_workers % num_buffers == 0
    return "workers" if apart else "envs"


def _workers(
    value: Any, num_envs: int, num_buffers: int, split: str, in_process: bool
) -> tuple[int, str]:
    """Return the number of workers and the split, with "auto" resolved in both."""
    if isinstance(value, str) and value != "auto":
        raise ConfigError(f"num_workers is {value!r}: give a number or 'auto'")
    given = value if isinstance(value, str) else whole("num_workers", value, 1, lib.PV_MAX_WORKERS)
    per_half = num_envs // num_buffers
    if split == "auto":
        alone = in_process or num_buffers == 1
        split = "workers" if alone else choose_split(given, num_envs, num_buffers)
    own = num_buffers if split == "workers" else 1  # halves with separate workers
    if in_process:
        if given not in ("auto", own):
            raise ConfigError(
                f"num_workers is {given}: the serial backend has no workers; use 'auto'"
            )
        return own, split
    if isinstance(given, str):
        # Twice the cores for double buffering: they stay busy while one half waits for the policy.
        cores = usable_cores() if own <= 2 else -(-usable_cores() // own)
        return own * max(1, min(cores, per_half)), split
    if given % own:
        raise ConfigError(
            f"num_workers is {given}: use a multiple of the {num_buffers} buffers, or split='envs'"
        )
    if given // own > per_half:
        raise ConfigError(
            f"num_workers is {given} for {num_envs} envs in {num_buffers} buffer(s): use at "
            f"most {per_half * own} workers"
        )
    return given, split


def _pins(pin: Any, workers: int) -> tuple[int | None, ...]:
    cores = affinity()
    possible = hasattr(os, "sched_setaffinity")
    if pin == "auto":
        pin = possible and workers <= usable_cores()
    if not isinstance(pin, (bool, np.bool_)):
        raise ConfigError(f"pin is {pin!r}: use 'auto', True or False")
    if pin and not possible:
        raise ConfigError(
            "pin is True, but this system cannot pin a process to a core: use 'auto' or False"
        )
    return tuple(cores[i % len(cores)] for i in range(workers)) if pin else (None,) * workers


@dataclass(frozen=True)
class _Batches:
    """The buffers, workers and order that correspond to PufferLib's batch settings."""

    num_buffers: int
    num_workers: Any
    order: str = "strict"
    batch_halves: int = 1
    copy: bool = False


def _batches(
    envs: int, workers: Any, batch_size: Any, zero_copy: bool, sync_traj: bool, in_process: bool
) -> _Batches:
    """Translate PufferLib's batch settings into buffers, workers and order."""
    size = max(1, envs // 2) if batch_size == "auto" else whole("batch_size", batch_size, 1, envs)
    if size == envs:
        return _Batches(1, workers, copy=not zero_copy)
    count = envs // size
    contiguous = zero_copy or sync_traj
    if contiguous and envs % size:
        raise ConfigError(
            f"num_envs is {envs}, not a multiple of batch_size {size}: use another batch_size, or "
            "zero_copy=False with sync_traj=False"
        )
    if workers == "auto":
        share = max(
            n
            for n in range(1, size + 1)
            if size % n == 0 and n <= max(1, usable_cores() if count <= 2 else 1)
        )
        workers = count if in_process else -(-envs // size) * share
    workers = whole("num_workers", workers, 1, lib.PV_MAX_WORKERS)
    if envs % workers:
        raise ConfigError(
            f"num_envs is {envs}, not a multiple of num_workers {workers}: batches need the same "
            "number of envs in each worker"
        )
    if size % (envs // workers):
        raise ConfigError(
            f"batch_size is {size}, not a multiple of the {envs // workers} envs of a worker: a "
            "batch consists of whole workers; use another batch_size or num_workers"
        )
    if contiguous:
        return _Batches(count, workers, "strict" if sync_traj else "ready", copy=not zero_copy)
    return _Batches(workers, workers, "first_come", size // (envs // workers), copy=True)


def check_settings(
    *,
    num_envs: Any,
    num_workers: Any = "auto",
    num_buffers: Any = 1,
    split: Any = "auto",
    batch_size: Any = None,
    zero_copy: bool = True,
    sync_traj: bool = True,
    overwork: bool = False,
    autoreset_mode: str = "next_step",
    seed: Any = None,
    pin: Any = "auto",
    strict: bool = False,
    copy: bool = False,
    timeout_s: Any = 60.0,
    start_method: str = AUTO,
    in_process: bool = False,
) -> VectorSettings:
    """Return checked settings.

    Raises:
        ConfigError: a setting is unusable; the message names the value and what is allowed.
    """
    envs = whole("num_envs", num_envs, 1)
    switches = {
        "strict": strict,
        "copy": copy,
        "zero_copy": zero_copy,
        "sync_traj": sync_traj,
        "overwork": overwork,
    }
    for name, value in switches.items():
        if not isinstance(value, (bool, np.bool_)):
            raise ConfigError(f"{name} is {value!r}: use True or False")
    batches = _Batches(whole("num_buffers", num_buffers, 1, lib.PV_MAX_BUFFERS), num_workers)
    if batch_size is not None:
        if num_buffers != 1 or split not in ("auto", "workers"):
            raise ConfigError(
                f"batch_size is {batch_size!r} with num_buffers={num_buffers} and "
                f"split={split!r}: use one or the other; batch_size=num_envs/2 is num_buffers=2"
            )
        batches = _batches(envs, num_workers, batch_size, zero_copy, sync_traj, in_process)
        split = "workers"  # a batch is made of whole workers
    elif not zero_copy:
        batches = dataclasses.replace(batches, copy=True)
    buffers, num_workers = batches.num_buffers, batches.num_workers
    if split not in ("auto", *SPLITS):
        raise ConfigError(f"split is {split!r}: use 'auto', 'workers' or 'envs'")
    if autoreset_mode not in AUTORESET_MODES:
        raise ConfigError(
            f"autoreset_mode is {autoreset_mode!r}: use one of {', '.join(AUTORESET_MODES)}"
        )
    if envs % buffers:
        raise ConfigError(f"num_envs is {envs}: use a multiple of the {buffers} buffers")
    if (
        isinstance(timeout_s, bool)
        or not isinstance(timeout_s, (int, float, np.integer, np.floating))
        or not timeout_s > 0
    ):
        raise ConfigError(f"timeout_s is {timeout_s!r}: give seconds greater than 0")
    if start_method not in (AUTO, *START_METHODS):
        raise ConfigError(
            f"start_method is {start_method!r}: use one of {', '.join((AUTO, *START_METHODS))}"
        )
    if seed is not None:
        check_seed(seed, envs)
    workers, split = _workers(num_workers, envs, buffers, split, in_process)
    cores = (None,) * workers if in_process else _pins(pin, workers)
    return VectorSettings(
        envs,
        workers,
        buffers,
        split,
        batches.order,
        batches.batch_halves,
        autoreset_mode,
        seed,
        cores,
        strict,
        copy or batches.copy,
        float(timeout_s),
        start_method,
    )


def check_seed(seed: Any, num_envs: int) -> None:
    """Raise ConfigError unless `seed` is a whole number, or a sequence of one (or None) per env."""
    if isinstance(seed, (list, tuple, np.ndarray)):
        if len(seed) != num_envs:
            raise ConfigError(
                f"seed has {len(seed)} entries for {num_envs} envs: give one per env, or one number"
            )
        for entry in seed:
            if entry is not None:
                whole("an entry of seed", entry, 0, MOST_SEED)
    elif isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
        if not 0 <= int(seed) <= MOST_SEED:
            raise ConfigError(f"seed is {seed}: use 0 to 2**63 - 1")
    else:
        raise ConfigError(
            f"seed is {seed!r}: give a whole number, a sequence with one per env, or None"
        )


def first_seeds(*given: Any, num_envs: int) -> Any:
    """Return the seed of the first reset.

    Each env gets its seed from the first entry of `given` that has one for it.

    Args:
        given: each a whole number (env i gets number + i), a sequence with one (or None) per env,
            or None.
        num_envs: number of envs.
    """
    found = [seed for seed in given if seed is not None]
    if not found or isinstance(found[0], (int, np.integer)):
        return found[0] if found else None
    columns = []
    for seed in found:
        check_seed(seed, num_envs)
        columns.append(
            [int(seed) + i for i in range(num_envs)]
            if isinstance(seed, (int, np.integer))
            else list(seed)
        )
    return [
        next((entry for entry in entries if entry is not None), None)
        for entries in zip(*columns, strict=True)
    ]


def env_seeds(seed: Any, num_envs: int) -> np.ndarray:
    """Return (num_envs,) uint64 env seeds: seed + i, or the i-th entry of a sequence (0 for None).

    Raises:
        ConfigError: a negative or non-integer seed, or a sequence of another length.
    """
    check_seed(seed, num_envs)
    if isinstance(seed, (int, np.integer)):
        return np.uint64(seed) + np.arange(num_envs, dtype=np.uint64)
    return np.array([int(entry or 0) for entry in seed], dtype=np.uint64)
