# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Runs the C programs under valgrind's memcheck: reads and writes out of bounds, uninitialised
bytes, leaks. Uses envs_main.c, drive_main.c, channel_stress.c.

    python -m tests.c.memcheck      (make valgrind)
"""

from __future__ import annotations

import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import puffervec
from puffervec.contract import native
from puffervec.vec.vector_env import VectorEnv
from tests.c import stress
from tests.c.stress import ROOT
from tests.drive_env.worlds import make_env, random_scene, write_world

VALGRIND = [
    "valgrind", "-q", "--error-exitcode=9", "--leak-check=full",
    "--errors-for-leak-kinds=definite,indirect,possible", "--track-origins=yes", "--fair-sched=yes",
]  # fmt: skip
ERROR_EXIT = 9
MISSING = (
    "valgrind is not installed: apt-get install valgrind, or your system's package of that name"
)
# Uninitialised bytes are found at any level of optimization; the names in a report are best
# without.
BUILD = ("-O1", "-DPV_NO_CLONES", "-Wno-psabi")
ENVS_CORE = (
    "action",
    "autoreset",
    "channel",
    "placement",
    "slab",
    "state",
    "turn",
    "watch",
    "worker",
)
SCENES = 3


@dataclass(frozen=True)
class Case:
    """One run of envs_main."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    autoreset: str = "next_step"
    envs: int = 3
    steps: int = 60


CASES = (
    Case(
        "probe", {"num_agents": 3, "obs_size": 12, "episode_length": 7, "leave": 1, "end_kind": 2}
    ),
    Case("probe", {"mode": 1, "episode_length": 5}, "same_step"),
    Case("cartpole"),
    Case("cartpole", {}, "same_step"),
    Case("tag_grid"),
    Case("tag_grid", {}, "same_step"),
    Case(
        "tag_continuous",
        {"num_runners": 4, "grid_length": 2.0, "episode_length": 20, "tagging_distance": 0.1},
    ),
    Case(
        "tag_continuous",
        {"num_runners": 4, "use_full_observation": False, "episode_length": 20},
        "same_step",
    ),
    Case(
        "tag_continuous",
        {"num_runners": 39, "use_full_observation": False, "tagging_distance": 0.05},
    ),
    Case("covid"),
    Case(
        "covid",
        {"episode_length": 20, "delivery_interval": 3, "vaccine_delivery_start": 5},
        "same_step",
    ),
    Case("drive", {"num_agents": 24, "resample_steps": 35}, envs=2),
    Case("lantern"),
)


def envs_sources(root: Path = ROOT) -> list[Path]:
    """Return the C files that envs_main is made of, without those of the ocean example."""
    core = [root / "csrc/core" / f"{name}.c" for name in ENVS_CORE]
    return [root / "tests/c/envs_main.c", *core, *stress.env_types(root)]


def compile_envs(target: Path, root: Path = ROOT) -> Path:
    """Compile envs_main with the ocean example in it and return `target`."""
    lantern = ROOT / "examples/ocean/lantern"
    flags = [
        *stress.FLAGS,
        *BUILD,
        f"-I{root / 'csrc'}",
        f"-I{root / 'csrc/contract'}",  # as env authors include it
        f"-I{lantern}",
        "-DEXTRA_TYPE=pv_env_type_lantern",
    ]
    sources = [*envs_sources(root), lantern / "glue.c"]
    subprocess.run(
        [*stress.compiler(), *flags, *map(str, sources), "-o", str(target), "-lm"],
        check=True,
        timeout=300,
    )
    return target


def drive_sources() -> list[Path]:
    """Return the C files that drive_main is made of."""
    return [ROOT / "tests/c/drive_main.c", *stress.env_types()]


def compile_drive(target: Path) -> Path:
    """Compile drive_main and return `target`."""
    command = [
        *stress.compiler(),
        *stress.FLAGS,
        *BUILD,
        f"-I{ROOT / 'csrc'}",
        *map(str, drive_sources()),
        "-o",
        str(target),
        "-lm",
    ]
    subprocess.run(command, check=True, timeout=300)
    return target


