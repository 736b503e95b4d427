# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec's vector envs, with next-step autoreset.

Settings: those of `puffervec.make`, and "env": "python" (default) or "c"; or {"mode": "sync" |
"async"} for the look-alikes in puffervec.gym, which may have {"num_workers": ...} too.
"""

from __future__ import annotations

from typing import Any

import puffervec
from bench.rivals import gymnasium_vec
from bench.rivals.envs import MAKERS, SEED, draw_actions
from bench.rivals.runner import Job, Runner


def _look_alike(job: Job) -> Runner:
    from puffervec.gym import AsyncVectorEnv, SyncVectorEnv

    settings = dict(job.settings)
    kind: Any = {"sync": SyncVectorEnv, "async": AsyncVectorEnv}[settings.pop("mode")]
    return gymnasium_vec.over(kind([MAKERS[job.workload]] * job.num_envs, **settings), job.num_envs)


def open_runner(job: Job) -> Runner:
    """Return the runner: recv and send in turns."""
    if "mode" in job.settings:
        return _look_alike(job)
    settings = dict(job.settings)
    env = job.workload if settings.pop("env", "python") == "c" else MAKERS[job.workload]
    vec = puffervec.make(env, num_envs=job.num_envs, seed=SEED, **settings)
    vec.async_reset()
    recv, send = vec.recv, vec.send

    def turn(actions: Any) -> Any:
        _, _, terminals, truncations, _, _, _ = recv()
        send(actions)
        return terminals | truncations

    rows = vec.agents_per_batch
    return Runner(turn, draw_actions(vec.single_action_space, rows), rows, close=vec.close)
