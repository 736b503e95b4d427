# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Fetch public sets of scenes from the Hugging Face Hub and unpack their archives.

Needs the extra `scenes`. Runs in the command `puffer-scenes`. Files that were fetched before are
not fetched again, and interrupted downloads are resumed (huggingface_hub does both). From an
archive only scene files are unpacked, each below the target folder, whatever path the archive
gives.
"""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from drive_env.scenes.reader import MAX_FILE_BYTES, MAX_FILES, SUFFIXES
from puffervec.errors import SceneError
from puffervec.system import extras
from puffervec.system.folder import describe_error, replace_file

# name: repository, contents. All but the CARLA towns come from the Waymo Open Motion Dataset, for
# non-commercial use.
SETS = {
    "gpudrive-mini": (
        "EMERGE-lab/GPUDrive_mini",
        "1,000 scenes to train on and 300 to test on, as JSON",
    ),
    "gpudrive": ("EMERGE-lab/GPUDrive", "100,000 scenes, as JSON"),
    "pufferdrive-train": ("daphne-cornelisse/pufferdrive_womd_train", "10,000 scenes"),
    "pufferdrive-val": ("daphne-cornelisse/pufferdrive_womd_val", "10,000 other scenes"),
    "pufferdrive-mixed": (
        "daphne-cornelisse/pufferdrive_womd_train_carla_mixed",
        "10,000 scenes and two CARLA towns",
    ),
    "pufferdrive-wosac": (
        "daphne-cornelisse/pufferdrive_wosac_val_clean",
        "229 scenes to judge realism on",
    ),
}
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")


@dataclass(frozen=True)
class Unpacked:
    """Numbers of an archive's members that were unpacked, skipped and refused.

    Attributes:
        refused: names of members that would lie elsewhere, are links, or are too large.
    """

    written: int = 0
    there: int = 0
    passed_over: int = 0
    refused: tuple[str, ...] = ()


def fetch(
    name: str,
    out: Path,
    match: str | None = None,
    limit: int | None = None,
    endpoint: str | None = None,
) -> list[Path]:
    """Fetch scene files and archives of a set, or of any dataset repository ("owner/name").

    Args:
        match: fetch only files whose names match this pattern.
        limit: fetch only this many, in the order of their names.
        endpoint: a server other than huggingface.co.

    Returns:
        The archives.

    Raises:
        SceneError: there is no such set or there are no such files, or the server did not answer.
        MissingExtraError: huggingface_hub is not installed.
    """
    if name not in SETS and name.count("/") != 1:
        known = ", ".join(SETS)
        raise SceneError(
            f"there is no set {name!r}: give owner/name of a dataset on the Hugging Face Hub, or "
            f"one of {known}"
        )
    extras.require("puffer-scenes download", "huggingface_hub")
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    repository = SETS[name][0] if name in SETS else name
    wanted = [match] if match else [f"*{suffix}" for suffix in (*SUFFIXES, *ARCHIVES)]
    try:
        if limit is not None:
            listed = HfApi(endpoint=endpoint).list_repo_files(repository, repo_type="dataset")
            matching = [
                file
                for file in sorted(listed)
                if any(PurePosixPath(file).match(pattern) for pattern in wanted)
            ]
            wanted = [file for file in matching if file.endswith((*SUFFIXES, *ARCHIVES))][:limit]
            if not wanted:
                raise SceneError(
                    f"{repository}: none of its {len(listed)} files is a scene or an archive that "
                    "matches"
                )
        snapshot_download(
            repository, repo_type="dataset", local_dir=out, allow_patterns=wanted, endpoint=endpoint
        )
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise SceneError(
            f"{repository}: cannot be downloaded: {' '.join(str(error).split())}"
        ) from error
    return sorted(
        path
        for path in out.rglob("*")
        if path.name.endswith(ARCHIVES) and path.is_file() and not path.is_symlink()
    )


def unpack(archive: Path, folder: Path) -> Unpacked:
    """Write the scene files of an archive below a folder.

    Files that exist already are left unchanged.

    Raises:
        SceneError: the file is not an archive or is damaged, or a scene cannot be written.
    """
    counts = {"written": 0, "there": 0, "passed_over": 0}
    refused: list[str] = []
    try:
        for number, (name, size, plain, content) in enumerate(_members(archive)):
            if number >= MAX_FILES:
                raise SceneError(f"{archive}: more than {MAX_FILES:,} files in it")
            if not name.endswith(SUFFIXES):
                counts["passed_over"] += 1
                continue
            target = _below(folder, name)
            if target is None or not plain or size > MAX_FILE_BYTES:
                refused.append(name)
            elif target.is_file() and target.stat().st_size == size:
                counts["there"] += 1
            else:
                data = content.read(MAX_FILE_BYTES + 1)
                if len(data) != size:
                    raise SceneError(f"{archive}: {name}: expected {size} bytes, got {len(data)}")
                target.parent.mkdir(parents=True, exist_ok=True)
                replace_file(target, data)
                counts["written"] += 1
    except (
        zipfile.BadZipFile,
        tarfile.TarError,
        EOFError,
        zlib.error,
        NotImplementedError,
        RuntimeError,
    ) as error:
        raise SceneError(f"{archive}: cannot be unpacked: {error}") from error
    except OSError as error:
        raise SceneError(
            f"{error.filename or archive}: cannot be written or read: {describe_error(error)}"
        ) from error
    return Unpacked(**counts, refused=tuple(refused))


def _below(folder: Path, name: str) -> Path | None:
    """Return the path at which to unpack a member; None if that is not inside the folder."""
    parts = PurePosixPath(name).parts
    odd = any(part in ("..", "/") or "\0" in part or "\\" in part for part in parts)
    return (
        None if odd or not parts or PurePosixPath(name).is_absolute() else folder.joinpath(*parts)
    )


def _members(archive: Path) -> Iterator[tuple[str, int, bool, IO[bytes]]]:
    """Yield (name, size, whether it is a plain file, its content) of each member except folders."""
    if archive.name.endswith(".zip"):
        with zipfile.ZipFile(archive) as file:
            for info in file.infolist():
                if not info.is_dir():
                    kind = info.external_attr >> 28  # the Unix file type; 0: not made on Unix
                    with file.open(info) as content:
                        yield info.filename, info.file_size, kind in (0, 0o10), content
        return
    with tarfile.open(archive, "r:*") as tar:
        for member in tar:
            if not member.isdir():
                opened = tar.extractfile(member) if member.isreg() else None
                yield member.name, member.size, opened is not None, opened or tar.fileobj  # type: ignore[misc]
