# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Checkpoint format 1: a folder of safetensors and JSON files. Nothing in it can run code.

    checkpoints/000001234567/       named by agent-steps
        manifest.json               format_version, env id, spec hash, config, counters, policies,
                                    sha256 of every other file; sequence: position in the order of
                                    saving within the folder, the highest is the newest
        <policy>.safetensors        the weights alone, under torch's names
        optimizer.safetensors       <policy>/<parameter index>/<name>
        random.safetensors          states of the random generators
        pool.safetensors            <policy>/<number>/<name>: members of opponent pools, except the
                                    newest
        returns.safetensors         statistics for reward scaling; only where rewards are scaled
        episodes.safetensors        finished episodes that the logged means cover; absent in
                                    checkpoints of older versions
        envs.safetensors            one entry per env (`vec.save`), and the last step of the
                                    rollout; absent if the run was stopped inside a rollout, in
                                    which case resuming starts new episodes
        ahead.safetensors           with train.asynchronous: the rollout that was collected during
                                    the last update, and the records of the episodes that ended in
                                    it
        random-rank1.safetensors    with several ranks: the same three files for the second rank,
        envs-rank1.safetensors      and so on
        ahead-rank1.safetensors

A checkpoint is written into a hidden folder in the same parent, every file and the folder are
synced, and then the folder is renamed: whatever has the final name on disk is complete. Checkpoints
beyond `keep` are removed once the rename is on disk. Resuming uses the newest checkpoint that
verifies. Reading allocates no more than a few times the size of the files, and checks that against
the free memory first. No link is followed below the run folder, or below a checkpoint that lies
elsewhere (folder.py). Runs in the learner.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any

import psutil
from safetensors.torch import load as load_tensors
from safetensors.torch import save as dump_tensors
from torch import Tensor

from puffervec.errors import CheckpointError, PuffervecError
from puffervec.system.folder import REMOVED, Folder, make_folder, reason
from puffervec.train.config.tables import format_value
from puffervec.train.run.rundir import CHECKPOINTS

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
MANIFEST_LIMIT = 2**20  # bytes; a manifest is a few kilobytes
HEAD_LIMIT = 2**26  # bytes of a safetensors header: some hundred thousand tensors
_MANIFEST_ROOM = 2**16
_NUMBER_LIMIT = 2**53
_COPIES = 2  # While a file is turned into tensors, its bytes are in memory twice.
_HIDDEN = ".partial-"
_NAME = re.compile(r"(\d+)(?:-(\d+))?")
_KINDS = {
    "env": str,
    "config": dict,
    "counters": dict,
    "policies": dict,
    "spec_hash": str,
    "files": dict,
}


class SaveError(PuffervecError, OSError):
    """A checkpoint could not be written; earlier ones are untouched.

    The message states the reason and the remedy.
    """


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """The content of a checkpoint.

    Attributes:
        manifest: the manifest, without file hashes where it is still to be written.
        tensors: named tensors by file stem.
    """

    manifest: dict[str, Any]
    tensors: dict[str, dict[str, Tensor]]


# ---- writing -------------------------------------------------------------------------------------


def write(parent: Path, checkpoint: Checkpoint, keep: int) -> Path:
    """Write a checkpoint under `parent` and remove all but the `keep` most recently saved ones.

    Returns:
        The folder of the new checkpoint.

    Raises:
        SaveError: the file system refuses; earlier checkpoints are still there and complete.
    """
    files = {
        f"{stem}.safetensors": _encoded(tensors) for stem, tensors in checkpoint.tensors.items()
    }
    wanted = sum(map(len, files.values())) + _MANIFEST_ROOM
    before: list[tuple[int, str]] | None = None
    try:
        make_folder(parent.parent)
        with Folder(parent.parent) as run, run.made(parent.name) as saved:
            before = _saved(saved)
            sequence = 1 + max((sequence for sequence, _ in before), default=0)
            name = _write(saved, checkpoint.manifest, files, sequence)
            for _, old in before[: max(0, len(before) + 1 - keep)]:
                saved.remove(old)
    except OSError as error:
        raise SaveError(
            f"cannot save a checkpoint: {reason(error, parent, wanted)}; {_kept(parent, before)}"
        ) from error
    return parent / name


