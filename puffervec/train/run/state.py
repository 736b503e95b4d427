# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The state of a run in the files of a checkpoint; each part of the trainer supplies its own files.

    learner.py      <policy>, optimizer, pool    the same on all ranks: the first rank's are saved
    collector.py    returns, episodes            the same on all ranks
                    envs, ahead                  one per rank: envs-rank1 and so on
    (Generators)    random                       one per rank

With all of them a resumed run is byte-identical to the run that was never stopped, on a CPU of the
same kind with the same torch; `Saver.numerics` lists everything that the results depend on. There
are two exceptions. If `time_limit_s` makes the learning rate follow the clock (not with
`train.deterministic`), no two runs are alike. A run that was stopped inside an update has lost the
rest of that update. Runs in the learner.
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
OWN = ("random", "envs", "ahead")  # stems of the files that exist once per rank
_DECISIVE = ("torch", "device", "bf16", "cpu", "compiled", "ranks")  # of Saver.numerics
POOL = "pool"
_SHARED = ("optimizer", "returns", "episodes", POOL)  # the other stems, except those of policies


class Part(Protocol):
    """A part of the trainer whose state is saved in checkpoints."""

    def state(self) -> dict[str, Tensors]:
        """Return the part's state by file stem, copied if the run continues to write to it."""

    def load_state(self, files: Files) -> list[str]:
        """Load `state` into a freshly started run and return notes on what cannot be resumed.

        Raises:
            KeyError, IndexError, TypeError, RuntimeError, ValueError, OverflowError: the state does
                not fit the run.
        """


def fitting(tensors: Mapping[str, Tensor], name: str, like: Tensor) -> Tensor:
    """Return a tensor of a checkpoint after checking that it has the shape of `like`.

    Raises:
        KeyError: there is no tensor of that name.
        ValueError: the shape differs.
    """
    found = tensors[name]
    if found.shape != like.shape:
        raise ValueError(f"{name} has the shape {tuple(found.shape)}: must be {tuple(like.shape)}")
    return found


def check_names(policies: Iterable[str]) -> None:
    """Raise ConfigError for policy names that cannot be file stems of weights.

    Args:
        policies: names of row groups, or from `policy.map`.
    """
    for name in policies:
        stem = re.sub(r"-rank\d+$", "", name)
        if stem in (*OWN, *_SHARED) or not re.fullmatch(r"\w[\w.-]{0,99}", name):
            raise ConfigError(
                f"the row group or policy {name!r} has a name that cannot be a file name: use up "
                "to 100 letters, digits, _, - and ., and none of "
                f"{', '.join((*_SHARED, *OWN))}"
            )


def stem_of(stem: str, rank: int) -> str:
    """Return the file stem of `random`, `envs` or `ahead` for a rank."""
    return f"{stem}-rank{rank}" if rank else stem


