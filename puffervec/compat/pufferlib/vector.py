# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""PufferLib's vector names. Thin: what they make and drive is `puffervec.make`'s; only names are translated."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from puffervec.compat.pufferlib.autotune import autotune
from puffervec.compat.pufferlib.emulation import GymnasiumPufferEnv, PettingZooPufferEnv
from puffervec.errors import APIUsageError, CallOrderError, ConfigError
from puffervec.native import NativeEnv
from puffervec.python.creators import Creator, creators
from puffervec.python.puffer_env import PufferEnv
from puffervec.vec import backends, delivery
from puffervec.vec.backends import make as core_make
from puffervec.vec.settings import VectorSettings, whole
from puffervec.vec.vector_env import VectorEnv


class PufferVectorEnv(VectorEnv):
    """A vector env with PufferLib's attributes.

    The arrays are those of the batch last received: what `recv` returned, or its views on shared memory where it copied.
    """

    def __init__(self, env: Any, config: Any, settings: Any = None, *args: Any, **kwargs: Any) -> None:
        """Raises: APIUsageError: called with the arguments that PufferLib's constructors take."""
        if args or kwargs or not isinstance(settings, VectorSettings):
            name = type(self).__name__
            raise APIUsageError(f"{name}(...) makes no vector env: use make(..., backend={name}), with the same arguments")
        super().__init__(env, config, settings)

    @property
    def num_environments(self) -> int:
        """Number of envs, as `num_envs`."""
        return self.num_envs

    @property
    def envs_per_worker(self) -> int:
        """Number of envs of a worker (the most, where workers have different numbers)."""
        return -(-self.num_envs // self.num_workers)

    @property
    def workers_per_batch(self) -> int:
        """Number of workers that fill a batch."""
        return len(self.rows.workers[0]) * int(self.settings.batch_halves)

    # (rows, ...) each; dicts by group where there are several groups.
    observations = property(lambda self: self._received("observations"))
    rewards = property(lambda self: self._received("rewards"))
    terminals = property(lambda self: self._received("terminals"))
    truncations = property(lambda self: self._received("truncations"))
    masks = property(lambda self: self._received("masks"))

    def _received(self, name: str) -> Any:
        return delivery.joined([self.rows.by_group(self.halves[half], name) for half in self.turns.batch])


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

# Values of the attribute `flag` of vector envs that users write themselves: which call is expected next.
RESET, STEP, SEND, RECV, CLOSE, MAIN, INFO = range(7)


class Serial(PufferVectorEnv, backends.Serial):
    """Steps all envs in this process. For `make(backend=...)` and `isinstance`."""


class Threading(PufferVectorEnv, backends.Threading):
    """Steps C envs in threads of this process. For `make(backend=...)` and `isinstance`."""


class Multiprocessing(PufferVectorEnv, backends.Multiprocessing):
    """Steps envs in worker processes. For `make(backend=...)` and `isinstance`."""


_BACKENDS: dict[str, type] = {
    "pufferenv": PufferEnv, "serial": Serial, "multiprocessing": Multiprocessing, "threading": Threading,
}  # fmt: skip
_OURS: dict[type, type] = {
    backends.Serial: Serial, backends.Multiprocessing: Multiprocessing, backends.Threading: Threading,
}  # fmt: skip
_COMMON = ("env_creator_or_creators", "env_args", "env_kwargs", "backend", "num_envs", "seed")
_KNOWN = tuple(p.name for p in inspect.signature(core_make).parameters.values() if p.kind is p.KEYWORD_ONLY)


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
        env_creator_or_creators: a callable that makes one env, a sequence with one per env, or whatever else `puffervec.make`
            takes (a C env's name, a Gymnasium id, "module:factory").
        env_args, env_kwargs: for the creator; with a sequence of creators, sequences with one entry per env.
        backend: a class of this module, or its name in any case. PufferEnv (the default): the env itself, which is made in this
            process and holds all its agents; a C env's name runs in this process then.
        num_envs: number of envs, 1 for PufferEnv. seed: of the first reset, as in `puffervec.make`; a creator that names a
            parameter `seed`, or takes any keywords, gets its env's.
        kwargs: num_workers (None and "auto": what suits the machine), batch_size in envs (None: all; "auto": half of them),
            zero_copy, overwork, sync_traj, and the other keywords of `puffervec.make`. PufferEnv ignores them. Serial ignores
            num_workers and has as many envs as the batch, so that a script sees the same shapes in every backend.
    Returns:
        a VectorEnv, or with PufferEnv the env.
    Raises:
        ConfigError (an APIUsageError): unusable or unknown arguments, before anything is started. WorkerError: an env failed.
    """
    kind = _backend(backend)
    unknown = [name for name in kwargs if name not in _KNOWN]
    if unknown:
        raise ConfigError(f"make has no argument {unknown[0]!r}: it has {', '.join((*_COMMON, *_KNOWN))}")
    given = env_creator_or_creators
    if kind is PufferEnv and not isinstance(given, (str, NativeEnv)):
        return _make_native(given, env_args, env_kwargs, num_envs, seed)
    settings = _sizes(num_envs, kwargs)
    if kind in (Serial, PufferEnv):
        kind = Serial
        settings.pop("num_workers", None)
        batch = settings.pop("batch_size", None)
        if batch is not None:
            batch = whole("batch_size", batch, 1, whole("num_envs", num_envs, 1))
            given, env_args, env_kwargs = (_first(part, batch, num_envs) for part in (given, env_args, env_kwargs))
            num_envs = batch
    return core_make(_always_told(given), env_args, env_kwargs, kind, num_envs, seed, **settings)


def _always_told(given: Any) -> Any:
    """Return creators that get `buf` and `seed` where they take any keywords, too: PufferLib always passes both."""
    if isinstance(given, (list, tuple)):
        return [_always_told(one) for one in given]
    return Creator(given, always=True) if callable(given) or ":" in str(given) else given  # "module:factory"


def _backend(backend: Any) -> Any:
    """Return the class that `puffervec.make` knows, or PufferEnv."""
    found = _BACKENDS.get(backend.lower()) if isinstance(backend, str) else backend
    if not (isinstance(found, type) and issubclass(found, (VectorEnv, PufferEnv))):
        raise ConfigError(f"backend is {backend!r}: use one of {', '.join(kind.__name__ for kind in _BACKENDS.values())}")
    return _OURS.get(found, found)


def _make_native(given: Any, env_args: Any, env_kwargs: Any, num_envs: int, seed: int | None) -> PufferEnv:
    if num_envs != 1:
        raise ConfigError(
            f"num_envs is {num_envs}: with backend=PufferEnv the one env holds all agents, tell it how many; or use Serial or"
            " Multiprocessing for several envs"
        )
    env = creators(given, env_args, env_kwargs, 1)[0].make(seed=seed)
    if not isinstance(env, PufferEnv):
        raise ConfigError(
            f"the creator made a {type(env).__name__}: only a PufferEnv is its own vector env, use Serial instead"
        )
    return env


def _sizes(num_envs: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords with PufferLib's words for sizes translated; the core checks the rest."""
    settings = dict(kwargs)
    workers = settings.get("num_workers")
    if "num_workers" in settings and workers is None:
        settings["num_workers"] = "auto"
    if isinstance(workers, int) and workers > 0 and isinstance(num_envs, int) and num_envs % workers:
        raise ConfigError(f"num_workers is {workers} for {num_envs} envs: use a divisor, so that all workers have as many")
    if settings.get("batch_size") == "auto":
        settings["batch_size"] = max(1, num_envs // 2)
    return settings


def _first(given: Any, count: int, num_envs: int) -> Any:
    """Return the entries of the first envs where `given` holds one per env."""
    return given[:count] if isinstance(given, (list, tuple)) and len(given) == num_envs else given


# ---- driving a vector env ---------------------------------------------------------------------------------------------


def reset(vecenv: Any, seed: int | None = 42) -> tuple[Any, Any]:
    """Call `async_reset` and `recv`. Returns (observations, infos)."""
    vecenv.async_reset(seed)
    received = vecenv.recv()
    return received[0], received[4]


def step(vecenv: Any, actions: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Call `send` and `recv`. Returns (observations, rewards, terminals, truncations, infos)."""
    vecenv.send(np.asarray(actions))
    observations, rewards, terminals, truncations, infos, *_ = vecenv.recv()
    return observations, rewards, terminals, truncations, infos


def recv_precheck(vecenv: Any) -> None:
    """Refuse a `recv` out of order, for vector env classes that keep a `flag`; the next call is `send` then.

    Raises:
        CallOrderError (an APIUsageError). Vector envs of this library check by themselves, and pass.
    """
    if isinstance(vecenv, VectorEnv):
        return
    if vecenv.flag != RECV:
        raise CallOrderError("recv: nothing is under way: call reset, async_reset or send first")
    vecenv.flag = SEND


def send_precheck(vecenv: Any, actions: Any) -> np.ndarray:
    """Return `actions` as an array, or refuse a `send` out of order; the next call is `recv` then.

    The first actions (where `vecenv.initialized` is false) are compared with `vecenv.action_space`.

    Raises:
        CallOrderError, ConfigError (both APIUsageErrors). Vector envs of this library check by themselves, and pass.
    """
    array: np.ndarray = np.asarray(actions)
    if isinstance(vecenv, VectorEnv):
        return array
    if vecenv.flag != SEND:
        raise CallOrderError("send: no observations were received: call reset, or async_reset and recv, first")
    if not vecenv.initialized:
        if not vecenv.action_space.contains(array):
            raise ConfigError(f"actions of shape {array.shape} and dtype {array.dtype} are not in {vecenv.action_space}")
        vecenv.initialized = True
    vecenv.flag = RECV
    return array


def make_seeds(seed: int | Sequence[int], num_envs: int) -> list[int]:
    """Return one seed per env: seed + i, or the given ones.

    >>> make_seeds(7, 3)
    [7, 8, 9]

    Raises:
        ConfigError (an APIUsageError): neither a whole number nor num_envs of them.
    """
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
        return [int(seed) + i for i in range(num_envs)]
    if isinstance(seed, (list, tuple)) and len(seed) == num_envs:
        return list(seed)
    raise ConfigError(f"seed is {seed!r}: give a whole number, or {num_envs} of them")


def check_envs(envs: Iterable[Any], driver: Any) -> None:
    """Refuse envs that cannot share rows with `driver`: not puffer envs, or other spaces of one agent.

    Raises:
        APIUsageError.
    """
    valid = (PufferEnv, GymnasiumPufferEnv, PettingZooPufferEnv)
    for index, env in enumerate([driver, *envs]):
        where = "the driver env" if index == 0 else f"env {index - 1}"
        if not isinstance(env, valid):
            names = ", ".join(kind.__name__ for kind in valid)
            raise APIUsageError(f"{where} is a {type(env).__name__}: make it one of {names}")
        for name in ("single_observation_space", "single_action_space"):
            found, wanted = getattr(env, name), getattr(driver, name)
            if found != wanted:
                raise APIUsageError(f"{where} has {name} {found}: the driver env has {wanted}, all envs have to agree")
