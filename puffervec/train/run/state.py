# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""How the state of a run lies in the files of a checkpoint: each part of the trainer says its own, by file stem.

    learner.py      <policy>, optimizer              the same on all ranks: the first one's are kept
    collector.py    returns, episodes                likewise
                    envs, ahead                      of each rank: envs-rank1 and so on
    generators.py   random                           likewise

With all of it a resumed run is byte for byte the run that was never stopped, on a CPU of the same kind with the same torch:
`Saver.numerics` (saving.py) is what the sums depend on. Where `time_limit_s` lets the step size fall with the clock (it does
not with `train.deterministic`), no two runs are alike; and a run that was stopped inside an update lost the rest of it. Runs in
the learner.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from safetensors.torch import load as load_tensors
from safetensors.torch import save as dump_tensors
from torch import Tensor

from puffervec.core.spec import GroupSpec
from puffervec.errors import CheckpointError, ConfigError
from puffervec.train.config.sections import TrainConfig
from puffervec.train.device.ranks import Ranks
from puffervec.train.policies.registry import fitting_kind
from puffervec.train.run.checkpoint import Checkpoint

Tensors = dict[str, Tensor]
Files = Mapping[str, Tensors]
OWN = ("random", "envs", "ahead")  # File stems of what each rank has of its own.
_SHARED = ("optimizer", "returns", "episodes")  # The other stems beside those of policies.


class Part(Protocol):
    """A part of the trainer that a checkpoint keeps."""

    def state(self) -> dict[str, Tensors]:
        """Return the part's state by file stem. Copies where the run would go on writing."""

    def load_state(self, files: Files) -> list[str]:
        """Put `state` into a freshly started run; return in words what cannot be gone on with.

        Raises: KeyError, IndexError, TypeError, RuntimeError, ValueError, OverflowError where it does not fit.
        """


def gathered(parts: Iterable[Part], ranks: Ranks) -> dict[str, Tensors]:
    """Return the state of all parts by file stem. All ranks must call it; the first one gets that of all."""
    files = {stem: tensors for part in parts for stem, tensors in part.state().items()}
    if ranks.size == 1:
        return files
    own = {stem: files.pop(stem) for stem in OWN if stem in files}
    packed = dump_tensors(
        {f"{stem}/{name}": tensor.cpu().contiguous().clone() for stem, part in own.items() for name, tensor in part.items()}
    )
    for rank, data in enumerate(ranks.gather(packed)):
        for key, tensor in load_tensors(data).items():
            stem, _, name = key.partition("/")
            files.setdefault(stem_of(stem, rank), {})[name] = tensor
    return files


def load(parts: Sequence[Part], files: Files, rank: int) -> list[str]:
    """Put what `gathered` has returned into the parts of a rank; return in words what cannot be gone on with.

    Raises: CheckpointError where something is missing or does not fit.
    """
    mine = {stem: tensors for stem, tensors in files.items() if stem not in OWN}
    mine |= {stem: files[name] for stem in OWN if (name := stem_of(stem, rank)) in files}
    try:
        if rank == 0 and "random" not in mine:  # That of other ranks is missing where fewer of them saved.
            raise KeyError("random")
        return [note for part in parts for note in part.load_state(mine)]
    except (KeyError, IndexError, TypeError, RuntimeError, ValueError, OverflowError) as error:
        raise CheckpointError(f"this checkpoint does not fit the run: {error}") from error


def fitting(tensors: Mapping[str, Tensor], name: str, like: Tensor) -> Tensor:
    """Return a tensor of a checkpoint that has the shape of `like`. Raises: KeyError, ValueError."""
    found = tensors[name]
    if found.shape != like.shape:
        raise ValueError(f"{name} has the shape {tuple(found.shape)}, not {tuple(like.shape)}")
    return found


def check_names(policies: Iterable[str]) -> None:
    """Raise ConfigError for names of policies (those of an env's row groups) under which weights cannot be saved."""
    for name in policies:
        stem = re.sub(r"-rank\d+$", "", name)
        if stem in (*OWN, *_SHARED) or not re.fullmatch(r"\w[\w.-]{0,99}", name):
            raise ConfigError(
                f"the env's row group {name!r} has a name that its weights cannot be saved under: use letters, digits, _, - "
                f"and ., up to 100, and none of {', '.join((*_SHARED, *OWN))}"
            )


def stem_of(stem: str, rank: int) -> str:
    """Return the file stem of what each rank has of its own: `random`, `envs`, `ahead`."""
    return f"{stem}-rank{rank}" if rank else stem


def stems_for(rank: int, manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the file stems of a checkpoint that a rank goes on from: all but those of other ranks."""
    stems = [name.removesuffix(".safetensors") for name in manifest["files"]]
    others = {stem for stem in stems for own in OWN if stem.partition("-rank")[0] == own} - {stem_of(own, rank) for own in OWN}
    return tuple(stem for stem in stems if stem not in others)


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
    kinds = {fitting_kind(group) for group in groups}
    if config.policy.kind == "auto" and kinds == {"cnn"} and set(made.values()) == {"MLPPolicy"}:
        changed["kind"] = "mlp"
    return config.merged({"policy": changed})


def actor_weights(found: Checkpoint, name: str) -> dict[str, Any]:
    """Return a policy's weights from a checkpoint.

    Raises: CheckpointError where the checkpoint has no such policy.
    """
    if name not in found.tensors:
        raise CheckpointError(f"the checkpoint has no policy {name!r}: it has {', '.join(found.manifest['policies'])}")
    return found.tensors[name]