def _encoded(tensors: Mapping[str, Tensor]) -> bytes:
    # Clone, because the format cannot represent weights that two layers share.
    data: bytes = dump_tensors(
        {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    )
    if _head_bytes(data) > HEAD_LIMIT:
        raise SaveError(
            f"the header of {len(tensors)} tensors is larger than {HEAD_LIMIT} bytes: use fewer "
            "envs or tensors"
        )
    return data


def _head_bytes(data: bytes) -> int:
    """Return the JSON header length that a safetensors file states in its first 8 bytes."""
    return int.from_bytes(data[:8], "little")


def _write(
    saved: Folder, manifest: Mapping[str, Any], files: Mapping[str, bytes], sequence: int
) -> str:
    """Write the files into a hidden folder, then rename it, and return the final name.

    An error before the rename removes the hidden folder again.
    """
    # Leftovers of a run that was killed: the run lock keeps other trainers out.
    saved.sweep(_HIDDEN, REMOVED)
    final = _free_name(saved, f"{manifest['counters']['agent_steps']:012d}")
    partial = _free_name(saved, f"{_HIDDEN}{os.getpid()}")
    saved.mkdir(partial)
    try:
        with saved.below(partial) as fresh:
            for name, data in files.items():
                fresh.write(name, [data])
            hashes = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
            whole = {
                "format_version": FORMAT_VERSION,
                "sequence": sequence,
                **manifest,
                "files": hashes,
            }
            fresh.write(MANIFEST, [(json.dumps(whole, indent=2) + "\n").encode()])
            fresh.sync()
        saved.rename(partial, final)
    except BaseException:
        with contextlib.suppress(OSError):
            saved.remove_tree(partial)
        raise
    saved.sync()
    return final


def _free_name(saved: Folder, name: str) -> str:
    """Return `name`, or `name-N` with the smallest N that is free.

    Saving the same step again gets a number, so a complete checkpoint is never moved or replaced.
    """
    names = (f"{name}-{n}" if n else name for n in itertools.count())
    return next(name for name in names if saved.kind(name) == "nothing")


def _kept(parent: Path, before: list[tuple[int, str]] | None) -> str:
    """Return a phrase that names the checkpoint that still exists.

    Args:
        before: the result of `_saved`, None if the folder could not be read.
    """
    if before is None:
        return "earlier ones are untouched"
    return (
        f"the checkpoint {parent / before[-1][1]} is kept" if before else "there is no earlier one"
    )


# ---- finding -------------------------------------------------------------------------------------


def _saved(saved: Folder) -> list[tuple[int, str]]:
    """Return (sequence, name) of the checkpoint folders in the order of saving.

    Folders without a readable manifest have the sequence -1 and come first. The order may differ
    from the order of steps, because a run may resume from an older checkpoint than its last.
    """
    found = []
    for name in saved.names():
        named = _NAME.fullmatch(name)
        if named and saved.kind(name) == "folder":
            found.append((_sequence(saved, name), int(named[1]), int(named[2] or 0), name))
    return [(sequence, name) for sequence, _, _, name in sorted(found)]


def _sequence(saved: Folder, name: str) -> int:
    try:
        with saved.below(name) as folder:
            sequence: int = _manifest(folder)["sequence"]
            return sequence
    except (OSError, CheckpointError):
        return -1


def listed(parent: Path) -> list[Path]:
    """Return the checkpoints under `parent` in the order of saving, [] if it is not a folder.

    Raises:
        CheckpointError: `parent` cannot be read.
    """
    try:
        with Folder(parent) as saved:
            return [parent / name for sequence, name in _saved(saved) if sequence >= 0]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise CheckpointError(
            f"cannot read {parent}: {getattr(error, 'strerror', None) or error}"
        ) from error


def newest(parent: Path, note: Callable[[str], None] | None = None) -> Path | None:
    """Return the most recently saved checkpoint under `parent` that verifies, or None.

    Args:
        parent: the folder of checkpoints.
        note: called with a message for each damaged checkpoint that is skipped.

    Raises:
        CheckpointError: `parent` is a link or cannot be read.
    """
    try:
        with Folder(parent.parent) as run, run.below(parent.name) as saved:
            while True:
                names = saved.names()
                found, damaged = _first_whole(saved, _saved(saved))
                # Otherwise the run that writes here has replaced the checkpoints in the meantime.
                if found is not None or names == saved.names():
                    break
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise CheckpointError(
            f"cannot read {parent}: {getattr(error, 'strerror', None) or error}"
        ) from error
    for text in damaged if note else ():
        assert note is not None
        note(text)
    return None if found is None else parent / found


def _first_whole(saved: Folder, listed: list[tuple[int, str]]) -> tuple[str | None, list[str]]:
    """Return the newest checkpoint that verifies, and messages about the newer damaged ones."""
    found, damaged = None, []
    for sequence, name in reversed(listed):
        if found is not None and sequence >= 0:
            continue
        try:
            with saved.below(name) as folder:
                _manifest(folder, verify=True)
            found = name
        except (OSError, CheckpointError) as error:
            if saved.kind(name) == "folder":  # Otherwise it has just been removed.
                damaged.append(f"skipped the checkpoint {saved.path / name}: {error}")
    return found, damaged


# ---- reading -------------------------------------------------------------------------------------


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the manifest of a checkpoint folder; a missing `sequence` is returned as 0.

    Raises:
        CheckpointError: the manifest is missing or damaged; the message names it.
    """
    with _opened(path) as folder:
        return _manifest(folder)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Folder]:
    """Open a checkpoint, through its run folder if it lies in one.

    Any other path is opened as the user named it.

    Raises:
        CheckpointError: the folder cannot be opened.
    """
    try:
        if path.parent.name == CHECKPOINTS:
            with Folder(path.parent.parent) as run, run.below(CHECKPOINTS) as saved:
                folder = saved.below(path.name)
        else:
            folder = Folder(path)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        words = getattr(error, "strerror", None) or str(error)
        raise CheckpointError(f"cannot read {path}: {words}") from error
    with folder:
        yield folder


def _manifest(folder: Folder, verify: bool = False) -> dict[str, Any]:
    file = folder.path / MANIFEST
    with _open(folder, MANIFEST) as (stream, size):
        if size > MANIFEST_LIMIT:
            raise CheckpointError(
                f"{file} has {size} bytes, more than {MANIFEST_LIMIT}: this is not a checkpoint"
            )
        data = stream.read(MANIFEST_LIMIT)
    try:
        manifest = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"cannot read {file}: {error}") from error
    version = manifest.get("format_version") if isinstance(manifest, dict) else None
    if version != FORMAT_VERSION:
        raise CheckpointError(
            f"{file} has format_version {version!r}: this version reads {FORMAT_VERSION}"
        )
    manifest.setdefault("sequence", 0)
    _check_manifest(file, manifest)
    if verify:
        together = 0
        for name, digest in manifest["files"].items():
            with _open(folder, name) as (stream, size):
                together += size
                # A sparse file may claim terabytes.
                if together > psutil.virtual_memory().total:
                    raise CheckpointError(
                        f"{folder.path} cannot be read: its files are larger than this machine's "
                        "memory"
                    )
                _compare(
                    folder.path / name, hashlib.file_digest(stream, "sha256").hexdigest(), digest
                )
    return dict(manifest)


def _check_manifest(file: Path, manifest: Mapping[str, Any]) -> None:
    """Raise CheckpointError if an entry has a wrong type or names a file in another folder."""
    missing = [key for key in _KINDS if key not in manifest]
    if missing:
        raise CheckpointError(f"{file} lacks {', '.join(missing)}")
    for key, kind in _KINDS.items():
        if not isinstance(manifest[key], kind):
            raise CheckpointError(
                f"{file}: {key} is {format_value(manifest[key])}: must be "
                f"{'text' if kind is str else 'a table'}"
            )
    for key, value in {"sequence": manifest["sequence"], **manifest["counters"]}.items():
        kinds = (int, float) if key.endswith("_s") else int
        if (
            isinstance(value, bool)
            or not isinstance(value, kinds)
            or not 0 <= value < _NUMBER_LIMIT
            or math.isnan(value)
        ):
            raise CheckpointError(
                f"{file}: {key} is {format_value(value)}: must be a number from 0 to 2**53"
            )
    for name, policy in manifest["policies"].items():
        if not isinstance(policy, dict) or not all(
            isinstance(policy.get(key), str) for key in ("class", "group")
        ):
            raise CheckpointError(f"{file}: the policy {name!r} has no class and group")
    for name, digest in manifest["files"].items():
        if (
            os.path.basename(name) != name
            or not name.endswith(".safetensors")
            or not name.isprintable()
        ):
            raise CheckpointError(
                f"{file} names {name!r}: only safetensors files in the same folder are read"
            )
        if not isinstance(digest, str):
            raise CheckpointError(
                f"{file}: the hash of {name} is {format_value(digest)}: must be text"
            )


def _compare(path: Path, found: str, expected: str) -> None:
    if found != expected:
        raise CheckpointError(f"{path} is damaged: its hash differs from the manifest's")


@contextlib.contextmanager
def _open(folder: Folder, name: str) -> Iterator[tuple[BufferedReader, int]]:
    """Open a plain file and yield it with its size in bytes.

    Raises:
        CheckpointError: the file cannot be opened, or is a link, a pipe or a device.
    """
    try:
        with os.fdopen(folder.open(name), "rb") as stream:
            yield stream, os.fstat(stream.fileno()).st_size
    except (OSError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        words = getattr(error, "strerror", None) or str(error)
        raise CheckpointError(f"cannot read {folder.path / name}: {words}") from error


def read(path: Path, only: tuple[str, ...] | None = None) -> Checkpoint:
    """Read a checkpoint with its tensors on the CPU.

    Args:
        path: the checkpoint folder.
        only: file stems to load; None loads all.

    Raises:
        CheckpointError: a file is missing, damaged, too large for the free memory, or differs from
            the manifest.
    """
    tensors = {}
    with _opened(path) as folder:
        manifest = _manifest(folder)
        for name, digest in manifest["files"].items():
            stem = name.removesuffix(".safetensors")
            if only is None or stem in only:
                tensors[stem] = _decoded(folder, name, digest)
    return Checkpoint(manifest, tensors)


def _decoded(folder: Folder, name: str, digest: str) -> dict[str, Tensor]:
    """Return the tensors of a file.

    The library checks shapes, offsets and overlaps against the real size of the file.
    """
    path = folder.path / name
    with _open(folder, name) as (stream, size):
        head = _head_bytes(stream.read(8))
        if size < 8 or head > min(size - 8, HEAD_LIMIT):
            raise CheckpointError(
                f"{path} is damaged: it has {size} bytes and states a header of {head}; at most "
                f"{HEAD_LIMIT} are allowed"
            )
        free = psutil.virtual_memory().available
        if size * _COPIES > free:
            raise CheckpointError(
                f"{path} has {size} bytes and needs twice as much memory to load: {free} bytes "
                "are available"
            )
        stream.seek(0)
        data = stream.read(size)
    _compare(path, hashlib.sha256(data).hexdigest(), digest)
    try:
        tensors: dict[str, Tensor] = load_tensors(data)
    except Exception as error:  # A malicious file may make the library raise anything.
        raise CheckpointError(f"cannot read {path}: {error}") from error
    return tensors
