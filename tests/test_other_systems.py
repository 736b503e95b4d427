# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What Linux has and macOS has not: learner and workers run with those calls and folders taken away.

The C core has a build of its own without such calls (tests/test_builds.py, "no futex"). Nothing here shows that another system
works, only that no line of Python asks for what it would not have.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from puffervec.errors import ConfigError
from puffervec.vec.settings import check_settings

# Imported by every Python process at its start, workers and fork servers too. psutil has another way there, and none here.
TAKEN_AWAY = """
import builtins, io, os, sys

for name in ("memfd_create", "posix_fallocate", "sched_getaffinity", "sched_setaffinity", "eventfd", "pidfd_open", "O_TMPFILE"):
    if hasattr(os, name):
        delattr(os, name)

def refuse(call):
    def refused(path, *rest, **more):
        if str(path).startswith(("/proc", "/sys", "/dev/shm")) and "psutil" not in sys._getframe(1).f_globals["__name__"]:
            raise FileNotFoundError(2, "No such file or directory", path)
        return call(path, *rest, **more)
    return refused

builtins.open = io.open = refuse(io.open)
os.open, os.stat, os.statvfs, os.listdir = map(refuse, (os.open, os.stat, os.statvfs, os.listdir))
os.access = lambda path, *rest, access=os.access: not str(path).startswith("/dev/shm") and access(path, *rest)
"""
VECTOR_ENVS = """
import os, signal, puffervec
assert not hasattr(os, "memfd_create") and not os.access("/dev/shm", os.W_OK)

def slow():
    import gymnasium, time
    class Slow(type(gymnasium.make("CartPole-v1").unwrapped)):
        def step(self, action):
            time.sleep(1000)
    return Slow()

with puffervec.make("tag_grid", num_envs=4, num_workers=2) as vec:
    vec.reset(seed=0)
    state = vec.save()
    first = vec.step([1] * vec.num_agents)[0].copy()
    vec.load(state)
    vec.recv()
    assert (vec.step([1] * vec.num_agents)[0] == first).all()
    print("C", first.shape)
with puffervec.make("CartPole-v1", num_envs=4, num_workers=2) as vec:
    vec.reset(seed=0)
    print("Python", vec.step([1] * 4)[0].shape, vec.call("get_wrapper_attr", "spec")[0].id)
    os.kill(vec.processes[1].pid, signal.SIGKILL)
    try:
        vec.step([1] * 4)
    except puffervec.PuffervecError as error:
        print(type(error).__name__)
with puffervec.make(slow, num_envs=2, num_workers=1, timeout_s=1) as vec:
    vec.reset(seed=0)
    try:
        vec.step([1] * 2)
    except puffervec.PuffervecError as error:
        print(type(error).__name__, "time.sleep(1000)" in error.trace or "in step" in error.trace)
"""


@pytest.fixture
def elsewhere(tmp_path: Path) -> dict[str, str]:
    """The environment of a process on a system without what only Linux has."""
    (tmp_path / "sitecustomize.py").write_text(TAKEN_AWAY)
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "PUFFERVEC_CACHE": str(tmp_path / "cache")}


def test_vector_envs_run_without_what_only_linux_has(elsewhere: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(VECTOR_ENVS)
    done = subprocess.run([sys.executable, script], env=elsewhere, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["C (44, 45)", "Python (4, 4) CartPole-v1", "WorkerDied", "WorkerTimeout True"]


@pytest.mark.slow
def test_the_trainer_runs_without_what_only_linux_has(elsewhere: dict[str, str], tmp_path: Path) -> None:
    flags = ["--total-timesteps", "20000", "--log.folder", str(tmp_path / "runs"), "--log.name", "r"]
    command = [sys.executable, "-m", "puffervec.train.cli", "tag_grid", *flags]
    done = subprocess.run(command, env=elsewhere, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    assert list((tmp_path / "runs" / "r").rglob("*.safetensors"))


def test_workers_are_not_tied_to_cores_where_that_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_setaffinity")
    assert set(check_settings(num_envs=4, num_workers=1).cores) == {None}
    with pytest.raises(ConfigError, match="use 'auto' or False"):
        check_settings(num_envs=4, num_workers=1, pin=True)


def test_the_build_refuses_windows_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SystemExit, match="puffervec runs on Linux"):
        runpy.run_path(str(Path(__file__).resolve().parents[1] / "setup.py"))
