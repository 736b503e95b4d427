# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Checkpoint format 1: a folder of safetensors and JSON files. Nothing in it can run code.

    checkpoints/000001234567/        named by agent-steps
        manifest.json                format_version, env id, spec hash, config, counters, policies, sha256 of every other file
        <policy>.safetensors         the weights alone, as torch names them
        optimizer.safetensors        <policy>/<parameter index>/<name>
        random.safetensors           states of the random generators
        envs.safetensors             one entry per env (`vec.save`), and the last step of the roll-out; absent where the run was
                                     stopped inside a roll-out: resuming then starts new episodes

A checkpoint is written into a hidden folder beside its place, every file and the folder fsynced, then renamed: what is on disk
under the final name is whole. The newest one that verifies is taken; older ones beyond `keep` are removed after the rename.
Runs in the learner.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
from safetensors.torch import load as load_tensors
from safetensors.torch import save as dump_tensors
from torch import Tensor

from puffervec.errors import CheckpointError

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
_MANIFEST_LIMIT = 16 * 2**20  # bytes; a manifest is a few kilobytes
_HIDDEN = ".partial-"
_NAME = re.compile(r"(\d+)(?:-(\d+))?")


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """What is in a checkpoint: the manifest (without file hashes) and named tensors per file stem."""

    manifest: dict[str, Any]
    tensors: dict[str, dict[str, Tensor]]


def write(parent: Path, checkpoint: Checkpoint, keep: int) -> Path:
    """Write a checkpoint under `parent` and remove all but the newest `keep`; return its folder.

    Raises: OSError where the disk refuses; whatever was there before is still there and whole.
    """
    parent.mkdir(parents=True, exist_ok=True)
    final = _free_name(parent, checkpoint.manifest["counters"]["agent_steps"])
    partial = parent / f"{_HIDDEN}{os.getpid()}"
    for rest in parent.glob(f"{_HIDDEN}*"):  # Of a run that was killed; the run's lock keeps others out.
        shutil.rmtree(rest, ignore_errors=True)
    partial.mkdir()
    try:
        hashes = {}
        for stem, tensors in checkpoint.tensors.items():
            data = dump_tensors({name: tensor.contiguous().cpu() for name, tensor in tensors.items()})
            hashes[f"{stem}.safetensors"] = hashlib.sha256(data).hexdigest()
            _write_file(partial / f"{stem}.safetensors", data)
        manifest = {"format_version": FORMAT_VERSION, **checkpoint.manifest, "files": hashes}
        _write_file(partial / MANIFEST, (json.dumps(manifest, indent=2) + "\n").encode())
        _sync_folder(partial)
        os.rename(partial, final)
        _sync_folder(parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    for path in _folders(parent)[:-keep]:
        shutil.rmtree(path, ignore_errors=True)
    return final


def _free_name(parent: Path, agent_steps: int) -> Path:
    """A name that no checkpoint has yet: the same step saved again gets a number, so that nothing whole is ever moved away."""
    names = (f"{agent_steps:012d}" + (f"-{n}" if n else "") for n in itertools.count())
    return next(parent / name for name in names if not (parent / name).exists())


def _write_file(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _folders(parent: Path) -> list[Path]:
    """Checkpoint folders under `parent`, oldest first."""
    named = ((_NAME.fullmatch(path.name), path) for path in parent.glob("[0-9]*") if path.is_dir())
    return [path for _, path in sorted(((int(m[1]), int(m[2] or 0)), path) for m, path in named if m)]


def newest(parent: Path) -> Path | None:
    """Return the newest checkpoint under `parent` that verifies, or None."""
    for path in reversed(_folders(parent)):
        try:
            read_manifest(path, verify=True)
            return path
        except CheckpointError:
            continue
    return None


def read_manifest(path: Path, verify: bool = False) -> dict[str, Any]:
    """Return the manifest of a checkpoint folder.

    Args: verify: also compare the hash of every file.
    Raises: CheckpointError naming the file and what is wrong with it.
    """
    file = path / MANIFEST
    try:
        if file.stat().st_size > _MANIFEST_LIMIT:
            raise CheckpointError(f"{file} is larger than {_MANIFEST_LIMIT} bytes: this is no checkpoint")
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise error if isinstance(error, CheckpointError) else CheckpointError(f"cannot read {file}: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("format_version") != FORMAT_VERSION:
        version = manifest.get("format_version") if isinstance(manifest, dict) else None
        raise CheckpointError(f"{file} has format_version {version!r}: this version reads {FORMAT_VERSION}")
    missing = [k for k in ("env", "config", "counters", "policies", "spec_hash", "files") if k not in manifest]
    if missing:
        raise CheckpointError(f"{file} lacks {', '.join(missing)}")
    if verify:
        for name, digest in _checked_names(file, manifest).items():
            if hashlib.sha256(_read(path / name)).hexdigest() != digest:
                raise CheckpointError(f"{path / name} is damaged: its hash differs from the manifest's")
    return manifest


def _checked_names(file: Path, manifest: dict[str, Any]) -> Mapping[str, str]:
    """The manifest's file table, refused where a name leads out of the folder."""
    files = manifest["files"]
    if not isinstance(files, dict):
        raise CheckpointError(f"{file}: files is no table")
    for name in files:
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise CheckpointError(f"{file} names {name!r}: only safetensors files in the same folder are read")
    return files


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from error


def read(path: Path, only: tuple[str, ...] | None = None) -> Checkpoint:
    """Return a checkpoint with its tensors on the CPU.

    Args: only: file stems to load; None: all.
    Raises: CheckpointError where a file is missing, damaged or not what the manifest says.
    """
    manifest = read_manifest(path)
    tensors = {}
    for name, digest in _checked_names(path / MANIFEST, manifest).items():
        stem = name.removesuffix(".safetensors")
        if only is not None and stem not in only:
            continue
        data = _read(path / name)
        if hashlib.sha256(data).hexdigest() != digest:
            raise CheckpointError(f"{path / name} is damaged: its hash differs from the manifest's")
        try:
            tensors[stem] = load_tensors(data)
        except (safetensors.SafetensorError, ValueError, KeyError) as error:
            raise CheckpointError(f"cannot read {path / name}: {error}") from error
    return Checkpoint(manifest, tensors)
