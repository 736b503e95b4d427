# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""save and load (puffervec/vec/vector_env.py, csrc/core/worker.c): a loaded run goes on byte for
byte.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import puffervec
from puffervec.errors import CallOrderError, ConfigError, WorkerError
from puffervec.vec.vector_env import VectorEnv
from tests.cases import CASES, Case, require
from tests.helpers import Recorder, action_table, actions_of, serial

ENVS, BEFORE, AFTER = 4, 37, 60

WAYS: list[dict[str, Any]] = [
    {"backend": "serial"},
    {"backend": "serial", "num_buffers": 2},
    {"backend": "serial", "num_buffers": 2, "split": "envs"},
    {"backend": "threading", "num_workers": 3},
    {"backend": "threading", "num_workers": 2, "num_buffers": 2, "split": "workers"},
    {"backend": "multiprocessing", "num_workers": 2, "start_method": "forkserver"},
    {
        "backend": "multiprocessing",
        "num_workers": 2,
        "num_buffers": 2,
        "split": "envs",
        "start_method": "forkserver",
    },
]


def advance(
    vec: VectorEnv,
    table: dict[str, np.ndarray],
    first: int,
    last: int,
    recorder: Recorder | None = None,
) -> None:
    """Hold all halves; then take the steps [first, last) and hold all halves again."""
    for step in range(first, last):
        for half in range(vec.num_buffers):
            vec.send(actions_of(vec, table, step, half))
            infos = vec.recv()[4]
            assert vec.half == half
            if recorder:
                recorder.add(infos)


