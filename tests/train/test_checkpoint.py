# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import hashlib
import json
import os
import pickle
import resource
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from puffervec.errors import CheckpointError
from puffervec.train.run import checkpoint as ckpt
from tests.train.saved import some, value_of


def test_round_trip(tmp_path: Path) -> None:
    path = ckpt.write(tmp_path, some(12), keep=3)
    assert path.name == "000000000012"
    found = ckpt.read(path)
    torch.testing.assert_close(found.tensors["default"]["w"], torch.ones(2, 3))
    assert found.tensors["random"]["actions"].tolist() == [0, 1, 2, 3]
    assert found.manifest["format_version"] == 1
    assert set(ckpt.read(path, only=("default",)).tensors) == {"default"}
    torch.testing.assert_close(
        load_file(path / "default.safetensors")["w"], torch.ones(2, 3)
    )  # safetensors alone


def test_keeps_the_newest(tmp_path: Path) -> None:
    for steps in (5, 50, 7000, 900):
        ckpt.write(tmp_path, some(steps), keep=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000000000900", "000000007000"]
    found = ckpt.newest(tmp_path)
    assert (
        found is not None and found.name == "000000000900"
    )  # The one that was saved last: a run may go on from an older one.


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
        (last / name).write_bytes(
            data[:-20] if damage == "cut" else data[:10] + bytes([data[10] ^ 255]) + data[11:]
        )
    assert value_of(ckpt.newest(tmp_path)) == 1.0
    with pytest.raises(
        CheckpointError,
        match=name if damage != "flip" or name != "manifest.json" else "manifest|damaged",
    ):
        ckpt.read(last)


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
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["files"]["default.safetensors"] = hashlib.sha256(
        (path / "default.safetensors").read_bytes()
    ).hexdigest()
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(
        CheckpointError, match="default.safetensors"
    ):  # right hash, still no safetensors
        ckpt.read(path)
    assert not canary.exists()


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "[" * 100_000, '{"format_version": 2}', '{"format_version": 1}']
)
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


def test_the_one_saved_last_counts_whatever_its_step(tmp_path: Path) -> None:
    """A run that goes on from an older checkpoint than its last saves smaller steps: they are kept,
    and are the newest.
    """
    for steps in (100, 200):
        ckpt.write(tmp_path, some(steps, float(steps)), keep=2)
    (tmp_path / "000000000200" / "default.safetensors").write_bytes(b"")
    ckpt.write(tmp_path, some(150, 150.0), keep=2)
    assert value_of(ckpt.newest(tmp_path)) == 150.0
    ckpt.write(tmp_path, some(160, 160.0), keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["000000000160"]


@pytest.mark.parametrize("name", ["manifest.json", "random.safetensors"])
def test_what_is_passed_over_is_named(tmp_path: Path, name: str) -> None:
    good = ckpt.write(tmp_path, some(1), keep=5)
    bad = ckpt.write(tmp_path, some(2), keep=5)
    (bad / name).write_bytes(b"")
    notes: list[str] = []
    assert ckpt.newest(tmp_path, notes.append) == good
    (note,) = notes
    assert note.startswith(f"skipped the checkpoint {bad}: ") and name in note
    notes.clear()
    ckpt.write(
        tmp_path, some(3), keep=2
    )  # Where one must go, it is the damaged one that cannot even be read.
    assert good.is_dir() is (name == "manifest.json")


def test_weights_that_layers_share_are_saved(tmp_path: Path) -> None:
    shared = torch.ones(3)
    made = ckpt.Checkpoint(
        some(1).manifest, {"default": {"a": shared, "b": shared, "c": shared[1:]}}
    )
    found = ckpt.read(ckpt.write(tmp_path, made, keep=1)).tensors["default"]
    assert {name: tensor.tolist() for name, tensor in found.items()} == {
        "a": [1.0] * 3,
        "b": [1.0] * 3,
        "c": [1.0] * 2,
    }


# ---- made to do harm -----------------------------------------------------------------------------


def with_manifest(path: Path, **changes: Any) -> Path:
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, **changes}))
    return path


