# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Room for memory (puffervec/system/memory.py): machine, cgroups of both versions, address space;
on faked files.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from puffervec.errors import ConfigError
from puffervec.system import cores, memory

MIB = 1 << 20


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 8,192 MiB available and no cgroups."""
    put(tmp_path, "proc/meminfo", "MemTotal:       16777216 kB\nMemAvailable:    8388608 kB\n")
    put(tmp_path, "proc/self/statm", "1000 10 5 1 0 1 0\n")
    monkeypatch.setattr(cores, "CGROUP", tmp_path / "cgroup")
    monkeypatch.setattr(cores, "PROC", tmp_path / "proc")
    return tmp_path


def put(fake: Path, name: str, text: str) -> None:
    path = fake / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_of_the_machine(fake: Path) -> None:
    assert memory.available() == memory.Room(8192 * MIB, "memory of the machine")


def test_version_2_the_tightest_parent_counts_and_its_page_cache_gives_way(fake: Path) -> None:
    put(fake, "proc/self/cgroup", "0::/job/step\n")
    put(fake, "cgroup/job/step/memory.max", "max\n")
    put(fake, "cgroup/job/step/memory.current", str(90 * MIB))
    put(fake, "cgroup/job/memory.max", str(512 * MIB))
    put(fake, "cgroup/job/memory.current", str(100 * MIB))
    put(fake, "cgroup/job/memory.stat", f"anon 1\ninactive_file {30 * MIB}\n")
    assert memory.available().bytes == (512 - 100 + 30) * MIB
    assert memory.available().bound == "cgroup limit memory.max of 536,870,912"


def test_version_1(fake: Path) -> None:
    put(fake, "proc/self/cgroup", "12:cpu:/x\n4:memory:/slice/job\n0::/\n")
    put(fake, "cgroup/memory/slice/job/memory.limit_in_bytes", str(256 * MIB))
    put(fake, "cgroup/memory/slice/job/memory.usage_in_bytes", str(200 * MIB))
    put(
        fake, "cgroup/memory/slice/memory.limit_in_bytes", "9223372036854771712"
    )  # what version 1 says for "none"
    put(fake, "cgroup/memory/slice/memory.usage_in_bytes", str(300 * MIB))
    assert memory.available() == memory.Room(
        56 * MIB, "cgroup limit memory.limit_in_bytes of 268,435,456"
    )


def test_a_group_over_its_limit_has_no_room(fake: Path) -> None:
    put(fake, "proc/self/cgroup", "0::/\n")
    put(fake, "cgroup/memory.max", "1000")
    put(fake, "cgroup/memory.current", "2000")
    put(fake, "cgroup/memory.stat", "inactive_file 10\n")
    assert memory.available().bytes == 0


@pytest.mark.parametrize("text", ["", "garbage", "-1", "max"])
def test_garbage_is_no_limit(fake: Path, text: str) -> None:
    put(fake, "proc/self/cgroup", "0::/\n")
    put(fake, "cgroup/memory.max", text)
    put(fake, "cgroup/memory.current", "1")
    assert memory.available().bound == "memory of the machine"


def test_the_address_space_counts(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {resource.RLIMIT_AS: (64 * MIB, resource.RLIM_INFINITY)}
    monkeypatch.setattr(resource, "getrlimit", lambda which: limits[which])
    assert memory.available().bytes == 64 * MIB - 1000 * resource.getpagesize()
    assert "RLIMIT_AS of 67,108,864, ulimit -v" in memory.available().bound


@pytest.mark.normal_build("AddressSanitizer itself takes terabytes of addresses")
def test_a_real_address_space_limit_is_seen() -> None:
    code = (
        "import resource; from puffervec.system import memory\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30)); room = memory.available()\n"
        "bound = 'RLIMIT_AS' in room.bound or 'cgroup' in room.bound\n"
        "print(room.bytes < 3 << 30, bound or room.bytes)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert (done.stdout.split(), done.stderr) == (["True", "True"], "")


def test_what_does_not_fit_is_refused_with_all_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: memory.Room(5000, "a bound"))
    memory.refuse_more(5000, "it needs", "of memory", "use less")
    with pytest.raises(
        ConfigError,
        match=r"^it needs 5,001 bytes of memory; 5,000 are available \(a bound\): use less$",
    ):
        memory.refuse_more(5001, "it needs", "of memory", "use less")
    with pytest.raises(ConfigError, match=r"^it needs more bytes than can be counted; 5,000 are"):
        memory.refuse_more(None, "it needs", "", "use less")
