# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""PufferLib 3.0. settings: {"backend": ..., and arguments of its make}. Next-step autoreset.

It runs in a separate interpreter, since it needs numpy < 2 and gymnasium <= 0.29.
"""

from __future__ import annotations

import functools
from typing import Any

from bench.rivals.envs import MAKERS, SEED, draw_actions
from bench.rivals.runner import Job, Missing, Runner


def _emulated(maker: Any, buf: Any = None, seed: int = 0) -> Any:
    from pufferlib.emulation import GymnasiumPufferEnv

    return GymnasiumPufferEnv(env_creator=maker, buf=buf, seed=seed)


def open_runner(job: Job) -> Runner:
    """Return the runner: recv and send in turns."""
    try:
        from pufferlib import vector
    except ImportError as error:
        raise Missing(
            f"PufferLib is not installed ({error}): see bench/README.md, --pufferlib-python"
        ) from None
    settings = dict(job.settings)
    backend = getattr(vector, settings.pop("backend"))
    maker = functools.partial(_emulated, MAKERS[job.workload])
    vec = vector.make(maker, backend=backend, num_envs=job.num_envs, seed=SEED, **settings)
    vec.async_reset(SEED)
    recv, send = vec.recv, vec.send

    def turn(actions: Any) -> Any:
        _, _, terminals, truncations, _, _, _ = recv()
        send(actions)
        return terminals | truncations

    rows = settings.get("batch_size", job.num_envs)

    def close() -> None:
        vec.recv()
        vec.close()
        for process in getattr(vec, "processes", []):
            process.join()

    return Runner(turn, draw_actions(vec.single_action_space, rows), rows, close=close)
