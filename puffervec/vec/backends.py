# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffervec.make`, and the backends by name: Serial, Threading, Multiprocessing."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from puffervec import envs as registry
from puffervec.contract.native import NativeEnv
from puffervec.errors import ConfigError
from puffervec.system import limits
from puffervec.system.memory import refuse_more
from puffervec.vec import workers
from puffervec.vec.settings import VectorSettings, check_settings
from puffervec.vec.vector_env import VectorEnv
from puffervec.workers.process.processes import AUTO
from puffervec.workers.python.creators import Creator, creators

LEAST_ENV, LEAST_PYTHON_ENV = 32, 1024  # lower bounds on bytes per C env and per Python env


class Serial(VectorEnv):
    """The backend that steps all envs in this process, during `send`.

    It is the reference that the other backends are compared with.
    """

    kind = workers.InProcess

    @property
    def envs(self) -> list[Any]:
        """The Python envs, in order."""
        from puffervec.workers.python import block

        return block.envs_of(self.env.source) if not isinstance(self.env, NativeEnv) else []

    @property
    def driver_env(self) -> Any:
        """The first Python env, or this object for C envs.

        If the creator made an emulation wrapper, the result is the wrapper around the first env.
        """
        if isinstance(self.env, NativeEnv) or not self.envs:
            return super().driver_env
        from puffervec.workers.python.env import unwrapped

        driver, first = self.env.driver, self.envs[0]
        if unwrapped(driver) is driver:
            return first
        driver.env = first
        return driver


class Threading(VectorEnv):
    """The backend that runs the C loop in threads of this process, over the same slab and channel.

    A thread cannot be killed, so the guarantees about hung and dead workers do not cover this
    backend.
    """

    kind = workers.Threads


class Multiprocessing(VectorEnv):
    """The backend that runs the C loop in worker processes."""

    kind = workers.Processes

    @property
    def processes(self) -> list[Any]:
        """The worker processes (multiprocessing.Process), by worker index."""
        assert isinstance(self.workers, workers.Processes)
        return self.workers.group.processes


BACKENDS: dict[str, type[VectorEnv]] = {
    "serial": Serial,
    "threading": Threading,
    "multiprocessing": Multiprocessing,
}


