# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A half's turn on a device (puffervec/train/collect/device_turn.py): the same as on a CPU, and
nothing in it waits for the device.

Where there is no GPU, the turn runs as it stands on the CPU, and whole vector steps on fake CUDA
tensors (fake.py), which fail where a number is read back.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import torch

import puffervec
from puffervec.train.collect.device_turn import DeviceTurn
from puffervec.train.collect.rollout import Rollout
from puffervec.train.collect.storage import Slot, Storage
from puffervec.train.config.sections import PolicySection
from puffervec.train.device.device import ThreadPool
from puffervec.train.device.syncs import Syncs
from puffervec.train.policies.registry import build_policy
from puffervec.wings.profile.fake import Graph, fake_cuda

HORIZON = 6
SHORT = 3  # long enough for a graph: the third turn is captured
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "one group": ("probe", {"num_agents": 3, "episode_length": 4, "leave": 1}),
    "two groups": ("probe", {"mode": 1, "num_agents": 2, "episode_length": 4, "end_kind": 2}),
    "parts at once": ("probe", {"mode": 1, "num_agents": 2, "episode_length": 4}),
    "tag": ("tag_grid", {}),
    "cartpole": ("cartpole", {}),
    "pendulum": ("Pendulum-v1", {}),
    "drive": ("drive", {"scenes": "generated:1", "num_agents": 24}),  # sets of objects
    "pictures": ("tests.train.envs:Pictures", {}),  # convolutions
    "raster": (
        "drive",
        {"scenes": "generated:1", "num_agents": 24, "raster": 16},
    ),  # a picture beside numbers
}
JOINT = "parts at once"
MEMORIES = ("none", "mingru", "lstm")
# What a row is encoded by does not depend on the memory.
BOTH = [
    (case, memory)
    for case in CASES
    for memory in MEMORIES
    if memory == "none" or case not in ("drive", "pictures", "raster")
]
# Every case once, the memories in turn; all pairs where slow tests run.
ONCE = {
    (case, MEMORIES[i % 3] if (case, "lstm") in BOTH else "none") for i, case in enumerate(CASES)
}
QUICK = [pair if pair in ONCE else pytest.param(*pair, marks=pytest.mark.slow) for pair in BOTH]
CAPTURE = ("synchronize", "device_turn.py", "capture")  # once
# The rows and the actions of a half, from and to page-locked memory; an event says when they are
# there.
COPIES = (
    ("copy to the device", "device_turn.py", "launch"),
    ("copy to the host", "device_turn.py", "_copy_out"),
)


def section_of(case: str, memory: str) -> PolicySection:
    return PolicySection(hidden=(8,), channels=(4, 4), memory=memory, joint=case == JOINT)  # type: ignore[arg-type]


def make_rollout(case: str, memory: str, device_turns: bool, vec: Any) -> Rollout:
    torch.manual_seed(0)
    slots = {}
    for group in vec.spec.groups:
        section = section_of(case, memory)
        policy = build_policy(group, section)
        storage = Storage(
            group, HORIZON, group.agents * vec.num_envs, torch.device("cpu"), None, section.joint
        )
        slots[group.name] = Slot(group.name, policy, group, storage)
    generator = torch.Generator().manual_seed(3)
    return Rollout(vec, slots, torch.device("cpu"), False, generator, ThreadPool(1), device_turns)


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
                shown |= {
                    f"{name}.{key}": value.clone().numpy()
                    for key, value in slot.storage.tensors().items()
                }
                for kind in ("first_states", "last_states"):
                    states = getattr(slot.storage, kind)
                    shown |= {
                        f"{name}.{kind}.{h}.{i}": p.numpy()
                        for h, s in states.items()
                        for i, p in enumerate(s)
                    }
            found.append(shown)
    return found


@pytest.mark.parametrize(("case", "memory"), BOTH)
def test_a_turn_on_a_device_equals_one_on_a_cpu(case: str, memory: str) -> None:
    for plain, device in zip(
        collected(case, memory, False), collected(case, memory, True), strict=True
    ):
        assert plain.keys() == device.keys()
        for name in plain:
            np.testing.assert_allclose(
                plain[name], device[name], rtol=1e-5, atol=1e-6, err_msg=name
            )


@pytest.mark.parametrize("case", CASES)
def test_a_turn_reads_nothing_back(case: str, memory: str = "lstm") -> None:
    """On real tensors; other memories below."""
    env, kwargs = CASES[case]
    with puffervec.make(env, env_kwargs=kwargs, backend="serial", num_envs=4, num_buffers=2) as vec:
        rollout = make_rollout(case, memory, True, vec)
        rollout.begin(5)
        rollout.collect()
        turn = rollout.turns[0]
        assert isinstance(turn, DeviceTurn)
        turn.begin(0)
        with Syncs() as syncs:
            turn.compute()
        assert syncs.found == []


