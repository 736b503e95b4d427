# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Compiles and runs the fuzzing program (fuzz_main.c) with sanitizers; what it feeds on is made
here.

Run by scripts/fuzz.py and tests/fuzz/test_program.py.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from drive_env.scenes.compile import CompileSettings, compile_scene
from drive_env.scenes.reader import read_scene
from drive_env.scenes.sceneset import write_scene_set
from puffervec import envs
from puffervec.contract.native import NativeEnv, pack_config, pack_params
from tests.c.stress import env_types

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CORPUS = HERE / "corpus"
REGRESSIONS = HERE / "regressions"
FLAGS = [
    "-std=gnu11",
    "-g",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-Wall",
    "-Wextra",
    "-Wno-psabi",
    "-DPV_DEBUG",
]
SANITIZE = [
    "-fsanitize=address,undefined,float-cast-overflow",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
]
MEMORY_MIB = 256
# One allocation may take 80 MiB: one env's state (64) with what the allocator adds. The whole
# process MEMORY_MIB.
LIMITS = {
    "ASAN_OPTIONS": f"max_allocation_size_mb=80:hard_rss_limit_mb={MEMORY_MIB}:"
    "quarantine_size_mb=1:detect_leaks=0:abort_on_error=0:exitcode=99",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
}
IDM = {"others": "idm", "control": "sdc", "metrics": 1, "resample_steps": 9}
EXPERTS = {
    "dynamics": "invertible_bicycle",
    "actions": "continuous",
    "expert_actions": 1,
    "observe_previous_action": 1,
    "max_jerk_mps3": 9.0,
}
# Settings of every env that the program plays, by the name of the env.
CASES: tuple[tuple[str, Mapping[str, object]], ...] = (
    ("probe", {"num_agents": 3, "leave": 1, "end_kind": 2, "episode_length": 5}),
    ("probe", {"mode": 1, "num_agents": 2, "episode_length": 4}),
    ("cartpole", {"max_episode_steps": 12}),
    ("tag_grid", {"num_taggers": 2, "grid_length": 4, "episode_length": 9}),
    (
        "tag_grid",
        {"num_taggers": 2, "grid_length": 5, "use_full_observation": False, "random_starts": True},
    ),
    (
        "tag_continuous",
        {"num_taggers": 2, "num_runners": 3, "grid_length": 2.0, "episode_length": 9},
    ),
    (
        "tag_continuous",
        {
            "num_runners": 39,
            "use_full_observation": False,
            "num_other_agents_observed": 5,
            "episode_length": 5,
        },
    ),
    (
        "covid",
        {
            "episode_length": 9,
            "action_cooldown_period": 3,
            "subsidy_interval": 4,
            "vaccine_delivery_start": 5,
        },
    ),
    (
        "drive",
        {"num_agents": 8, "resample_steps": 7, "partners": 3, "lanes": 4, "lines": 2, "edges": 3},
    ),
    (
        "drive",
        {
            "num_agents": 9,
            "control": 1,
            "goal_behavior": "drive_on",
            "replay_log": 1,
            "edges": 0,
            "max_steps": 3,
        },
    ),
    (
        "drive",
        {
            **IDM,
            "num_agents": 5,
            "goal_behavior": "next",
            "route": 3,
            "controls": 2,
            "lidar_rays": 5,
        },
    ),
    (
        "drive",
        {
            **EXPERTS,
            "num_agents": 8,
            "control": "all",
            "observation": "pufferdrive",
            "row_dtype": "float16",
        },
    ),
)


class Broken(AssertionError):
    """The program ended with something else than its line of JSON. Attributes: input: its number;
    data: its bytes.
    """

    def __init__(self, text: str, number: int, data: bytes) -> None:
        super().__init__(text)
        self.input, self.data = number, data


@dataclass(frozen=True)
class Report:
    """What one run of a target found: counts, and its slowest input and largest memory."""

    inputs: int
    accepted: int
    refused: int
    too_large: int
    slowest_us: int
    slowest: int
    peak_rss_bytes: int


def build(program: Path, optimize: str = "-O0", sanitize: Sequence[str] = SANITIZE) -> Path:
    """Compile the program with what it needs of the core and return its path; without sanitizers in
    a third of the time.
    """
    core = [*(ROOT / "csrc/core" / name for name in ("action.c", "state.c")), *env_types()]
    arguments = [
        *FLAGS,
        *sanitize,
        optimize,
        f"-I{ROOT / 'csrc'}",
        "-o",
        str(program),
        str(HERE / "fuzz_main.c"),
        *map(str, core),
        "-lm",
    ]
    done = subprocess.run(["gcc", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the fuzzing program does not compile: {done.stderr}")
    return program


def run(
    program: Path,
    target: str,
    arguments: Sequence[object],
    seed: int,
    first: int,
    count: int,
    trace: Path,
    timeout_s: float,
) -> Report:
    """Run inputs [first, first + count) of a target.

    Raises: Broken where an invariant does not hold, a sanitizer has something to say, or an input
        takes too long.
    """
    command = [program, target, seed, first, count, trace, *arguments]
    environment = {**os.environ, **LIMITS}
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env=environment, timeout=timeout_s
    )
    if done.returncode == 0:
        return Report(**json.loads(done.stdout))
    content = trace.read_bytes() if trace.exists() else bytes(16)
    number, size = (int.from_bytes(content[at : at + 8], "little") for at in (0, 8))
    said = "\n".join(done.stderr.strip().splitlines()[:30])
    raise Broken(
        f"{target}: input {number} of seed {seed}: exit code {done.returncode}\n{said}",
        number,
        content[16 : 16 + size],
    )


def compile_corpus(folder: Path) -> list[Path]:
    """Compile the corpus of scenes: sets of one scene each, and one set of all of them."""
    settings = CompileSettings((4, 4, 4), 50.0)
    scenes = [compile_scene(read_scene(path), settings) for path in sorted(CORPUS.glob("*.json"))]
    groups = {**{scene.name: [scene] for scene in scenes}, "all": scenes}
    for name, group in groups.items():
        write_scene_set(folder / f"{name}.pvset", group, settings)
    return [folder / f"{name}.pvset" for name in groups]


def write_cases(folder: Path, scenes: Path) -> list[str]:
    """Write config and params of CASES to files; returns what the program takes as CASE."""
    found = []
    for number, (name, settings) in enumerate(CASES):
        env: NativeEnv = envs.get(name)
        config = env.configure(settings)
        params = {} if name == "drive" else env.build(config).params
        (folder / f"{number}.config").write_bytes(pack_config(config))
        (folder / f"{number}.params").write_bytes(pack_params(params))
        parts = [
            name,
            folder / f"{number}.config",
            folder / f"{number}.params",
            *([scenes] if name == "drive" else []),
        ]
        found.append(":".join(map(str, parts)))
    return found
