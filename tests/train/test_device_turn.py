# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A half's turn on a device (puffervec/train/device_turn.py): the same as on a CPU, and nothing in it waits for the device.

Where there is no GPU, the turn runs as it stands on the CPU, and on fake CUDA tensors, which fail where a number is read back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import puffervec
from puffervec.train.config import PolicySection
from puffervec.train.device import ThreadTeam
from puffervec.train.device_turn import DeviceTurn
from puffervec.train.policy import build_policy
from puffervec.train.rollout import Rollout
from puffervec.train.storage import Slot, Storage, rows_of
from tests.train.syncs import Syncs, fake_cuda

HORIZON = 6
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "one group": ("probe", {"num_agents": 3, "episode_length": 4, "leave": 1}),
    "two groups": ("probe", {"mode": 1, "num_agents": 2, "episode_length": 4, "end_kind": 2}),
    "parts at once": ("probe", {"mode": 1, "num_agents": 2, "episode_length": 4}),
    "tag": ("tag_grid", {}),
    "cartpole": ("cartpole", {}),
    "pendulum": ("Pendulum-v1", {}),
}
JOINT = "parts at once"


def make_rollout(case: str, memory: str, device_turns: bool, vec: Any) -> Rollout:
    torch.manual_seed(0)
    slots = {}
    for group in vec.spec.groups:
        section = PolicySection(hidden=(8,), memory=memory, joint=case == JOINT)  # type: ignore[arg-type]
        policy = build_policy(group, section)
        storage = Storage(group, HORIZON, group.agents * vec.num_envs, torch.device("cpu"), None, section.joint)
        slots[group.name] = Slot(group.name, policy, group, storage)
    generator = torch.Generator().manual_seed(3)
    return Rollout(vec, slots, torch.device("cpu"), False, generator, ThreadTeam(1), device_turns)


def collected(case: str, memory: str, device_turns: bool) -> list[dict[str, np.ndarray]]:
    env, kwargs = CASES[case]
    found = []
    with puffervec.make(env, env_kwargs=kwargs, backend="serial", num_envs=4, num_buffers=2) as vec:
        rollout = make_rollout(case, memory, device_turns, vec)
        rollout.begin(5)
        for _ in range(3):
            assert rollout.collect()
            shown = {}
            for name, slot in rollout.slots.items():
                shown |= {f"{name}.{key}": value.clone().numpy() for key, value in slot.storage.tensors().items()}
                for kind in ("first_states", "last_states"):
                    states = getattr(slot.storage, kind)
                    shown |= {f"{name}.{kind}.{h}.{i}": p.numpy() for h, s in states.items() for i, p in enumerate(s)}
            found.append(shown)
    return found


@pytest.mark.parametrize("memory", ["none", "mingru", "lstm"])
@pytest.mark.parametrize("case", CASES)
def test_a_turn_on_a_device_equals_one_on_a_cpu(case: str, memory: str) -> None:
    for plain, device in zip(collected(case, memory, False), collected(case, memory, True), strict=True):
        assert plain.keys() == device.keys()
        for name in plain:
            np.testing.assert_allclose(plain[name], device[name], rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("memory", ["none", "mingru", "lstm"])
@pytest.mark.parametrize("case", CASES)
def test_a_turn_reads_nothing_back(case: str, memory: str) -> None:
    env, kwargs = CASES[case]
    with puffervec.make(env, env_kwargs=kwargs, backend="serial", num_envs=4, num_buffers=2) as vec:
        rollout = make_rollout(case, memory, True, vec)
        rollout.begin(5)
        rollout.collect()
        turn = rollout.halves[0].turn
        assert turn is not None
        turn.begin(0)
        with Syncs() as syncs:
            turn.compute()
        assert syncs.found == []


def test_the_detector_detects() -> None:
    with Syncs() as syncs:
        x = torch.arange(4)
        x[x > 1]
        float(x.sum())
        x.nonzero()
    assert [found.split(" at ")[0] for found in syncs.found] == ["aten::index", "aten::_local_scalar_dense", "aten::nonzero"]


@pytest.mark.parametrize("memory", ["none", "mingru", "lstm"])
@pytest.mark.parametrize("case", [case for case in CASES if case != "pendulum"])  # its constants come from NumPy
def test_the_turn_of_a_gpu_as_far_as_one_can_see_without_one(case: str, memory: str) -> None:
    """On fake CUDA tensors: every tensor is on the device, and none is asked for a number."""
    env, kwargs = CASES[case]
    with puffervec.make(env, env_kwargs=kwargs, backend="serial", num_envs=4, num_buffers=2) as vec:
        section = PolicySection(hidden=(8,), memory=memory, joint=case == JOINT)  # type: ignore[arg-type]
        with torch.device("meta"):
            policies = {group.name: build_policy(group, section) for group in vec.spec.groups}
        check_on_fake_cuda(vec, policies, section.joint)


def check_on_fake_cuda(vec: Any, policies: dict[str, Any], joint: bool = False) -> None:
    with fake_cuda() as device:
        half = vec.halves[0]
        staging = torch.empty(len(half.block), dtype=torch.uint8, device=device)
        slots, columns = {}, {}
        for group in vec.spec.groups:
            policy = policies[group.name].to_empty(device=device)
            storage = Storage(group, HORIZON, group.agents * 4, device, torch.bfloat16, joint)
            slots[group.name] = Slot(group.name, policy, group, storage)
            columns[group.name] = slice(0, group.agents * 2)
        groups = {group.name: rows_of(staging, half, group) for group in vec.spec.groups}
        turn = DeviceTurn(0, staging, staging, groups, slots, columns, None, bf16=False)
        turn.compute()
        for slot in slots.values():
            assert all(tensor.device.type == "cuda" for tensor in slot.storage.tensors().values())
        assert all(actions.device.type == "cuda" for actions in turn.actions.values())


def test_a_turn_keeps_its_buffers() -> None:
    """A graph knows where they stand: they are written in place, never replaced."""
    with puffervec.make("tag_grid", backend="serial", num_envs=4, num_buffers=2) as vec:
        rollout = make_rollout("tag", "lstm", True, vec)
        rollout.begin(5)
        rollout.collect()
        turn = rollout.halves[1].turn
        assert turn is not None

        def buffers() -> list[int]:
            held = [turn.step, turn.staging, *turn.actions.values(), *turn.reset.values()]
            held += [part for state in turn.states.values() for part in state]
            held += [tensor for slot in turn.slots.values() for tensor in slot.storage.tensors().values()]
            return [tensor.data_ptr() for tensor in held]

        before = buffers()
        rollout.collect()
        assert buffers() == before