def write_scenes(folder: Path) -> Path:
    """Return a compiled set of small random scenes."""
    if not (folder / "set").exists():
        write_world(
            folder / "set",
            [random_scene(seed, objects=8, roads=12, frames=30) for seed in range(SCENES)],
        )
    return folder / "set"


def arguments(case: Case, folder: Path, seed: int) -> list[str]:
    """Write the files of a case into `folder` and return the arguments of envs_main."""
    data: Path | None = None
    if case.name == "lantern":
        config, params = struct.pack("=iif", 9, 32, 0.01), native.pack_params({})
    else:
        with open_case(case, folder) as vec:
            assert isinstance(vec.env, native.NativeEnv)
            build = vec.env.build(vec.config)
            config, params, data = (
                vec.env.pack(vec.config),
                native.pack_params(build.params),
                build.data,
            )
    (folder / "config").write_bytes(config)
    (folder / "params").write_bytes(params)
    files = [str(folder / "config"), str(folder / "params"), str(data or "-")]
    return [case.name, *files, case.autoreset, str(case.envs), str(case.steps), str(seed)]


def open_case(case: Case, folder: Path) -> VectorEnv:
    """Return a vec env of a case's type and settings."""
    if case.name == "drive":
        return make_env(write_scenes(folder), **case.settings)
    return puffervec.make(case.name, env_kwargs=case.settings, backend="serial", num_envs=1)


def drive_arguments(folder: Path, steps: int = 40, agents: int = 24) -> list[str]:
    """Write the files of drive_main and return its arguments."""
    with make_env(write_scenes(folder), num_agents=agents) as vec:
        (folder / "drive_config").write_bytes(native.pack_config(vec.config))
    actions = np.random.default_rng(stress.seed()).integers(0, 91, (steps, agents)).astype(np.int32)
    (folder / "actions").write_bytes(actions.tobytes())
    return [
        *(str(folder / name) for name in ("set", "drive_config", "actions", "out")),
        str(steps),
        "2",
    ]


def check(command: Sequence[str], timeout_s: float = 1800.0) -> subprocess.CompletedProcess[str]:
    """Run a program under memcheck. Exit status 9: memcheck has something to say, on stderr."""
    return subprocess.run([*VALGRIND, *command], capture_output=True, text=True, timeout=timeout_s)


def commands(folder: Path) -> list[list[str]]:
    """Compile everything into `folder` and return what is to be checked."""
    envs = str(compile_envs(folder / "envs_main"))
    drive = str(compile_drive(folder / "drive_main"))
    channel = str(
        stress.compile_program("channel_stress", folder / "channel_stress", "-O1", "-DPV_NO_CLONES")
    )
    found = []
    for number, case in enumerate(CASES):
        (folder / str(number)).mkdir()
        found.append([envs, *arguments(case, folder / str(number), stress.seed())])
    found.append([drive, *drive_arguments(folder)])
    found += [
        [channel, "threads", *setup.arguments(100, stress.seed())] for setup in stress.THREADS
    ]
    return found


def main() -> int:
    """Run everything under memcheck and return the exit status: 2 without valgrind, 1 if it has
    something to say.
    """
    if shutil.which("valgrind") is None:
        print(MISSING, file=sys.stderr)
        return 2
    failed = 0
    with tempfile.TemporaryDirectory() as made:
        for command in commands(Path(made)):
            done = check(command)
            shown = shlex.join([Path(command[0]).name, *command[1:]]).replace(f"{made}/", "")
            print(
                f"{'ok' if done.returncode == 0 else 'FAILED'}  {shown}  {done.stdout.strip()}",
                flush=True,
            )
            if done.returncode:
                failed = 1
                print(done.stderr, file=sys.stderr, flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
