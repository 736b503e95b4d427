# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What a worker process is (puffervec/workers/process/worker_main.py): small, without the libraries
of the learner, with its signals set.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import puffervec
from puffervec.workers.process.worker_main import SharedFile

pytestmark = pytest.mark.usefixtures("no_leaks")


def mapped_libraries(pid: int) -> set[str]:
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line.split()[-1] for line in lines if ".so" in line}


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_worker_loads_neither_torch_nor_numpy(method: str) -> None:
    """Its libraries tell, whatever its modules are called. One math thread: it has none of a math
    library's threads.
    """
    import torch

    assert torch.__version__  # loaded in the learner
    with puffervec.make("probe", num_workers=1, start_method=method) as vec:
        vec.reset(0)
        pid = vec.workers.group.processes[0].pid
        libraries = mapped_libraries(pid)
        assert any("_native" in name for name in libraries)
        heavy = [
            name
            for name in libraries
            if any(
                word in name for word in ("torch", "numpy", "openblas", "gomp", "mkl", "gfortran")
            )
        ]
        assert heavy == []
        assert psutil.Process(pid).num_threads() == 2  # the loop, and the watch on the parent


def test_what_a_worker_imports() -> None:
    """The modules of a fresh interpreter that imports what a worker does."""
    script = (
        "import sys, puffervec.workers.process.worker_main, puffervec.core.shared_memory, "
        "puffervec._ffi; print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert loaded.isdisjoint(
        {
            "torch",
            "numpy",
            "gymnasium",
            "psutil",
            "cloudpickle",
            "puffervec.vec.vector_env",
            "puffervec.core.slab",
        }
    )


def signal_bits(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1], 16)
    raise AssertionError(f"{field} is not in /proc/{pid}/status")


def test_signals_of_a_worker() -> None:
    with puffervec.make("probe", num_workers=1) as vec:
        vec.reset(0)
        pid = vec.workers.group.processes[0].pid
        assert signal_bits(pid, "SigIgn") & 1 << (signal.SIGINT - 1)
        caught = signal_bits(pid, "SigCgt")
        for number in (
            signal.SIGSEGV,
            signal.SIGABRT,
            signal.SIGBUS,
            signal.SIGFPE,
            signal.SIGUSR1,
        ):
            assert caught & 1 << (number - 1), number  # faulthandler


def test_signals_for_the_learners_group_do_not_reach_workers() -> None:
    """As from a terminal, or a scheduler that ends a job: the learner saves, and needs them for
    that.
    """
    with puffervec.make("probe", num_envs=2, num_workers=2) as vec:
        vec.reset(0)
        pids = [process.pid for process in vec.processes]
        assert [os.getpgid(pid) for pid in pids] == pids


def test_a_worker_shows_its_stack_when_asked() -> None:
    with puffervec.make("probe", num_workers=1) as vec:
        vec.reset(0)
        shown = vec.workers.traces[0].ask(vec.processes[0].pid)
        assert "most recent call first" in shown
        assert "worker_main.py" in shown
        assert vec.step([3])[0][0, 4] == 3  # and goes on


def test_a_worker_ends_by_itself_after_close() -> None:
    vec = puffervec.make("probe", num_envs=2, num_workers=2)
    vec.reset(0)
    processes = list(vec.workers.group.processes)
    seen = []
    for process in processes:
        real = process.join

        def join(timeout: float | None = None, real=real, process=process) -> None:  # type: ignore[no-untyped-def]
            real(timeout)
            seen.append(process.exitcode)

        process.join = join  # type: ignore[method-assign]
    vec.close()
    assert set(seen) == {0}


def test_a_shared_file_is_mapped_read_only(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"abc" * 1000)
    file = SharedFile(os.open(path, os.O_RDONLY))
    path.unlink()  # a deleted path is no matter
    mapped = file.map()
    assert mapped[:3] == b"abc" and len(mapped) == 3000
    with pytest.raises(TypeError):
        mapped[0] = 1
    mapped.close()
