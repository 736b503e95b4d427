# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What Linux has and macOS has not: learner and workers run with those calls and folders taken
away.

The C core has a build of its own without such calls (tests/test_builds.py, "no futex"). Nothing
here shows that another system works, only that no line of Python asks for what it would not have.
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

# Imported by every Python process at its start, workers and fork servers too. psutil has another
# way there, and none here.
TAKEN_AWAY = """
import builtins, io, os, sys

import mmap, resource, select, signal, time

AWAY = {
    os: "memfd_create MFD_CLOEXEC posix_fallocate posix_fadvise sched_getaffinity "
        "sched_setaffinity sched_getscheduler eventfd pidfd_open O_TMPFILE O_PATH O_DIRECT waitid "
        "pipe2 fdatasync copy_file_range splice getrandom getresuid unshare setns",
    signal: "pidfd_send_signal sigtimedwait sigwaitinfo SIGRTMIN SIGPWR",
    select: "epoll",
    resource: "prlimit",
    time: "CLOCK_BOOTTIME",
    mmap: "MAP_POPULATE MAP_NORESERVE MADV_HUGEPAGE",
}
for module, names in AWAY.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)

def refuse(call):
    def refused(path, *rest, **more):
        caller = sys._getframe(1).f_globals["__name__"]
        if str(path).startswith(("/proc", "/sys", "/dev/shm")) and "psutil" not in caller:
            raise FileNotFoundError(2, "No such file or directory", path)
        return call(path, *rest, **more)
    return refused

builtins.open = io.open = refuse(io.open)
os.open, os.stat, os.statvfs, os.listdir = map(refuse, (os.open, os.stat, os.statvfs, os.listdir))
access = os.access
os.access = lambda path, *rest: not str(path).startswith("/dev/shm") and access(path, *rest)
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
pid = os.fork()  # a copy of this process cannot wait for its fork server, and starts one of its own
with puffervec.make("tag_grid", num_envs=2, num_workers=1, start_method="forkserver") as vec:
    vec.reset(seed=0)
    os.write(1, b"after the fork\\n")
if not pid:
    os._exit(0)
os.waitpid(pid, 0)
"""


@pytest.fixture
def elsewhere(tmp_path: Path) -> dict[str, str]:
    """The environment of a process on a system without what only Linux has."""
    (tmp_path / "sitecustomize.py").write_text(TAKEN_AWAY)
    path = os.pathsep.join(
        [str(tmp_path), str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
    )
    return {**os.environ, "PYTHONPATH": path, "PUFFERVEC_CACHE": str(tmp_path / "cache")}


def test_vector_envs_run_without_what_only_linux_has(
    elsewhere: dict[str, str], tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(VECTOR_ENVS)
    done = subprocess.run(
        [sys.executable, script], env=elsewhere, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    expected = ["C (44, 45)", "Python (4, 4) CartPole-v1", "WorkerDied", "WorkerTimeout True"]
    assert done.stdout.splitlines() == [*expected, "after the fork", "after the fork"]


@pytest.mark.slow
def test_the_trainer_runs_without_what_only_linux_has(
    elsewhere: dict[str, str], tmp_path: Path
) -> None:
    flags = [
        "--total-timesteps",
        "20000",
        "--log.folder",
        str(tmp_path / "runs"),
        "--log.name",
        "r",
    ]
    command = [sys.executable, "-m", "puffervec.commands.cli", "tag_grid", *flags]
    done = subprocess.run(command, env=elsewhere, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    assert list((tmp_path / "runs" / "r").rglob("*.safetensors"))


def test_workers_are_not_tied_to_cores_where_that_cannot_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "sched_setaffinity")
    assert set(check_settings(num_envs=4, num_workers=1).cores) == {None}
    with pytest.raises(ConfigError, match="use 'auto' or False"):
        check_settings(num_envs=4, num_workers=1, pin=True)


def test_the_build_refuses_windows_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SystemExit, match="puffervec runs on Linux"):
        runpy.run_path(str(Path(__file__).resolve().parents[1] / "setup.py"))
