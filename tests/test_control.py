# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What stands beside the loop (puffervec/vec/control.py), for Python envs and batches in any order;
the rest is in test_vector.py, test_save_load.py and test_python_block.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import puffervec
from puffervec.errors import CallOrderError, ConfigError
from tests.helpers import ManyInOne, serial
from tests.python_envs import Counting

pytestmark = pytest.mark.usefixtures("no_leaks")

ANY_ORDER = {"batch_size": 2, "sync_traj": False, "zero_copy": False}


@pytest.mark.parametrize(
    "layout", [{}, {"num_buffers": 4, "num_workers": 4}, {"num_workers": 4, **ANY_ORDER}], ids=str
)
def test_save_and_load_in_batches(layout: dict[str, Any]) -> None:
    with puffervec.make(
        "probe", num_envs=4, backend=ManyInOne, **{"num_workers": 2, **layout}
    ) as vec:
        batches = 4 // len(vec.halves[0].env_ids) // vec.settings.batch_halves
        vec.async_reset(60)
        for _ in range(batches):
            vec.recv()
        for _ in range(batches):
            vec.send([1] * vec.agents_per_batch)
        shown = {}
        for _ in range(batches):
            observations = vec.recv()[0]
            shown |= dict(zip(vec.env_ids.tolist(), observations.tolist(), strict=True))
        saved = vec.save()
        vec.async_reset(7)
        with pytest.raises(CallOrderError, match="load: half 0 is sent: call recv first"):
            vec.load(saved)
        for _ in range(batches):
            vec.recv()
        vec.load(saved)
        loaded = {}
        for _ in range(batches):
            result = vec.recv()
            loaded |= dict(zip(vec.env_ids.tolist(), result[0].tolist(), strict=True))
            assert not result[4]
        assert loaded == shown
        for _ in range(batches):
            vec.send([2] * vec.agents_per_batch)
        for _ in range(batches):
            assert vec.recv()[0][:, 2].tolist() == [2] * vec.agents_per_batch


def test_loaded_halves_report_no_records_of_the_run_before() -> None:
    settings = {"num_envs": 6, "num_workers": 6, "backend": ManyInOne, **ANY_ORDER}
    with puffervec.make("probe", env_kwargs={"episode_length": 1}, **settings) as vec:
        vec.async_reset(0)
        for _ in range(3):
            vec.recv()
        saved = vec.save()
        for _ in range(3):
            vec.send([1, 1])
        assert sum(len(vec.recv()[4].episodes) for _ in range(3)) == 6
        vec.load(saved)
        assert [len(vec.recv()[4].episodes) for _ in range(3)] == [0, 0, 0]


def test_calls_of_each_half_between_batches() -> None:
    with puffervec.make(Counting, num_envs=4, num_workers=4, backend=ManyInOne, **ANY_ORDER) as vec:
        vec.async_reset(0)
        with pytest.raises(CallOrderError, match="get 'label': half 0 is sent: call recv first"):
            vec.get_attr("label")
        vec.recv()
        with pytest.raises(CallOrderError, match="half 2 is sent"):
            vec.get_attr("label")
        vec.recv()
        assert vec.get_attr("seed") == (0, 1, 2, 3)
        vec.send([1, 1])
        vec.send([1, 1])
        assert sorted([*vec.recv()[0][:, 0], *vec.recv()[0][:, 0]]) == [0, 1, 2, 3]


def test_tasks_and_counters_of_all_halves() -> None:
    with serial("probe", {"episode_length": 2}, num_envs=4, num_buffers=4) as vec:
        vec.set_tasks([3, 0], [7, 8])
        vec.async_reset(0)
        tasks = []
        for _ in range(4):
            tasks.append(int(vec.recv()[0][0, 6]))
            vec.send([9])  # out of range
        for _ in range(4):
            vec.recv()
        assert tasks == [8, -1, -1, 7]
        assert vec.counters() == {"steps": 4, "invalid_actions": 4}


def test_python_envs_have_no_tasks() -> None:
    with (
        puffervec.make(Counting, backend="serial") as vec,
        pytest.raises(ConfigError, match="Python env and has no tasks"),
    ):
        vec.set_tasks([0], [0])


def test_a_saved_task_that_is_not_there_is_refused_and_nothing_is_loaded() -> None:
    layouts = {
        "num_taggers": 1,
        "starting_location_x": [[0, 1], [2, 3]],
        "starting_location_y": [[0, 1], [2, 3]],
    }
    with serial("tag_grid", layouts, num_envs=2) as vec:
        vec.set_tasks([0, 1], [0, 1])
        vec.reset(seed=0)
        states = vec.save()
        vec.step([1, 1, 1, 1])
        before = vec.peek(0)
        states[1] = (2).to_bytes(8, "little") + states[1][8:]
        with pytest.raises(ConfigError, match="load: tag_grid has no task 2"):
            vec.load(states)
        assert all((vec.peek(0)[name] == value).all() for name, value in before.items())


def test_options_of_a_c_env_are_its_task() -> None:
    with serial("probe", {}, num_envs=3) as vec:
        assert vec.reset(0, options={"task": 5})[0][:, 6].tolist() == [5, 5, 5]
        assert vec.reset(mask=np.array([True, False, False]), options={"task": 6})[0][
            :, 6
        ].tolist() == [6, 5, 5]
        assert vec.reset(options={})[0][:, 6].tolist() == [6, 5, 5]
        with pytest.raises(ConfigError, match="options are .*level.*'probe' takes None or"):
            vec.reset(options={"level": 1})


