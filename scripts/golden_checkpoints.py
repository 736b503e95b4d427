# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Write small checkpoints of all kinds of policies, with their actions, for later versions to load.

    python scripts/golden_checkpoints.py          write those of this version, unless they exist
    python scripts/golden_checkpoints.py --anew   write them again; only for an unreleased version

They are in tests/train/golden/<version>/. Next to each checkpoint is replay.npz, with observations,
flags and masks of some steps, and the actions of the policy. A later version must choose equal
actions for these observations, even if its envs change.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import puffervec  # noqa: E402
from puffervec.train import LoadedPolicy, TrainConfig, Trainer, load_policy  # noqa: E402

FOLDER = ROOT / "tests" / "train" / "golden"
STEPS, ENVS = 4, 2
PROBE = {"num_agents": 3, "episode_length": 3, "end_kind": 2, "leave": 1}
PYTHON_ENVS, SCENES = "tests.train.envs", "generated:2"

TAG = {"num_taggers": 2, "grid_length": 4, "episode_length": 6}

# The env of each kind, with settings of the env and of the policy.
KINDS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "mlp": ("probe", PROBE, {}),
    "mingru": ("probe", PROBE, {"memory": "mingru"}),
    "lstm-groups-masks": ("probe", {**PROBE, "mode": 1, "num_agents": 2}, {"memory": "lstm"}),
    "object_set": ("tag_grid", TAG, {}),
    "object_attention": ("tag_grid", TAG, {"object_attention": ["others"]}),
    "normalised-continuous": (f"{PYTHON_ENVS}:Aim", {"dtype": "float64"}, {"normalize": True}),
    "joint-choices-lstm": (f"{PYTHON_ENVS}:Guess", {}, {"joint": True, "memory": "lstm"}),
    "cnn": (f"{PYTHON_ENVS}:Pictures", {}, {"channels": [2, 2, 2]}),
    "convnext": (f"{PYTHON_ENVS}:Pictures", {}, {"kind": "convnext", "channels": [4, 4]}),
    "drive": ("drive", {"scenes": SCENES, "num_agents": 6}, {}),
    "covid": ("covid", {"episode_length": 20}, {}),
}


def load(folder: Path) -> LoadedPolicy:
    """Load a kind's checkpoint like a user of a later version, with the code of a Python env."""
    target = json.loads((folder / "checkpoint" / "manifest.json").read_text())["config"]["target"]
    settings = (
        {"scenes": SCENES} if target == "drive" else None
    )  # The scenes of its evaluation take a while to generate.
    return load_policy(
        folder / "checkpoint",
        env=target if target.startswith(PYTHON_ENVS) else None,
        settings=settings,
    )


def by_group(value: Any, groups: Sequence[str]) -> dict[str, Any]:
    """Return a value of the vector env or of `act` as a dict by row group."""
    return value if len(groups) > 1 else {groups[0]: value}


def record_acts(policy: LoadedPolicy) -> dict[str, np.ndarray]:
    """Let a policy act for some steps; return its inputs and actions.

    The keys of the arrays are STEP/WHAT/ROW GROUP.
    """
    arrays: dict[str, np.ndarray] = {}
    env: Any = policy.config.env
    settings = dataclasses.asdict(env) if dataclasses.is_dataclass(env) else env
    with puffervec.make(
        policy.config.target, env_kwargs=settings, backend="serial", num_envs=ENVS
    ) as vec:
        vec.async_reset(0)
        for step in range(STEPS):
            observations = vec.recv()[0]
            groups = vec.halves[0].groups
            for name, observed in by_group(observations, list(groups)).items():
                rows = groups[name]
                fields = observed if isinstance(observed, dict) else {"": observed}
                arrays |= {
                    f"{step}/observations/{name}/{field}": np.array(part)
                    for field, part in fields.items()
                }
                arrays[f"{step}/done/{name}"] = ~rows.masks | rows.terminals | rows.truncations
                if rows.action_masks is not None:
                    arrays[f"{step}/action_masks/{name}"] = np.array(rows.action_masks)
            actions = policy.act(observations, vec)
            arrays |= {
                f"{step}/actions/{name}": np.array(part)
                for name, part in by_group(actions, list(groups)).items()
            }
            vec.send(actions)
        vec.recv()
    return arrays


def replay_acts(policy: LoadedPolicy, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Pass recorded observations, flags and masks to a policy; return its actions by key."""
    result: dict[str, np.ndarray] = {}
    for step in range(STEPS):
        parts: dict[str, dict[str, Any]] = {}
        for name, array in arrays.items():
            number, what, group, *field = name.split("/")
            if int(number) == step and any(field):
                parts.setdefault(what, {}).setdefault(group, {})[field[0]] = array
            elif int(number) == step:
                parts.setdefault(what, {})[group] = array
        groups = list(parts["observations"])
        one = len(groups) == 1
        inputs = {
            what: part[groups[0]] if one else part
            for what, part in parts.items()
            if what != "actions"
        }
        actions = policy.act(
            inputs["observations"], done=inputs["done"], action_mask=inputs.get("action_masks")
        )
        result |= {
            f"{step}/actions/{name}": np.array(part)
            for name, part in by_group(actions, groups).items()
        }
    return result


def keep_weights(checkpoint: Path, folder: Path) -> None:
    """Copy the files of a checkpoint that `load_policy` reads: the manifest and the weights.

    checkpoint_v1 next to them has all files.
    """
    folder.mkdir(parents=True)
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    manifest["config"]["log"]["folder"] = "runs"
    manifest["files"] = {
        name: digest
        for name, digest in manifest["files"].items()
        if name.removesuffix(".safetensors") in manifest["policies"]
    }
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    for name in manifest["files"]:
        shutil.copy2(checkpoint / name, folder / name)


def write(kind: str, folder: Path) -> None:
    """Write the checkpoint and the replay of a kind, for the first seed with different actions."""
    for seed in range(1, 100):
        train_once(kind, seed, folder)
        arrays = record_acts(load(folder))
        actions = [array for name, array in arrays.items() if "/actions/" in name]
        if any((array != array[0]).any() for array in actions):
            break
    np.savez_compressed(folder / "replay.npz", **arrays)  # type: ignore[arg-type]


def train_once(kind: str, seed: int, folder: Path) -> None:
    """Train a policy of a kind for one update and copy its checkpoint."""
    target, env, policy = KINDS[kind]
    train = {"horizon": 4, "minibatch_size": 0, "seed": seed, "device": "cpu"}
    small = {"vec": {"num_envs": ENVS, "backend": "serial"}, "train": train}
    with tempfile.TemporaryDirectory() as scratch:
        config = TrainConfig.of(
            target, **small, env=env, policy={"hidden": (8,), **policy}, log={"folder": scratch}
        )
        with Trainer(config) as trainer:
            trainer.collect()
            trainer.update()
            checkpoint = trainer.save()
        shutil.rmtree(folder, ignore_errors=True)
        keep_weights(checkpoint, folder / "checkpoint")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    flags = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    flags.add_argument("--anew", action="store_true", help="write those of this version again")
    options = flags.parse_args(arguments)
    target = FOLDER / puffervec.__version__
    if target.exists() and not options.anew:
        print(
            f"{target.relative_to(ROOT)} is there already: released checkpoints stay as they are",
            file=sys.stderr,
        )
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        for kind in KINDS:
            write(kind, Path(scratch) / kind)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(scratch, target)
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    print(f"{target.relative_to(ROOT)}: {len(KINDS)} policies, {size / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
