# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""PufferLib's vector names, translated to those of `puffervec.make`."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import psutil

from puffervec.compat.pufferlib.emulation import GymnasiumPufferEnv, PettingZooPufferEnv
from puffervec.contract.native import NativeEnv
from puffervec.errors import APIUsageError, CallOrderError, ConfigError
from puffervec.system.cores import usable_cores
from puffervec.vec import backends, delivery
from puffervec.vec.backends import make as core_make
from puffervec.vec.settings import VectorSettings, whole
from puffervec.vec.vector_env import VectorEnv
from puffervec.workers.python.creators import Creator, creators
from puffervec.workers.python.puffer_env import PufferEnv


class PufferVectorEnv(VectorEnv):
    """A vector env with PufferLib's attributes.

    Its arrays are those of the last batch: the results of `recv`, or views on shared memory if
    `recv` returned copies.
    """

    def __init__(
        self, env: Any, config: Any, settings: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        """Make a vector env from `VectorSettings`.

        Raises: APIUsageError: the arguments are those of PufferLib's constructors.
        """
        if args or kwargs or not isinstance(settings, VectorSettings):
            name = type(self).__name__
            raise APIUsageError(
                f"{name}(...) does not make a vector env: use make(..., backend={name}), with the "
                "same arguments"
            )
        super().__init__(env, config, settings)

    @property
    def num_environments(self) -> int:
        """Number of envs, the same as `num_envs`."""
        return self.num_envs

    @property
    def envs_per_worker(self) -> int:
        """Largest number of envs of a worker."""
        return -(-self.num_envs // self.num_workers)

    @property
    def workers_per_batch(self) -> int:
        """Number of workers that fill a batch."""
        return len(self.rows.workers[0]) * int(self.settings.batch_halves)

    # Each is a (rows, ...) array, or a dict of arrays by group if there are several groups.
    observations = property(lambda self: self._batch("observations"))
    rewards = property(lambda self: self._batch("rewards"))
    terminals = property(lambda self: self._batch("terminals"))
    truncations = property(lambda self: self._batch("truncations"))
    masks = property(lambda self: self._batch("masks"))

    def _batch(self, name: str) -> Any:
        return delivery.joined(
            [self.rows.by_group(self.halves[half], name) for half in self.turns.batch]
        )


__all__ = [
    "CLOSE",
    "INFO",
    "MAIN",
    "Multiprocessing",
    "PufferEnv",
    "RECV",
    "RESET",
    "SEND",
    "STEP",
    "Serial",
    "Threading",
    "autotune",
    "check_envs",
    "make",
    "make_seeds",
    "recv_precheck",
    "reset",
    "send_precheck",
    "step",
]

# Values of the attribute `flag` of users' own vector envs: the next call that is expected.
RESET, STEP, SEND, RECV, CLOSE, MAIN, INFO = range(7)


class Serial(PufferVectorEnv, backends.Serial):
    """Steps all envs in this process. For `make(backend=...)` and `isinstance`."""


class Threading(PufferVectorEnv, backends.Threading):
    """Steps C envs in threads of this process. For `make(backend=...)` and `isinstance`."""


class Multiprocessing(PufferVectorEnv, backends.Multiprocessing):
    """Steps envs in worker processes. For `make(backend=...)` and `isinstance`."""


_BACKENDS: dict[str, type] = {
    "pufferenv": PufferEnv,
    "serial": Serial,
    "multiprocessing": Multiprocessing,
    "threading": Threading,
}
_OURS: dict[type, type] = {
    backends.Serial: Serial,
    backends.Multiprocessing: Multiprocessing,
    backends.Threading: Threading,
}
_COMMON = ("env_creator_or_creators", "env_args", "env_kwargs", "backend", "num_envs", "seed")
_KNOWN = tuple(
    p.name for p in inspect.signature(core_make).parameters.values() if p.kind is p.KEYWORD_ONLY
)


def make(
    env_creator_or_creators: Any,
    env_args: Any = None,
    env_kwargs: Any = None,
    backend: Any = PufferEnv,
    num_envs: int = 1,
    seed: int | None = 0,
    **kwargs: Any,
) -> Any:
    """Make a vector env with PufferLib's arguments.

    Args:
        env_creator_or_creators: a callable that makes one env, a sequence with one per env, or
            whatever else `puffervec.make` takes (a C env's name, a Gymnasium id, "module:factory").
        env_args, env_kwargs: arguments for the creator; with a sequence of creators, sequences with
            one entry per env.
        backend: a class of this module, or its name in upper or lower case. PufferEnv (the default)
            makes one env with all its agents in this process and returns it; a C env is then
            stepped in this process.
        num_envs: number of envs, 1 for PufferEnv.
        seed: seed of the first reset, as in `puffervec.make`; a creator that has a parameter
            `seed`, or **kwargs, is passed its env's seed.
        kwargs: num_workers (None and "auto": chosen for the machine), batch_size in envs (None:
            all; "auto": half of them), zero_copy, overwork, sync_traj, and the other keywords of
            `puffervec.make`. PufferEnv ignores them. Serial ignores num_workers and makes only as
            many envs as a batch has, so that a script sees the same shapes with every backend.

    Returns: a VectorEnv; with PufferEnv, the env itself.

    Raises:
        ConfigError: (an APIUsageError) an argument cannot be used or is unknown; nothing was
            started.
        WorkerError: an env failed.
    """
    kind = _backend(backend)
    unknown = [name for name in kwargs if name not in _KNOWN]
    if unknown:
        raise ConfigError(
            f"make has no argument {unknown[0]!r}: it has {', '.join((*_COMMON, *_KNOWN))}"
        )
    creator = env_creator_or_creators
    if kind is PufferEnv and not isinstance(creator, (str, NativeEnv)):
        return _make_native(creator, env_args, env_kwargs, num_envs, seed)
    settings = _sizes(num_envs, kwargs)
    if kind in (Serial, PufferEnv):
        kind = Serial
        settings.pop("num_workers", None)
        batch = settings.pop("batch_size", None)
        if batch is not None:
            batch = whole("batch_size", batch, 1, whole("num_envs", num_envs, 1))
            creator, env_args, env_kwargs = (
                _first(part, batch, num_envs) for part in (creator, env_args, env_kwargs)
            )
            num_envs = batch
    return core_make(_always_seed(creator), env_args, env_kwargs, kind, num_envs, seed, **settings)


def _always_seed(creator: Any) -> Any:
    """Return creators to which `buf` and `seed` are passed even as **kwargs, as in PufferLib."""
    if isinstance(creator, (list, tuple)):
        return [_always_seed(one) for one in creator]
    # A name with ":" is "module:factory".
    named = callable(creator) or ":" in str(creator)
    return Creator(creator, always=True) if named else creator


def _backend(backend: Any) -> Any:
    """Return the class for `puffervec.make`, or PufferEnv."""
    kind = _BACKENDS.get(backend.lower()) if isinstance(backend, str) else backend
    if not (isinstance(kind, type) and issubclass(kind, (VectorEnv, PufferEnv))):
        raise ConfigError(
            f"backend is {backend!r}: use one of "
            f"{', '.join(kind.__name__ for kind in _BACKENDS.values())}"
        )
    return _OURS.get(kind, kind)


def _make_native(
    creator: Any, env_args: Any, env_kwargs: Any, num_envs: int, seed: int | None
) -> PufferEnv:
    if num_envs != 1:
        raise ConfigError(
            f"num_envs is {num_envs}: with backend=PufferEnv the one env holds all agents, set "
            "their number in the env; or use Serial or Multiprocessing for several envs"
        )
    env = creators(creator, env_args, env_kwargs, 1)[0].make(seed=seed)
    if not isinstance(env, PufferEnv):
        raise ConfigError(
            f"the creator returned a {type(env).__name__}: only a PufferEnv is its own vector env, "
            "use Serial instead"
        )
    return env


def _sizes(num_envs: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Translate the sizes among the keywords from PufferLib's form; the core checks the rest."""
    settings = dict(kwargs)
    workers = settings.get("num_workers")
    if "num_workers" in settings and workers is None:
        settings["num_workers"] = "auto"
    if (
        isinstance(workers, int)
        and workers > 0
        and isinstance(num_envs, int)
        and num_envs % workers
    ):
        raise ConfigError(
            f"num_workers is {workers} for {num_envs} envs: use a divisor, so that all workers "
            "have equally many"
        )
    if settings.get("batch_size") == "auto":
        settings["batch_size"] = max(1, num_envs // 2)
    return settings


def _first(value: Any, count: int, num_envs: int) -> Any:
    """Return the entries of the first `count` envs if `value` has one per env, else `value`."""
    return value[:count] if isinstance(value, (list, tuple)) and len(value) == num_envs else value


# ---- driving a vector env ------------------------------------------------------------------------


def reset(vecenv: Any, seed: int | None = 42) -> tuple[Any, Any]:
    """Call `async_reset` and `recv`; return (observations, infos)."""
    vecenv.async_reset(seed)
    batch = vecenv.recv()
    return batch[0], batch[4]


def step(vecenv: Any, actions: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Call `send` and `recv`; return (observations, rewards, terminals, truncations, infos)."""
    vecenv.send(np.asarray(actions))
    observations, rewards, terminals, truncations, infos, *_ = vecenv.recv()
    return observations, rewards, terminals, truncations, infos


def recv_precheck(vecenv: Any) -> None:
    """Raise if `recv` is called out of order, for vector env classes that keep a `flag`.

    Otherwise sets the flag so that `send` is expected next. Does nothing for vector envs of this
    library, which check the order themselves.

    Raises:
        CallOrderError: (an APIUsageError) the call is out of order.
    """
    if isinstance(vecenv, VectorEnv):
        return
    if vecenv.flag != RECV:
        raise CallOrderError("recv: nothing was sent: call reset, async_reset or send first")
    vecenv.flag = SEND


def send_precheck(vecenv: Any, actions: Any) -> np.ndarray:
    """Return `actions` as an array; raise if `send` is called out of order.

    Sets `vecenv.flag` so that `recv` is expected next. The first actions (while
    `vecenv.initialized` is false) must be in `vecenv.action_space`. For vector envs of this
    library, which check calls and actions themselves, only the array is made.

    Raises:
        CallOrderError, ConfigError: (both APIUsageErrors) the call is out of order, or the actions
            cannot be used.
    """
    array: np.ndarray = np.asarray(actions)
    if isinstance(vecenv, VectorEnv):
        return array
    if vecenv.flag != SEND:
        raise CallOrderError(
            "send: no observations were received: call reset, or async_reset and recv, first"
        )
    if not vecenv.initialized:
        if not vecenv.action_space.contains(array):
            raise ConfigError(
                f"actions of shape {array.shape} and dtype {array.dtype} are not in "
                f"{vecenv.action_space}"
            )
        vecenv.initialized = True
    vecenv.flag = RECV
    return array


def make_seeds(seed: int | Sequence[int], num_envs: int) -> list[int]:
    """Return one seed per env: seed + i, or the entries of a sequence.

    >>> make_seeds(7, 3)
    [7, 8, 9]

    Raises:
        ConfigError: (an APIUsageError) `seed` is neither a whole number nor num_envs of them.
    """
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
        return [int(seed) + i for i in range(num_envs)]
    if isinstance(seed, (list, tuple)) and len(seed) == num_envs:
        return list(seed)
    raise ConfigError(f"seed is {seed!r}: must be a whole number, or {num_envs} of them")


def check_envs(envs: Iterable[Any], driver: Any) -> None:
    """Raise unless all envs have rows like those of `driver`.

    Raises:
        APIUsageError: an env is not a puffer env, or an agent's spaces differ from those of
            `driver`.
    """
    valid = (PufferEnv, GymnasiumPufferEnv, PettingZooPufferEnv)
    for index, env in enumerate([driver, *envs]):
        where = "the driver env" if index == 0 else f"env {index - 1}"
        if not isinstance(env, valid):
            names = ", ".join(kind.__name__ for kind in valid)
            raise APIUsageError(f"{where} is a {type(env).__name__}: must be one of {names}")
        for name in ("single_observation_space", "single_action_space"):
            space, wanted = getattr(env, name), getattr(driver, name)
            if space != wanted:
                raise APIUsageError(
                    f"{where} has {name} {space}: the driver env has {wanted}, all envs must be "
                    "equal"
                )


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
    """Time candidate settings with random actions, print a table, and return the fastest ones.

    Args:
        env_creator: what `make` needs to make one env.
        batch_size: envs per batch of the policy.
        max_envs: largest number of envs.
        model_forward_s: seconds that the policy takes for a batch; the measurement waits as long
            after each batch, which favours candidates that simulate meanwhile.
        max_env_ram_gb: memory in GB that all envs together may take. It may lower max_envs,
            according to the memory that one env takes in this process.
        max_batch_vram_gb: memory in GB that a batch of observations may take.
        time_per_test: seconds per candidate, not counting its start.

    Returns: keywords for `make(env_creator, **settings)`.

    Raises:
        ConfigError: (a ValueError) a batch exceeds these limits.
        WorkerError: an env failed.
    """
    if batch_size is None or batch_size < 1 or max_envs < batch_size:
        raise ConfigError(
            f"batch_size is {batch_size}: must be a number of envs from 1 to max_envs, {max_envs}"
        )
    batch_gb, env_gb = _measure_memory(env_creator, batch_size)
    if batch_gb > max_batch_vram_gb:
        raise ConfigError(
            f"a batch of {batch_size} envs has {batch_gb:.3g} GB of observations: "
            f"max_batch_vram_gb is {max_batch_vram_gb}"
        )
    max_envs = min(max_envs, int(max_env_ram_gb / env_gb)) if env_gb > 0 else max_envs
    if max_envs < batch_size:
        raise ConfigError(
            f"{batch_size} envs take {batch_size * env_gb:.3g} GB: max_env_ram_gb is "
            f"{max_env_ram_gb}"
        )
    print(f"{'agent-steps/s':>14}  settings")
    measured = []
    for settings in candidates(batch_size, max_envs, usable_cores()):
        rate = _measure(env_creator, settings, model_forward_s, time_per_test)
        print(f"{rate:14,.0f}  {_format(settings)}", flush=True)
        measured.append((rate, settings))
    best = max(measured, key=lambda entry: entry[0])[1]
    print(f"{'best':>14}  {_format(best)}")
    return best


def candidates(batch_size: int, max_envs: int, cores: int) -> list[dict[str, Any]]:
    """Return the settings worth measuring, as keywords for `make`.

    The candidates are: one process; workers that step one batch together; and workers that step
    further batches while the policy computes, with batches in a fixed order or in the order in
    which they are ready.
    """
    choices: list[dict[str, Any]] = [{"backend": backends.Serial, "num_envs": batch_size}]
    for batches in sorted({1, 2, cores}):
        num_envs = batches * batch_size
        workers = _most_workers(num_envs, batch_size, cores)
        if num_envs > max_envs or workers is None:
            continue
        settings = {
            "backend": backends.Multiprocessing,
            "num_envs": num_envs,
            "num_workers": workers,
            "batch_size": batch_size,
        }
        choices.append(settings)
        if batches > 1:
            choices.append({**settings, "zero_copy": False, "sync_traj": False})
    return choices


def _most_workers(num_envs: int, batch_size: int, cores: int) -> int | None:
    """Return the largest number of workers that share envs and batches evenly; None if none does.

    Each worker has equally many envs, and a batch consists of whole workers.
    """
    divisors = [
        n for n in range(1, cores + 1) if num_envs % n == 0 and batch_size % (num_envs // n) == 0
    ]
    return max(divisors, default=None)


def _measure_memory(env_creator: Any, batch_size: int) -> tuple[float, float]:
    """Return GB of memory: of a batch of observations, and (estimated) of one env."""
    process = psutil.Process()
    before = process.memory_info().rss
    with core_make(env_creator, backend=backends.Serial, num_envs=1) as vec:
        observations, _ = vec.reset()
        taken = max(0, process.memory_info().rss - before)
        size = sum(
            rows.nbytes
            for rows in (
                observations.values() if isinstance(observations, dict) else [observations]
            )
        )
    return size * batch_size / 1e9, taken / 1e9


def _measure(
    env_creator: Any, settings: dict[str, Any], model_forward_s: float, time_per_test: float
) -> float:
    """Return a candidate's agent-steps per second: rows received per second of the whole loop."""
    with core_make(env_creator, **settings) as vec:
        vec.action_space.seed(0)
        actions = [vec.action_space.sample() for _ in range(DRAWN_ACTIONS)]
        vec.async_reset(0)
        rows, batches, start = 0, 0, time.perf_counter()
        while batches <= WARM_UP_BATCHES or time.perf_counter() - start < time_per_test:
            if batches == WARM_UP_BATCHES:
                rows, start = 0, time.perf_counter()
            masks = vec.recv()[6]
            rows += (
                sum(len(mask) for mask in masks.values()) if isinstance(masks, dict) else len(masks)
            )
            if model_forward_s > 0:
                time.sleep(model_forward_s)
            vec.send(actions[batches % DRAWN_ACTIONS])
            batches += 1
        return rows / (time.perf_counter() - start)


def _format(settings: dict[str, Any]) -> str:
    """Return settings as keyword arguments."""
    return ", ".join(
        f"{name}={value.__name__ if isinstance(value, type) else value}"
        for name, value in settings.items()
    )
