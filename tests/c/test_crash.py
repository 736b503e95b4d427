# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""csrc/core/crash.c and puffervec/system/crashes.py: a crash in C names the function, also in a
process that steps envs itself.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import puffervec
from puffervec.errors import WorkerDied, WorkerTimeout
from puffervec.system.crashes import blamed
from tests.builds import source_folder
from tests.helpers import thinned
from tests.libraries import environment

pytestmark = pytest.mark.normal_build("a sanitizer has reports of its own")
SEGV, ABORT, HANG = 1, 2, 5  # faults of the probe

CRASHES = """
#include <signal.h>
#include <stdlib.h>
static int deeper(int n) {
    char room[4096];
    room[0] = (char)n;
    return deeper(n + room[0] + 1) + room[0];
}
static int no_memory(int* at) { return *at; }
__attribute__((noinline)) static int inner(int kind) {
    if (kind == 0) return no_memory((int*)16);
    if (kind == 1) return deeper(1);
    if (kind == 2) abort();
    return raise(SIGFPE);
}
int outer(int kind) { return inner(kind) + 1; }
"""
SCRIPT = """
import ctypes, sys
from puffervec.system import crashes
if sys.argv[3:] == ["faulthandler"]:
    import faulthandler; faulthandler.enable()
crashes.watch()
ctypes.CDLL(sys.argv[1]).outer(int(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source_folder()
    folder = tmp_path_factory.mktemp("crashes")
    (folder / "crashes.c").write_text(CRASHES)
    command = [
        os.environ.get("CC", "cc"),
        "-O0",
        "-w",
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
        "-o",
        "crashes.so",
        "crashes.c",
    ]
    subprocess.run(
        [*command, '-Douter=__attribute__((visibility("default")))outer'],
        cwd=folder,
        check=True,
        timeout=60,
    )
    return folder / "crashes.so"


def crash(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SCRIPT, *map(str, args)]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("kind", "number", "function"),
    [
        (0, signal.SIGSEGV, "no_memory"),
        (1, signal.SIGSEGV, "deeper"),
        (2, signal.SIGABRT, "inner"),
        (3, signal.SIGFPE, "inner"),
    ],
    ids=["bad pointer", "stack overflow", "abort", "raised"],
)
def test_static_functions_are_named(library: Path, kind: int, number: int, function: str) -> None:
    done = crash(library, kind)
    assert done.returncode == -number
    assert blamed(done.stderr) == f", in the C function {function} of crashes.so"
    if kind != 1:
        lines = [line.split("+")[0].strip() for line in done.stderr.splitlines()]
        assert lines.index("inner") + 1 == lines.index("outer")


def test_faulthandler_goes_on_after_it(library: Path) -> None:
    done = crash(library, 0, "faulthandler")
    assert done.returncode == -signal.SIGSEGV
    assert done.stderr.index("no_memory") < done.stderr.index(
        "Fatal Python error: Segmentation fault"
    )


def test_a_library_without_names_is_still_told(library: Path, tmp_path: Path) -> None:
    if shutil.which("strip") is None:
        pytest.skip("no strip")
    stripped = tmp_path / "stripped.so"
    subprocess.run(["strip", "-s", "-o", str(stripped), str(library)], check=True, timeout=60)
    done = crash(stripped, 0)
    assert done.returncode == -signal.SIGSEGV and f" in {stripped}\n" in done.stderr
    assert blamed(done.stderr).startswith((", in the C function outer", ""))


def test_a_worker_names_the_function(no_leaks: None) -> None:
    fault = {"fault": SEGV, "fault_step": 3, "fault_env": 2}
    with puffervec.make("probe", num_envs=4, num_workers=2, env_kwargs=fault) as vec:
        vec.reset(seed=0)
        with pytest.raises(
            WorkerDied, match=r"in step 3 of env 2, in the C function \w+ of _native"
        ) as raised:
            for _ in range(5):
                vec.step([0] * vec.num_agents)
    assert "probe_step+0x" in raised.value.trace and "Fatal Python error" in raised.value.trace


def test_a_hang_in_c_names_the_function_too(no_leaks: None) -> None:
    fault = {"fault": HANG, "fault_step": 3, "fault_env": 2}
    with puffervec.make("probe", num_envs=4, num_workers=2, env_kwargs=fault, timeout_s=0.5) as vec:
        vec.reset(seed=0)
        with pytest.raises(
            WorkerTimeout, match=r"in step 3 of env 2, in the C function \w+ of _native"
        ) as raised:
            for _ in range(5):
                vec.step([0] * vec.num_agents)
    assert raised.value.trace.index("probe_step+0x") < raised.value.trace.index("worker_main.py")


SERIAL = """
import puffervec
fault = dict(fault={fault}, fault_step=3)
with puffervec.make("probe", num_envs=2, backend={backend!r}, env_kwargs=fault) as vec:
    vec.reset(seed=0)
    for _ in range(5):
        vec.step([0] * vec.num_agents)
"""


@pytest.mark.parametrize("backend", thinned(2, ["serial", "threading"]))
def test_a_process_that_steps_envs_itself_does_not_die_silently(backend: str) -> None:
    script = SERIAL.format(backend=backend, fault=ABORT)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == -signal.SIGABRT
    assert (
        done.stderr.startswith("puffervec: this process, which steps envs itself")
        and "probe_step+0x" in done.stderr
    )
    assert "Py" not in done.stderr.split("probe_step")[1]  # not the interpreter's frames


HANDLERS = """
import ctypes, puffervec
libc = ctypes.CDLL(None)
def handlers():
    found = []
    for number in (4, 6, 7, 8, 11):
        action = (ctypes.c_char * 256)()
        assert libc.sigaction(number, None, action) == 0
        found.append(bytes(action[:8]))
    return found
before = handlers()
one = puffervec.make("probe", num_envs=1, backend="serial")
two = puffervec.make("probe", num_envs=1, backend="threading")
watched = handlers()
assert all(a != b for a, b in zip(before, watched))
one.close()
assert handlers() == watched
two.close()
two.close()
assert handlers() == before
one = puffervec.make("probe", num_envs=1, backend="serial")
import faulthandler; faulthandler.enable()
theirs = handlers()
one.close()
assert handlers() == theirs
"""


def test_handlers_are_set_back_with_the_last_vector_env() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANDLERS],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
