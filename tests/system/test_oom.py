# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The out-of-memory killer (puffervec/system/oom.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

import puffervec
from puffervec.system import cores, oom


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_kills_are_counted_on_the_machine_and_in_cgroups_of_both_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, proc = tmp_path / "cgroup", tmp_path / "proc"
    monkeypatch.setattr(cores, "CGROUP", root)
    monkeypatch.setattr(cores, "PROC", proc)
    assert oom.kills() == 0
    put(proc / "vmstat", "pgfault 12\noom_kill 5\n")
    assert oom.kills() == 5
    put(proc / "self/cgroup", "0::/job\n4:memory:/old\n")
    put(root / "job/memory.events", "low 0\noom 3\noom_kill 2\n")
    put(root / "memory/old/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    assert oom.kills() == 8


def test_the_hint_says_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oom, "kills", lambda: 3)
    assert "out-of-memory killer has struck" in oom.hint(2)
    assert oom.hint(3).startswith("killed from outside, or")


def test_workers_offer_themselves_before_the_learner() -> None:
    own = int(Path("/proc/self/oom_score_adj").read_text())
    with puffervec.make("probe", num_envs=2, num_workers=2) as vec:
        for process in vec.processes:
            assert int(Path(f"/proc/{process.pid}/oom_score_adj").read_text()) == min(
                1000, own + oom.SCORE
            )