@cache
def never_saved(name: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The action table of a case, and what steps BEFORE to AFTER show in one serial run."""
    case = next(case for case in CASES if case.name == name)
    with puffervec.make(case.env, env_kwargs=case.kwargs, backend="serial", num_envs=ENVS) as vec:
        table = action_table(vec, AFTER, seed=5, invalid=0.02)
        vec.set_tasks([1, 2], [min(1, vec.spec.tasks - 1), 0])
        vec.reset(seed=77)
        advance(vec, table, 0, BEFORE)
        recorder = Recorder(vec, every=1)
        advance(vec, table, BEFORE, AFTER, recorder)
        return table, shown(recorder)


def shown(recorder: Recorder) -> dict[str, Any]:
    result = recorder.result()
    del result["counters"]  # these are sums since the workers started
    return result


def pairs() -> list[Any]:
    """Every env in every fourth way; in all ways where slow tests run."""
    return [
        pytest.param(
            case,
            way,
            id=f"{case.name}-{' '.join(map(str, way.values()))}",
            marks=[pytest.mark.slow] if (i + k) % 4 else [],
        )
        for i, case in enumerate(CASES)
        for k, way in enumerate(WAYS)
    ]


@pytest.mark.parametrize(("case", "way"), pairs())
def test_a_loaded_run_equals_one_that_was_never_saved(
    case: Case, way: dict[str, Any], no_leaks: None
) -> None:
    """Saved with one backend and number of workers, loaded with another: all pairs come round over
    the ways.
    """
    require(case)
    table, expected = never_saved(case.name)
    with puffervec.make(case.env, env_kwargs=case.kwargs, num_envs=ENVS, **way) as vec:
        vec.set_tasks([1, 2], [min(1, vec.spec.tasks - 1), 0])
        vec.async_reset(77)
        for _ in range(vec.num_buffers):
            vec.recv()
        advance(vec, table, 0, BEFORE)
        saved = vec.save()
        recorder = Recorder(vec, every=1)
        advance(vec, table, BEFORE, AFTER, recorder)
        assert shown(recorder) == expected  # saving changed nothing
    assert all(type(state) is bytes for state in saved)
    assert len({len(state) for state in saved}) == 1
    other = WAYS[(WAYS.index(way) + 3) % len(WAYS)]
    with puffervec.make(case.env, env_kwargs=case.kwargs, num_envs=ENVS, **other) as vec:
        vec.load(saved)
        rows = [vec.recv() for _ in range(vec.num_buffers)]
        assert all(not row[4] for row in rows)
        assert vec.save() == saved
        recorder = Recorder(vec, every=1)
        advance(vec, table, BEFORE, AFTER, recorder)
        assert shown(recorder) == expected
        vec.load(saved)  # and again, into a vec env that went on
        for _ in range(vec.num_buffers):
            vec.recv()
        recorder = Recorder(vec, every=1)
        advance(vec, table, BEFORE, AFTER, recorder)
        assert shown(recorder) == expected


def test_load_returns_the_saved_rows_and_tasks() -> None:
    with serial("probe", {"num_agents": 2, "episode_length": 2}, num_envs=3) as vec:
        vec.set_tasks([0, 1, 2], [5, 6, 7])
        vec.reset(seed=1)
        vec.step([1, 2, 3, 4, 0, 1])
        before, saved = vec.halves[0].block.copy(), vec.save()
        vec.set_tasks([0, 1, 2], 9)
        vec.reset(seed=50)
        vec.load(saved)
        result = vec.recv()
        assert not result[4]
        rows = vec.halves[0].offsets["agents", "actions"]
        assert (vec.halves[0].block[:rows] == before[:rows]).all()
        vec.step([0] * 6)
        vec.step([0] * 6)
        assert vec.halves[0].groups["agents"].observations[::2, 6].tolist() == [5, 6, 7]


def test_envs_may_change_places() -> None:
    """A state belongs to no place: it carries seed, episode and rows."""
    with serial("probe", {}, num_envs=3) as vec:
        vec.reset(seed=[10, 20, 30])
        vec.step([1, 2, 3])
        first, second, third = vec.save()
        vec.load([third, first, third])
        vec.recv()
        assert vec.halves[0].groups["agents"].observations[:, 0].tolist() == [30, 10, 30]
        assert vec.step([0, 0, 0])[0][:, 2].tolist() == [2, 2, 2]


def test_more_envs_than_fit_one_transfer() -> None:
    """The transfer region carries about a megabyte per command; larger blocks go in pieces."""
    kwargs = {"obs_size": 65536}
    with serial("probe", kwargs, num_envs=11) as vec:
        assert vec.rows.slab.transfer_envs < 11
        vec.reset(seed=[*range(11)])
        vec.step([*range(5)] * 2 + [0])
        saved = vec.save()
        before = vec.halves[0].block.copy()
        vec.reset(seed=99)
        vec.load(saved)
        vec.recv()
        rows = vec.halves[0].offsets["agents", "actions"]
        assert (vec.halves[0].block[:rows] == before[:rows]).all()


def test_a_vec_env_that_was_never_reset_may_be_loaded() -> None:
    with serial("probe", {}, num_envs=2) as vec:
        vec.reset(seed=8)
        saved = vec.save()
    with serial("probe", {}, num_envs=2) as vec:
        vec.load(saved)
        with pytest.raises(CallOrderError, match="send.*recv"):
            vec.send([0, 0])
        assert vec.recv()[0][:, 0].tolist() == [8, 9]
        assert vec.reset()[0][:, :2].tolist() == [[8, 1], [9, 1]]  # the seeds came with the states


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda saved: saved[:-1], ["2 states", "3 envs"]),
        (lambda saved: [*saved, saved[0]], ["4 states", "3 envs"]),
        (lambda saved: [], ["0 states", "3 envs"]),
        (lambda saved: [saved[0], saved[1][:-1], saved[2]], ["bytes", "other settings"]),
        (lambda saved: [saved[0], saved[1] + b"x", saved[2]], ["bytes", "other settings"]),
        (lambda saved: [saved[0], b"", saved[2]], ["0 bytes"]),
    ],
)
def test_states_that_do_not_fit_are_refused_and_nothing_is_loaded(
    change: Any, words: list[str]
) -> None:
    with serial("probe", {}, num_envs=3) as vec:
        vec.reset(seed=0)
        saved = vec.save()
        vec.step([1, 2, 3])
        before = vec.save()
        with pytest.raises(ConfigError, match="load") as caught:
            vec.load(change(saved))
        for word in words:
            assert word in str(caught.value)
        assert vec.save() == before
        vec.step([0, 0, 0])  # still in order


def test_a_broken_state_is_refused_by_the_env() -> None:
    """tag_grid would otherwise index its tables with the positions."""
    with serial("tag_grid", {"num_taggers": 1}, num_envs=2) as vec:
        vec.reset(seed=0)
        saved = vec.save()
        for value in (-1, 11, 2**31 - 1, -(2**31)):
            broken = bytearray(saved[1])
            broken[-4:] = int(value).to_bytes(4, "little", signed=True)
            with (
                serial("tag_grid", {"num_taggers": 1}, num_envs=2) as other,
                pytest.raises(WorkerError, match=rf"env 1.*{value}"),
            ):
                other.load([saved[0], bytes(broken)])


@pytest.mark.parametrize("backend", ["serial", "multiprocessing"])
def test_flags_of_a_saved_state_are_flags(backend: str) -> None:
    """A byte of 2 would be a bool that is neither True nor False."""
    with puffervec.make("probe", backend=backend, num_envs=2, num_workers=1) as vec:
        vec.reset(0)
        saved = [bytearray(state) for state in vec.save()]
        flags = 8 + 8 * 4 + 4  # behind the task, the observation and the reward
        assert bytes(saved[1][flags : flags + 3]) == b"\x00\x00\x01"
        for place, name in enumerate(("terminals", "truncations", "masks")):
            broken = [saved[0], bytearray(saved[1])]
            broken[1][flags + place] = 2
            with pytest.raises(
                ConfigError, match=f"the saved state of env 1 has 2 in agents: {name}"
            ):
                vec.load([bytes(state) for state in broken])
        vec.step([0, 0])  # nothing was loaded
