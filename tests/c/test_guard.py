# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Guard zones (csrc/core/guard.c): a write beside a worker's rows is found and named; what is
written inside is not touched.

tests/c/guard_main.c is compiled here with guards, alone and with AddressSanitizer. The tests at the
end look at a whole vector env and run in `make debug` and `make asan` only.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import puffervec
from puffervec._ffi import lib
from puffervec.envs.probe import FAULTS
from tests.builds import source_folder
from tests.c.stress import environment
from tests.helpers import ManyInOne, thinned

FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-DPV_DEBUG", "-O0", "-g", "-Wall", "-Wextra", "-Werror"]
SOURCES = [
    "guard.c",
    "watch.c",
    "turn.c",
    "worker.c",
    "slab.c",
    "channel.c",
    "placement.c",
    "autoreset.c",
    "state.c",
    "action.c",
]
ASAN_EXIT = 66
ASAN = {"ASAN_OPTIONS": f"detect_leaks=1:exitcode={ASAN_EXIT}"}
ARRAYS = [
    *(
        (0, name)
        for name in (
            "observations",
            "rewards",
            "terminals",
            "truncations",
            "masks",
            "agent_types",
            "action_masks",
        )
    ),
    (0, "final_observations"),
    (0, "actions"),
    (1, "observations"),
    (1, "rewards"),
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """guard_main with zones of a pattern, and with zones that AddressSanitizer watches."""
    root, folder = source_folder(), tmp_path_factory.mktemp("guard")
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    files = [
        str(root / "tests/c/guard_main.c"),
        *(str(root / "csrc/core" / name) for name in SOURCES),
    ]
    running = {}
    for kind, flags in {
        "debug": [],
        "sanitize": ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"],
    }.items():
        command = [
            "gcc",
            *FLAGS,
            *flags,
            f"-I{root / 'csrc'}",
            "-o",
            str(folder / kind),
            *files,
            "-lm",
        ]
        running[kind] = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    for process in running.values():
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 0, said
    return {kind: folder / kind for kind in running}


def run(program: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run guard_main; its own report of leaks is an error too."""
    command = [program, *map(str, arguments)]
    return subprocess.run(
        command,
        env=environment(**ASAN),
        capture_output=True,
        text=True,
        errors="replace",
        timeout=100,
    )


@pytest.mark.parametrize(("group", "array"), thinned(3, ARRAYS))
def test_a_write_beside_an_array_is_named(
    programs: dict[str, Path], group: int, array: str
) -> None:
    """The byte next to it, on both sides, and one that is further away."""
    name = ("first", "second")[group]
    for place, distance, words in (
        ("behind", 0, "0 bytes behind their end"), ("behind", 99, "99 bytes behind their end"),
        ("before", 0, "1 bytes before their start"), ("before", 99, "100 bytes before their start"),
    ):  # fmt: skip
        done = run(programs["debug"], "step", group, array, place, distance)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(
            f"{lib.PV_ERROR_BOUNDS} C code of the env wrote outside of its {array} (group "
            f"'{name}', "
        )
        assert "envs 0 to 2" in done.stdout and words in done.stdout


@pytest.mark.parametrize("place", thinned(2, ["before", "behind"]))
@pytest.mark.parametrize(("group", "array"), [(0, "observations"), (0, "actions"), (1, "rewards")])
def test_the_sanitizer_shows_the_line(
    programs: dict[str, Path], group: int, array: str, place: str
) -> None:
    done = run(programs["sanitize"], "step", group, array, place, 0)
    assert done.returncode == ASAN_EXIT and "use-after-poison" in done.stderr
    assert (
        "WRITE of size 1" in done.stderr
        and "in write_beside" in done.stderr
        and "guard_main.c" in done.stderr
    )


def test_a_row_too_far_is_named_however_wide_rows_are(programs: dict[str, Path]) -> None:
    done = run(programs["debug"], "step", 1, "observations", "behind", 1199)
    assert (
        "wrote outside of its observations (group 'second', envs 0 to 2): 1199 bytes behind their "
        "end" in done.stdout
    )


def test_a_reset_is_looked_at_too(programs: dict[str, Path]) -> None:
    assert run(programs["debug"], "reset", 0, "masks", "behind", 0).stdout.startswith(
        f"{lib.PV_ERROR_BOUNDS} "
    )


def test_envs_whose_init_writes_beside_its_rows_are_closed(programs: dict[str, Path]) -> None:
    """So that what they have allocated is freed."""
    done = run(programs["debug"], "init", 0, "masks", "behind", 0)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{lib.PV_ERROR_BOUNDS} ")


def test_a_write_in_close_ends_the_process(programs: dict[str, Path]) -> None:
    done = run(programs["debug"], "close", 0, "masks", "before", 0)
    assert done.stdout == "0 \n" and done.returncode == -signal.SIGABRT
    assert done.stderr.startswith(
        "puffervec: worker 0, in close: C code of the env wrote outside of its masks"
    )


@pytest.mark.parametrize("kind", ["debug", "sanitize"])
@pytest.mark.parametrize("array", ["observations", "rewards", "terminals", "action_masks"])
def test_the_last_byte_inside_is_the_envs(programs: dict[str, Path], kind: str, array: str) -> None:
    """Also of arrays whose size is no multiple of eight. And nothing leaks."""
    done = run(programs[kind], "step", 0, array, "last", 0)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 \n", "")


@pytest.mark.parametrize("distance", [0, 4, 35])
def test_a_worker_process_may_not_touch_the_rows_of_another(
    programs: dict[str, Path], distance: int
) -> None:
    """Its own end at a multiple of four here, so that of the other's first eight bytes the first
    four are out of reach too.
    """
    done = run(programs["sanitize"], "stray", 0, "rewards", "last", distance)
    assert (
        done.returncode == ASAN_EXIT
        and "use-after-poison" in done.stderr
        and "in main" in done.stderr
    )
    assert (
        run(programs["debug"], "stray", 0, "rewards", "last", distance).returncode == 0
    )  # no sanitizer, no poison


# ---- in a whole vector env: make debug, make asan ------------------------------------------------


# The probe's fault writes where the next worker has its rows. In a process of its own, which the
# sanitizer ends.
OOB = """
import sys, puffervec
fault = {"fault": %d, "fault_step": 2, "fault_env": 1}
settings = {"backend": sys.argv[1], "num_workers": int(sys.argv[2])}
with puffervec.make("probe", env_kwargs=fault, num_envs=4, **settings) as vec:
    vec.reset(0)
    vec.step([0] * 4)
    vec.step([0] * 4)
"""


@pytest.mark.guarded_build
@pytest.mark.parametrize(("backend", "workers"), [("serial", 1), ("multiprocessing", 2)])
def test_the_oob_fault_is_caught(backend: str, workers: int) -> None:
    command = [sys.executable, "-c", OOB % FAULTS.index("oob"), backend, str(workers)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    sanitized = os.environ["PUFFERVEC_BUILD"] == "sanitize"
    if sanitized:
        assert "AddressSanitizer: use-after-poison" in done.stderr and "probe.c" in done.stderr
        assert done.returncode == (1 if workers > 1 else -signal.SIGABRT)
    if workers > 1 or not sanitized:
        (error,) = [
            line for line in done.stderr.splitlines() if line.startswith("puffervec.errors.Worker")
        ]
        assert done.returncode == 1 and "worker 0" in error and "step 2" in error
        assert (
            "SIGABRT" if sanitized else "wrote outside of its rewards (group 'agents', envs 0 to"
        ) in error


@pytest.mark.guarded_build
def test_observations_read_too_early_are_nan() -> None:
    with puffervec.make(
        "probe", env_kwargs={"mode": 1}, backend=ManyInOne, num_envs=4, num_workers=2
    ) as vec:
        vec.reset(0)
        before = [rows.rewards.copy() for rows in vec.halves[0].groups.values()]
        vec.serving = False
        vec.send({name: np.zeros_like(rows.actions) for name, rows in vec.halves[0].groups.items()})
        scouts, towers = vec.halves[0].groups.values()
        assert np.isnan(scouts.observations).all()
        assert (
            np.isnan(towers.observations["gauges"]).all()
            and (towers.observations["lights"] == 255).all()
        )
        assert all(
            (rows.rewards == old).all() for rows, old in zip((scouts, towers), before, strict=True)
        )
        for worker in range(2):
            lib.pv_worker_serve(vec.workers.opened + worker, 0)
        vec.recv()
        assert (
            np.isfinite(scouts.observations).all()
            and np.isfinite(towers.observations["gauges"]).all()
        )
        assert scouts.observations[:, 2].tolist() == [1.0] * 4
