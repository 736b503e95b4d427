# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/saves.py: what it counts as a failure, and the whole of it in short."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import saves
from puffervec.train.run import checkpoint as ckpt
from tests.train.saved import some


def save(folder: Path, updates: int) -> Path:
    made = some(updates)
    made.manifest["counters"]["updates"] = updates
    return ckpt.write(folder / "checkpoints", made, keep=2)


def looked(folder: Path, updates: int | None) -> saves.Count:
    count = saves.Count()
    saves.look(folder, updates, count, "now")
    return count


def test_what_counts_as_a_failure(tmp_path: Path) -> None:
    assert looked(tmp_path, None).failures == 0  # Killed before its first save.
    assert looked(tmp_path, 1).unloadable == ["now: no checkpoint verifies"]
    for updates in (1, 2):
        last = save(tmp_path, updates)
    assert [looked(tmp_path, updates).failures for updates in (0, 1, 2, 3, None)] == [1, 0, 0, 1, 0]
    (last / "default.safetensors").write_bytes(b"")
    assert looked(tmp_path, 2).lost == ["now: the newest checkpoint is of update 1"]
    assert looked(tmp_path, 2).inside_a_save == 0
    (tmp_path / "checkpoints" / ".partial-1").mkdir()
    assert looked(tmp_path, 1).inside_a_save == 1


@pytest.mark.slow
def test_killed_trainers_leave_what_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out.json"
    assert saves.main(["--kills", "20", "--commands", "1", "--json", str(path)]) == 0, capsys.readouterr().out
    found = json.loads(path.read_text())["results"]
    assert found["forked trainers"]["kills"] == 20 and found["forked trainers"]["saves"] >= 20
    assert found["whole commands"]["kills"] == 1 and not any(part["failures"] for part in found.values())
    assert "SIGKILL at random moments" in capsys.readouterr().out
