# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Counting cores (puffervec/cores.py) from affinity and cgroup quotas, on faked cgroup trees of both versions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from puffervec import cores


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "cgroup").mkdir()
    return tmp_path


def member_of(fake: Path, text: str) -> None:
    (fake / "proc/self/cgroup").write_text(text)


def put(fake: Path, name: str, text: str) -> None:
    path = fake / "cgroup" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def quota(fake: Path) -> float | None:
    return cores.cpu_quota(fake / "cgroup", fake / "proc")


def test_version_2(fake: Path) -> None:
    member_of(fake, "0::/docker/abc\n")
    put(fake, "docker/abc/cpu.max", "150000 100000\n")
    assert quota(fake) == 1.5


def test_the_tightest_parent_counts(fake: Path) -> None:
    member_of(fake, "0::/a/b/c\n")
    put(fake, "a/b/c/cpu.max", "max 100000\n")
    put(fake, "a/b/cpu.max", "400000 100000\n")
    put(fake, "a/cpu.max", "50000 100000\n")
    assert quota(fake) == 0.5


def test_inside_a_namespace_the_group_is_the_root(fake: Path) -> None:
    member_of(fake, "0::/\n")
    put(fake, "cpu.max", "300000 100000\n")
    assert quota(fake) == 3.0


def test_version_1(fake: Path) -> None:
    member_of(fake, "12:memory:/x\n4:cpu,cpuacct:/slice/job\n")
    put(fake, "cpu/slice/job/cpu.cfs_quota_us", "250000\n")
    put(fake, "cpu/slice/job/cpu.cfs_period_us", "100000\n")
    assert quota(fake) == 2.5


def test_no_limit(fake: Path) -> None:
    member_of(fake, "0::/a\n4:cpu:/b\n")
    put(fake, "a/cpu.max", "max 100000\n")
    put(fake, "cpu/b/cpu.cfs_quota_us", "-1\n")
    put(fake, "cpu/b/cpu.cfs_period_us", "100000\n")
    assert quota(fake) is None


@pytest.mark.parametrize("text", ["", "garbage", "0 0", "-5 100000", "100000", "a b c", "100000 0"])
def test_garbage_is_no_limit(fake: Path, text: str) -> None:
    member_of(fake, "0::/a\n")
    put(fake, "a/cpu.max", text)
    assert quota(fake) is None


def test_without_cgroups_there_is_no_limit(tmp_path: Path) -> None:
    assert cores.cpu_quota(tmp_path / "none", tmp_path / "none") is None


def test_affinity_is_what_the_scheduler_says() -> None:
    assert cores.affinity() == sorted(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("own", "limit", "expected"), [(8, None, 8), (8, 2.0, 2), (8, 2.5, 3), (2, 16.0, 2), (4, 0.1, 1), (1, None, 1)]
)
def test_usable_cores(own: int, limit: float | None, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "affinity", lambda: list(range(own)))
    monkeypatch.setattr(cores, "cpu_quota", lambda: limit)
    assert cores.usable_cores() == expected