@pytest.mark.slow
@pytest.mark.parametrize(("case", "memory"), QUICK)
def test_a_vector_step_on_fake_cuda_waits_for_nothing(case: str, memory: str) -> None:
    """The learner's own loop over rollouts, with what goes around a turn; rows and actions cross
    once each, unasked for.
    """
    env, kwargs = CASES[case]
    with puffervec.make(env, env_kwargs=kwargs, backend="serial", num_envs=4, num_buffers=2) as vec:
        section = section_of(case, memory)
        policies = {group.name: build_policy(group, section) for group in vec.spec.groups}
        with fake_cuda() as device:
            slots = {}
            for group in vec.spec.groups:
                storage = Storage(
                    group, SHORT, group.agents * 4, device, torch.bfloat16, section.joint
                )
                slots[group.name] = Slot(
                    group.name, on_device(policies[group.name], device), group, storage
                )
            rollout = Rollout(vec, slots, device, False, None, ThreadPool(1))  # type: ignore[arg-type]
            rollout.trackers = {}  # They read the rows of whole rollouts.
            check_steps(rollout)
            for slot in slots.values():
                assert all(
                    tensor.device.type == "cuda" for tensor in slot.storage.tensors().values()
                )


def on_device(policy: Any, device: torch.device) -> Any:
    """A policy whose weights are on a fake device."""
    return policy.to_empty(device=device).requires_grad_(False)


def check_steps(rollout: Rollout) -> None:
    """Collect twice, the second time as replays."""
    rollout.begin(5)
    for graphs in (0, 2):
        replays = Graph.replays
        assert (
            len(
                [
                    turn
                    for turn in rollout.turns
                    if isinstance(turn, DeviceTurn) and turn.graph is not None
                ]
            )
            == graphs
        )
        with Syncs((*COPIES, CAPTURE)) as syncs:
            assert rollout.collect()
        assert syncs.found == []
        crossings = [sync.op for sync in syncs.allowed if sync[:3] != CAPTURE]
        turns = 2 * (SHORT + (graphs == 0))
        assert crossings.count("copy to the device") == turns
        # The actions of the rollout's first step are sent anew.
        out = turns + 2 * (graphs != 0)
        assert out <= crossings.count("copy to the host") <= out * len(rollout.vec.spec.groups)
    assert Graph.replays - replays == turns, "once captured, a turn is a replay"


@pytest.mark.slow
def test_a_turn_that_waits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: dict[str, Callable[[DeviceTurn], object]] = {
        "aten::copy_": lambda turn: torch.zeros(2, device="cpu").copy_(turn.reset["agents"][:2]),
        "Tensor.cpu": lambda turn: turn.actions["agents"].cpu(),
        "synchronize": lambda turn: turn.stream.own.synchronize(),  # type: ignore[attr-defined],
    }
    save_states = DeviceTurn.save_states
    for op, wait in waits.items():
        with (
            puffervec.make("cartpole", backend="serial", num_envs=4, num_buffers=2) as vec,
            ExitStack() as stack,
        ):
            (group,) = vec.spec.groups
            made = build_policy(group, PolicySection(hidden=(8,)))
            device = stack.enter_context(fake_cuda())
            policy = on_device(made, device)
            slots = {
                group.name: Slot(group.name, policy, group, Storage(group, SHORT, 4, device, None))
            }
            rollout = Rollout(vec, slots, device, False, None, ThreadPool(1))  # type: ignore[arg-type]

            def waiting(turn: DeviceTurn, step: int, horizon: int, wait: Any = wait) -> None:
                save_states(turn, step, horizon)
                wait(turn)

            monkeypatch.setattr(DeviceTurn, "save_states", waiting)
            with pytest.raises(AssertionError, match=f"Sync.op='{op}', file='test_device_turn.py'"):
                check_steps(rollout)


def test_a_turn_keeps_its_buffers() -> None:
    """A graph knows where they stand: they are written in place, never replaced."""
    with puffervec.make("tag_grid", backend="serial", num_envs=4, num_buffers=2) as vec:
        rollout = make_rollout("tag", "lstm", True, vec)
        rollout.begin(5)
        rollout.collect()
        turn = rollout.turns[1]
        assert isinstance(turn, DeviceTurn)

        def buffers() -> list[int]:
            held = [turn.step, turn.staging, *turn.actions.values(), *turn.reset.values()]
            held += [part for state in turn.states.values() for part in state]
            held += [
                tensor for slot in turn.slots.values() for tensor in slot.storage.tensors().values()
            ]
            return [tensor.data_ptr() for tensor in held]

        before = buffers()
        rollout.collect()
        assert buffers() == before
