# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from puffervec.errors import CheckpointError
from puffervec.train import checkpoint as ckpt


def some(steps: int, value: float = 1.0) -> ckpt.Checkpoint:
    manifest: dict[str, Any] = {
        "env": "probe",
        "config": {},
        "counters": {"agent_steps": steps},
        "policies": {"default": {}},
        "spec_hash": "x",
    }
    tensors = {"default": {"w": torch.full((2, 3), value)}, "random": {"actions": torch.arange(4, dtype=torch.uint8)}}
    return ckpt.Checkpoint(manifest, tensors)


def value_of(path: Path | None) -> float:
    assert path is not None
    return float(ckpt.read(path).tensors["default"]["w"][0, 0])


def test_round_trip(tmp_path: Path) -> None:
    path = ckpt.write(tmp_path, some(12), keep=3)
    assert path.name == "000000000012"
    found = ckpt.read(path)
    torch.testing.assert_close(found.tensors["default"]["w"], torch.ones(2, 3))
    assert found.tensors["random"]["actions"].tolist() == [0, 1, 2, 3]
    assert found.manifest["format_version"] == 1
    assert set(ckpt.read(path, only=("default",)).tensors) == {"default"}
    torch.testing.assert_close(load_file(path / "default.safetensors")["w"], torch.ones(2, 3))  # safetensors alone


def test_keeps_the_newest(tmp_path: Path) -> None:
    for steps in (5, 50, 7000, 900):
        ckpt.write(tmp_path, some(steps), keep=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000000000900", "000000007000"]


def test_the_same_step_twice_is_the_newer_one(tmp_path: Path) -> None:
    ckpt.write(tmp_path, some(5, 1.0), keep=5)
    ckpt.write(tmp_path, some(5, 2.0), keep=5)
    assert value_of(ckpt.newest(tmp_path)) == 2.0
    ckpt.write(tmp_path, some(5, 3.0), keep=1)
    assert value_of(ckpt.newest(tmp_path)) == 3.0
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", ["default.safetensors", "random.safetensors", "manifest.json"])
@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_a_damaged_one_is_passed_over(tmp_path: Path, name: str, damage: str) -> None:
    ckpt.write(tmp_path, some(1, 1.0), keep=5)
    last = ckpt.write(tmp_path, some(2, 2.0), keep=5)
    data = (last / name).read_bytes()
    if damage == "gone":
        (last / name).unlink()
    else:
        (last / name).write_bytes(data[:-20] if damage == "cut" else data[:10] + bytes([data[10] ^ 255]) + data[11:])
    assert value_of(ckpt.newest(tmp_path)) == 1.0
    with pytest.raises(CheckpointError, match=name if damage != "flip" or name != "manifest.json" else "manifest|damaged"):
        ckpt.read(last)


class Failing:
    """Lets the n-th call of some os functions fail, once or for ever."""

    def __init__(self, patch: pytest.MonkeyPatch, nth: int, for_ever: bool) -> None:
        self.calls, self.nth, self.for_ever = 0, nth, for_ever
        for name in ("fsync", "rename", "open"):
            patch.setattr(ckpt.os, name, self.wrap(getattr(os, name)))

    def wrap(self, real: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            if self.calls == self.nth or (self.for_ever and self.calls > self.nth):
                raise OSError(28, "No space left on device")
            return real(*args, **kwargs)

        return call


@pytest.mark.parametrize("for_ever", [False, True])
def test_any_failing_call_leaves_an_old_or_a_new_one(tmp_path: Path, for_ever: bool) -> None:
    ckpt.write(tmp_path, some(1, 1.0), keep=1)
    survived = 0
    for nth in range(1, 40):
        with pytest.MonkeyPatch.context() as patch:
            Failing(patch, nth, for_ever)
            try:
                ckpt.write(tmp_path, some(1 + nth, 2.0), keep=1)
                survived += 1
            except OSError:
                pass
        assert ckpt.newest(tmp_path) is not None
    ckpt.write(tmp_path, some(100), keep=1)
    assert [p.name for p in tmp_path.iterdir()] == ["000000000100"]  # What could not be removed then is removed now.
    assert 0 < survived < 39  # some calls did fail


def test_files_elsewhere_are_not_read(tmp_path: Path) -> None:
    path = ckpt.write(tmp_path / "a", some(1), keep=1)
    secret = tmp_path / "secret.safetensors"
    secret.write_bytes((path / "default.safetensors").read_bytes())
    for name in ("../../secret.safetensors", str(secret), "weights.bin"):
        manifest = json.loads((path / "manifest.json").read_text())
        manifest["files"] = {name: "0"}
        (path / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(CheckpointError, match="only safetensors"):
            ckpt.read(path)


class Canary:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def test_a_pickle_is_not_run(tmp_path: Path) -> None:
    path = ckpt.write(tmp_path, some(1), keep=1)
    canary = tmp_path / "canary"
    (path / "default.safetensors").write_bytes(pickle.dumps(Canary(canary)))
    with pytest.raises(CheckpointError):
        ckpt.read(path)
    import hashlib

    manifest = json.loads((path / "manifest.json").read_text())
    manifest["files"]["default.safetensors"] = hashlib.sha256((path / "default.safetensors").read_bytes()).hexdigest()
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match="default.safetensors"):  # right hash, still no safetensors
        ckpt.read(path)
    assert not canary.exists()


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '{"format_version": 2}', '{"format_version": 1}'])
def test_bad_manifests_are_refused(tmp_path: Path, text: str) -> None:
    path = ckpt.write(tmp_path, some(1), keep=1)
    (path / "manifest.json").write_text(text)
    with pytest.raises(CheckpointError, match="manifest.json"):
        ckpt.read(path)
    assert ckpt.newest(tmp_path) is None


def test_strange_neighbours_are_ignored(tmp_path: Path) -> None:
    ckpt.write(tmp_path, some(3), keep=1)
    (tmp_path / "9x").mkdir()
    (tmp_path / "99999").touch()
    ckpt.write(tmp_path, some(4), keep=1)
    assert (tmp_path / "9x").is_dir()
    newest = ckpt.newest(tmp_path)
    assert newest is not None and newest.name == "000000000004"
