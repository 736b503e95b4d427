# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A trainer's state as named tensors and back: weights, optimizers, random generators, envs, the last step of the roll-out, and
the finished episodes that the log's means are over.

With all of it a resumed run is byte for byte the run that was never stopped, on a CPU of the same kind with the same torch:
`numerics` is what the sums depend on. The number of threads is in it for the reader; results do not depend on it (device.py).
Where `time_limit_s` lets the step size fall with the clock (it does not with `train.deterministic`), no two runs are alike;
and a run that was stopped inside an update lost the rest of it. Layers that draw, as dropout does, take from torch's one
generator: with such layers of torch's one thread works (policies/registry.py: draws); `nn.functional.dropout` in a policy of
one's own needs `train.threads` 1 for it. With `train.asynchronous` roll-out and update draw from it at once, and no two runs of
such policies are alike. The states of Python envs cannot be saved: such a run goes on with new episodes. So does one whose last
step holds numbers that are not finite, which would only come back. Runs in the learner.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as dump_tensors
from torch import Tensor

from puffervec.core.spec import GroupSpec
from puffervec.errors import CheckpointError, ConfigError
from puffervec.train.config.sections import TrainConfig
from puffervec.train.learn.compiled import CompiledLoss
from puffervec.train.learn.optimizers import Optimizers
from puffervec.train.policies.registry import fitting_kind
from puffervec.train.run.checkpoint import Checkpoint

if TYPE_CHECKING:
    from puffervec.train.run.trainer import Trainer

Tensors = dict[str, Tensor]
_INFO = "info/"
OWN = ("random", "envs", "ahead")  # File stems of what each rank has of its own.
_SHARED = ("optimizer", "returns", "episodes")  # The other stems beside those of policies.
_DECISIVE = ("torch", "device", "bf16", "cpu", "compiled", "ranks")


def tensors_of(trainer: Trainer) -> dict[str, Tensors]:
    """Return all state by file stem, as checkpoint.py lays it out. Copies where the run would go on writing.

    With several ranks all must call it, and the first one's answer has the envs and generators of all.
    """
    files = _learned(trainer)
    if trainer.return_scales:
        files["returns"] = {
            _scale_name(name): torch.tensor([scale.mean_square, scale.rollouts], dtype=torch.float64)
            for name, scale in trainer.return_scales.items()
        }
    files["episodes"] = _episodes_of(trainer)
    own = _own(trainer)
    if trainer.ranks.size == 1:
        return files | own
    packed = dump_tensors(
        {f"{stem}/{name}": part.cpu().contiguous().clone() for stem, parts in own.items() for name, part in parts.items()}
    )
    for rank, data in enumerate(trainer.ranks.gather(packed)):
        for key, tensor in load_tensors(data).items():
            stem, _, name = key.partition("/")
            files.setdefault(stem_of(stem, rank), {})[name] = tensor
    return files


def check_names(policies: Iterable[str]) -> None:
    """Raise ConfigError for names of policies (those of an env's row groups) under which weights cannot be saved."""
    for name in policies:
        stem = re.sub(r"-rank\d+$", "", name)
        if stem in (*OWN, *_SHARED) or not re.fullmatch(r"\w[\w.-]{0,99}", name):
            raise ConfigError(
                f"the env's row group {name!r} has a name that its weights cannot be saved under: use letters, digits, _, - "
                f"and ., up to 100, and none of {', '.join((*_SHARED, *OWN))}"
            )


def _learned(trainer: Trainer) -> dict[str, Tensors]:
    """Weights and buffers of the policies, and what the optimizers keep."""
    files: dict[str, Tensors] = {name: dict(policy.state_dict()) for name, policy in trainer.policies.items()}
    files["optimizer"] = {
        f"{name}/{index}/{key}": value
        for name, updater in trainer.updaters.items()
        for index, values in updater.optimizer.state().items()
        for key, value in values.items()
    }
    return files


def _scale_name(policy: str) -> str:
    return "scale" if policy == "default" else f"scale/{policy}"


def not_finite(trainer: Trainer) -> list[str]:
    """Return the names of weights, buffers and numbers of the optimizers that are not all finite: `<file>.<name>`."""
    named = {f"{stem}.{key}": tensor for stem, tensors in _learned(trainer).items() for key, tensor in tensors.items()}
    return [name for name, tensor in named.items() if not bool(tensor.isfinite().all())]


def stem_of(stem: str, rank: int) -> str:
    """Return the file stem of what each rank has of its own: `random`, `envs`, `ahead`."""
    return f"{stem}-rank{rank}" if rank else stem


