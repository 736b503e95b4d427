# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Builds of the driving env with other flags give the same bytes: no optimization, one variant only, sanitizers.

The installed extension picks its AVX2 or AVX-512 variants by CPU, so this compares those with plain code too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from puffervec.native import pack_config
from puffervec.vec.vector_env import VectorEnv
from tests.drive_env.worlds import make_env, random_scene, write_world

ROOT = Path(__file__).resolve().parents[2]
STEPS, EPISODES, AGENTS = 50, 3, 40
SETTINGS: tuple[dict[str, Any], ...] = ({}, {"raster": 37, "raster_pixel_m": 0.7, "raster_alone": 1})
BASE = ["-std=c11", "-D_GNU_SOURCE", "-ffp-contract=off", "-fno-math-errno"]
SANITIZE = ["-O1", "-g", "-DPV_DEBUG", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
VARIANTS = {
    "O0": ["-O0", "-DPV_NO_CLONES"],
    "O2, clones": ["-O2"],
    "O3, native": ["-O3", "-march=native", "-DPV_NO_CLONES"],
    "math-errno": ["-O2", "-DPV_NO_CLONES", "-fmath-errno"],
    "sanitizers": SANITIZE,
}


def rows_of(vec: VectorEnv) -> bytes:
    """The rows as drive_main.c writes them."""
    rows = vec.halves[0].groups["agents"]
    parts = (rows.observations, rows.rewards, rows.terminals, rows.truncations, rows.masks)
    return b"".join(np.ascontiguousarray(part).tobytes() for part in parts)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.slow
def test_other_builds_give_the_same_bytes(tmp_path: Path, variant: str) -> None:
    scenes = [random_scene(seed, frames=30, copies=1 + seed % 2, spread_m=25.0 * seed) for seed in (1, 2, 3)]
    write_world(tmp_path / "set", scenes)
    core = ("env.c", "rng.c", "probe.c", "cartpole.c")
    sources = [ROOT / "tests" / "c" / "drive_main.c", *(ROOT / "csrc" / name for name in core)]
    sources += sorted((ROOT / "csrc" / "drive").glob("*.c")) + sorted((ROOT / "csrc" / "tag").glob("*.c"))
    program = tmp_path / "drive_main"
    subprocess.run(["gcc", *BASE, *VARIANTS[variant], "-o", program, *sources, "-lm"], check=True)
    for settings in SETTINGS:
        compare(program, tmp_path, settings)


def compare(program: Path, folder: Path, settings: dict[str, Any]) -> None:
    """Run the program and the installed extension with the same actions."""
    actions = np.random.default_rng(0).integers(0, 91, (STEPS, AGENTS)).astype(np.int32)
    expected = []
    with make_env(folder / "set", num_agents=AGENTS, resample_steps=35, **settings) as vec:
        for episode in range(EPISODES):
            vec.reset(seed=7 + episode)
            expected.append(rows_of(vec))
            for batch in actions:
                vec.step(batch)
                expected.append(rows_of(vec))
        (folder / "config").write_bytes(pack_config(vec.config))
    (folder / "actions").write_bytes(actions.tobytes())
    files = [folder / name for name in ("set", "config", "actions", "out")]
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    subprocess.run([program, *files, str(STEPS), str(EPISODES)], check=True, env=environment)
    assert (folder / "out").read_bytes() == b"".join(expected)
