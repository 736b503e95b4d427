# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Python envs behind the table of functions (puffervec/workers/python/block.py): seeds, options,
calls, errors, rows without space.
"""

from __future__ import annotations

import functools
import gc
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import puffervec
from puffervec.errors import CallOrderError, ConfigError, WorkerError
from puffervec.vec.vector_env import VectorEnv
from tests.helpers import ManyInOne
from tests.python_envs import Counting, Faulty, Walkers

pytestmark = pytest.mark.usefixtures("no_leaks")


def make(*creators: Any, workers: int = 1, **settings: Any) -> VectorEnv:
    """Make a vec env in this process with one env per creator."""
    return puffervec.make(
        list(creators), num_envs=len(creators), backend=ManyInOne, num_workers=workers, **settings
    )


def labelled(count: int, **kwargs: Any) -> list[Any]:
    return [functools.partial(Counting, label=f"env {i}", **kwargs) for i in range(count)]


# ---- seeds and options ---------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_seeds_of_resets(workers: int) -> None:
    with make(*labelled(3), workers=workers, seed=7) as vec:
        assert vec.reset()[0][:, :2].tolist() == [
            [7, 0],
            [8, 0],
            [9, 0],
        ]  # the first reset takes the seed of make
        assert vec.reset()[0][:, :2].tolist() == [
            [7, 1],
            [8, 1],
            [9, 1],
        ]  # no seed: each env goes on
        assert vec.reset(seed=20)[0][:, :2].tolist() == [[20, 0], [21, 0], [22, 0]]
        assert vec.reset(seed=[5, None, np.int64(6)])[0][:, :2].tolist() == [
            [5, 0],
            [21, 1],
            [6, 0],
        ]
        assert vec.reset(seed=np.array([1, 2, 3]))[0][:, 0].tolist() == [1, 2, 3]
        assert vec.reset(seed=[None] * 3)[0][:, :2].tolist() == [[1, 1], [2, 1], [3, 1]]
    with make(*labelled(2), seed=None) as vec:
        assert vec.reset()[0][:, 0].tolist() == [-1, -1]  # they were never seeded
        assert vec.reset(seed=[None, 5])[0][:, 0].tolist() == [-1, 5]
    with make(*labelled(2), seed=None) as vec:
        assert vec.reset(seed=[None, 5])[0][:, 0].tolist() == [-1, 5]
    with make(*labelled(2), seed=[None, 6]) as vec:
        assert vec.reset()[0][:, 0].tolist() == [-1, 6]


@pytest.mark.parametrize("workers", [1, 3])
def test_options_reach_every_env_that_is_reset_and_no_later_reset(workers: int) -> None:
    options = {"level": 3, "name": "maze"}
    with make(*labelled(3), workers=workers, autoreset_mode="disabled") as vec:
        assert vec.reset(seed=0, options=options)[1] == [{"options": options}] * 3
        assert not vec.reset()[1]
        found = vec.reset(mask=np.array([False, True, False]), options=options)[1]
        assert found.per_env(3) == [{}, {"options": options}, {}]
        assert not vec.reset()[1]
        assert vec.reset(seed=[4, None, 5], options=options)[1] == [{"options": options}] * 3
        assert vec.reset(options={})[1] == [{"options": {}}] * 3


def test_a_refused_reset_leaves_no_options_behind() -> None:
    with make(*labelled(2)) as vec:
        with pytest.raises(ConfigError, match="seed"):
            vec.reset(seed=-1, options={"level": 3})
        assert not vec.reset(seed=0)[1]


# ---- calls ---------------------------------------------------------------------------------------


def every_layout() -> list[Any]:
    return [
        pytest.param({"backend": "serial"}, id="serial"),
        pytest.param({"backend": "serial", "num_buffers": 2}, id="serial, two buffers"),
        pytest.param({"backend": ManyInOne, "num_workers": 3}, id="three workers"),
        pytest.param(
            {
                "backend": "multiprocessing",
                "num_workers": 2,
                "start_method": "fork",
                "num_buffers": 2,
            },
            id="processes",
        ),
        pytest.param(
            {
                "backend": "serial",
                "num_workers": 4,
                "batch_size": 2,
                "sync_traj": False,
                "zero_copy": False,
            },
            id="first come",
        ),
    ]


@pytest.mark.parametrize("layout", every_layout())
def test_calls_and_attributes_are_in_env_order(layout: dict[str, Any]) -> None:
    with puffervec.make(labelled(4), num_envs=4, **layout) as vec:
        assert vec.call("told", 1, x=[2]) == tuple(
            (f"env {i}", (1,), {"x": [2]}) for i in range(4)
        )  # before any reset
        assert vec.get_attr("label") == tuple(f"env {i}" for i in range(4)) == vec.call("label")
        vec.set_attr("length", [1, 2, 3, 4])
        assert vec.get_attr("length") == (1, 2, 3, 4)
        vec.set_attr("label", "same")
        assert vec.get_attr("label") == ("same",) * 4
        vec.set_attr("label", ({"any": 1}, None, "c", [4]))
        assert vec.get_attr("label") == ({"any": 1}, None, "c", [4])
        vec.async_reset(0)
        with pytest.raises(CallOrderError, match="call 'told'.*call recv first"):
            vec.call("told")
        vec.recv()


def test_calls_go_through_gymnasium_wrappers() -> None:
    with make(lambda: gymnasium.wrappers.TimeLimit(Counting(9, "inner"), 2)) as vec:
        assert vec.get_attr("label") == ("inner",) and vec.get_attr("_max_episode_steps") == (2,)
        vec.set_attr("length", [4])
        assert vec.get_attr("length") == (4,)


# ---- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["reset", "step", "call"])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_an_error_names_worker_and_env_and_is_the_cause(place: str, workers: int) -> None:
    creators = labelled(4)
    creators[2] = functools.partial(Faulty, place)
    with make(*creators, workers=workers) as vec:
        words = f"^worker {2 * workers // 4}, env 2(, step [0-9]+)?: ValueError: told to fail\n"
        with pytest.raises(WorkerError, match=words) as caught:
            vec.reset(seed=0)
            vec.call("told")
            for _ in range(3):
                vec.step([0] * 4)
        assert isinstance(caught.value.__cause__, ValueError) and "Traceback" in str(caught.value)
        assert "python_envs.py" in str(caught.value)
        if place == "call":
            vec.reset(seed=0)  # nobody was stopped in the middle of a step
        else:
            with pytest.raises(WorkerError, match="cannot go on: close it"):
                vec.reset(seed=0)


def test_after_an_error_in_a_call_all_envs_go_on() -> None:
    """The others have answered, their answers are dropped, and the next error is told as itself."""
    creators = labelled(4)
    creators[1] = creators[2] = functools.partial(Faulty, "call", label="faulty")
    layouts: list[dict[str, Any]] = [{"workers": 1}, {"workers": 2}, {"workers": 4}]
    for layout in layouts:
        with make(*creators, **layout) as vec:
            vec.reset(seed=0)
            for _ in range(2):
                with pytest.raises(
                    WorkerError, match="env 1(, step [0-9]+)?: ValueError: told to fail"
                ) as caught:
                    vec.call("told")
                assert isinstance(caught.value.__cause__, ValueError)
            vec.set_attr("place", ["", "", "call", ""])
            with pytest.raises(
                WorkerError, match="env 2(, step [0-9]+)?: ValueError: told to fail"
            ):
                vec.call("told")
            with pytest.raises(WorkerError, match="env 0(, step [0-9]+)?: AttributeError"):
                vec.get_attr("nothing")
            assert vec.get_attr("label") == ("env 0", "faulty", "faulty", "env 3")
            assert vec.step([1, 2, 3, 4])[0][:, 3].tolist() == [1, 2, 3, 4]


def test_errors_of_a_call_in_several_halves_of_a_worker() -> None:
    creators = [functools.partial(Faulty, "call")] * 4
    with make(*creators, num_buffers=4, split="envs") as vec:
        vec.async_reset(0)
        for _ in range(4):
            vec.recv()
        for _ in range(2):
            with pytest.raises(WorkerError, match=r"worker 0, env \d: ValueError: told to fail"):
                vec.call("told")
        vec.set_attr("place", "")
        assert len(vec.call("told")) == 4
        for _ in range(4):
            vec.send([3])
        assert [vec.recv()[0][0, 3] for _ in range(4)] == [3] * 4


@pytest.mark.parametrize("what", ["call", "set", "options"])
def test_what_cannot_be_sent_to_workers_is_sent_to_none(what: str) -> None:
    settings: dict[str, Any] = {"num_workers": 2, "start_method": "fork"}
    with puffervec.make(labelled(2), num_envs=2, **settings) as vec:
        vec.reset(seed=0)
        lock = threading.Lock()
        ways = {
            "call": lambda: vec.call("told", lock),
            "set": lambda: vec.set_attr("length", [3, lock]),
            "options": lambda: vec.reset(options={"lock": lock}),
        }
        with pytest.raises(
            ConfigError, match=f"{what}.*cannot be sent to workers .TypeError: .*lock"
        ):
            ways[what]()
        assert vec.get_attr("length") == (3, 3)
        assert not vec.reset()[1]


@pytest.mark.slow
def test_options_of_a_reset_that_is_still_under_way_are_not_touched() -> None:
    """Of many resets in a row over real processes, each with options, the last ones count."""
    with puffervec.make(
        labelled(4), num_envs=4, num_workers=2, num_buffers=2, start_method="fork"
    ) as vec:
        for n in range(200):
            vec.async_reset(0, options={"n": n, "long": "x" * 1000})
            if n % 3 == 0:
                for _ in range(2):
                    assert (
                        vec.recv()[4].per_env(2) == [{"options": {"n": n, "long": "x" * 1000}}] * 2
                    )


def test_a_constructor_that_fails_in_the_second_part_of_a_worker(tmp_path: Path) -> None:
    """The part that was opened is closed, and another vec env may take its place in memory."""
    log = str(tmp_path / "log")
    creators = labelled(4, log=log)
    creators[3] = functools.partial(Faulty, "init")
    for _ in range(3):
        with pytest.raises(
            WorkerError, match="worker 0, env 3(, step [0-9]+)?: ValueError"
        ) as caught:
            puffervec.make(creators, num_envs=4, backend="serial", num_buffers=2, split="envs")
        assert isinstance(caught.value.__cause__, ValueError)
        assert sorted(Path(log).read_text().split("\n")[:-1]) == sorted(
            f"env {i} closed" for i in (0, 0, 1, 2)
        )
        Path(log).unlink()
        with puffervec.make(
            labelled(4), num_envs=4, backend="serial", num_buffers=2, split="envs"
        ) as vec:
            assert vec.get_attr("log") == (None,) * 4


# ---- rows ----------------------------------------------------------------------------------------


def test_an_env_with_other_rows_than_the_first_is_refused() -> None:
    def odd(space: str, **changes: Any) -> Any:
        env = Counting()
        setattr(env, space, changes["to"])
        return env

    for space, other, words in (
        ("observation_space", spaces.Box(-1, 1, (5,)), "observation space Box.*the first one Box"),
        ("observation_space", spaces.Box(-1, 1, (4,), np.float64), "observation space"),
        (
            "action_space",
            spaces.MultiDiscrete([2, 2]),
            r"action space MultiDiscrete.*the first one Discrete\(8\)",
        ),
    ):
        with pytest.raises(
            WorkerError, match=f"env 1(, step [0-9]+)?: ConfigError: this env has the {words}"
        ):
            make(Counting, functools.partial(odd, space, to=other))
    with make(
        Counting, functools.partial(odd, "observation_space", to=spaces.Box(-5, 5, (4,)))
    ) as vec:  # bounds may differ
        vec.reset(seed=0)


def test_rows_of_no_bytes() -> None:
    class Blind(Counting):
        observation_space = spaces.Box(-1, 1, (0,))

        def seen(self, action: Any) -> np.ndarray:
            return np.zeros(0, np.float32)

    for kind in ("next_step", "same_step"):
        with make(Blind, Blind, workers=2, autoreset_mode=kind) as vec:
            assert vec.reset(seed=0)[0].shape == (2, 0)
            for _ in range(4):
                observations, rewards, *_ = vec.step([1, 2])
            assert observations.shape == (2, 0) and rewards.shape == (2,)


# ---- what outlives the vec env, and what arrives from outside ------------------------------------


@pytest.mark.slow
def test_arrays_of_a_puffer_env_stay_readable() -> None:
    """The env has adopted rows of the slab; whoever holds them keeps the slab."""
    vec = puffervec.make(Walkers, env_args=[20_000], backend="serial")
    vec.reset(seed=3)
    rows = vec.get_attr("observations")[0]
    expected = rows.copy()
    vec.close()
    del vec
    gc.collect()
    assert (rows == expected).all() and rows[0].tolist() == [0, 3]


@pytest.mark.slow
def test_a_value_of_a_class_of_the_main_module_reaches_workers(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import puffervec\nfrom tests.python_envs import Counting\n\n"
        "class Custom:\n    def __init__(self, n): self.n = n\n\n"
        "with puffervec.make(Counting, num_envs=2, num_workers=2) as vec:\n"
        "    vec.set_attr('label', Custom(5))\n    print([c.n for c in vec.get_attr('label')])\n"
    )
    root = str(Path(__file__).resolve().parents[1])
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("[5, 5]\n", "")
