# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Python envs that fail, hang or cannot travel, scripts without a main guard: a named error each
time, nothing left behind.
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import puffervec
from puffervec.errors import CallOrderError, WorkerDied, WorkerError, WorkerTimeout
from puffervec.vec.vector_env import VectorEnv
from tests.helpers import slow_but, thinned
from tests.python_envs import Counting, Faulty

pytestmark = pytest.mark.usefixtures("no_leaks")


def make(*places: tuple[str, str], good: int = 3, **settings: Any) -> VectorEnv:
    """Make `good` envs and one that fails at (place, kind) as the last but one; two workers."""
    creators: list[Any] = [functools.partial(Counting, length=100)] * good
    creators[good - 1 : good - 1] = [functools.partial(Faulty, *place) for place in places]
    defaults = {"num_workers": 2, "start_method": "fork"}
    return puffervec.make(creators, num_envs=len(creators), **{**defaults, **settings})


def play(vec: VectorEnv) -> None:
    vec.async_reset(0)
    for _ in range(5):
        vec.recv()
        vec.send([1] * vec.agents_per_batch)
    vec.call("told") if vec.turns.state[0] == "received" else vec.recv()


# ---- exceptions ----------------------------------------------------------------------------------


def test_an_exception_of_the_driver_is_the_users_own() -> None:
    """It is made in this process, so nothing stands between."""
    with pytest.raises(ValueError, match="^told to fail$"):
        puffervec.make(functools.partial(Faulty, "init"), num_envs=2, num_workers=2)


@pytest.mark.parametrize("backend", ["serial", "multiprocessing"])
def test_a_close_that_fails_hinders_nobody(
    backend: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    creators = [
        functools.partial(Faulty, place, label=place, log=str(log))
        for place in ("close", "good", "close")
    ]
    workers = {} if backend == "serial" else {"num_workers": 2, "start_method": "fork"}
    vec = puffervec.make(creators, num_envs=3, backend=backend, **workers)
    vec.reset(seed=0)
    vec.close()
    assert sorted(log.read_text().split("\n")[:-1]) == ["close closed"] * 3 + [
        "good closed"
    ]  # the driver is one
    assert capfd.readouterr().err.count("ValueError: told to fail") == 2


@pytest.mark.parametrize(
    ("place", "kind", "words", "cause"),
    thinned(
        2,
        [
            (
                "init",
                "two parts",
                "TwoPartsError: this and that",
                False,
            ),  # pickles, but cannot be made again
            ("step", "long", "RuntimeError: xxx", True),
            ("step", "local", "LocalError: holds a frame", False),  # cannot be pickled
            ("init", "not ascii", "RuntimeError: é", True),
            (
                "step",
                "exit",
                "SystemExit: 3",
                True,
            ),  # the env wants to end its process; that is no reason to end this one
            ("init", "exit", "SystemExit: 3", True),
            ("step", "interrupt", "KeyboardInterrupt", True),
        ],
    ),
)
def test_any_exception_is_a_worker_error(place: str, kind: str, words: str, cause: bool) -> None:
    error = pytest.raises(WorkerError, match=f"worker 1, env 2(, step [0-9]+)?: {words}")
    with error as caught, make((place, kind)) as vec:
        play(vec)
    assert (caught.value.__cause__ is not None) == cause


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_in_this_process_an_interrupt_is_itself(error: type[BaseException]) -> None:
    kind = {KeyboardInterrupt: "interrupt", SystemExit: "exit"}[error]
    with puffervec.make(
        functools.partial(Faulty, "step", kind), backend="serial", num_envs=2
    ) as vec:
        with pytest.raises(error):
            play(vec)
        with pytest.raises(CallOrderError, match="call reset"):
            vec.step([0, 0])
        assert vec.reset(seed=0)[0][:, 2].tolist() == [0, 0]
        vec.step([0, 0])


# ---- death and hanging ---------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["reset", "step", "call", "init"])
def test_a_worker_that_is_killed_is_named(place: str) -> None:
    with (
        pytest.raises(WorkerDied, match="worker 1 was ended by SIGKILL"),
        make((place, "kill")) as vec,
    ):
        vec.reset(seed=0)
        vec.call("told")
        play(vec)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["reset", "step", "call"])