def make(
    env_creator_or_creators: Any,
    env_args: Any = None,
    env_kwargs: Mapping[str, Any] | Any | None = None,
    backend: str | type[VectorEnv] = "multiprocessing",
    num_envs: int = 1,
    seed: int | Sequence[int] | None = 0,
    *,
    num_workers: int | str = "auto",
    batch_size: int | str | None = None,
    zero_copy: bool = True,
    overwork: bool = False,
    sync_traj: bool = True,
    num_buffers: int = 1,
    split: str = "auto",
    autoreset_mode: str = "next_step",
    pin: bool | str = "auto",
    strict: bool = False,
    copy: bool = False,
    timeout_s: float = 60.0,
    start_method: str = "auto",
    **unknown: Any,
) -> VectorEnv:
    """Make a vector env.

    The first arguments and their order are those of `pufferlib.vector.make`.

    Args:
        env_creator_or_creators: the name of a C env (`puffervec.envs`) or a NativeEnv; a Gymnasium
            id; "module:factory"; a callable that makes a gymnasium.Env, a PettingZoo ParallelEnv or
            a PufferEnv; or a list of num_envs of these (not for C envs).
        env_args: positional arguments of the creator; with a list of creators, also a list with
            those of each. C envs have none.
        env_kwargs: keyword arguments of the creator; with a list of creators, also a list with
            those of each. C envs: a mapping of settings, or their config dataclass. A creator with
            a parameter `buf` or `seed` gets these too.
        backend: "multiprocessing", "threading" (C envs only) or "serial", or the class.
        num_envs: number of envs over all batches.
        seed: seed of the first reset (env i gets seed + i, or the i-th entry); None draws one at
            random (Python envs: sets none).
        num_workers: "auto": one per usable core (affinity and CPU quota), or two with two buffers
            and split="workers".
        batch_size: envs per `recv`; None: all (or num_envs / num_buffers); "auto": half of them.
        zero_copy: return views on shared memory, so batches are aligned blocks of envs.
        overwork: accepted for compatibility; more workers than cores are always allowed.
        sync_traj: deliver batches in strict round robin. False: in the order in which they become
            ready; with zero_copy=False a batch is made of whichever workers are ready first.
        num_buffers: 2 for double buffering: one half simulates while the policy works on the other.
        split: with several buffers, "workers": each buffer has its own workers; "envs": every
            worker serves a part of each. "auto": "envs", unless each buffer can have workers that
            share no core with another's, or `num_workers` is more than one buffer can keep busy;
            the attribute `split` says which was chosen.
        autoreset_mode: "next_step": the row after a done row is the reset row. "same_step": a done
            row holds the next episode's first observation, and `final_observations` holds the last
            one. "disabled": the caller must call reset(mask=...).
        pin: pin worker i to a core; "auto" does so if there are at most as many workers as usable
            cores.
        strict: raise for action values out of range. Otherwise they are replaced by the no-op and
            counted (C envs), or passed on unchanged (Python envs).
        copy: return copies from `recv` instead of views on shared memory.
        timeout_s: longest wait for a worker, in seconds.
        start_method: "spawn", "forkserver" or "fork"; "auto" is forkserver for Python envs and
            spawn for C envs. Scripts need no `if __name__ == "__main__"` with any of them.

    Returns:
        a VectorEnv; close it with `close` or use it in a with statement.

    Raises:
        ConfigError: an unusable setting, before anything is started.
        WorkerError: an env could not be made.
    """
    kind = BACKENDS.get(backend.lower()) if isinstance(backend, str) else backend
    if kind is None or not (isinstance(kind, type) and issubclass(kind, VectorEnv)):
        raise ConfigError(f"backend is {backend!r}: use one of {', '.join(BACKENDS)}")
    if unknown:
        raise ConfigError(
            f"make has no setting {next(iter(unknown))!r}: the settings are "
            f"{', '.join(_settings_of_make())}"
        )
    settings = check_settings(
        num_envs=num_envs,
        num_workers=num_workers,
        num_buffers=num_buffers,
        split=split,
        batch_size=batch_size,
        zero_copy=zero_copy,
        sync_traj=sync_traj,
        overwork=overwork,
        autoreset_mode=autoreset_mode,
        seed=seed,
        pin=pin,
        strict=strict,
        copy=copy,
        timeout_s=timeout_s,
        start_method=start_method,
        in_process=not kind.kind.several,
    )
    native_env = _native_env(env_creator_or_creators)
    least = settings.num_envs * (LEAST_ENV if native_env is not None else LEAST_PYTHON_ENV)
    # Checked early: the lists and scenes made below take memory too.
    refuse_more(least, f"{settings.num_envs:,} envs need at least", "", "use fewer envs")
    if settings.start_method == AUTO:
        settings = dataclasses.replace(
            settings, start_method="forkserver" if native_env is None else "spawn"
        )
    if native_env is not None:
        if env_args:
            raise ConfigError(
                f"env_args is {env_args!r}: pass settings of the C env {native_env.name!r} in "
                "env_kwargs, by name"
            )
        with limits.named(f"{native_env.name}, {settings.num_envs:,} envs"):
            return kind(native_env, native_env.configure(env_kwargs), settings)
    return _make_python(
        kind, creators(env_creator_or_creators, env_args, env_kwargs, settings.num_envs), settings
    )


def _make_python(
    kind: type[VectorEnv], made: Sequence[Creator], settings: VectorSettings
) -> VectorEnv:
    """Make a vector env of Python envs."""
    # Imported here because it imports Gymnasium, which C envs do not need.
    from puffervec.workers.python.env import PythonEnv

    if issubclass(kind, Threading):
        raise ConfigError(
            "backend is 'threading': it runs C envs only; use 'multiprocessing' or 'serial' for "
            "Python envs"
        )
    env = PythonEnv(made, settings.autoreset, settings.seed)
    try:
        with limits.named(f"{settings.num_envs:,} envs"):
            return kind(env, None, settings)
    except BaseException:
        env.close()
        raise


def _settings_of_make() -> list[str]:
    parameters = inspect.signature(make).parameters.values()
    return [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]


def _native_env(given: Any) -> NativeEnv | None:
    """Return the C env that `given` names, or None if it names Python envs.

    Raises:
        ConfigError: a name that is neither a C env nor anything that makes a Python env.
    """
    if isinstance(given, NativeEnv):
        return given
    if not isinstance(given, str):
        return None
    try:
        return registry.get(given)
    except ConfigError as unknown:
        if given.startswith(registry.OCEAN):
            raise
        if ":" in given or _is_gymnasium_id(given):
            return None
        raise ConfigError(
            f"{unknown}; or give a Gymnasium id, module:factory, or a callable that makes an env"
        ) from None


def _is_gymnasium_id(name: str) -> bool:
    import gymnasium

    return name in gymnasium.registry or "-v" in name
