# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/wings/ocean: envs of three generations show here, byte for byte, what they show in a
plain C harness of their generation.

The harness (tests/ocean_envs/harness) knows nothing of puffervec. A step in which all agents of an
env end is followed here by a reset row, which the harness does not have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import puffervec
from puffervec.vec.vector_env import VectorEnv
from tests.builds import source_folder
from tests.wings.ocean.samples import (
    SAMPLES,
    Harness,
    Sample,
    Trace,
    allowed,
    as_sent,
    draw_actions,
    joined,
    lay_out,
    row_dtype,
)

ENVS, STEPS = 6, 700
SERIAL: dict[str, Any] = {"backend": "serial"}
TWO: dict[str, Any] = {"backend": "multiprocessing", "num_workers": 2}
THREADS: dict[str, Any] = {"backend": "threading", "num_workers": 2}
Case = tuple[Sample, Path, Harness, np.ndarray]


def rows_of(vec: VectorEnv, sample: Sample, dtype: np.dtype) -> np.ndarray:
    """Return the current rows of all envs, (envs, agents), in the layout of the harness."""
    rows = next(iter(vec.halves[0].groups.values()))
    result = np.zeros(ENVS * sample.agents, dtype)
    shown = rows.observations.reshape(len(result), -1)
    if sample.observation[0] == "u2" and shown.dtype == np.float32:
        bits = np.ascontiguousarray(shown).view(np.uint32)
        assert not (bits & 0xFFFF).any()
        shown = (bits >> 16).astype(np.uint16)
    assert shown.dtype == dtype["observation"].base
    result["observation"], result["reward"] = shown, rows.rewards
    result["end"] = rows.terminals
    assert not rows.truncations.any() and rows.masks.all()
    if rows.action_masks is not None:
        result["mask"] = rows.action_masks
    return result.reshape(ENVS, sample.agents)


def play(vec: VectorEnv, sample: Sample, actions: np.ndarray) -> Trace:
    """Step each env with its own column of `actions` until it has taken all of them."""
    group = next(iter(vec.halves[0].groups.values()))
    masked = group.action_masks is not None
    dtype = row_dtype(*sample.observation, sum(sample.actions) if masked else 0)
    steps, every = len(actions), np.arange(ENVS)
    shown = np.zeros((steps + 1, ENVS, sample.agents), dtype)
    vec.reset(seed=0)
    shown[0] = rows_of(vec, sample, dtype)
    taken, over = np.zeros(ENVS, int), np.zeros(ENVS, bool)
    sums: dict[str, float] = {}
    while (taken < steps).any():
        now = actions[np.minimum(taken, steps - 1), every].reshape(-1, len(sample.actions))
        if masked:
            now = allowed(now, group.action_masks, sample.actions)
        active = taken < steps
        _, _, _, _, infos = vec.step(as_sent(now, sample.actions))
        rows = rows_of(vec, sample, dtype)
        for env in np.flatnonzero(active):
            if over[env]:  # the reset row
                last = shown[taken[env], env]
                assert (rows[env]["observation"] == last["observation"]).all()
                assert (rows[env]["mask"] == last["mask"]).all()
                assert not rows[env]["reward"].any() and not rows[env]["end"].any()
                over[env] = False
                continue
            taken[env] += 1
            shown[taken[env], env] = rows[env]
            over[env] = rows[env]["end"].all()
        for info in infos:
            if active[info["env"]]:
                for name, value in info.items():
                    sums[name] = sums.get(name, 0.0) + value * (info["n"] if name != "n" else 1)
    log = {name: value if name == "n" else value / sums["n"] for name, value in sums.items()}
    return Trace(shown, log)


@pytest.fixture(scope="module", params=SAMPLES, ids=lambda sample: sample.name)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    source_folder()
    sample = request.param
    root = tmp_path_factory.mktemp(sample.name)
    folder = lay_out(sample.name, root)
    return sample, folder, Harness(sample, root), draw_actions(sample, STEPS, ENVS)


@pytest.mark.parametrize(
    "how",
    [SERIAL, TWO, pytest.param(THREADS, marks=pytest.mark.slow)],
    ids=lambda how: how["backend"],
)
def test_rows_and_logs_are_those_of_the_harness(case: Case, how: dict[str, Any]) -> None:
    sample, folder, harness, actions = case
    if sample.shared and how is THREADS:
        pytest.skip("threads share globals while they step")
    if sample.shared:
        parts = [slice(0, ENVS)] if how is SERIAL else [slice(0, 3), slice(3, ENVS)]
        expected = joined([harness.run(part.start, actions[:, part]) for part in parts])
    else:
        expected = harness.run_apart(actions)
    with puffervec.make(f"ocean:{folder}", num_envs=ENVS, seed=0, **how) as vec:
        got = play(vec, sample, actions)
    for name in expected.rows.dtype.names or ():
        mine, theirs = (
            np.ascontiguousarray(trace.rows[name]).reshape(*trace.rows.shape, -1)
            for trace in (got, expected)
        )
        assert mine.shape == theirs.shape, name
        differ = np.argwhere((mine != theirs) & ~((mine != mine) & (theirs != theirs)))
        assert len(differ) == 0, f"{name} differs first at (step, env, agent, ...) {differ[0]}"
        assert mine.tobytes() == theirs.tobytes(), name
    assert expected.log["n"] > 10
    for name, value in expected.log.items():
        assert got.log[name] == pytest.approx(value, rel=1e-4, abs=1e-6), name


def test_a_reset_with_the_same_seed_begins_the_same_episodes(case: Case) -> None:
    sample, folder, _, actions = case
    if sample.shared:
        pytest.skip("a global counts the resets of the process")
    with puffervec.make(f"ocean:{folder}", num_envs=ENVS, backend="serial") as vec:
        first, other, again = (play_seeded(vec, sample, actions[:50], seed) for seed in (3, 90, 3))
    assert first == again
    assert first != other


def play_seeded(vec: VectorEnv, sample: Sample, actions: np.ndarray, seed: int) -> bytes:
    """Return the bytes of the observations and rewards of some steps."""
    vec.reset(seed=seed)
    group = next(iter(vec.halves[0].groups.values()))
    shown = [group.observations.tobytes()]
    for step in actions:
        now = step.reshape(-1, len(sample.actions))
        if group.action_masks is not None:
            now = allowed(now, group.action_masks, sample.actions)
        vec.step(as_sent(now, sample.actions))
        shown += [group.observations.tobytes(), group.rewards.tobytes()]
    return b"".join(shown)
