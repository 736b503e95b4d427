# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Files that verbs write: checked before any work, and written completely or not at all."""

from __future__ import annotations

from pathlib import Path

from puffervec.errors import ConfigError
from puffervec.system.folder import refuse_odd_file, replace_file


def check_output(flag: str, path: Path, *endings: str) -> None:
    """Raise if a file could not be written.

    Args:
        flag: the flag that names the file.
        path: path of the file.
        endings: allowed endings of its name, such as ".png"; none: any.

    Raises:
        ConfigError: the ending is not allowed, the folder does not exist, or the path is not that
            of a file.
    """
    if endings and path.suffix.lower() not in endings:
        raise ConfigError(f"{flag} {path}: the name must end in {' or '.join(endings)}")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"{flag} {path}: there is no folder {path.absolute().parent}")
    if path.is_dir():
        raise ConfigError(f"{flag} {path}: is a folder: give a file")
    try:
        refuse_odd_file(path)
    except OSError as error:
        raise _refused(path, error) from error


def save_output(path: Path, data: bytes) -> None:
    """Write a file that readers see either unchanged or complete.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        replace_file(path, data)
    except OSError as error:
        raise _refused(path, error) from error


def _refused(path: Path, error: OSError) -> ConfigError:
    return ConfigError(f"cannot write {path}: {error.strerror or error}")
