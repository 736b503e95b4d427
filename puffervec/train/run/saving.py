# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Checkpoints of a run: the state of its parts is gathered from all ranks and written by the first; and back. Runs in the
learner.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import puffervec
from puffervec.errors import ConfigError
from puffervec.train.run import checkpoint as ckpt
from puffervec.train.run import rundir
from puffervec.train.run.collector import Collector
from puffervec.train.run.files import RunFiles
from puffervec.train.run.generators import Generators
from puffervec.train.run.learner import Learner
from puffervec.train.run.setup import Setup
from puffervec.train.run.state import Files, Part, Tensors, gathered, load

_DECISIVE = ("torch", "device", "bf16", "cpu", "compiled", "ranks")
Note = Callable[[str], None]


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
        self, setup: Setup, files: RunFiles, learner: Learner, collector: Collector, generators: Generators, threads: int
    ) -> None:
        """Args: threads: of the learner, for the manifest."""
        self._parts: tuple[Part, ...] = (learner, collector, generators)
        self._setup, self._files, self._learner, self._slots = setup, files, learner, collector.slots
        self._threads = threads
        self._last_s = time.monotonic()
        self.updates = -1  # that the checkpoint saved last has

    def due(self) -> bool:
        """True once `log.checkpoint_interval_s` have passed since the last one."""
        return time.monotonic() - self._last_s >= self._setup.config.log.checkpoint_interval_s

    def postpone(self) -> None:
        """Wait for another interval."""
        self._last_s = time.monotonic()

    def save(self, counters: Counters, elapsed_s: float, note: Note) -> Path:
        """Write a checkpoint; return its folder. All ranks must call it. Raises: checkpoint.SaveError.

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
                path = ckpt.write(self._files.folder / rundir.CHECKPOINTS, found, self._setup.config.log.keep_checkpoints)
            except (OSError, ConfigError) as error:
                failure = error
        shared, words = ranks.share([path and str(path), failure and str(failure)])
        if words is not None:
            raise ckpt.SaveError(words)
        self.postpone()
        self.updates = counters.updates
        return Path(shared)

    def state(self) -> dict[str, Tensors]:
        """Return the state of all parts by file stem. All ranks must call it; the first one gets that of all."""
        return gathered(self._parts, self._setup.ranks)

    def load_state(self, files: Files) -> list[str]:
        """Go on from `state`; return in words what cannot be gone on with. Raises: CheckpointError where it does not fit."""
        return load(self._parts, files, self._setup.ranks.rank)

    def _manifest(self, counters: Counters) -> dict[str, Any]:
        config = self._setup.config
        return {
            "env": config.target,
            "spec_hash": self._setup.spec_hash,
            "config": {"target": config.target, **config.tables()},
            "counters": vars(counters),
            "policies": {
                name: {"class": type(policy).__name__, "group": self._slots[name].group.name}
                for name, policy in self._learner.policies.items()
            },
            "versions": {"puffervec": puffervec.__version__, "torch": torch.__version__},
            "numerics": self.numerics(),
        }

    def numerics(self) -> dict[str, Any]:
        """Return what the bytes of a run depend on beside its config and checkpoint, for the manifest; and, for the reader, the
        numbers of threads, which they do not depend on (device.py)."""
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
        """Put a checkpoint into the run; return its counters, and in words how the run may differ from one never stopped.

        Raises: CheckpointError where it does not fit.
        """
        notes = self.load_state(found.tensors)
        before, now = found.manifest.get("numerics"), self.numerics()
        if isinstance(before, dict):
            changed = [key for key in _DECISIVE if key in before and before[key] != now[key]]
            words = ", ".join(f"{key} {str(before[key])[:40]} -> {now[key]}" for key in changed)
            if changed:
                notes.append(f"goes on, but the last bits of numbers may differ from a run that was never stopped: {words}")
        known = {field.name for field in dataclasses.fields(Counters)}
        counters = Counters(**{key: value for key, value in found.manifest["counters"].items() if key in known})
        self.updates = counters.updates
        return counters, notes
