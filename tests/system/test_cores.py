# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Counting cores (puffervec/system/cores.py) from affinity and cgroup quotas, on faked cgroup trees
of both versions.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from puffervec.system import cores


def put(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


V1 = {"cpu/slice/job/cpu.cfs_quota_us": "250000\n", "cpu/slice/job/cpu.cfs_period_us": "100000\n"}
GARBAGE = ("", "garbage", "0 0", "-5 100000", "100000", "a b c", "100000 0")
UNLIMITED = {
    "a/cpu.max": "max 100000\n",
    "cpu/b/cpu.cfs_quota_us": "-1\n",
    "cpu/b/cpu.cfs_period_us": "100000\n",
}


@pytest.mark.parametrize(
    ("member", "files", "expected"),
    [
        ("0::/docker/abc\n", {"docker/abc/cpu.max": "150000 100000\n"}, 1.5),
        (
            "0::/a/b\n",
            {"a/b/cpu.max": "max 100000", "a/cpu.max": "50000 100000"},
            0.5,
        ),  # the tightest parent counts
        ("0::/\n", {"cpu.max": "300000 100000\n"}, 3.0),  # inside a namespace the group is the root
        ("12:memory:/x\n4:cpu,cpuacct:/slice/job\n", V1, 2.5),
        ("0::/a\n4:cpu:/b\n", UNLIMITED, None),
        *(
            ("0::/a\n", {"a/cpu.max": text}, None)
            for text in ("", "garbage", "0 0", "-5 100000", "100000", "a b c", "100000 0")
        ),
        ("", {}, None),
    ],
)
def test_the_quota_of_cgroups_of_both_versions(
    tmp_path: Path,
    member: str,
    files: dict[str, str],
    expected: float | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put(tmp_path, "proc/self/cgroup", member)
    for name, text in files.items():
        put(tmp_path, f"cgroup/{name}", text)
    monkeypatch.setattr(cores, "CGROUP", tmp_path / "cgroup")
    monkeypatch.setattr(cores, "PROC", tmp_path / "proc")
    assert cores.cpu_quota() == expected


def test_without_cgroups_there_is_no_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "CGROUP", tmp_path / "none")
    monkeypatch.setattr(cores, "PROC", tmp_path / "none")
    assert cores.cpu_quota() is None


def test_affinity_is_what_the_scheduler_says() -> None:
    assert cores.affinity() == sorted(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("own", "limit", "expected"),
    [(8, None, 8), (8, 2.0, 2), (8, 2.5, 3), (2, 16.0, 2), (4, 0.1, 1), (1, None, 1)],
)
def test_usable_cores(
    own: int, limit: float | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores, "affinity", lambda: list(range(own)))
    monkeypatch.setattr(cores, "cpu_quota", lambda: limit)
    assert cores.usable_cores() == expected
