# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A trainer's state as named tensors and back: weights, optimizers, random generators, envs and the last step of the roll-out.

With all of it a resumed run is byte for byte the run that was never stopped (on a CPU, for the same number of torch threads).
The states of Python envs cannot be saved: such a run goes on with new episodes.
Runs in the learner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from puffervec.errors import CheckpointError
from puffervec.train.checkpoint import Checkpoint

if TYPE_CHECKING:
    from puffervec.train.loop import Trainer

Tensors = dict[str, Tensor]


def tensors_of(trainer: Trainer) -> dict[str, Tensors]:
    """Return all state by file stem, as checkpoint.py lays it out. Copies where the run would go on writing."""
    files: dict[str, Tensors] = {name: dict(policy.state_dict()) for name, policy in trainer.policies.items()}
    files["optimizer"] = {
        f"{name}/{index}/{key}": value
        for name, updater in trainer.updaters.items()
        for index, values in updater.optimizer.state_dict()["state"].items()
        for key, value in values.items()
    }
    files["random"] = {"actions": trainer.action_generator.get_state(), "shuffle": trainer.shuffle_generator.get_state()}
    if trainer.return_scale is not None:
        scale = trainer.return_scale
        files["returns"] = {"scale": torch.tensor([scale.mean_square, scale.rollouts], dtype=torch.float64)}
    if trainer.rollout.full and trainer.vec.spec.save_bytes:
        files["envs"] = _envs_of(trainer)
    return files


def _envs_of(trainer: Trainer) -> Tensors:
    tensors = {
        f"env/{index}": torch.frombuffer(bytearray(blob), dtype=torch.uint8) for index, blob in enumerate(trainer.vec.save())
    }
    for name, slot in trainer.slots.items():
        tensors |= {f"last/{name}/{key}": value[-1].clone() for key, value in slot.storage.tensors().items()}
        for index, half in enumerate(trainer.rollout.halves):
            tensors[f"reset/{name}/{index}"] = half.reset[name]
            tensors |= {f"state/{name}/{index}/{i}": part for i, part in enumerate(half.states[name])}
            first = slot.storage.first_states.get(index, ())
            tensors |= {f"first/{name}/{index}/{i}": part for i, part in enumerate(first)}
    return tensors


def restore(trainer: Trainer, found: Checkpoint) -> None:
    """Put a checkpoint's state into a freshly started trainer.

    Raises: CheckpointError where something is missing or does not fit.
    """
    try:
        for name, policy in trainer.policies.items():
            policy.load_state_dict(found.tensors[name])
            _restore_optimizer(trainer.updaters[name].optimizer, name, found.tensors["optimizer"])
        trainer.action_generator.set_state(found.tensors["random"]["actions"])
        trainer.shuffle_generator.set_state(found.tensors["random"]["shuffle"])
        if trainer.return_scale is not None:
            mean_square, rollouts = found.tensors["returns"]["scale"].tolist()
            trainer.return_scale.mean_square, trainer.return_scale.rollouts = mean_square, int(rollouts)
        if "envs" in found.tensors:
            _restore_envs(trainer, found.tensors["envs"])
        else:  # A Python env, or stopped inside a roll-out: new episodes, other than those of the start.
            trainer.rollout.begin(trainer.config.train.seed + trainer.counters.agent_steps)
    except (KeyError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"this checkpoint does not fit the run: {error}") from error


def _restore_optimizer(optimizer: torch.optim.Optimizer, name: str, tensors: Tensors) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        owner, index, entry = key.rsplit("/", 2)
        if owner == name:
            state.setdefault(int(index), {})[entry] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _restore_envs(trainer: Trainer, tensors: Tensors) -> None:
    count = trainer.config.vec.num_envs
    trainer.vec.load([tensors[f"env/{index}"].numpy().tobytes() for index in range(count)])
    for _ in trainer.rollout.halves:
        trainer.vec.recv()  # The rows of the last step: they are in the storage already.
    for name, slot in trainer.slots.items():
        for key, value in slot.storage.tensors().items():
            value[-1].copy_(tensors[f"last/{name}/{key}"])
        for index, half in enumerate(trainer.rollout.halves):
            half.reset[name].copy_(tensors[f"reset/{name}/{index}"])
            half.states[name] = tuple(
                tensors[f"state/{name}/{index}/{i}"].to(trainer.device) for i in range(len(half.states[name]))
            )
            slot.storage.first_states[index] = tuple(
                tensors[f"first/{name}/{index}/{i}"].to(trainer.device) for i in range(len(half.states[name]))
            )
    trainer.rollout.full = True


def actor_weights(found: Checkpoint, name: str) -> dict[str, Any]:
    """Return a policy's weights from a checkpoint.

    Raises: CheckpointError where the checkpoint has no such policy.
    """
    if name not in found.tensors:
        raise CheckpointError(f"the checkpoint has no policy {name!r}: it has {', '.join(found.manifest['policies'])}")
    return found.tensors[name]
