# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Halves in the order in which they get ready (puffervec/vec/delivery.py): who is taken, what is
split, what a reset does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import puffervec
from puffervec._ffi import lib
from puffervec.errors import ActionError, CallOrderError, WorkerTimeout
from puffervec.vec.vector_env import VectorEnv
from tests.helpers import ManyInOne
from tests.python_envs import Counting

pytestmark = pytest.mark.usefixtures("no_leaks")

READY = {"batch_size": 2, "sync_traj": False, "zero_copy": True}
FIRST_COME = {"batch_size": 2, "sync_traj": False, "zero_copy": False}


def make(kwargs: dict[str, Any] | None = None, env: Any = "probe", **settings: Any) -> VectorEnv:
    """Six envs, a worker each, which run in this process when told (`serve`)."""
    return puffervec.make(
        env,
        env_kwargs=kwargs,
        num_envs=6,
        num_workers=6,
        **{"backend": ManyInOne, **FIRST_COME, **settings},
    )


def serve(vec: VectorEnv, *workers: int) -> None:
    """Let these workers run their turns; each has a half of its own."""
    for worker in workers:
        lib.pv_worker_serve(
            vec.workers.opened + worker, vec.rows.slab.num_buffers * worker // vec.num_workers
        )


# ---- who is taken --------------------------------------------------------------------------------


def test_a_first_come_batch_is_of_those_that_are_done_in_the_order_of_their_envs() -> None:
    with make() as vec:
        vec.async_reset(0)
        for _ in range(3):
            vec.recv()
        vec.serving = False
        for _ in range(3):
            vec.send([1, 1])
        serve(vec, 4, 1)
        assert vec.recv()[0][:, [0, 2]].tolist() == [[1, 1], [4, 1]] and vec.env_ids.tolist() == [
            1,
            4,
        ]
        serve(vec, 0)
        with pytest.raises(WorkerTimeout, match="its turn continues"):
            vec.recv(timeout_s=0.001)  # one is not enough, and it is not lost
        serve(vec, 5)
        assert vec.recv()[5].tolist() == [0, 5]
        vec.send([3, 4])
        serve(vec, 1, 4)
        assert vec.recv()[0][:, 4].tolist() == [3, 4]
        assert vec.env_ids.tolist() == [1, 4] and vec.agent_ids.tolist() == [1, 4]


def test_a_ready_half_is_whole_and_a_view() -> None:
    with make(**READY) as vec:  # three halves of two workers
        vec.async_reset(0)
        for _ in range(3):
            vec.recv()
        vec.serving = False
        for _ in range(3):
            vec.send([1, 1])
        serve(vec, 0, 2, 5)
        with pytest.raises(WorkerTimeout):
            vec.recv(timeout_s=0.001)
        serve(vec, 4)
        result = vec.recv()
        assert vec.env_ids.tolist() == [4, 5] and vec.half == 2
        assert np.shares_memory(result[0], vec.halves[2].block)


def test_nobody_waits_for_ever_behind_faster_ones() -> None:
    """All are always done: each must have its turn."""
    for layout in (READY, FIRST_COME, {**FIRST_COME, "batch_size": 4}):
        with make(backend=ManyInOne, **layout) as vec:
            vec.async_reset(0)
            counts = np.zeros(6, int)
            for _ in range(30):
                vec.recv()
                counts[vec.env_ids] += 1
                vec.send([0] * vec.agents_per_batch)
            assert counts.max() - counts.min() <= 1


# ---- actions -------------------------------------------------------------------------------------


def test_strict_actions_are_checked_before_any_half_is_sent() -> None:
    with make(backend=ManyInOne, strict=True) as vec:
        vec.async_reset(0)
        for _ in range(3):
            vec.recv()
        with pytest.raises(ActionError, match="out of range"):
            vec.send([3, 9])
        vec.send([3, 4])
        assert vec.recv()[0][:, [2, 4]].tolist() == [[1, 3], [1, 4]]
        assert vec.counters()["invalid_actions"] == 0


