# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Limits of the system (puffervec/system/limits.py) end in one error with the limit's name and
value; nothing is half-started.
"""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
import threading
from typing import Any

import pytest

import puffervec
from puffervec.core import shared_memory
from puffervec.core.shared_memory import SharedMemory
from puffervec.errors import ConfigError
from puffervec.system import limits

# Lowers a limit, makes a vec env, raises it again, prints the error and which children and
# descriptors are left (but for the small arenas that multiprocessing's heap keeps for reuse).
TRY = """
import gc, os, threading, resource
import psutil, puffervec
def held():
    links = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{{fd}}"))
        except OSError:
            pass
    return len([link for link in links if "/pym-" not in link])
def children():
    return {{child.pid for child in psutil.Process().children(recursive=True)}}
puffervec.make("probe", num_workers=1, start_method={method!r}).close()
gc.collect()
{before}
before, limit = (held(), children()), resource.{limit}
soft, hard = resource.getrlimit(limit)
resource.setrlimit(limit, ({value}, hard))
try:
    with puffervec.make({env!r}, num_envs=4, num_workers=4, start_method={method!r},
                        **{settings!r}) as vec:
        vec.reset(seed=0)
    said = "it worked"
except puffervec.PuffervecError as error:
    said = f"{{type(error).__name__}} {{error}}"
resource.setrlimit(limit, (soft, hard))
vec = None
gc.collect()
print(" ".join(said.split()))
threads = [threading.active_count()] if "backend" in {settings!r} else []
print(children() - before[1], held() - before[0], *threads)
"""


def attempt(
    limit: str,
    value: Any,
    method: str = "spawn",
    env: str = "probe",
    before: str = "",
    **settings: Any,
) -> list[str]:
    """Run TRY in a process of its own and return its lines: what happened, what is left."""
    code = TRY.format(
        limit=limit, value=value, method=method, env=env, before=before, settings=settings
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stdout + done.stderr
    return lines


@pytest.mark.slow
def test_open_files() -> None:
    said, left = attempt("RLIMIT_NOFILE", "len(os.listdir('/proc/self/fd')) + 8")
    assert said.startswith("ConfigError probe, 4 envs: too many open files: RLIMIT_NOFILE is ")
    assert "(ulimit -n)" in said
    assert left == "set() 0"


@pytest.mark.slow
@pytest.mark.parametrize("more", range(1, 25, 2))
@pytest.mark.parametrize(
    ("env", "method"), [("probe", "spawn"), ("CartPole-v1", "forkserver"), ("CartPole-v1", "spawn")]
)
def test_any_number_of_open_files(env: str, method: str, more: int) -> None:
    """Wherever it fails on the way, it says so, and nothing is left."""
    said, left = attempt("RLIMIT_NOFILE", f"len(os.listdir('/proc/self/fd')) + {more}", method, env)
    assert said == "it worked" or "RLIMIT_NOFILE is " in said
    # The standard library's own client of the fork server loses a pipe where the second of its two
    # cannot be opened.
    assert left.startswith("set() ") if method == "forkserver" else left == "set() 0"


@pytest.mark.skipif(
    os.geteuid() != 0,
    reason="needs root: the limit counts processes of a user, so it takes another user",
)
@pytest.mark.parametrize("most", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_processes(most: int) -> None:
    """Four workers with a thread each, and the learner, are nine; 8 leaves no room for the last
    thread.
    """
    before = "os.setgid(54321); os.setuid(54321)"
    said, left = attempt("RLIMIT_NPROC", most, "fork", before=before)
    assert said.startswith(("ConfigError probe, 4 envs: too many processes", "WorkerError"))
    assert f"RLIMIT_NPROC is {most}" in said
    assert left.startswith(
        "set() "
    )  # no process; the standard library forgets the pipes for a child that it could not fork


@pytest.mark.slow
@pytest.mark.skipif(
    os.geteuid() != 0,
    reason="needs root: the limit counts processes of a user, so it takes another user",
)
@pytest.mark.parametrize("most", [1, 3])
def test_threads(most: int) -> None:
    """Those that were started before are ended."""
    before = "os.setgid(54321); os.setuid(54321)"
    said, left = attempt("RLIMIT_NPROC", most, before=before, backend="threading")
    assert said.startswith(
        "ConfigError probe, 4 envs: too many processes and threads of this user: RLIMIT_NPROC is "
        f"{most}"
    )
    assert left == "set() 0 1"


def test_a_thread_that_cannot_be_started_ends_those_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where they are still alive when their end is waited for."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "puffervec-2":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(ConfigError, match="can't start new thread|too many processes and threads"):
        puffervec.make("probe", num_envs=4, num_workers=4, backend="threading")
    assert not any(thread.name.startswith("puffervec-") for thread in threading.enumerate())


@pytest.mark.slow
def test_file_sizes() -> None:
    """Memory in /dev/shm is a file to the kernel."""
    said, left = attempt("RLIMIT_FSIZE", 1 << 20, env_kwargs={"obs_size": 65536})
    assert said.startswith("ConfigError") and "of shared memory: " in said
    assert "RLIMIT_FSIZE is 1,048,576" in said and "ulimit -f" in said
    assert left == "set() 0"


@pytest.mark.slow
def test_address_space() -> None:
    said, left = attempt(
        "RLIMIT_AS",
        "psutil.Process().memory_info().vms + (64 << 20)",
        env_kwargs={"obs_size": 65536, "num_agents": 100},
    )
    assert (
        said.startswith("ConfigError 4 envs need ") and "RLIMIT_AS" in said and "ulimit -v" in said
    )
    assert left == "set() 0"


# ---- /dev/shm that fills up ----------------------------------------------------------------------


def test_shared_memory_that_is_taken_by_others_in_between_is_a_memfd(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The room was there when it was asked for, and not when it was reserved: no SIGBUS, no file on
    disk.
    """
    reserve = os.posix_fallocate

    def full(fd: int, offset: int, size: int) -> None:
        if "/dev/shm" in os.readlink(f"/proc/self/fd/{fd}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        reserve(fd, offset, size)

    monkeypatch.setattr(os, "posix_fallocate", full)
    memory = SharedMemory(5 << 20)
    assert memory._array is None and len(memory.buffer) == 5 << 20


FILL = """
import os, sys
import puffervec
from puffervec.core import shared_memory
free = shared_memory._shm_free
def then_fill():
    found = free()
    with open("/dev/shm/other", "wb") as other:  # another program is faster
        other.write(bytes(found - 4096))
    return found
shared_memory._shm_free = then_fill
with puffervec.make("probe", env_kwargs={"obs_size": 1024}, num_envs=512, num_workers=2) as vec:
    vec.reset(seed=0); vec.step([0] * 512); print(vec.rows.memory._array is None)
"""


@pytest.mark.slow
def test_a_real_file_system_that_fills_up() -> None:
    """Where we may mount: 8 MiB that another program fills after the look at its free space."""
    mount = "mount -t tmpfs -o size=8m tmpfs /dev/shm"
    probe = subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True, text=True)
    if probe.returncode:
        pytest.skip(f"may not mount here: {probe.stderr.strip()}")
    command = ["unshare", "-m", "sh", "-c", f'{mount} && exec {sys.executable} -c "$0"', FILL]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert (done.stdout.strip(), done.stderr, done.returncode) == ("True", "", 0)


