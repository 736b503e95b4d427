# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The cache folder, its keys, and files that are written whole or not at all."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest

from puffervec.commands.cli import main
from puffervec.errors import ConfigError, SceneError
from puffervec.system import cache
from puffervec.system.cache import cache_folder, key_of, write_atomically


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PUFFERVEC_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("PUFFERVEC_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "puffervec"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "puffervec"


def test_keys_depend_on_every_part() -> None:
    assert key_of(1, "a", [2.5]) == key_of(1, "a", [2.5])
    assert len({key_of(1, "a"), key_of(1, "b"), key_of("a", 1), key_of(1, "a", None)}) == 4
    assert len(key_of(0)) == 24


def test_a_file_appears_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "file"
    write_atomically(path, [b"ab", b"", b"cd"])
    assert path.read_bytes() == b"abcd"
    assert path.stat().st_mode & 0o777 == 0o644
    write_atomically(path, [b"new"])
    assert path.read_bytes() == b"new"
    assert os.listdir(path.parent) == ["file"]


def test_a_failed_write_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def failing() -> Iterator[bytes]:
        yield b"half"
        raise OSError(28, "No space left on device")

    with pytest.raises(SceneError, match="file: cannot be written: No space left on device$"):
        write_atomically(path, failing())
    monkeypatch.setenv("PUFFERVEC_CACHE", str(tmp_path))
    with pytest.raises(
        SceneError, match="file: cannot be written: No space left on device; set PUFFERVEC_CACHE"
    ):
        write_atomically(path, failing())
    for name in ("fsync", "rename"):
        with monkeypatch.context() as patch:
            patch.setattr(
                os, name, lambda *_, **__: (_ for _ in ()).throw(OSError(5, "Input/output error"))
            )
            with pytest.raises(SceneError, match="Input/output error"):
                write_atomically(path, [b"more"])
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(SceneError, match="taken/file: cannot be written"):
        write_atomically(tmp_path / "taken" / "file", [b""])


def test_the_command_shows_and_clears_what_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PUFFERVEC_CACHE", str(tmp_path / "cache"))
    assert main(["cache", "--clear"]) == 0
    assert f"{tmp_path}/cache: 0 files" in capsys.readouterr().out
    scenes = tmp_path / "cache" / cache.SCENES
    key = key_of("one")
    write_atomically(scenes / f"{key}.pvset", [b"x" * 2**20])
    write_atomically(scenes / f"{key}.json", [b"{}"])
    (scenes / f".{key}.pvset.a_1b2c3.tmp").write_bytes(b"cut off")
    (tmp_path / "mine").write_text("not of the cache")
    foreign = ["notes.json", f"{key_of('link')}.pvset", f"{key}.pvset.bak"]
    (scenes / foreign[0]).touch()
    (scenes / foreign[1]).symlink_to(tmp_path / "mine")
    (scenes / foreign[2]).touch()
    library = tmp_path / "cache" / cache.LIBRARIES / f"breakout-{key}.so"
    write_atomically(library, [b"x" * 2**21])
    (library.parent / "notes.so").touch()
    assert main(["cache"]) == 0
    out = capsys.readouterr().out
    assert "4 files, 3.0 MiB" in out
    assert "scenes: 3 files, 1.0 MiB" in out and "ocean: 1 files, 2.0 MiB" in out
    assert main(["cache", "--clear"]) == 0
    assert "removed 3.0 MiB" in capsys.readouterr().out
    assert os.listdir(library.parent) == ["notes.so"]
    assert sorted(os.listdir(scenes)) == sorted(foreign) and (tmp_path / "mine").exists()
    assert main(["cache", "--all"]) == 2


def test_a_cache_that_is_a_link_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_atomically(tmp_path / "elsewhere" / f"{key_of(1)}.pvset", [b"data"])
    (tmp_path / cache.SCENES).symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv("PUFFERVEC_CACHE", str(tmp_path))
    assert cache.clear() == 0 and cache.entries() == []


def test_what_compiling_leaves_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from drive_env.config import DriveConfig
    from drive_env.prepare import prepare_scenes

    monkeypatch.setenv("PUFFERVEC_CACHE", str(tmp_path))
    prepare_scenes(DriveConfig(scenes="generated:2"))
    assert cache.entries() == sorted((tmp_path / cache.SCENES).iterdir()) != []


def test_no_home_at_all_is_one_error_that_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user has no entry in /etc/passwd."""

    def unknown(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    for name in ("PUFFERVEC_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(
        ConfigError,
        match=f"HOME is not set, and user {os.getuid()} has no home folder; set PUFFERVEC_CACHE",
    ):
        cache.cache_folder()
