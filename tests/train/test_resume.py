# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A run that was saved, closed and resumed is byte for byte the run that was never stopped
(puffervec/train/run/state.py).

Compared: weights, optimizer, random generators, env states, memory, counters, metrics, and the
rollout after all that. States of Python envs cannot be saved: there a resumed run is the one that
starts new episodes where the save was.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from puffervec.train import TrainConfig, Trainer
from puffervec.train.metrics.log import read_metrics
from puffervec.train.policies.mlp import MLPPolicy
from puffervec.train.run import checkpoint as ckpt
from tests.train import envs

Small = Callable[..., TrainConfig]
Named = dict[str, torch.Tensor]

UPDATES, SAVED = 4, 2
CLOCKS = (
    "elapsed_s",
    "span_s",
    "charts/agent_steps_per_s",
    "charts/env_steps_per_s",
    "charts/overlap",
    "charts/seconds_left",
)
PROBE = {
    "num_agents": 3,
    "episode_length": 5,
    "end_kind": 2,
    "leave": 1,
}  # Rollouts of 8 steps end inside of an episode.
TWO = {"mode": 1, "num_agents": 2, "episode_length": 5}
WORKERS = {"backend": "multiprocessing", "num_workers": 2}


class Own(MLPPolicy):
    """A policy of one's own, with a layer that draws from torch's own generator."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.trunk.append(nn.Dropout(0.2))


class StopAt:
    """A dashboard that lets a run end after its `update`-th update, between two updates."""

    def __init__(self, update: int) -> None:
        self.update, self.notes = update, list[str]()
        self.trainer: Trainer | None = None

    def show(self, metrics: Any, progress: float) -> None:
        if metrics["update"] == self.update:
            assert self.trainer is not None
            self.trainer.request_stop()

    def note(self, text: str) -> None:
        self.notes.append(text)

    def close(self) -> None:
        pass


def go_on(trainer: Trainer, update: int) -> None:
    """Train up to an update."""
    assert isinstance(trainer.reporting.dashboard, StopAt)
    trainer.reporting.dashboard.update, trainer.reporting.dashboard.trainer = update, trainer
    trainer.train()
    trainer.stop_requested = False
    assert trainer.counters.updates == update


def in_the_middle(trainer: Trainer) -> bool:
    """True where some row goes on with its episode, and what its policy remembers of it is not
    nothing.
    """
    for slot in trainer.slots.values():
        s = slot.storage
        alive = (s.masks[-1] != 0) & (s.terminals[-1] == 0) & (s.truncations[-1] == 0)
        if not bool(alive.any()):
            return False
    turns = trainer.collector.rollout.turns
    return all(
        bool(part.any()) for turn in turns for state in turn.states.values() for part in state
    )


def everything(trainer: Trainer) -> tuple[Named, dict[str, float], list[dict[str, float]]]:
    """All state by name, the counters, and the metrics; then the next rollout is collected and is
    part of the state.
    """
    found = {
        f"{stem}.{key}": part.clone()
        for stem, parts in trainer.saver.state().items()
        for key, part in parts.items()
    }
    counters = {
        key: value
        for key, value in dataclasses.asdict(trainer.counters).items()
        if key not in CLOCKS
    }
    lines = [
        {
            key: value
            for key, value in line.items()
            if key not in CLOCKS and not key.startswith(("time/", "usage/"))
        }
        for line in read_metrics(trainer.folder / "metrics.jsonl")
    ]
    assert trainer.collect()
    for name, slot in trainer.slots.items():
        found |= {
            f"rollout.{name}.{key}": part.clone() for key, part in slot.storage.tensors().items()
        }
    return found, counters, lines


def bytes_of(tensor: torch.Tensor) -> bytes:
    """Also those of a NaN, and of a tensor without numbers."""
    if not tensor.numel():
        return b""
    return tensor.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes()


CASES: dict[str, tuple[Any, dict[str, dict[str, Any]]]] = {
    "one buffer": ("probe", {"env": PROBE, "vec": {"num_buffers": 1}}),
    "two buffers": ("probe", {"env": PROBE, "vec": {"num_buffers": 2}}),
    "workers": (
        "probe",
        {"env": PROBE, "vec": {**WORKERS, "num_buffers": 2}, "train": {"threads": 2}},
    ),
    "mingru": ("cartpole", {"policy": {"memory": "mingru"}}),
    "lstm": ("cartpole", {"policy": {"memory": "lstm"}}),
    "two policies, one with an action mask": ("probe", {"env": TWO}),
    "two policies, mask, memory, joint": (
        "probe",
        {"env": TWO, "policy": {"memory": "mingru", "joint": True}},
    ),
    "two policies of one group": (
        "tag_grid",
        {"policy": {"map": ("taggers=tagger", "runner=runner"), "memory": "mingru"}},
    ),
    "muon": ("tag_grid", {"train": {"optimizer": "muon"}}),
    "muon_sgd, no biases": (
        "cartpole",
        {"train": {"optimizer": "muon_sgd"}, "policy": {"memory": "mingru", "bias": False}},
    ),
    "corrections": ("cartpole", {"train": {"vtrace": True}, "policy": {"memory": "mingru"}}),
    "asynchronous": ("cartpole", {"train": {"asynchronous": True}, "policy": {"memory": "mingru"}}),
    "asynchronous, an episode ends in each rollout": (
        "probe",
        {"env": PROBE, "train": {"asynchronous": True}},
    ),
    "asynchronous, more end than the means are over": (
        "probe",
        {"env": PROBE, "vec": {"num_envs": 64}, "train": {"asynchronous": True, "horizon": 16}},
    ),
    "own policy": ("probe", {"env": PROBE, "policy": {"kind": f"{__name__}:Own"}}),
    "objects": (
        "drive",
        {
            "vec": {"num_envs": 2},
            "train": {
                "time_limit_s": 0.0,
                "horizon": 4,
                "minibatch_size": 0,
            },  # The step size would follow the clock.
            "policy": {"memory": "mingru", "object_hidden": 8, "object_width": 8},
        },
    ),
    "scaled rewards, continuous": (envs.Aim, {"train": {"scale_rewards": True, "horizon": 6}}),
    "pictures": (envs.Pictures, {"policy": {"channels": (2, 2, 2)}, "train": {"horizon": 5}}),
    "parts, infos": (
        envs.Guess,
        {"train": {"horizon": 6}, "policy": {"joint": True, "memory": "mingru"}},
    ),
}


QUICK = ("workers", "two policies, mask, memory, joint", "asynchronous", "parts, infos")


@pytest.mark.parametrize(
    "case", [c if c in QUICK else pytest.param(c, marks=pytest.mark.slow) for c in CASES]
)
def test_resume_is_exact(small: Small, case: str) -> None:
    """UPDATES in one go, against SAVED of them, a save, another trainer and the rest."""
    target, tables = CASES[case]
    config = small(target, train={"total_timesteps": 100_000, "update_epochs": 2}).merged(tables)
    torch.manual_seed(5)
    with Trainer(config, dashboard=StopAt(0)) as trainer:
        if config.python:
            go_on(trainer, SAVED)
            trainer.begin(config.train.seed + trainer.counters.agent_steps)
        go_on(trainer, UPDATES)
        straight, counters, lines = everything(trainer)
    torch.manual_seed(5)
    with Trainer(config, dashboard=StopAt(0)) as trainer:
        go_on(trainer, SAVED)
        assert config.python or in_the_middle(trainer)
        path = ckpt.newest(trainer.folder / "checkpoints")
    torch.manual_seed(6)
    notes = StopAt(0)
    with Trainer(config, dashboard=notes, checkpoint=path) as trainer:
        go_on(trainer, UPDATES)
        resumed, counters_then, lines_then = everything(trainer)
    new_episodes = [
        "resumes with new episodes: env states were not saved (this env cannot save them)"
    ]
    assert notes.notes == (new_episodes if config.python else [])
    assert counters == counters_then and lines == lines_then and len(lines) == UPDATES
    assert any("episode/return" in line for line in lines) or target == "drive"
    assert straight.keys() == resumed.keys()
    different = [
        name for name, part in straight.items() if bytes_of(part) != bytes_of(resumed[name])
    ]
    assert not different


def test_from_inside_a_rollout_new_episodes_begin(small: Small) -> None:
    config = small(train={"total_timesteps": 1000})
    with Trainer(config) as trainer:
        trainer.collect()
        trainer.update()
        trainer.collector.rollout.collect(iter([False, False, True]).__next__)
        path = trainer.save()
        weights = {
            name: part.clone() for name, part in trainer.policies["default"].state_dict().items()
        }
    assert "envs" not in ckpt.read(path).tensors
    with Trainer(config, checkpoint=path) as trainer:
        for name, part in trainer.policies["default"].state_dict().items():
            assert torch.equal(part, weights[name]), name
        assert trainer.collect()


def test_a_resumed_run_goes_on_in_the_same_folder(small: Small) -> None:
    config = small(train={"total_timesteps": 60})
    with Trainer(config) as trainer:
        trainer.train()
        folder, steps = trainer.folder, trainer.counters.agent_steps
        path = ckpt.newest(folder / "checkpoints")
    longer = config.merged({"train": {"total_timesteps": 150}})
    with Trainer(longer, checkpoint=path) as trainer:
        assert trainer.folder == folder and trainer.counters.agent_steps == steps
        assert 0 < trainer.progress() < 1
        trainer.train()
    found = [line["step"] for line in read_metrics(folder / "metrics.jsonl")]
    assert found == sorted(found) and found[-1] >= 150


@pytest.mark.parametrize("memory", ["mingru", "lstm"])
def test_a_memory_of_another_dtype_becomes_the_policys(small: Small, memory: str) -> None:
    config = small("cartpole", policy={"memory": memory}, train={"total_timesteps": 1000})
    with Trainer(config) as trainer:
        trainer.collect()
        trainer.update()
        found = ckpt.read(trainer.save())
    envs = {
        name: part.double() if name.startswith(("state/", "before/")) else part
        for name, part in found.tensors["envs"].items()
    }
    assert any(part.dtype == torch.float64 for part in envs.values())
    path = ckpt.write(
        trainer.folder / "checkpoints",
        ckpt.Checkpoint(found.manifest, {**found.tensors, "envs": envs}),
        keep=9,
    )
    with Trainer(config, checkpoint=path) as trainer:
        assert trainer.collect()
        trainer.update()
