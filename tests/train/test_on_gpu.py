# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The trainer on a GPU (puffervec/train/collect/device_turn.py, device_step.py, streams.py): what
fake tensors cannot show.

Run by `make gpu` (scripts/gpu.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

import puffervec
from puffervec.train import TrainConfig, Trainer
from puffervec.train.collect.device_turn import DeviceTurn
from puffervec.train.collect.rollout import Rollout
from puffervec.train.collect.storage import Slot, Storage
from puffervec.train.config.sections import PolicySection
from puffervec.train.device.device import ThreadPool
from puffervec.train.device.streams import pin
from puffervec.train.learn.device_step import DeviceStep
from puffervec.train.learn.updater import Updater
from puffervec.train.policies.registry import build_policy
from puffervec.train.run import checkpoint as ckpt
from tests.train.test_device_step import CASES as STEPS
from tests.train.test_device_step import HORIZON as LENGTH
from tests.train.test_device_step import PARTS, ROWS, SPEC, filled
from tests.train.test_device_step import updater as cpu_updater
from tests.train.test_resume import StopAt, go_on

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
    pytest.mark.filterwarnings("default::UserWarning"),  # of Inductor, which gives advice
]

CUDA = torch.device("cuda")
HORIZON = 8
SETS = {"scenes": "generated:1", "num_agents": 24}
POLICIES: dict[str, tuple[str, dict[str, Any], str]] = {
    "MLP": ("tag_grid", {}, "none"),
    "MinGRU": ("tag_grid", {}, "mingru"),
    "LSTM": ("tag_grid", {}, "lstm"),
    "object set": ("drive", SETS, "none"),
    "continuous": ("Pendulum-v1", {}, "none"),
    "pictures": ("tests.train.envs:Pictures", {}, "none"),
    "a raster alone": ("drive", {**SETS, "raster": 16, "raster_alone": 1}, "none"),
    "a raster beside numbers": ("drive", {**SETS, "raster": 16}, "none"),
}


@contextmanager
def rollout_of(name: str, device: torch.device = CUDA) -> Iterator[Rollout]:
    """A rollout of two halves from the same seeds every time."""
    env, kwargs, memory = POLICIES[name]
    with puffervec.make(env, env_kwargs=kwargs, backend="serial", num_envs=4, num_buffers=2) as vec:
        torch.manual_seed(0)
        slots = {}
        for group in vec.spec.groups:
            section = PolicySection(hidden=(16,), channels=(4, 4), memory=memory)  # type: ignore[arg-type]
            storage = Storage(group, HORIZON, group.agents * vec.num_envs, device, None)
            slots[group.name] = Slot(
                group.name, build_policy(group, section).to(device), group, storage
            )
        generator = torch.Generator(device).manual_seed(3)
        rollout = Rollout(vec, slots, device, False, generator, ThreadPool(1), device_turns=True)
        rollout.begin(5)
        yield rollout


def collected(
    name: str, device: torch.device = CUDA
) -> tuple[list[dict[str, np.ndarray]], list[Any]]:
    """The storages after each of three rollouts, and the graphs of both halves."""
    found = []
    with rollout_of(name, device) as rollout:
        for _ in range(3):
            assert rollout.collect()
            shown: dict[str, np.ndarray] = {}
            for key, slot in rollout.slots.items():
                shown |= {
                    f"{key}.{part}": value.cpu().numpy()
                    for part, value in slot.storage.tensors().items()
                }
            found.append(shown)
        return found, [turn.graph for turn in rollout.turns if isinstance(turn, DeviceTurn)]


