# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The path of one observation, stop by stop, with the probe's tracer numbers; and the action's way
back. See ARCHITECTURE.md.

  worker process                   shared slab                  learner process
1 csrc/envs/probe.c  --writes--> 3 csrc/core/slab.h    --view--> 5 puffervec/vec/vector_env.py
                                   (which bytes)
2 csrc/core/worker.c ran the env 4 csrc/core/channel.h           6 puffervec/train/collect/
                                   (when)                          rollout.py: one copy
8 csrc/envs/probe.c  <--reads----- the action's way back ------- 7 the policy
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import puffervec
from puffervec._ffi import ffi, lib
from puffervec.core.spec import GroupSpec
from puffervec.testing.reference import philox
from puffervec.train import TrainConfig, Trainer
from puffervec.train.policies.leaves import ROW
from puffervec.vec.vector_env import VectorEnv
from tests.helpers import ManyInOne
from tests.twins.probe import ProbeTwin

pytestmark = pytest.mark.usefixtures("no_leaks")

SEED, ENVS, AGENTS = 900, 4, 3
LAYOUTS = [
    {"backend": "serial"},
    {"backend": "serial", "num_buffers": 2},
    {"backend": "threading", "num_workers": 3},
    {"backend": "multiprocessing", "num_workers": 2},
    {"backend": "multiprocessing", "num_workers": 2, "num_buffers": 2, "split": "workers"},
    {"backend": "multiprocessing", "num_workers": 2, "num_buffers": 2, "split": "envs"},
]


def name_of(layout: dict[str, Any]) -> str:
    return " ".join(map(str, layout.values()))


def block_of(vec: VectorEnv, half: int, env: int) -> tuple[Any, int, int]:
    """Return the C block that holds an env, its index within the block, and the worker: all from
    csrc/core/slab.c.
    """
    for worker in range(vec.num_workers):
        span = lib.pv_slab_span(vec.rows.slab, worker, half)
        if span.first_env <= env < span.first_env + span.env_count:
            block = ffi.new("pv_block*")
            lib.pv_slab_block(vec.rows.slab, worker, half, block)
            return block, env - span.first_env, worker
    raise AssertionError(f"no worker has env {env} in half {half}")


def row_bytes(vec: VectorEnv, half: int, env: int, agent: int, group: int = 0) -> tuple[int, bytes]:
    """Stop 3: the address that csrc/core/slab.h computes for a row, and the bytes that stand
    there.
    """
    block, local, _ = block_of(vec, half, env)
    spec, rows = vec.spec.groups[group], block.rows[group]
    at = rows.observations + (local * spec.agents + agent) * rows.observation_bytes
    return int(ffi.cast("uintptr_t", at)), bytes(ffi.buffer(at, rows.observation_bytes))


def action_in_slab(vec: VectorEnv, half: int, env: int, agent: int) -> int:
    block, local, _ = block_of(vec, half, env)
    return int(block.rows[0].actions[local * vec.spec.groups[0].agents + agent])


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS, ids=name_of)
def test_stops_1_to_5_and_back_to_8(layout: dict[str, Any]) -> None:
    with puffervec.make("probe", env_kwargs={"num_agents": AGENTS}, num_envs=ENVS, **layout) as vec:
        twins = [ProbeTwin(SEED + env, AGENTS) for env in range(ENVS)]
        expected = [twin.begin() for twin in twins]
        vec.async_reset(SEED)
        for turn in range(7):
            following = list(expected)
            for half in range(vec.num_buffers):
                observations = vec.recv()[0]
                for position, env in enumerate(vec.env_ids.tolist()):
                    worker = block_of(vec, half, env)[2]
                    # 4: when. The worker's status says that this very turn is done.
                    command, status = (
                        line(vec.rows.slab, worker, half)
                        for line in (lib.pv_command_line, lib.pv_status_line)
                    )
                    assert (status.turn, status.semaphore) == (command.turn, lib.PV_DONE)
                    assert command.semaphore == (lib.PV_STEP if turn else lib.PV_RESET)
                    for agent in range(AGENTS):
                        # 1, 2, 3: the env ran, and what it wrote stands at the address that the
                        # slab's layout gives.
                        address, raw = row_bytes(vec, half, env, agent)
                        assert (
                            np.frombuffer(raw, np.float32).tolist()
                            == expected[env].observations[agent].tolist()
                        )
                        # 5: the view is these bytes and no copy.
                        row = observations[position * AGENTS + agent]
                        assert row.ctypes.data == address
                # 8: an action that says where it came from, as the observation did.
                actions = np.array(
                    [(turn + env + agent) % 5 for env in vec.env_ids for agent in range(AGENTS)],
                    np.int64,
                )
                vec.send(actions)
                for position, env in enumerate(vec.halves[half].env_ids.tolist()):
                    mine = actions[position * AGENTS : (position + 1) * AGENTS]
                    assert [
                        action_in_slab(vec, half, env, agent) for agent in range(AGENTS)
                    ] == mine.tolist()
                    following[env] = twins[env].step(mine)
            expected = following
        for _ in range(vec.num_buffers):
            observations = vec.recv()[0]
            tracer = np.concatenate([expected[env].observations for env in vec.env_ids])
            np.testing.assert_array_equal(observations, tracer)