def test_a_hang_is_a_timeout_and_close_ends_it(place: str) -> None:
    with make((place, "hang"), timeout_s=0.3) as vec:
        with pytest.raises(WorkerTimeout, match=r"worker 1 gave no answer in 0\.3 s: an env hangs"):
            vec.reset(seed=0)
            vec.call("told")
            play(vec)
        with pytest.raises(WorkerTimeout, match="cannot go on"):
            vec.reset(seed=0)


def test_a_recv_with_a_time_limit_can_be_gone_on_with() -> None:
    """Its turn goes on; here until the worker, which stood still, runs again."""
    with make() as vec:
        vec.reset(seed=0)
        pid = vec.processes[1].pid
        os.kill(pid, signal.SIGSTOP)
        vec.send([1, 2, 3])
        for _ in range(2):
            with pytest.raises(
                WorkerTimeout, match=r"worker 1 did not answer within 0\.05 s; its turn continues"
            ):
                vec.recv(timeout_s=0.05)
        os.kill(pid, signal.SIGCONT)
        assert vec.recv()[0][:, 3].tolist() == [1, 2, 3]
        assert vec.step([4, 5, 6])[0][:, 3].tolist() == [4, 5, 6]


def test_a_timeout_in_any_order_can_be_gone_on_with() -> None:
    with make(num_workers=3, batch_size=3, sync_traj=False, zero_copy=False) as vec:
        vec.reset(seed=0)
        pid = vec.processes[2].pid
        os.kill(pid, signal.SIGSTOP)
        vec.send([1, 2, 3])
        with pytest.raises(WorkerTimeout, match="its turn continues"):
            vec.recv(timeout_s=0.05)
        os.kill(pid, signal.SIGCONT)
        assert vec.recv()[0][:, 3].tolist() == [1, 2, 3]


@pytest.mark.slow
def test_a_start_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The constructor's own time-out is long, since envs may load much; here it is short."""
    from puffervec.vec import workers

    monkeypatch.setattr(workers, "START_TIMEOUT_S", 0.5)
    with pytest.raises(
        WorkerTimeout,
        match=r"worker 1 was not ready after 0\.5 s: an env's constructor hangs.*timeout_s",
    ):
        make(("init", "hang"), timeout_s=0.5)


# ---- how envs travel -----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_factory_of_a_module_that_workers_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is pickled by name, and the name leads nowhere there."""
    source = "def make():\n    from tests.python_envs import Counting\n    return Counting()\n"
    (tmp_path / "only_here.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("only_here")
    (tmp_path / "only_here.py").unlink()
    for cached in (tmp_path / "__pycache__").glob("*"):
        cached.unlink()
    with pytest.raises(
        WorkerError, match="worker 0: Traceback.*(.|\n)*No module named 'only_here'"
    ):
        puffervec.make(module.make, num_workers=1, start_method="forkserver")
    sys.modules.pop("only_here")


class Told(Counting):
    """Tells about its process."""

    def told_of(self, variable: str) -> tuple[str | None, str, str | None]:
        return os.environ.get(variable), os.getcwd(), os.environ.get("OMP_NUM_THREADS")


@pytest.mark.slow
@pytest.mark.parametrize("start_method", slow_but(["forkserver"], ["forkserver", "spawn"]))
def test_workers_have_the_environment_and_the_folder_of_now(
    start_method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fork server that runs already has older ones."""
    if start_method == "forkserver":
        make(("none", "none"), start_method="forkserver").close()
    monkeypatch.setenv("PUFFERVEC_TOLD", "of now")
    monkeypatch.chdir(tmp_path)
    with puffervec.make(Told, num_envs=2, num_workers=2, start_method=start_method) as vec:
        assert vec.call("told_of", "PUFFERVEC_TOLD") == (("of now", str(tmp_path), "1"),) * 2


@pytest.mark.slow
def test_python_envs_are_forked_from_a_server_and_c_envs_spawned() -> None:
    with puffervec.make("CartPole-v1", num_workers=1) as vec:
        assert vec.settings.start_method == "forkserver"
        assert (
            "gymnasium.envs.classic_control.cartpole" in vec.env.preload
            and "puffervec.workers.python.block" in vec.env.preload
        )
    with puffervec.make("probe", num_workers=1) as vec:
        assert vec.settings.start_method == "spawn"
