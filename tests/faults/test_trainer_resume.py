# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""2N updates in one go are byte for byte N updates, a checkpoint, a new process and N more
(puffervec/train/run/state.py): weights, optimizer, random states, env states, counters; without
workers and with one or two.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import hashlib, json, sys
from pathlib import Path
import torch
from torch import nn
from puffervec.train import TrainConfig, Trainer
from puffervec.train.run import state
from puffervec.train.policies.registry import build_policy

N = 5
VECS = {
    "serial": {"backend": "serial"},
    "one worker": {"backend": "multiprocessing", "num_workers": 1, "split": "envs"},
    "two workers": {"backend": "multiprocessing", "num_workers": 2},
}
ENVS = {
    "probe": {"num_agents": 3, "episode_length": 5, "end_kind": 2, "leave": 1},
    "tag_grid": {},
}


class Forgetful(nn.Module):
    "A layer that draws from torch's own generator."

    def __init__(self, env, vec):
        super().__init__()
        self.inner = make(env, vec)
        self.drop = nn.Dropout(0.2)

    def initial_state(self, rows):
        return self.inner.initial_state(rows)

    def forward(self, obs, state, reset, mask):
        return self.inner(self.drop(obs), state, reset, mask)


def config_of(env, vec, folder):
    return TrainConfig.of(
        env,
        env=ENVS[env],
        vec={"num_envs": 4, **VECS[vec]},
        policy={"hidden": (16,)},
        train={"horizon": 8, "device": "cpu", "precision": "fp32", "threads": 1,
               "total_timesteps": 100_000},
        log={"dashboard": "off", "folder": str(folder), "name": f"{env} {vec} {folder.name}"},
    )

def trainer_of(env, vec, folder, **more):
    return Trainer(config_of(env, vec, folder), policies=policies(env, vec), **more)


def make(env, vec):
    from puffervec.train.config import target
    config = config_of(env, vec, Path("nowhere"))
    return build_policy(target.env_spec(config).groups[0], config.policy)


def learn(trainer, updates):
    for _ in range(updates):
        assert trainer.collect()
        trainer.update()


def digest(trainer):
    files = {}
    for stem, tensors in trainer.saver.state().items():
        whole = hashlib.sha256()
        for name in sorted(tensors):
            tensor = tensors[name].detach().contiguous()
            whole.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            whole.update(tensor.flatten().view(torch.uint8).numpy().tobytes())
        files[stem] = whole.hexdigest()
    counters = trainer.counters
    return {**files, "counters": [counters.agent_steps, counters.env_steps, counters.updates]}


def policies(env, vec):
    return {"default": Forgetful(env, vec)} if env == "probe" else None


mode, folder = sys.argv[1], Path(sys.argv[2])
found = {}
for env in ENVS:
    for vec in VECS:
        torch.manual_seed(5)
        key = f"{env}, {vec}"
        if mode == "first":
            with trainer_of(env, vec, folder / "straight") as trainer:
                learn(trainer, 2 * N)
                found[key] = digest(trainer)
            torch.manual_seed(5)
            with trainer_of(env, vec, folder / "halves") as trainer:
                learn(trainer, N)
                trainer.save()
        else:
            run = folder / "halves" / f"{env} {vec} halves"
            (path,) = (run / "checkpoints").iterdir()
            with trainer_of(env, vec, folder / "halves", checkpoint=path) as trainer:
                learn(trainer, N)
                found[key] = digest(trainer)
print(json.dumps(found))
"""


def digests(mode: str, folder: Path) -> dict[str, dict[str, object]]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, mode, str(folder)], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, object]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
def test_resumed_in_a_new_process(tmp_path: Path) -> None:
    straight, resumed = digests("first", tmp_path), digests("second", tmp_path)
    assert len(straight) == 6
    for key, expected in straight.items():
        assert {"default", "optimizer", "random", "envs", "counters"} <= expected.keys()
        assert resumed[key] == expected, key
    for env in ("probe", "tag_grid"):  # And who steps the envs is no matter.
        same = [expected["default"] for key, expected in straight.items() if key.startswith(env)]
        assert len(set(map(str, same))) == 1