@pytest.mark.parametrize("name", ["default.safetensors", "manifest.json"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_only_plain_files_are_read(tmp_path: Path, name: str, kind: str) -> None:
    """A link may lead anywhere; a pipe would block for ever."""
    path = ckpt.write(tmp_path / "runs", some(1), keep=1)
    (path / name).rename(tmp_path / "moved")
    if kind == "link":
        (path / name).symlink_to(tmp_path / "moved")
    else:
        os.mkfifo(path / name) if kind == "pipe" else (path / name).mkdir()
    with pytest.raises(
        CheckpointError,
        match=f"cannot read .*{name}: (it is a link|it is not a plain file|Is a directory)",
    ):
        ckpt.read(path)
    assert ckpt.newest(path.parent) is None


def test_linked_folders_are_no_checkpoints(tmp_path: Path) -> None:
    elsewhere = ckpt.write(tmp_path / "elsewhere", some(9), keep=1)
    own = ckpt.write(tmp_path / "own", some(1), keep=1)
    (tmp_path / "own" / "000000000010").symlink_to(elsewhere)
    assert ckpt.newest(tmp_path / "own") == own
    ckpt.write(tmp_path / "own", some(2), keep=1)
    assert elsewhere.is_dir()


@pytest.mark.parametrize(
    "changes",
    [
        {"counters": {"agent_steps": 10**400}},
        {"counters": {"agent_steps": -1}},
        {"counters": {"agent_steps": 1.5}},
        {"counters": {"agent_steps": True}},
        {"counters": {"elapsed_s": float("nan")}},
        {"counters": {"elapsed_s": float("inf")}},
        {"counters": []},
        {"sequence": 2**60},
        {"sequence": "1"},
        {"config": "drive"},
        {"env": None},
        {"policies": {"default": {"class": "MLPPolicy"}}},
        {"policies": {"default": 1}},
        {"files": {"default.safetensors": 1}},
        {"files": {"a\0.safetensors": "0"}},
        {"files": {"\ud800.safetensors": "0"}},
        {"files": {"..": "0"}},
        {"files": ["default.safetensors"]},
    ],
)
def test_manifests_of_other_kinds_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    path = with_manifest(ckpt.write(tmp_path, some(1), keep=1), **changes)
    with pytest.raises(CheckpointError, match="manifest.json") as caught:
        ckpt.read(path)
    assert len(str(caught.value)) < 400 and str(caught.value).isprintable()


def test_a_manifest_has_a_size_limit(tmp_path: Path) -> None:
    path = ckpt.write(tmp_path, some(1), keep=1)
    with (path / "manifest.json").open("r+b") as file:
        file.truncate(2**40)  # takes no room on the disk
    with pytest.raises(CheckpointError, match="1099511627776 bytes, more than 1048576"):
        ckpt.read(path)


def crafted(tmp_path: Path, data: bytes, size: int | None = None) -> Path:
    """A checkpoint whose weights are `data`, grown to `size` with a hole, and whose manifest has
    the right hash.
    """
    path = ckpt.write(tmp_path, some(1), keep=1)
    with (path / "default.safetensors").open("wb") as file:
        file.write(data)
        file.truncate(len(data) if size is None else size)
    return with_manifest(path, files={"default.safetensors": hashlib.sha256(data).hexdigest()})


def head(text: str | bytes, length: int | None = None) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return (len(raw) if length is None else length).to_bytes(8, "little") + raw


def entry(shape: str, begin: int, end: int) -> str:
    return f'{{"dtype":"F32","shape":{shape},"data_offsets":[{begin},{end}]}}'


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"1234567",
        head("{}", 2**63),
        head("{}", 3),
        head("[" * 100_000),
        head('{"a":' * 100_000),
        head('{"w":' + entry("[1]", 0, 4) + "}"),  # no data behind it
        head('{"w":' + entry("[4]", 0, 4) + "}") + bytes(4),  # a shape of more
        head('{"w":' + entry("[4294967296,4294967296]", 0, 4) + "}") + bytes(4),
        head('{"w":' + entry("[0,9223372036854775807,9]", 0, 0) + "}"),
        head('{"w":' + entry("[-1]", 0, 4) + "}") + bytes(4),
        head('{"w":' + entry("[1]", 4, 0) + "}") + bytes(4),
        head('{"a":' + entry("[2]", 0, 8) + ',"b":' + entry("[2]", 4, 12) + "}")
        + bytes(12),  # overlap
        head('{"a":' + entry("[1]", 0, 4) + ',"b":' + entry("[1]", 8, 12) + "}")
        + bytes(12),  # a hole
        head('{"w":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}}') + bytes(4),
        head(b"\xff\xff"),
    ],
)
def test_heads_that_lie_are_refused(tmp_path: Path, data: bytes) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CheckpointError, match="default.safetensors"):
        ckpt.read(crafted(tmp_path, data))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # KiB


def test_sizes_beyond_memory_are_refused_before_they_are_taken(tmp_path: Path) -> None:
    path = crafted(tmp_path, head("{}"), size=2**42)
    with pytest.raises(
        CheckpointError, match="4398046511104 bytes and needs .* bytes are available"
    ):
        ckpt.read(path)
    with pytest.raises(CheckpointError, match=f"states a header of {2**41}"):
        ckpt.read(crafted(tmp_path, head("{}", 2**41), size=2**42))


def test_a_size_beyond_this_machine_is_refused_before_it_is_hashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = crafted(tmp_path / "checkpoints", head("{}"), size=2**42)
    monkeypatch.setattr(ckpt.hashlib, "file_digest", lambda *_: pytest.fail("hashed"))
    notes: list[str] = []
    assert ckpt.newest(tmp_path / "checkpoints", notes.append) is None
    assert str(path) in notes[0] and "larger than this machine's memory" in notes[0]
