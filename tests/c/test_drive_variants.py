# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Builds of the driving env with other flags give the same bytes: no optimization, one variant
only, sanitizers.

The installed extension picks its AVX2 or AVX-512 variants by CPU, so this compares those with plain
code too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.env import params_of
from puffervec.contract.native import pack_config, pack_params
from puffervec.vec.vector_env import VectorEnv
from tests.c import memcheck
from tests.drive_env.covering import COVERING
from tests.drive_env.worlds import lit, make_env, random_scene, write_world
from tests.helpers import action_table, raw_rows

STEPS, EPISODES, AGENTS = 50, 3, 40
CPU = set(Path("/proc/cpuinfo").read_text().split()) if Path("/proc/cpuinfo").exists() else set()
BASE = ["-std=c11", "-D_GNU_SOURCE", "-ffp-contract=off", "-fno-math-errno"]
BASE.append(f"-I{memcheck.ROOT / 'csrc'}")
SANITIZE = [
    "-O1",
    "-g",
    "-DPV_DEBUG",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=undefined",
]
VARIANTS = {
    "O0": ["-O0", "-DPV_NO_CLONES"],
    "O2, clones": ["-O2"],
    "plain": ["-O2", "-DPV_NO_CLONES"],
    "avx2": ["-O2", "-DPV_NO_CLONES", "-mavx2"],
    "avx512": ["-O2", "-DPV_NO_CLONES", "-march=x86-64-v4"],
    "O3, native": ["-O3", "-march=native", "-DPV_NO_CLONES"],
    "math-errno": ["-O2", "-DPV_NO_CLONES", "-fmath-errno"],
    "sanitizers": SANITIZE,
}

NEEDED = {"avx2": {"avx2"}, "avx512": {"avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512cd"}}


def rows_of(vec: VectorEnv) -> bytes:
    """The rows as drive_main.c writes them."""
    parts = ("observations", "rewards", "terminals", "truncations", "masks")
    return b"".join(raw_rows(vec, 0, part, "agents").tobytes() for part in parts) + state_of(vec)


def state_of(vec: VectorEnv) -> bytes:
    """The readable state as C lays it out."""
    state, out = vec.peek(0), bytearray(vec.spec.state_bytes)
    for field in vec.spec.state_fields:
        values = np.ascontiguousarray(state[field.name]).tobytes()
        out[field.offset : field.offset + len(values)] = values
    return bytes(out)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.slow
def test_other_builds_give_the_same_bytes(tmp_path: Path, variant: str) -> None:
    if missing := NEEDED.get(variant, set()) - CPU:
        pytest.skip(f"this CPU has no {', '.join(sorted(missing))}")
    scenes = [
        lit(random_scene(seed, frames=30, copies=1 + seed % 2, spread_m=25.0 * seed), seed)
        for seed in (1, 2, 3)
    ]
    write_world(tmp_path / "set", scenes)
    program = tmp_path / "drive_main"
    subprocess.run(
        ["gcc", *BASE, *VARIANTS[variant], "-o", program, *memcheck.drive_sources(), "-lm"],
        check=True,
    )
    for settings in COVERING:
        compare(program, tmp_path, settings)


def compare(program: Path, folder: Path, settings: dict[str, Any]) -> None:
    """Run the program and the installed extension with the same actions."""
    expected = []
    with make_env(
        folder / "set", **{"num_agents": AGENTS, "resample_steps": 35, **settings}
    ) as vec:
        actions = action_table(vec, STEPS, seed=0)["agents"]
        for episode in range(EPISODES):
            vec.reset(seed=7 + episode)
            expected.append(rows_of(vec))
            for batch in actions:
                vec.step(batch[:, 0] if vec.spec.groups[0].action_kind == "discrete" else batch)
                expected.append(rows_of(vec))
        (folder / "config").write_bytes(
            pack_config(vec.config) + pack_params(params_of(vec.config))
        )
    (folder / "actions").write_bytes(actions.tobytes())
    files = [folder / name for name in ("set", "config", "actions", "out")]
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    subprocess.run([program, *files, str(STEPS), str(EPISODES)], check=True, env=environment)
    assert (folder / "out").read_bytes() == b"".join(expected)