@pytest.mark.normal_build("others overwrite the observations between send and recv")
def test_nothing_moves_before_the_worker_ran() -> None:
    """The other side of stop 4: a command that stands in the line changes no row."""
    with puffervec.make(
        "probe", env_kwargs={"num_agents": AGENTS}, backend=ManyInOne, num_envs=ENVS, num_workers=2
    ) as vec:
        vec.reset(SEED)
        vec.serving = False
        before = row_bytes(vec, 0, 3, 2)
        vec.send([1] * 12)
        assert row_bytes(vec, 0, 3, 2) == before
        command, status = (
            line(vec.rows.slab, 1, 0) for line in (lib.pv_command_line, lib.pv_status_line)
        )
        assert (command.turn - status.turn, command.semaphore) == (1, lib.PV_STEP)
        lib.pv_worker_serve(vec.workers.opened + 1, 0)
        address, raw = row_bytes(vec, 0, 3, 2)
        assert address == before[0]
        assert np.frombuffer(raw, np.float32)[[2, 4]].tolist() == [1, 1]
        assert row_bytes(vec, 0, 0, 0)[1] != raw  # worker 0 has not run


def test_two_groups_share_the_path() -> None:
    """Mode 1: other widths and dtypes, an action mask and pairs of actions; the same stops."""
    layout: dict[str, Any] = {"num_workers": 2, "num_buffers": 2, "split": "envs"}
    with puffervec.make(
        "probe", env_kwargs={"mode": 1, "num_agents": 2}, num_envs=ENVS, **layout
    ) as vec:
        vec.async_reset(SEED)
        for half in range(2):
            observations = vec.recv()[0]
            for position, env in enumerate(vec.env_ids.tolist()):
                for agent in range(2):
                    address, raw = row_bytes(vec, half, env, agent, 0)
                    uniform = np.float32(philox.uniform(SEED + env, 0, 0, agent))
                    assert np.frombuffer(raw, np.float32).tolist() == [
                        SEED + env,
                        0,
                        0,
                        agent,
                        0,
                        uniform,
                    ]
                    assert observations["scouts"][position * 2 + agent].ctypes.data == address
                address, raw = row_bytes(vec, half, env, 0, 1)
                assert list(raw[:4]) == [(SEED + env) % 256, 0, 0, 2]
                assert np.frombuffer(raw[4:], np.float32)[2] == -1
                assert observations["towers"]["lights"][position].ctypes.data == address
                assert observations["towers"]["gauges"][position].ctypes.data == address + 4
            towers = [[env % 2, env % 4] for env in vec.env_ids.tolist()]
            vec.send({"scouts": np.array([1, 2, 2, 1]), "towers": towers})
        for _ in range(2):
            observations = vec.recv()[0]
            assert observations["scouts"][:, 4].tolist() == [1, 2, 2, 1]
            assert observations["towers"]["gauges"][:, 0].tolist() == [
                env % 2 * 4 + env % 4 for env in vec.env_ids.tolist()
            ]


# ---- stops 6 and 7 -------------------------------------------------------------------------------