def stems_for(rank: int, manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the file stems that a rank resumes from: all except those of other ranks."""
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
    """Return the config adapted to a checkpoint that was written before some defaults changed.

    The first versions did not scale the numbers of C envs, and used the mlp for all leaves of a
    Python env with an image.

    Args:
        config: config of the run.
        groups: groups of the env.
        manifest: manifest of the checkpoint.
        tensors: tensors of the checkpoint, by file stem.

    Raises:
        CheckpointError: `policy.map` differs from the checkpoint's.
    """
    before = tuple(manifest["config"].get("policy", {}).get("map", ()))
    if config.policy.map != before:
        raise CheckpointError(
            f"policy.map is {list(config.policy.map)}, but {list(before)} in the checkpoint: leave "
            "it unchanged"
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
    return config.with_values("policy", **changed)


def as_chosen(
    config: TrainConfig, before: TrainConfig, manifest: Mapping[str, Any], device: torch.device
) -> TrainConfig:
    """Return the config with the choices of a checkpoint's run in place of `auto`.

    The precision is kept on the same kind of device. The number of buffers must stay the same,
    because the saved states are those of the halves.

    Args:
        config: config of the run.
        before: config of the checkpoint's run.
        manifest: manifest of the checkpoint.
        device: device of this rank.
    """
    numerics = manifest.get("numerics")
    if (
        config.train.precision == "auto"
        and isinstance(numerics, dict)
        and numerics.get("device") == device.type
    ):
        config = config.with_values("train", precision="bf16" if numerics.get("bf16") else "fp32")
    if config.vec.num_buffers == "auto":
        if config.vec.backend == "auto":
            config = config.with_values("vec", backend=before.vec.backend)
        config = config.with_values("vec", num_buffers=before.vec.num_buffers)
    return config


def actor_weights(found: Checkpoint, name: str) -> dict[str, Any]:
    """Return a policy's weights from a checkpoint.

    Raises:
        CheckpointError: the checkpoint has no such policy.
    """
    if name not in found.tensors:
        raise CheckpointError(
            f"the checkpoint has no policy {name!r}: it has {', '.join(found.manifest['policies'])}"
        )
    return found.tensors[name]


@dataclasses.dataclass
class Counters:
    """The counters that a resumed run continues."""

    agent_steps: int = 0  # valid transitions
    env_steps: int = 0  # transitions of envs, filler included
    updates: int = 0
    elapsed_s: float = 0.0


class Saver:
    """The writer and loader of a run's checkpoints."""

    def __init__(
        self,
        setup: Setup,
        files: RunFiles,
        learner: Learner,
        collector: Part,
        generators: Generators,
        threads: int,
    ) -> None:
        """Collect the parts whose state is saved.

        Args:
            setup: the run.
            files: the run folder.
            learner: see learner.py.
            collector: see collector.py.
            generators: see learner.py.
            threads: number of threads of the learner, for the manifest.
        """
        self._parts: tuple[Part, ...] = (learner, collector, generators)
        self._setup, self._files, self._learner = setup, files, learner
        self._threads = threads
        self._last_s = time.monotonic()
        self.updates = -1  # number of updates in the most recent checkpoint

    def due(self) -> bool:
        """Return True once `log.checkpoint_interval_s` has passed since the last checkpoint."""
        return time.monotonic() - self._last_s >= self._setup.run.config.log.checkpoint_interval_s

    def postpone(self) -> None:
        """Restart the interval until the next checkpoint is due."""
        self._last_s = time.monotonic()

    def save(self, counters: Counters, elapsed_s: float, note: Callable[[str], None]) -> Path:
        """Write a checkpoint and return its folder; all ranks must call it.

        Args:
            counters: counters of the run.
            elapsed_s: duration of the run so far.
            note: called with a message if the run folder was deleted.

        Raises:
            SaveError: the checkpoint could not be written (checkpoint.py).
        """
        ranks, tensors = self._setup.ranks, self.state()
        path: Path | None = None
        failure: Exception | None = None
        if ranks.first:
            try:
                self._files.refind(note)
                manifest = self._manifest(dataclasses.replace(counters, elapsed_s=elapsed_s))
                found = ckpt.Checkpoint(manifest, tensors)
                keep = self._setup.run.config.log.keep_checkpoints
                path = ckpt.write(self._files.folder / CHECKPOINTS, found, keep)
            except (OSError, ConfigError) as error:
                failure = error
        shared, words = ranks.broadcast_object([path and str(path), failure and str(failure)])
        if words is not None:
            raise ckpt.SaveError(words)
        self.postpone()
        self.updates = counters.updates
        return Path(shared)

    def state(self) -> dict[str, Tensors]:
        """Return the state of all parts by file stem.

        All ranks must call it; the first rank receives the state of all ranks.
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
        """Load `state` and return notes on what cannot be resumed.

        Raises:
            CheckpointError: the state does not fit the run.
        """
        rank = self._setup.ranks.rank
        mine = {stem: tensors for stem, tensors in files.items() if stem not in OWN}
        mine |= {stem: files[name] for stem in OWN if (name := stem_of(stem, rank)) in files}
        try:
            # For other ranks the file is missing if fewer ranks saved.
            if rank == 0 and "random" not in mine:
                raise KeyError("random")
            return [note for part in self._parts for note in part.load_state(mine)]
        except (KeyError, IndexError, TypeError, RuntimeError, ValueError, OverflowError) as error:
            raise CheckpointError(f"this checkpoint does not fit the run: {error}") from error

    def _manifest(self, counters: Counters) -> dict[str, Any]:
        config, opponents = self._setup.run.config, self._setup.opponents
        return {
            "env": config.target,
            "spec_hash": self._setup.spec_hash,
            "config": {"target": config.target, **config.tables()},
            "counters": vars(counters),
            "policies": {
                name: {
                    "class": type(newest(policy)).__name__,
                    "group": self._setup.run.rows[name].group.name,
                }
                | ({"opponents": list(opponents[name].sources)} if name in opponents else {})
                for name, policy in self._learner.policies.items()
            },
            "versions": {"puffervec": puffervec.__version__, "torch": torch.__version__},
            "numerics": self.numerics(),
        }

    def numerics(self) -> dict[str, Any]:
        """Return what the bytes of a run depend on besides its config and checkpoint.

        This goes into the manifest. The numbers of threads are included for information only: the
        bytes do not depend on them (device.py).
        """
        return {
            "torch": torch.__version__,
            "device": self._setup.run.device.type,
            "bf16": self._setup.bf16,
            "cpu": torch.backends.cpu.get_cpu_capability(),
            "compiled": self._learner.compiled,
            "ranks": self._setup.ranks.size,
            "threads": self._threads,
            "torch_threads": torch.get_num_threads(),
        }

    def restore(self, found: ckpt.Checkpoint) -> tuple[Counters, list[str]]:
        """Load a checkpoint into the run.

        Returns:
            Its counters, and notes on how the run may differ from one that was never stopped.

        Raises:
            CheckpointError: the checkpoint does not fit the run.
        """
        notes = self.load_state(found.tensors)
        before, now = found.manifest.get("numerics"), self.numerics()
        if isinstance(before, dict):
            changed = [key for key in _DECISIVE if key in before and before[key] != now[key]]
            words = ", ".join(f"{key} {str(before[key])[:40]} -> {now[key]}" for key in changed)
            if changed:
                notes.append(
                    "resumes, but the last bits of numbers may differ from a run that was never "
                    f"stopped: {words}"
                )
        known = {field.name for field in dataclasses.fields(Counters)}
        counters = Counters(
            **{key: value for key, value in found.manifest["counters"].items() if key in known}
        )
        self.updates = counters.updates
        return counters, notes
