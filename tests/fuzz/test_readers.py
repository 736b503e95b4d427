# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The readers that are written in Python, for a moment: corpus, regressions, cuts, odd files,
seeded mutations.

`make fuzz` runs the same loop (loop.py) for longer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from drive_env.prepare import load_cached
from drive_env.scenes.compile import compile_scene
from drive_env.scenes.reader import (
    MAX_FILE_BYTES,
    LeftOut,
    parse_scene,
    read_scene,
    read_usable,
    scene_files,
)
from drive_env.scenes.sceneset import SceneSet
from drive_env.sources import sources_of
from puffervec.errors import CheckpointError, ConfigError, PuffervecError, SceneError
from puffervec.train.config.flags import MOST_CONFIG_BYTES, read_toml
from puffervec.train.run import checkpoint
from tests.fuzz import loop
from tests.fuzz.program import CORPUS, MEMORY_MIB, REGRESSIONS, Broken
from tests.fuzz.readers import READERS, SETTINGS, JsonScenes

SEED = int(os.environ.get("PV_SEED", "1"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "count"),
    [("json", 150), ("bins", 100), ("sets", 30), ("checkpoints", 25), ("runconfigs", 100)],
)
def test_mutated_inputs_are_read_or_refused(name: str, count: int, tmp_path: Path) -> None:
    report = loop.run(name, SEED, 0, count, tmp_path)
    assert report.inputs == count and 0 < report.accepted < count


@pytest.mark.parametrize("name", READERS)
def test_regressions(name: str, tmp_path: Path) -> None:
    """Each is called after what it once showed; now it is refused with the reader's own error, or
    read.
    """
    reader = READERS[name](tmp_path)
    files = [path for path in sorted((REGRESSIONS / name).glob("*")) if path.suffix != ".pvset"]
    for path in files:
        loop.read_one(path.name, reader, path.read_bytes(), 0, 0)
    reader.finish()
    assert files or name in ("sets", "bins")


def test_the_corpus_is_small_and_good(tmp_path: Path) -> None:
    reader = JsonScenes(tmp_path)
    assert len(reader.corpus) >= 4 and all(reader.read(data) for data in reader.corpus)
    reader.finish()
    assert sum(path.stat().st_size for path in CORPUS.parent.rglob("*") if path.is_file()) < 1 << 20


def test_every_cut_of_a_scene_is_refused() -> None:
    data = min((path.read_bytes() for path in CORPUS.glob("*.json")), key=len)
    for length in range(len(data)):
        with pytest.raises(SceneError, match="not JSON"):
            parse_scene(data[:length], "cut", "cut")


def test_few_bytes_do_not_become_many_segments() -> None:
    """A polyline of 300 points across 200 km would be four million segments of 15 m."""
    path = REGRESSIONS / "json" / "crooked_lane_across_200_km_took_gigabytes.json"
    before = loop.peak_rss_bytes()
    with pytest.raises(SceneError, match="more than 65535 road segments"):
        compile_scene(read_scene(path), SETTINGS)
    assert loop.peak_rss_bytes() - before < 8 << 20


def odd_files(folder: Path) -> dict[str, Path]:
    """Names at which something else than a readable file stands."""
    os.mkfifo(folder / "pipe.json")
    (folder / "folder.json").mkdir()
    (folder / "loop.json").symlink_to(folder / "loop.json")
    (folder / "nowhere.json").symlink_to(folder / "missing")
    with (folder / "sparse.json").open("wb") as file:
        file.truncate(4 << 30)
    return {path.name: path for path in folder.iterdir()} | {
        "long": folder / ("x" * 300), "nul": folder / "a\0b", "device": Path("/dev/zero"),
        "missing": folder / "no.json",
    }  # fmt: skip


def test_odd_files_are_refused_without_being_opened_or_read(tmp_path: Path) -> None:
    """A pipe would block, a device has no end, and a sparse file of 4 GiB costs nothing on the
    disk.
    """
    readers: list[tuple[Callable[[Path], object], type[PuffervecError]]] = [
        (read_scene, SceneError), (SceneSet, SceneError),
        (checkpoint.read_manifest, CheckpointError),
    ]  # fmt: skip
    for name, path in odd_files(tmp_path).items():
        for read, error in readers:
            with pytest.raises(error) as caught:
                read(path)
            assert str(path) in str(caught.value), name
        assert load_cached(path) is None
        if name != "folder.json":
            with pytest.raises(SceneError):
                sources_of(str(path))
    sparse = tmp_path / "sparse.json"
    assert sparse.stat().st_size > MAX_FILE_BYTES
    reasons = {
        item.path: item.reason
        for item in map(read_usable, scene_files(tmp_path))
        if isinstance(item, LeftOut)
    }
    assert "expected at most" in reasons[sparse]
    sparse.rename(tmp_path / "run.toml")
    with pytest.raises(ConfigError, match=f"more than {MOST_CONFIG_BYTES:,} bytes"):
        read_toml(tmp_path / "run.toml")


def test_homes_that_nobody_has() -> None:
    with pytest.raises(SceneError, match="~nobody-of-that-name"):
        sources_of("~nobody-of-that-name/scenes")


def test_files_of_a_checkpoint_that_are_no_files(tmp_path: Path) -> None:
    reader = READERS["checkpoints"](tmp_path)
    for name in (
        "pipe.safetensors",
        "a\0.safetensors",
        "\ud800.safetensors",
        "x" * 300 + ".safetensors",
        "../x.safetensors",
    ):
        manifest = {**reader.manifest, "files": {name: "0" * 64}}  # type: ignore[attr-defined]
        (tmp_path / "manifest.json").write_text(json.dumps(manifest))
        if name.startswith("pipe"):
            os.mkfifo(tmp_path / name)
        with pytest.raises(CheckpointError):
            checkpoint.read(tmp_path)


def test_the_loop_reports_what_a_reader_does_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JsonScenes, "read", lambda self, data: 1 // 0)
    with pytest.raises(Broken, match="json: input 7 of seed 3: ZeroDivisionError") as caught:
        loop.run("json", 3, 7, 5, tmp_path)
    assert caught.value.data == READERS["json"](tmp_path).make(loop.rng_of(3, 7))
    monkeypatch.setattr(JsonScenes, "read", lambda self, data: True)
    monkeypatch.setattr(loop, "LONGEST_S", -1.0)
    with pytest.raises(Broken, match="takes"):
        loop.run("json", 3, 7, 5, tmp_path)
    monkeypatch.setattr(loop, "LONGEST_S", 100.0)
    sizes = iter([0, (MEMORY_MIB << 20) + 1])
    monkeypatch.setattr(loop, "peak_rss_bytes", lambda: next(sizes))
    with pytest.raises(Broken, match="memory grew by 256 MiB"):
        loop.run("json", 3, 7, 5, tmp_path)