class Echo(nn.Module):
    """Stop 7: a policy whose action tells the observation that it saw."""

    def __init__(self, group: GroupSpec) -> None:
        super().__init__()
        self.sizes = group.action_sizes
        self.weight = nn.Parameter(torch.zeros(1))

    def initial_state(self, rows: int) -> tuple[Tensor, ...]:
        return ()

    def forward(
        self, obs: Any, state: tuple[Tensor, ...], reset: Any, action_mask: Any
    ) -> tuple[Any, Tensor, tuple[Tensor, ...]]:
        numbers = self.numbers(obs)
        heads = tuple(
            1e4 * nn.functional.one_hot(numbers % size, size).float() for size in self.sizes
        )
        return heads, numbers.float(), state

    @staticmethod
    def numbers(obs: Any) -> Tensor:
        """A whole number out of seed, step and agent, as the tracer shows them."""
        if isinstance(obs, dict):  # the tower: seed, episode, step and agent as bytes
            return obs["lights"][..., 0].long() + 3 * obs["lights"][..., 2].long()
        return obs[..., 0].long() + 2 * obs[..., 2].long() + obs[..., 3].long()


def trainer_with_echo(tmp_path: Path, env: dict[str, Any], vec: dict[str, Any]) -> Trainer:
    config = TrainConfig.of(
        "probe",
        env=env,
        vec={"num_envs": ENVS, **vec},
        train={
            "horizon": 6,
            "device": "cpu",
            "precision": "fp32",
            "threads": 1,
            "total_timesteps": 100,
            "seed": SEED,
        },
        log={"dashboard": "off", "checkpoint_interval_s": 1000.0, "folder": str(tmp_path)},
    )
    with puffervec.make("probe", env_kwargs=env, backend="serial") as one:
        groups = one.spec.groups
    policies = {group.name if len(groups) > 1 else "default": Echo(group) for group in groups}
    return Trainer(config, policies=policies)


@pytest.mark.slow
@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[4], LAYOUTS[5]], ids=name_of)
def test_stop_6_copies_and_stop_7_answers(layout: dict[str, Any], tmp_path: Path) -> None:
    """Two rollouts: the storage holds the twin's rows, and the next row tells that the policy's
    answer reached the env.
    """
    twins = [ProbeTwin(SEED + env, AGENTS) for env in range(ENVS)]
    expected = np.concatenate([twin.begin().observations for twin in twins])
    with trainer_with_echo(tmp_path, {"num_agents": AGENTS}, layout) as trainer:
        (slot,) = trainer.slots.values()
        for _ in range(2):
            assert trainer.collect()
            stored, actions, values = (
                x.numpy()
                for x in (slot.storage.obs[ROW], slot.storage.actions, slot.storage.values)
            )
            slab = [trainer.vec.halves[half].block for half in range(trainer.vec.num_buffers)]
            assert not any(
                np.shares_memory(stored, block) for block in slab
            )  # a copy: the slab is free for the next turn
            for step in range(7):
                np.testing.assert_array_equal(stored[step], expected, err_msg=f"step {step}")
                answers = Echo.numbers(torch.from_numpy(expected)).numpy()
                np.testing.assert_array_equal(values[step], answers)
                np.testing.assert_array_equal(actions[step, :, 0], answers % 5)
                if step < 6:
                    batches = np.split(actions[step, :, 0], ENVS)
                    expected = np.concatenate(
                        [
                            twin.step(batch).observations
                            for twin, batch in zip(twins, batches, strict=True)
                        ]
                    )


@pytest.mark.slow
def test_stop_6_and_7_with_two_groups(tmp_path: Path) -> None:
    layout = {"backend": "multiprocessing", "num_workers": 2, "num_buffers": 2}
    with trainer_with_echo(
        tmp_path, {"mode": 1, "num_agents": 2, "episode_length": 50}, layout
    ) as trainer:
        assert trainer.collect()
        slots = {slot.group.name: slot for slot in trainer.slots.values()}
        scouts, towers = slots["scouts"].storage, slots["towers"].storage
        rows = scouts.obs[ROW]
        for step in range(6):
            told = Echo.numbers(rows[step]) % 3
            assert rows[step, :, 0].long().tolist() == [
                SEED + env for env in range(ENVS) for _ in range(2)
            ]
            assert scouts.actions[step, :, 0].tolist() == told.tolist()
            assert (
                rows[step + 1, :, 4].tolist() == told.tolist()
            )  # it came back: the scout's last action
            told = Echo.numbers({"lights": towers.obs["lights"][step]})
            assert towers.obs["lights"][step, :, 0].tolist() == [
                (SEED + env) % 256 for env in range(ENVS)
            ]
            assert towers.actions[step].tolist() == [[int(n) % 2, int(n) % 4] for n in told]
            assert towers.obs["gauges"][step + 1, :, 0].tolist() == [
                int(n) % 2 * 4 + int(n) % 4 for n in told
            ]