# ---- resets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("env", ["probe", Counting], ids=["C", "Python"])
def test_a_masked_reset_hands_the_rest_of_its_batch_out_again(env: Any) -> None:
    """Where a batch has several halves, of which only one is reset: nothing is lost, and nothing is
    told twice.
    """
    kwargs = {"episode_length": 2} if env == "probe" else {"length": 2}
    with make(kwargs, env, backend=ManyInOne, autoreset_mode="disabled") as vec:
        vec.async_reset(0)
        for _ in range(3):
            vec.recv()
        for _ in range(3):
            vec.send([1, 1])
        for _ in range(3):
            vec.recv()  # at step 1
        vec.send([1, 1])
        infos = vec.recv()[4]
        assert vec.env_ids.tolist() == [0, 1] and infos  # at the end
        mask = np.array([True, False, False, False, False, False])
        vec.async_reset(mask=mask)
        result = vec.recv()
        assert (
            vec.env_ids.tolist() == [0, 1] and result[0][:, 2].tolist() == [0, 2] and not result[4]
        )
        mask = np.array([False, True, False, False, False, False])
        vec.async_reset(mask=mask)
        result = vec.recv()
        assert vec.env_ids.tolist() == [0, 1] and result[0][:, 2].tolist() == [0, 0]
        for _ in range(2):
            vec.send([2, 2])
        told = [vec.recv()[4] for _ in range(2)]
        assert told[0] and told[1] and vec.env_ids.tolist() == [4, 5]  # both are at the end
        options = {"task": 3} if env == "probe" else {"level": 3}
        vec.async_reset(mask=np.array([False, False, True, False, False, False]), options=options)
        result = vec.recv()
        assert vec.env_ids.tolist() == [2, 3] and result[0][:, 2].tolist() == [0, 2]
        assert list(result[4]) == (
            [] if env == "probe" else [{"options": options}]
        )  # env 3's were told before
        vec.async_reset(mask=np.array([False, False, False, True, True, True]))
        vec.recv(), vec.recv()
        seen = []
        for _ in range(3):
            vec.send([2, 2])
        for _ in range(3):
            observations = vec.recv()[0]
            seen += zip(vec.env_ids.tolist(), observations[:, 2].tolist(), strict=True)
        assert sorted(seen) == [(env_id, 1) for env_id in range(6)]


def test_loaded_halves_are_handed_out_first_and_survive_a_timeout() -> None:
    with make() as vec:
        vec.async_reset(0)
        for _ in range(3):
            vec.recv()
        vec.load(vec.save())
        vec.recv()
        vec.serving = False
        vec.send([1, 1])
        vec.recv()
        vec.send([1, 1])
        # Two are loaded, four are under way.
        assert vec.recv()[0][:, 2].tolist() == [0, 0] and vec.env_ids.tolist() == [4, 5]
        with pytest.raises(WorkerTimeout):
            vec.recv(timeout_s=0.001)
        serve(vec, 0, 1)
        assert vec.recv()[0][:, 2].tolist() == [1, 1]


# ---- what must not get lost ----------------------------------------------------------------------


def test_a_load_forgets_the_batches_that_were_held() -> None:
    with make(**READY) as vec:
        vec.async_reset(0)
        for _ in range(3):
            vec.recv()
        vec.load(vec.save())
        for _ in range(3):
            vec.recv()
            vec.send([0, 0])
        with pytest.raises(CallOrderError, match="send: no batch is received"):
            vec.send([0, 0])


def test_rewards_that_were_seen_are_not_handed_out_again() -> None:
    with make(autoreset_mode="disabled") as vec:
        vec.async_reset(0)
        for _ in range(3):
            vec.recv()
        for _ in range(3):
            vec.send([1, 1])
        batches = [vec.recv()[1].tolist() for _ in range(3)]
        assert all(reward > 0 for batch in batches for reward in batch)
        mask = np.zeros(6, np.bool_)
        mask[vec.env_ids[0]] = True
        vec.async_reset(mask=mask)
        assert vec.recv()[1].tolist() == [0, 0]