# ---- the words -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (errno.EMFILE, "RLIMIT_NOFILE"),
        (errno.EAGAIN, "RLIMIT_NPROC"),
        (errno.EFBIG, "RLIMIT_FSIZE"),
        (errno.ENOMEM, "RLIMIT_AS"),
    ],
)
def test_each_limit_is_named_with_its_value(
    code: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1234, 5678))
    said = limits.in_words(OSError(code, os.strerror(code)))
    assert said is not None and f"{name} is 1,234" in said and "ulimit" in said
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY,) * 2)
    said = limits.in_words(OSError(code, os.strerror(code)))
    assert said is not None and "the system has no room for more" in said and name not in said


def test_other_errors_pass() -> None:
    assert limits.in_words(OSError(errno.ENOENT, "x")) is None
    assert limits.in_words(ValueError()) is None
    assert "fs.file-max" in str(limits.in_words(OSError(errno.ENFILE, "x")))
    assert "address space" in str(limits.in_words(MemoryError()))
    for error in (OSError(errno.ENOENT, "x"), EOFError("of a file"), ValueError()):
        with pytest.raises(type(error)) as caught, limits.named("doing"):
            raise error
        assert caught.value is error
    for error in (OSError(errno.EMFILE, "x"), MemoryError(), EOFError("unexpected EOF")):
        with pytest.raises(ConfigError, match="^doing: ") as refusal, limits.named("doing"):
            raise error
        assert refusal.value.__cause__ is error


def test_a_memory_error_of_the_learner_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(fd: int, size: int) -> Any:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(shared_memory, "_shm_free", lambda: 0)
    monkeypatch.setattr("puffervec.core.shared_memory.mmap.mmap", none)
    with pytest.raises(ConfigError, match=r"probe|shared memory.*address space"):
        puffervec.make("probe", num_envs=1, num_workers=1)
