# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure which way of spreading an env over workers is fastest on this machine. Runs in the learner, before training."""

from __future__ import annotations

import time
from typing import Any

import psutil

from puffervec.cores import usable_cores
from puffervec.errors import ConfigError
from puffervec.vec.backends import Multiprocessing, Serial
from puffervec.vec.backends import make as core_make

__all__ = ["autotune", "candidates"]

WARM_UP_BATCHES = 3
DRAWN_ACTIONS = 16


def autotune(
    env_creator: Any,
    batch_size: int,
    max_envs: int = 194,
    model_forward_s: float = 0.0,
    max_env_ram_gb: float = 32,
    max_batch_vram_gb: float = 0.05,
    time_per_test: float = 5,
) -> dict[str, Any]:
    """Run every candidate for `time_per_test` seconds with random actions, print a table, and return the best settings.

    Args:
        env_creator: what `make` takes for one env.
        batch_size: envs whose rows the policy sees at once. max_envs: most envs that may exist.
        model_forward_s: seconds that the policy takes for a batch; a wait of that length stands in for it, so that candidates
            which simulate meanwhile show it.
        max_env_ram_gb: memory that all envs may take; lowers max_envs, by what one env takes in this process.
        max_batch_vram_gb: memory that a batch of observations may take.
        time_per_test: seconds per candidate, without the time that it takes to start.
    Returns:
        keywords for `make(env_creator, **settings)`.
    Raises:
        ConfigError (a ValueError): a batch that does not fit these limits. WorkerError: an env failed.
    """
    if batch_size is None or batch_size < 1 or max_envs < batch_size:
        raise ConfigError(f"batch_size is {batch_size}: give a number of envs from 1 to max_envs, {max_envs}")
    batch_gb, env_gb = _weigh(env_creator, batch_size)
    if batch_gb > max_batch_vram_gb:
        raise ConfigError(
            f"a batch of {batch_size} envs has {batch_gb:.3g} GB of observations: max_batch_vram_gb is {max_batch_vram_gb}"
        )
    max_envs = min(max_envs, int(max_env_ram_gb / env_gb)) if env_gb > 0 else max_envs
    if max_envs < batch_size:
        raise ConfigError(f"{batch_size} envs take {batch_size * env_gb:.3g} GB: max_env_ram_gb is {max_env_ram_gb}")
    print(f"{'agent-steps/s':>14}  settings")
    measured = []
    for settings in candidates(batch_size, max_envs, usable_cores()):
        rate = _measure(env_creator, settings, model_forward_s, time_per_test)
        print(f"{rate:14,.0f}  {_text(settings)}", flush=True)
        measured.append((rate, settings))
    best = max(measured, key=lambda entry: entry[0])[1]
    print(f"{'best':>14}  {_text(best)}")
    return best


def candidates(batch_size: int, max_envs: int, cores: int) -> list[dict[str, Any]]:
    """Return the settings worth measuring, as keywords for `make`.

    One process; workers that step one batch together; and workers that step further batches while the policy looks at one,
    handed out block by block in turn, or in the order in which envs get ready.
    """
    found: list[dict[str, Any]] = [{"backend": Serial, "num_envs": batch_size}]
    for batches in sorted({1, 2, cores}):
        num_envs = batches * batch_size
        workers = _most_workers(num_envs, batch_size, cores)
        if num_envs > max_envs or workers is None:
            continue
        settings = {"backend": Multiprocessing, "num_envs": num_envs, "num_workers": workers, "batch_size": batch_size}
        found.append(settings)
        if batches > 1:
            found.append({**settings, "zero_copy": False, "sync_traj": False})
    return found


def _most_workers(num_envs: int, batch_size: int, cores: int) -> int | None:
    """Return the largest number of workers, at most `cores`, with equal shares of which whole ones make a batch."""
    fitting = [n for n in range(1, cores + 1) if num_envs % n == 0 and batch_size % (num_envs // n) == 0]
    return max(fitting, default=None)


def _weigh(env_creator: Any, batch_size: int) -> tuple[float, float]:
    """Return the GB of a batch of observations, and of one env in memory as far as one can tell from this process."""
    process = psutil.Process()
    before = process.memory_info().rss
    with core_make(env_creator, backend=Serial, num_envs=1) as vec:
        observations, _ = vec.reset()
        taken = max(0, process.memory_info().rss - before)
        size = sum(rows.nbytes for rows in (observations.values() if isinstance(observations, dict) else [observations]))
    return size * batch_size / 1e9, taken / 1e9


def _measure(env_creator: Any, settings: dict[str, Any], model_forward_s: float, time_per_test: float) -> float:
    """Return agent-steps per second of one candidate: rows that came back, per second of the whole loop."""
    with core_make(env_creator, **settings) as vec:
        vec.action_space.seed(0)
        actions = [vec.action_space.sample() for _ in range(DRAWN_ACTIONS)]
        vec.async_reset(0)
        rows, batches, start = 0, 0, time.perf_counter()
        while batches <= WARM_UP_BATCHES or time.perf_counter() - start < time_per_test:
            if batches == WARM_UP_BATCHES:
                rows, start = 0, time.perf_counter()
            masks = vec.recv()[6]
            rows += sum(len(mask) for mask in masks.values()) if isinstance(masks, dict) else len(masks)
            if model_forward_s > 0:
                time.sleep(model_forward_s)
            vec.send(actions[batches % DRAWN_ACTIONS])
            batches += 1
        return rows / (time.perf_counter() - start)


def _text(settings: dict[str, Any]) -> str:
    """Return settings as one would write them in a call."""
    return ", ".join(f"{name}={value.__name__ if isinstance(value, type) else value}" for name, value in settings.items())