def stems_for(rank: int, manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the file stems of a checkpoint that a rank goes on from: all but those of other ranks."""
    stems = [name.removesuffix(".safetensors") for name in manifest["files"]]
    others = {stem for stem in stems for own in OWN if stem.partition("-rank")[0] == own} - {stem_of(own, rank) for own in OWN}
    return tuple(stem for stem in stems if stem not in others)


def _own(trainer: Trainer) -> dict[str, Tensors]:
    """What this process has and other ranks have not: random generators, envs and the last step."""
    files = {
        "random": {
            "actions": trainer.action_generator.get_state(),
            "shuffle": trainer.shuffle_generator.get_state(),
            "torch": torch.get_rng_state(),  # Of layers that draw, as dropout does; nothing else here draws from it.
        }
    }
    if trainer.device.type == "cuda":
        files["random"]["cuda"] = torch.cuda.get_rng_state(trainer.device)
    if trainer.rollout.full and trainer.vec.spec.save_bytes:
        envs = _envs_of(trainer)
        if all(bool(tensor.isfinite().all()) for tensor in envs.values() if tensor.is_floating_point()):
            files["envs"] = envs
            if trainer.ahead is not None and trainer.ahead.ready:
                files["ahead"] = trainer.ahead.tensors()
    return files


def numerics(trainer: Trainer) -> dict[str, Any]:
    """Return what the bytes of a run depend on beside its config and checkpoint, for the manifest."""
    return {
        "torch": torch.__version__,
        "device": trainer.device.type,
        "bf16": trainer.bf16,
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "compiled": any(isinstance(updater.loss, CompiledLoss) for updater in trainer.updaters.values()),
        "ranks": trainer.ranks.size,
        "threads": trainer.team.count,
        "torch_threads": torch.get_num_threads(),
    }


def differences(trainer: Trainer, before: Any) -> str:
    """Return in words why a run that goes on may differ in its last bits from one never stopped; "" where it does not."""
    if not isinstance(before, dict):
        return ""
    now = numerics(trainer)
    changed = [key for key in _DECISIVE if key in before and before[key] != now[key]]
    return ", ".join(f"{key} {str(before[key])[:40]} -> {now[key]}" for key in changed)


def _episodes_of(trainer: Trainer) -> Tensors:
    tensors = {"window": torch.from_numpy(trainer.episodes.state()), "total": torch.tensor([trainer.episodes.total])}
    infos = {} if trainer.info_means is None else trainer.info_means.state()
    return tensors | {f"{_INFO}{name}": torch.from_numpy(part) for name, part in infos.items()}


def _restore_episodes(trainer: Trainer, tensors: Tensors) -> None:
    trainer.episodes.load_state(tensors["window"].numpy(), int(tensors["total"].item()))
    if trainer.info_means is not None:
        infos = {name.removeprefix(_INFO): part.numpy() for name, part in tensors.items() if name.startswith(_INFO)}
        trainer.info_means.load_state(infos)


def _envs_of(trainer: Trainer) -> Tensors:
    tensors = {
        f"env/{index}": torch.frombuffer(bytearray(blob), dtype=torch.uint8) for index, blob in enumerate(trainer.vec.save())
    }
    for name, slot in trainer.slots.items():
        tensors |= {f"last/{name}/{key}": value[-1].clone() for key, value in slot.storage.tensors().items()}
        for index, half in enumerate(trainer.rollout.halves):
            tensors[f"reset/{name}/{index}"] = half.reset[name]
            tensors |= {f"state/{name}/{index}/{i}": part for i, part in enumerate(half.states[name])}
            before = slot.storage.last_states.get(index, ())
            tensors |= {f"before/{name}/{index}/{i}": part for i, part in enumerate(before)}
    return tensors | {
        f"returns/{name}": torch.from_numpy(scale.returns.copy()) for name, scale in trainer.return_scales.items()
    }


def restore(trainer: Trainer, found: Checkpoint) -> list[str]:
    """Put a checkpoint's state into a freshly started trainer; return in words what of it this device has no use for.

    Raises: CheckpointError where something is missing or does not fit.
    """
    notes: list[str] = []
    try:
        for name, policy in trainer.policies.items():
            policy.load_state_dict(found.tensors[name])
            _restore_optimizer(trainer.updaters[name].optimizer, name, found.tensors["optimizer"])
        rank = trainer.ranks.rank
        if rank == 0 or stem_of("random", rank) in found.tensors:  # Else it was saved by fewer ranks.
            notes = _restore_random(trainer, found.tensors[stem_of("random", rank)])
        for name, scale in trainer.return_scales.items():
            mean_square, rollouts = found.tensors["returns"][_scale_name(name)].tolist()
            scale.mean_square, scale.rollouts = mean_square, int(rollouts)
        if "episodes" in found.tensors:  # Not in older checkpoints: the means begin anew then.
            _restore_episodes(trainer, found.tensors["episodes"])
        if (envs := stem_of("envs", rank)) in found.tensors:
            _restore_envs(trainer, found.tensors[envs])
            if trainer.ahead is not None and (ahead := stem_of("ahead", rank)) in found.tensors:
                trainer.ahead.restore(found.tensors[ahead])
        else:  # A Python env, or stopped inside a roll-out: new episodes, other than those of the start.
            trainer.begin(trainer.env_seed + trainer.counters.agent_steps)
    except (KeyError, IndexError, TypeError, RuntimeError, ValueError, OverflowError) as error:
        raise CheckpointError(f"this checkpoint does not fit the run: {error}") from error
    return notes


def _restore_random(trainer: Trainer, tensors: Tensors) -> list[str]:
    notes = []
    if tensors["actions"].shape == trainer.action_generator.get_state().shape:
        trainer.action_generator.set_state(tensors["actions"])
    else:  # The generators of CPU and CUDA are of different kinds.
        notes = [f"actions are drawn anew from the seed: those of the checkpoint were not drawn on {trainer.device.type}"]
    trainer.shuffle_generator.set_state(tensors["shuffle"])
    if "torch" in tensors:
        torch.set_rng_state(tensors["torch"])
    if "cuda" in tensors and trainer.device.type == "cuda":
        torch.cuda.set_rng_state(tensors["cuda"], trainer.device)
    return notes


def _fitting(tensors: Tensors, name: str, like: Tensor) -> Tensor:
    """Return a tensor of the checkpoint that has the shape of `like`. Raises: KeyError, ValueError."""
    found = tensors[name]
    if found.shape != like.shape:
        raise ValueError(f"{name} has the shape {tuple(found.shape)}, not {tuple(like.shape)}")
    return found


def _restore_optimizer(optimizer: Optimizers, name: str, tensors: Tensors) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        owner, index, entry = key.rsplit("/", 2)
        if owner == name:
            state.setdefault(int(index), {})[entry] = value
    for position, entries in state.items():
        for kind in entries:
            if kind != "step":  # The fused kernel trusts the shapes.
                _fitting(entries, kind, optimizer.parameters[position])
    optimizer.load_state(state)


def _restore_envs(trainer: Trainer, tensors: Tensors) -> None:
    count = trainer.config.vec.num_envs
    trainer.vec.load([tensors[f"env/{index}"].numpy().tobytes() for index in range(count)])
    for _ in trainer.rollout.halves:
        trainer.vec.recv()  # The rows of the last step: they are in the storage already.
    for name, slot in trainer.slots.items():
        for key, value in slot.storage.tensors().items():
            value[-1].copy_(_fitting(tensors, f"last/{name}/{key}", value[-1]))
        for index, half in enumerate(trainer.rollout.halves):
            half.reset[name].copy_(_fitting(tensors, f"reset/{name}/{index}", half.reset[name]))
            now = half.states[name]
            state, slot.storage.last_states[index] = (
                tuple(_fitting(tensors, f"{kind}/{name}/{index}/{i}", part).to(trainer.device) for i, part in enumerate(now))
                for kind in ("state", "before")
            )
            for kept, found in zip(now, state, strict=True):
                kept.copy_(found)  # in place: a CUDA graph may know where it stands
    for name, scale in trainer.return_scales.items():
        scale.returns = _fitting(tensors, f"returns/{name}", torch.from_numpy(scale.returns)).numpy().copy()
    trainer.rollout.full = True


def as_trained(
    config: TrainConfig, groups: Iterable[GroupSpec], manifest: Mapping[str, Any], tensors: Mapping[str, Any]
) -> TrainConfig:
    """Return the config of a checkpoint so that it describes the checkpoint's own policies, though defaults have changed.

    Numbers of C envs were not scaled at first, and all leaves of a Python env beside a picture went to the mlp.
    Args: groups: of the env; manifest, tensors: of the checkpoint.
    """
    changed: dict[str, Any] = {}
    made = {name: entry["class"] for name, entry in manifest["policies"].items() if name in tensors}
    if not config.python and "MLPPolicy" in made.values() and not any("encoder.count" in tensors[name] for name in made):
        changed["normalize"] = False
    fitting = {fitting_kind(group) for group in groups}
    if config.policy.kind == "auto" and fitting == {"cnn"} and set(made.values()) == {"MLPPolicy"}:
        changed["kind"] = "mlp"
    return config.merged({"policy": changed})


def actor_weights(found: Checkpoint, name: str) -> dict[str, Any]:
    """Return a policy's weights from a checkpoint.

    Raises: CheckpointError where the checkpoint has no such policy.
    """
    if name not in found.tensors:
        raise CheckpointError(f"the checkpoint has no policy {name!r}: it has {', '.join(found.manifest['policies'])}")
    return found.tensors[name]
