# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""How the state of a run lies in the files of a checkpoint: each part of the trainer says its own,
by file stem.

    learner.py      <policy>, optimizer, pool        the same on all ranks: the first one's are kept
    collector.py    returns, episodes                likewise
                    envs, ahead                      of each rank: envs-rank1 and so on
    (Generators)    random                           likewise

With all of it a resumed run is byte for byte the run that was never stopped, on a CPU of the same
kind with the same torch: `Saver.numerics` is what the sums depend on. Where `time_limit_s` lets the
step size fall with the clock (it does not with `train.deterministic`), no two runs are alike; and a
run that was stopped inside an update lost the rest of it. Runs in the learner.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as dump_tensors
from torch import Tensor

import puffervec
from puffervec.core.spec import GroupSpec
from puffervec.errors import CheckpointError, ConfigError
from puffervec.train.config.sections import TrainConfig
from puffervec.train.policies.pool import newest
from puffervec.train.policies.registry import fitting_kind
from puffervec.train.run import checkpoint as ckpt
from puffervec.train.run.checkpoint import Checkpoint
from puffervec.train.run.rundir import CHECKPOINTS, RunFiles

if TYPE_CHECKING:
    from puffervec.train.run.learner import Generators, Learner
    from puffervec.train.run.setup import Setup

Tensors = dict[str, Tensor]
Files = Mapping[str, Tensors]
OWN = ("random", "envs", "ahead")  # File stems of what each rank has of its own.
_DECISIVE = ("torch", "device", "bf16", "cpu", "compiled", "ranks")  # of Saver.numerics
POOL = "pool"
_SHARED = ("optimizer", "returns", "episodes", POOL)  # The other stems beside those of policies.


class Part(Protocol):
    """A part of the trainer that a checkpoint keeps."""

    def state(self) -> dict[str, Tensors]:
        """Return the part's state by file stem. Copies where the run would go on writing."""

    def load_state(self, files: Files) -> list[str]:
        """Put `state` into a freshly started run; return in words what cannot be gone on with.

        Raises: KeyError, IndexError, TypeError, RuntimeError, ValueError, OverflowError where it
            does not fit.
        """


def fitting(tensors: Mapping[str, Tensor], name: str, like: Tensor) -> Tensor:
    """Return a tensor of a checkpoint that has the shape of `like`. Raises: KeyError, ValueError."""
    found = tensors[name]
    if found.shape != like.shape:
        raise ValueError(f"{name} has the shape {tuple(found.shape)}, not {tuple(like.shape)}")
    return found


def check_names(policies: Iterable[str]) -> None:
    """Raise ConfigError for names of policies (row groups, or in `policy.map`) under which weights
    cannot be saved.
    """
    for name in policies:
        stem = re.sub(r"-rank\d+$", "", name)
        if stem in (*OWN, *_SHARED) or not re.fullmatch(r"\w[\w.-]{0,99}", name):
            raise ConfigError(
                f"the row group or policy {name!r} has a name that its weights cannot be saved "
                "under: use letters, digits, _, - and ., up to 100, and none of "
                f"{', '.join((*_SHARED, *OWN))}"
            )


def stem_of(stem: str, rank: int) -> str:
    """Return the file stem of what each rank has of its own: `random`, `envs`, `ahead`."""
    return f"{stem}-rank{rank}" if rank else stem


