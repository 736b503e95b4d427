# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The compared variants: for each workload the ways of stepping it, ours and theirs.

Runs in bench/peers.py. Variants of one kind do equal work and are also compared with each other:

    in process     Python envs in the learner's process: the cost of vectorizing
    workers        Python envs in other processes, all of them stepped before the next batch
    first-come     Python envs in other processes, batches of those that are ready first
    native         envs in C, C++ or NumPy
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from bench.rivals.runner import Job

OURS = "puffervec_vec"
LOOP_RIVAL = "loop"
IN_PROCESS, WORKERS, FIRST_COME, NATIVE = "in process", "workers", "first-come", "native"


@dataclass(frozen=True)
class Variant:
    """A way of stepping a workload.

    Attributes:
        label: a unique label in its scenario.
    """

    label: str
    kind: str
    job: Job

    @property
    def ours(self) -> bool:
        return self.job.rival == OURS

    @property
    def bound(self) -> bool:
        """Whether it is a plain loop without a library, as a bound."""
        return self.job.rival == LOOP_RIVAL


@dataclass(frozen=True)
class Scenario:
    """Variants that are measured in turns.

    Attributes:
        word: name in --workloads.
        note: a line below its table.
        needs: the module of its env.
    """

    name: str
    word: str
    note: str
    variants: tuple[Variant, ...]
    needs: str = "gymnasium"


LOOP = "plain loop, 1 env"
PUFFERLIB_LOOP = "plain loop, PufferLib's interpreter"
GYM_SYNC = "Gymnasium sync"
ENVPOOL = "EnvPool"


def workers_label(count: int) -> str:
    """Return the label of puffervec with this many workers."""
    return f"puffervec {count} worker" + ("s" if count > 1 else "")


def loops_label(count: int) -> str:
    """Return the label of this many simultaneous plain loops."""
    return f"{count} plain loops at once"


def _loops(workload: str, num_envs: int, cores: int) -> list[Variant]:
    """Return the bounds: loops over one env and over all, one loop per core, and PufferLib's."""
    share = num_envs // cores
    return [
        _loop(workload),
        Variant(f"plain loop, {num_envs} envs", IN_PROCESS, Job("loop", workload, num_envs)),
        Variant(loops_label(cores), WORKERS, Job("loop", workload, 1, copies=cores)),
        Variant(
            f"{loops_label(cores)}, {share} envs each",
            WORKERS,
            Job("loop", workload, share, copies=cores),
        ),
        Variant(PUFFERLIB_LOOP, IN_PROCESS, Job("loop", workload, 1, pufferlib=True)),
    ]


def _loop(workload: str) -> Variant:
    return Variant(LOOP, IN_PROCESS, Job("loop", workload, 1))


def _gymnasium(workload: str, num_envs: int, async_envs: int) -> list[Variant]:
    label = "Gymnasium async" + (f", {async_envs} envs" if async_envs != num_envs else "")
    return [
        Variant(GYM_SYNC, IN_PROCESS, Job("gymnasium_vec", workload, num_envs, {"mode": "sync"})),
        Variant(label, WORKERS, Job("gymnasium_vec", workload, async_envs, {"mode": "async"})),
    ]


def _sb3(workload: str, num_envs: int, subproc_envs: int) -> list[Variant]:
    return [
        Variant("SB3 dummy", IN_PROCESS, Job("sb3_vec", workload, num_envs, {"mode": "dummy"})),
        Variant(
            f"SB3 SubprocVecEnv, {subproc_envs} envs",
            WORKERS,
            Job("sb3_vec", workload, subproc_envs, {"mode": "subproc"}),
        ),
    ]


def _pufferlib(
    workload: str, num_envs: int, counts: Iterable[int], first_come: dict[str, int]
) -> list[Variant]:
    def variant(label: str, kind: str, **settings: Any) -> Variant:
        return Variant(
            f"PufferLib {label}",
            kind,
            Job("pufferlib_vec", workload, num_envs, settings, pufferlib=True),
        )

    variants = [variant("serial", IN_PROCESS, backend="Serial")]
    for count in counts:
        label = f"{count} worker" + ("s" if count > 1 else "")
        variants.append(
            variant(label, WORKERS, backend="Multiprocessing", num_workers=count, overwork=True)
        )
    more: dict[str, Any] = {
        "backend": "Multiprocessing",
        "zero_copy": False,
        "overwork": True,
        **first_come,
    }
    return [*variants, variant("first-come", FIRST_COME, **more)]


def _ours(workload: str, num_envs: int, label: str, kind: str, **settings: Any) -> Variant:
    return Variant(label, kind, Job(OURS, workload, num_envs, settings))


def _first_come(workload: str, num_envs: int, num_workers: int) -> Variant:
    return _ours(
        workload, num_envs, "puffervec first-come", FIRST_COME,
        num_workers=num_workers, batch_size=num_envs // 2, zero_copy=False, sync_traj=False,
    )  # fmt: skip


