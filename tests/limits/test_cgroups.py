# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Real cgroups, where we may make them: under half a core the defaults follow and nothing times
out; memory limits are heeded.

Faked files of both versions are read in tests/system/test_cores.py and tests/limits/test_memory.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers import eventually

ROOT = Path("/sys/fs/cgroup")
# Joins the groups that are named, before anything is imported.
JOIN = """
import os, sys
for folder in sys.argv[1:]:
    open(folder + "/cgroup.procs", "w").write(str(os.getpid()))
"""
Join = Callable[[dict[str, str]], str]


@pytest.fixture
def group() -> Iterator[Join]:
    """Makes a group with these files written, version 2 or 1, and returns its folder; removes it
    when it is empty again.
    """
    made: list[Path] = []

    def make(files: dict[str, str]) -> str:
        controller = next(iter(files)).split(".")[0]
        version_2 = (ROOT / "cgroup.controllers").exists()
        folder = ROOT / ("" if version_2 else controller) / f"puffervec-test-{os.getpid()}"
        try:
            folder.mkdir()
            made.append(folder)
            for name, text in files.items():
                if (folder / name).exists():
                    (folder / name).write_text(text)
                elif name.endswith(".max") == version_2:
                    pytest.skip(f"{folder} has no {name}: the controller is not enabled here")
        except OSError as error:
            pytest.skip(f"may not make cgroups here: {error}")
        return str(folder)

    yield make
    for folder in made:
        eventually(
            lambda folder=folder: not (folder / "cgroup.procs").read_text().strip(),
            f"{folder} is empty",
        )
        folder.rmdir()


def python(code: str, *folders: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", JOIN + code, *folders], capture_output=True, text=True, timeout=200
    )


@pytest.mark.slow
def test_half_a_core(group: Join) -> None:
    """A worker may be stopped for 50 ms of every 100 ms: that is no time-out, and one worker is the
    default.
    """
    folder = group(
        {"cpu.max": "50000 100000", "cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000"}
    )
    code = """
import puffervec
from puffervec.system import cores
print(cores.cpu_quota(), cores.usable_cores())
game = {"num_taggers": 4, "grid_length": 9}
with puffervec.make("tag_grid", env_kwargs=game, num_envs=64) as vec:
    print(vec.num_workers)
with puffervec.make("probe", num_envs=4, num_workers=4, timeout_s=5) as vec:
    vec.reset(seed=0)
    for _ in range(500):
        vec.step([0] * 4)
print("no time-out")
"""
    done = python(code, folder)
    assert (done.stdout.split("\n")[:3], done.stderr) == (["0.5 1", "1", "no time-out"], "")


@pytest.mark.slow
@pytest.mark.normal_build("copies of the rows and the memory of AddressSanitizer count too")
def test_a_memory_limit(group: Join) -> None:
    """It is refused by name; without the look at the limit, the kernel would end the process."""
    limit = 400 << 20
    folder = group({"memory.max": str(limit), "memory.limit_in_bytes": str(limit)})
    code = """
import puffervec
from puffervec.errors import ConfigError
try:
    puffervec.make("probe", env_kwargs={"obs_size": 65536}, num_envs=2000)
except ConfigError as error:
    print(error)
with puffervec.make("probe", env_kwargs={"obs_size": 65536}, num_envs=200, num_workers=2) as vec:
    vec.reset(seed=0)
    print(vec.num_agents)
"""
    done = python(code, folder)
    assert done.returncode == 0, done.stderr
    refusal, fits = done.stdout.splitlines()
    assert (
        "2,000 envs need 52" in refusal
        and "cgroup limit memory." in refusal
        and f"of {limit:,}" in refusal
    )
    assert fits == "200"