# ---- poke ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["serial", "threading", "multiprocessing"])
@pytest.mark.parametrize("buffers", [1, 2])
def test_poke_sets_one_env_also_while_the_other_half_is_under_way(
    backend: str, buffers: int
) -> None:
    workers = {} if backend == "serial" else {"num_workers": 2, "split": "envs"}
    settings: dict[str, Any] = {
        "num_envs": 4,
        "num_buffers": buffers,
        "start_method": "forkserver",
        **workers,
    }
    with puffervec.make(
        "probe", env_kwargs={"episode_length": 9}, backend=backend, **settings
    ) as vec:
        vec.async_reset(20)
        before = vec.recv()[0]  # of the first half; the other one is under way or there is none
        vec.poke(1, {"step": 4, "last_action": [3], "seed": 5})
        assert before[:2, :5].tolist() == [[20, 0, 0, 0, 0], [5, 0, 4, 0, 3]]
        with pytest.raises(
            ConfigError,
            match="env 0 of probe is unchanged, since step is 10: it must be from 0 to 9",
        ):
            vec.poke(0, {"step": 10})
        vec.send([1] * vec.agents_per_batch)
        if buffers == 2:
            vec.recv()
            vec.send([1] * vec.agents_per_batch)
        assert vec.recv()[0][:2, 2].tolist() == [1, 5]


def test_a_loaded_env_can_be_set_before_it_is_received() -> None:
    with serial("probe", {}, num_envs=2) as vec:
        vec.reset(0)
        vec.load(vec.save())
        vec.poke(1, {"step": 3})
        assert vec.recv()[0][:, 2].tolist() == [0, 3]


def test_one_number_may_be_a_number() -> None:
    """tag_grid shows its time as (1,)."""
    with serial("tag_grid", {"num_taggers": 1}) as vec:
        vec.reset(0)
        vec.poke(0, {"time": 7})
        assert vec.peek(0)["time"].tolist() == [7]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"steps": 2**31}, "steps is 2147483648, which int32 cannot hold: give int32 of shape ()"),
        ({"steps": 1.0}, "steps has dtype float64: give int32"),
        ({"steps": [1, 2]}, r"steps has shape \(2,\): give int32 of shape \(\)"),
        ({"x": "left"}, "x has dtype <U4: give float64"),
        ({"x": None}, "x has dtype object"),
        ({"x": 5.0}, "x is 5: it must be from -4.8 to 4.8"),
        ({"x": float("nan")}, "x is nan"),
        (
            {"y": 1.0},
            "no state named 'y': it has x float64, x_dot float64, theta float64, theta_dot "
            "float64, steps int32",
        ),
        (7, "the state is 7: give a mapping"),
    ],
)
def test_what_is_no_state_is_refused(state: Any, words: str) -> None:
    with serial("cartpole", {}) as vec:
        vec.reset(0)
        before = vec.save()
        with pytest.raises(ConfigError, match=f"^poke: .*{words}"):
            vec.poke(0, state)
        assert vec.save() == before


def test_a_poked_env_has_the_record_of_its_next_episode() -> None:
    """The record of the one before was left when it ended."""
    with serial("cartpole", {"max_episode_steps": 3}) as vec:
        vec.reset(0)
        records = [vec.step([step % 2])[4].episodes for step in range(3)]
        assert [(int(r["episode"]), int(r["length"])) for part in records for r in part] == [(0, 3)]
        vec.poke(0, {"steps": 1})
        records = [vec.step([step % 2])[4].episodes for step in range(3)]
        assert [(int(r["episode"]), int(r["length"])) for part in records for r in part] == [(1, 3)]


def test_disabled_autoreset_steps_an_env_that_was_set_to_go_on() -> None:
    with serial("probe", {"episode_length": 2}, num_envs=2, autoreset_mode="disabled") as vec:
        vec.reset(0)
        for _ in range(2):
            vec.step([0, 0])
        vec.poke(0, {"step": 0})
        with pytest.raises(CallOrderError, match="env 1 is done"):
            vec.step([0, 0])
        vec.poke(1, {"step": 1})
        assert vec.step([0, 0])[2].tolist() == [False, True]


@pytest.mark.parametrize("autoreset", ["next_step", "same_step"])
@pytest.mark.parametrize("name", ["cartpole", "tag_grid"])
def test_a_saved_row_with_a_number_that_no_env_writes_is_refused(name: str, autoreset: str) -> None:
    """In any row, also one of padding, and before anything is changed."""
    with puffervec.make(name, num_envs=2, backend="serial", autoreset_mode=autoreset) as vec:
        observations = vec.reset(seed=3)[0]
        saved = vec.save()
        for group in vec.spec.groups:
            rows = observations if len(vec.spec.groups) == 1 else observations[group.name]
            first, last = (rows[row].tobytes() for row in (group.agents, 2 * group.agents - 1))
            start, end = saved[1].index(first), saved[1].rindex(last) + len(last)
            assert (end - start) % len(first) == 0
            for place in (
                start,
                end - 4,
                start + group.agents * len(first),
            ):  # the last is the first reward
                endless = place == end - 4 and np.isinf(group.fields[-1].high)
                for value in (np.nan,) if endless else (np.nan, np.inf, -np.inf):
                    bad = saved[1][:place] + np.float32(value).tobytes() + saved[1][place + 4 :]
                    with pytest.raises(
                        ConfigError,
                        match=f"load: the saved state of env 1 has {value} in {group.name}",
                    ):
                        vec.load([saved[0], bad])
        assert vec.save() == saved
        vec.load(saved)