def _light(
    workload: str, note: str, cores: int, num_envs: int = 64, processes: int = 8
) -> Scenario:
    """Return the scenario of a cheap Python env.

    Args:
        processes: number of envs for libraries that use a process per env.
    """
    ours = [
        _ours(workload, num_envs, "puffervec serial", IN_PROCESS, backend="serial"),
        _ours(workload, num_envs, "puffervec.gym sync", IN_PROCESS, mode="sync"),
        *(
            _ours(workload, num_envs, workers_label(n), WORKERS, num_workers=n)
            for n in (1, 2, 4, 8)
        ),
        _ours(
            workload,
            num_envs,
            "puffervec double-buffered, 4 workers",
            WORKERS,
            num_workers=4,
            num_buffers=2,
        ),
        _ours(
            workload,
            num_envs,
            "puffervec.gym async, 2 workers",
            WORKERS,
            mode="async",
            num_workers=2,
        ),
        _first_come(workload, num_envs, 4),
    ]
    theirs = [
        *_loops(workload, num_envs, cores),
        *_gymnasium(workload, num_envs, processes),
        *_sb3(workload, num_envs, processes),
        *_pufferlib(workload, num_envs, (1, 2), {"num_workers": 2, "batch_size": num_envs // 2}),
        Variant(
            f"Tianshou shmem, {processes} envs", WORKERS, Job("tianshou_vec", workload, processes)
        ),
        Variant("TorchRL parallel, 2 envs", WORKERS, Job("torchrl_vec", workload, 2)),
    ]
    return Scenario(f"{workload} x{num_envs}", workload, note, (*theirs, *ours))


def _heavy(workload: str, note: str, num_envs: int, needs: str) -> Scenario:
    """Return the scenario of an env that costs more than the library."""
    own = [
        Variant(
            "ALE's own (C++)", NATIVE, Job("gymnasium_vec", workload, num_envs, {"mode": "own"})
        )
    ]
    ours = [
        _ours(workload, num_envs, "puffervec serial", IN_PROCESS, backend="serial"),
        _ours(workload, num_envs, workers_label(2), WORKERS, num_workers=2),
        _ours(
            workload,
            num_envs,
            "puffervec double-buffered, 4 workers",
            WORKERS,
            num_workers=4,
            num_buffers=2,
        ),
    ]
    theirs = [
        _loop(workload),
        *_gymnasium(workload, num_envs, num_envs),
        *(own if workload == "pong" else []),
    ]
    return Scenario(f"{workload} x{num_envs}", workload, note, (*theirs, *ours), needs)


def _log_normal(workload: str, note: str, num_envs: int = 8) -> Scenario:
    ours = [
        _ours(workload, num_envs, workers_label(2), WORKERS, num_workers=2),
        _ours(workload, num_envs, workers_label(num_envs), WORKERS, num_workers=num_envs),
        _ours(
            workload,
            num_envs,
            "puffervec double-buffered, 8 workers",
            WORKERS,
            num_workers=num_envs,
            num_buffers=2,
        ),
        _first_come(workload, num_envs, num_envs),
    ]
    theirs = [
        _loop(workload),
        *_gymnasium(workload, num_envs, num_envs),
        *_sb3(workload, num_envs, num_envs)[1:],
        *_pufferlib(
            workload, num_envs, (num_envs,), {"num_workers": num_envs, "batch_size": num_envs // 2}
        )[1:],
    ]
    return Scenario(f"{workload} x{num_envs}", "lognormal", note, (*theirs, *ours))


def _cartpole_c(threads: int) -> Scenario:
    def pool(label: str, num_envs: int, **settings: Any) -> Variant:
        job = Job("envpool_vec", "cartpole", num_envs, {"num_threads": threads, **settings})
        return Variant(f"{ENVPOOL} {label}", NATIVE, job)

    def own(label: str, num_envs: int, **settings: Any) -> Variant:
        return _ours("cartpole", num_envs, f"puffervec C {label}", NATIVE, env="c", **settings)

    numpy = Job("gymnasium_vec", "cartpole", 1024, {"mode": "own"})
    variants = (
        pool("sync, 1024 envs", 1024),
        pool("sync, 2048 envs", 2048),
        pool("sync, 8192 envs", 8192),
        pool("async, 2048 envs by 1024", 2048, batch_size=1024),
        Variant("Gymnasium's own (NumPy), 1024 envs", NATIVE, numpy),
        own("serial, 1024 envs", 1024, backend="serial"),
        own("1 worker, 1024 envs", 1024, num_workers=1),
        *(
            own(f"{threads} workers, {envs} envs", envs, num_workers=threads)
            for envs in (1024, 2048, 8192)
        ),
        own("double-buffered, 2048 envs by 1024", 2048, num_workers=2 * threads, num_buffers=2),
    )
    note = (
        f"CartPole-v1 in C, C++ and NumPy; {threads} threads or workers where nothing else is said"
    )
    return Scenario("cartpole_c", "cartpole_c", note, variants)


def scenarios(cores: int) -> list[Scenario]:
    """Return all scenarios. Args: cores: number of EnvPool's threads, and of our workers."""
    mean = "mean 200 us, sigma 1; first-come takes batches of 4"
    return [
        _light("cartpole", "Gymnasium's CartPole-v1 in Python", cores),
        _light("noop", "a Python env that does nothing, with an observation of 64 floats", cores),
        _cartpole_c(cores),
        *(
            _heavy("pong", "ALE Pong, 84 x 84 x 4 uint8, wrapped in Python", n, "ale_py")
            for n in (8, 64)
        ),
        *(
            _heavy(
                "minigrid",
                "MiniGrid DoorKey-8x8, a Dict of an image and a direction",
                n,
                "minigrid",
            )
            for n in (8, 64)
        ),
        *(
            _heavy("mujoco", "MuJoCo HalfCheetah-v5, four numbers in each info", n, "mujoco")
            for n in (8, 64)
        ),
        _log_normal("lognormal_busy", f"step times that keep a core busy, log-normal, {mean}"),
        _log_normal("lognormal_sleep", f"step times slept through, log-normal, {mean}"),
    ]
