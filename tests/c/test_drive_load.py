# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Loading a driving env (csrc/drive/drive.c): what was saved comes back; what is broken is refused or harmless, no crash."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from puffervec._ffi import ffi, lib
from puffervec.env_types import find as env_type
from puffervec.vec.vector_env import VectorEnv
from tests.drive_env.worlds import make_env, random_scene, write_world

AGENTS = 12


@pytest.fixture
def vec(tmp_path: Path) -> Iterator[VectorEnv]:
    """An env that has run for a while."""
    write_world(tmp_path / "set", [random_scene(seed, objects=8, roads=9) for seed in (1, 2)])
    with make_env(tmp_path / "set", num_agents=AGENTS) as made:
        made.reset(seed=3)
        for _ in range(25):
            made.step(np.full(AGENTS, 80))
        yield made


def block_of(vec: VectorEnv) -> Any:
    """The serial backend's only block."""
    return vec.workers.opened[0].blocks + 0


def saved_state(vec: VectorEnv) -> np.ndarray:
    """The env's own bytes, without rows."""
    block = block_of(vec)
    out = np.zeros(block.spec.save_bytes, np.uint8)
    assert env_type("drive").save(block, 0, ffi.from_buffer("uint8_t[]", out)) == lib.PV_OK
    return out


def load(vec: VectorEnv, state: np.ndarray) -> int:
    return int(env_type("drive").load(block_of(vec), 0, ffi.from_buffer("uint8_t[]", state)))


def run(vec: VectorEnv, steps: int) -> bytes:
    """Step without any channel; returns the rows."""
    actions = np.random.default_rng(0).integers(0, 91, (4, AGENTS)).astype(np.int32)
    assert lib.pv_bench_steps(vec.workers.opened, ffi.cast("int32_t*", ffi.from_buffer(actions)), 4, steps) >= 0
    return bytes(vec.halves[0].block)


def test_a_loaded_state_goes_on_as_if_never_saved(vec: VectorEnv) -> None:
    state = saved_state(vec)
    expected = run(vec, 40)
    after = saved_state(vec)
    assert load(vec, state) == lib.PV_OK
    assert run(vec, 40) == expected and (saved_state(vec) == after).all()


def test_unaligned_bytes_load_too(vec: VectorEnv) -> None:
    state = saved_state(vec)
    shifted = np.zeros(len(state) + 1, np.uint8)
    shifted[1:] = state
    assert load(vec, shifted[1:]) == lib.PV_OK and (saved_state(vec) == state).all()


def test_broken_states_are_refused_or_harmless(vec: VectorEnv) -> None:
    state = saved_state(vec)
    rng = np.random.default_rng(5)
    words = np.array([0, 1, 77, 2**31 - 1, 2**31, 2**32 - 1, 0x7F800000, 0x7FC00000, 0x4B800000], np.uint32)
    codes = []
    for _ in range(600):
        broken = state.copy()
        places = rng.integers(0, len(state) // 4, rng.integers(1, 4))
        broken.view(np.uint32)[places] = rng.choice(words, len(places))
        codes.append(load(vec, broken))
        run(vec, 3)
        observations = vec.halves[0].groups["agents"].observations
        assert np.isfinite(observations.view(np.float32)).all()
    assert codes.count(lib.PV_OK) > 10 and codes.count(lib.PV_ERROR_STATE) > 100
    assert set(codes) == {lib.PV_OK, lib.PV_ERROR_STATE}