@pytest.mark.parametrize("name", POLICIES)
def test_replays_equal_eager_turns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the draws: a replay goes on with the generator where the turn before left it."""
    replayed, graphs = collected(name)
    assert len(graphs) == 2 and None not in graphs
    monkeypatch.setattr(DeviceTurn, "_capture", lambda turn, stream: None)
    eager, graphs = collected(name)
    assert graphs == [None, None]
    for one, other in zip(replayed, eager, strict=True):
        for key, value in one.items():
            np.testing.assert_allclose(
                value.astype(np.float64), other[key].astype(np.float64), 1e-4, 1e-5, err_msg=key
            )


def launched_steps(rollout: Rollout) -> int:
    """Take the steps of a rollout but for its first and its last, at which states are kept for the
    update; return turns.
    """
    for step in range(2, HORIZON):
        for _ in rollout.turns:
            rollout._advance(step)
    return (HORIZON - 2) * len(rollout.turns)


def prepare(rollout: Rollout) -> None:
    """Until each half is a graph, and a rollout has begun."""
    for _ in range(2):
        assert rollout.collect()
    rollout._continue()
    for turn in rollout.turns:
        turn.begin(1)
    for _ in rollout.turns:
        rollout._advance(1)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype feature")
@pytest.mark.parametrize("name", POLICIES)
def test_a_launched_step_allocates_nothing_and_waits_for_nothing(name: str) -> None:
    with rollout_of(name) as rollout:
        prepare(rollout)
        keys = ("allocation.all.allocated", "num_alloc_retries", "num_device_alloc")
        before = {key: torch.cuda.memory_stats()[key] for key in keys}
        torch.cuda.set_sync_debug_mode("error")
        try:
            assert launched_steps(rollout) > 0
        finally:
            torch.cuda.set_sync_debug_mode("default")
        after = {key: torch.cuda.memory_stats()[key] for key in keys}
        assert after == before


def test_the_slab_is_page_locked_while_it_is_used() -> None:
    with rollout_of("MLP") as rollout:
        turn = rollout.turns[0]
        assert isinstance(turn, DeviceTurn) and rollout.collect() and turn.block.is_pinned()

    class Owner:
        pass

    block, owner = torch.from_numpy(np.zeros(1 << 16, np.uint8)), Owner()
    assert pin(block, owner) and block.is_pinned()
    del owner
    assert not block.is_pinned()


# ---- the update ----------------------------------------------------------------------------------


def updater(memory: str, capture: bool, device: torch.device = CUDA) -> Updater:
    """An updater on the device, from the same seeds every time."""
    on_cpu = cpu_updater(memory, False)
    policy: Any = on_cpu.policy.to(device)
    storage = Storage(SPEC, LENGTH, ROWS, device, None)
    storage.copy_from(filled(policy))
    storage.first_states = {0: policy.initial_state(ROWS)}
    random, pool = torch.Generator().manual_seed(2), ThreadPool(1)
    made = Updater(policy, storage, on_cpu.section, PARTS, False, random, pool)
    if not capture:
        width = -(-ROWS // PARTS) * (1 if memory != "none" else LENGTH)
        made.device_step = DeviceStep(made._step, width, device, capture=False)
    return made


@pytest.mark.parametrize("memory", STEPS)
def test_the_graph_of_an_update_equals_eager_steps(memory: str) -> None:
    one, other = updater(memory, True), updater(memory, False)
    for lr in (1e-2, 1e-2, 3e-3):
        losses, same = one.update(lr).losses, other.update(lr).losses
        assert losses == pytest.approx(same, rel=1e-3, abs=1e-4)
    assert one.device_step is not None and one.device_step.graph is not None
    assert other.device_step is not None and other.device_step.graph is None
    for a, b in zip(one.parameters, other.parameters, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


# ---- whole runs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["none", "mingru", "lstm"])
def test_a_run_is_resumed_where_it_was(small: Callable[..., TrainConfig], memory: str) -> None:
    """With all its state on the device; the graphs are captured anew, and it goes on learning."""
    tables: dict[str, dict[str, Any]] = {
        "train": {"device": CUDA.type, "total_timesteps": 100_000},
        "policy": {"memory": memory},
    }
    config = small("tag_grid").merged(tables)
    with Trainer(config, dashboard=StopAt(0)) as first:
        go_on(first, 4)
        checkpoint, saved = ckpt.newest(first.folder / "checkpoints"), named(first)
    with Trainer(config, dashboard=StopAt(0), checkpoint=checkpoint) as second:
        restored = named(second)
        assert restored.keys() == saved.keys()
        assert [key for key, part in saved.items() if not torch.equal(part, restored[key])] == []
        go_on(second, 6)
        assert second.device.type == CUDA.type
        turns = second.collector.rollout.turns
        assert all(isinstance(turn, DeviceTurn) and turn.graph for turn in turns)


def test_deterministic_runs_are_the_same_to_the_byte(small: Callable[..., TrainConfig]) -> None:
    section = {"device": CUDA.type, "total_timesteps": 100_000, "deterministic": True}
    found = []
    for _ in range(2):
        with Trainer(small("tag_grid").merged({"train": section}), dashboard=StopAt(0)) as trainer:
            go_on(trainer, 5)
            found.append(named(trainer))
    assert [key for key, part in found[0].items() if not torch.equal(part, found[1][key])] == []


def named(trainer: Trainer) -> dict[str, torch.Tensor]:
    """All state by name."""
    return {
        f"{stem}.{k}": part.clone()
        for stem, parts in trainer.saver.state().items()
        for k, part in parts.items()
    }