def stems_for(rank: int, manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the file stems of a checkpoint that a rank goes on from: all but those of other ranks."""
    stems = [name.removesuffix(".safetensors") for name in manifest["files"]]
    others = {stem for stem in stems for own in OWN if stem.partition("-rank")[0] == own} - {
        stem_of(own, rank) for own in OWN
    }
    return tuple(stem for stem in stems if stem not in others)


def as_trained(
    config: TrainConfig,
    groups: Iterable[GroupSpec],
    manifest: Mapping[str, Any],
    tensors: Mapping[str, Any],
) -> TrainConfig:
    """Return the config of a checkpoint so that it describes the checkpoint's own policies, though
    defaults have changed.

    Numbers of C envs were not scaled at first, and all leaves of a Python env beside a picture went
    to the mlp.
    Args: groups: of the env; manifest, tensors: of the checkpoint.
    Raises: CheckpointError where `policy.map` is another.
    """
    before = tuple(manifest["config"].get("policy", {}).get("map", ()))
    if config.policy.map != before:
        raise CheckpointError(
            f"policy.map is {list(config.policy.map)}, of the checkpoint {list(before)}: leave it "
            "as it was"
        )
    changed: dict[str, Any] = {}
    made = {name: entry["class"] for name, entry in manifest["policies"].items() if name in tensors}
    if (
        not config.python
        and "MLPPolicy" in made.values()
        and not any("encoder.count" in tensors[name] for name in made)
    ):
        changed["normalize"] = False
    kinds = {fitting_kind(group) for group in groups}
    if config.policy.kind == "auto" and kinds == {"cnn"} and set(made.values()) == {"MLPPolicy"}:
        changed["kind"] = "mlp"
    return config.merged({"policy": changed})


def actor_weights(found: Checkpoint, name: str) -> dict[str, Any]:
    """Return a policy's weights from a checkpoint.

    Raises: CheckpointError where the checkpoint has no such policy.
    """
    if name not in found.tensors:
        raise CheckpointError(
            f"the checkpoint has no policy {name!r}: it has {', '.join(found.manifest['policies'])}"
        )
    return found.tensors[name]


@dataclasses.dataclass
class Counters:
    """What a resumed run goes on from."""

    agent_steps: int = 0  # valid transitions
    env_steps: int = 0  # transitions of an env, filler included
    updates: int = 0
    elapsed_s: float = 0.0


class Saver:
    """Writes a run's checkpoints, and puts one into a run that was just started."""

    def __init__(
        self,
        setup: Setup,
        files: RunFiles,
        learner: Learner,
        collector: Part,
        generators: Generators,
        threads: int,
    ) -> None:
        """Args: threads: of the learner, for the manifest."""
        self._parts: tuple[Part, ...] = (learner, collector, generators)
        self._setup, self._files, self._learner = setup, files, learner
        self._threads = threads
        self._last_s = time.monotonic()
        self.updates = -1  # that the checkpoint saved last has

    def due(self) -> bool:
        """True once `log.checkpoint_interval_s` have passed since the last one."""
        return time.monotonic() - self._last_s >= self._setup.config.log.checkpoint_interval_s

    def postpone(self) -> None:
        """Wait for another interval."""
        self._last_s = time.monotonic()

    def save(self, counters: Counters, elapsed_s: float, note: Callable[[str], None]) -> Path:
        """Write a checkpoint; return its folder. All ranks must call it. Raises:
        checkpoint.SaveError.

        Args: elapsed_s: of the run by now; note: told where the run folder was deleted.
        """
        ranks, tensors = self._setup.ranks, self.state()
        path: Path | None = None
        failure: Exception | None = None
        if ranks.first:
            try:
                self._files.refind(note)
                manifest = self._manifest(dataclasses.replace(counters, elapsed_s=elapsed_s))
                found = ckpt.Checkpoint(manifest, tensors)
                path = ckpt.write(
                    self._files.folder / CHECKPOINTS, found, self._setup.config.log.keep_checkpoints
                )
            except (OSError, ConfigError) as error:
                failure = error
        shared, words = ranks.broadcast_object([path and str(path), failure and str(failure)])
        if words is not None:
            raise ckpt.SaveError(words)
        self.postpone()
        self.updates = counters.updates
        return Path(shared)

    def state(self) -> dict[str, Tensors]:
        """Return the state of all parts by file stem. All ranks must call it; the first one gets
        that of all.
        """
        files = {stem: tensors for part in self._parts for stem, tensors in part.state().items()}
        if self._setup.ranks.size == 1:
            return files
        own = {stem: files.pop(stem) for stem in OWN if stem in files}
        named = {
            f"{stem}/{name}": tensor for stem, part in own.items() for name, tensor in part.items()
        }
        packed = dump_tensors(
            {name: tensor.cpu().contiguous().clone() for name, tensor in named.items()}
        )
        for rank, data in enumerate(self._setup.ranks.gather(packed)):
            for key, tensor in load_tensors(data).items():
                stem, _, name = key.partition("/")
                files.setdefault(stem_of(stem, rank), {})[name] = tensor
        return files

    def load_state(self, files: Files) -> list[str]:
        """Go on from `state`; return in words what cannot be gone on with. Raises: CheckpointError
        where it does not fit.
        """
        rank = self._setup.ranks.rank
        mine = {stem: tensors for stem, tensors in files.items() if stem not in OWN}
        mine |= {stem: files[name] for stem in OWN if (name := stem_of(stem, rank)) in files}
        try:
            if (
                rank == 0 and "random" not in mine
            ):  # That of other ranks is missing where fewer of them saved.
                raise KeyError("random")
            return [note for part in self._parts for note in part.load_state(mine)]
        except (KeyError, IndexError, TypeError, RuntimeError, ValueError, OverflowError) as error:
            raise CheckpointError(f"this checkpoint does not fit the run: {error}") from error

    def _manifest(self, counters: Counters) -> dict[str, Any]:
        config, opponents = self._setup.config, self._setup.opponents
        return {
            "env": config.target,
            "spec_hash": self._setup.spec_hash,
            "config": {"target": config.target, **config.tables()},
            "counters": vars(counters),
            "policies": {
                name: {
                    "class": type(newest(policy)).__name__,
                    "group": self._setup.rows[name].group.name,
                }
                | ({"opponents": list(opponents[name].sources)} if name in opponents else {})
                for name, policy in self._learner.policies.items()
            },
            "versions": {"puffervec": puffervec.__version__, "torch": torch.__version__},
            "numerics": self.numerics(),
        }

    def numerics(self) -> dict[str, Any]:
        """Return what the bytes of a run depend on beside its config and checkpoint, for the
        manifest; and, for the reader, the numbers of threads, which they do not depend on
        (device.py).
        """
        return {
            "torch": torch.__version__,
            "device": self._setup.device.type,
            "bf16": self._setup.bf16,
            "cpu": torch.backends.cpu.get_cpu_capability(),
            "compiled": self._learner.compiled,
            "ranks": self._setup.ranks.size,
            "threads": self._threads,
            "torch_threads": torch.get_num_threads(),
        }

    def restore(self, found: ckpt.Checkpoint) -> tuple[Counters, list[str]]:
        """Put a checkpoint into the run; return its counters, and in words how the run may differ
        from one never stopped.

        Raises: CheckpointError where it does not fit.
        """
        notes = self.load_state(found.tensors)
        before, now = found.manifest.get("numerics"), self.numerics()
        if isinstance(before, dict):
            changed = [key for key in _DECISIVE if key in before and before[key] != now[key]]
            words = ", ".join(f"{key} {str(before[key])[:40]} -> {now[key]}" for key in changed)
            if changed:
                notes.append(
                    "goes on, but the last bits of numbers may differ from a run that was never "
                    f"stopped: {words}"
                )
        known = {field.name for field in dataclasses.fields(Counters)}
        counters = Counters(
            **{key: value for key, value in found.manifest["counters"].items() if key in known}
        )
        self.updates = counters.updates
        return counters, notes
