# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Ctrl-C and SIGTERM, as a terminal and a batch system send them: to the whole process group. And
ends without close.
"""

from __future__ import annotations

import os
import random
import re
import signal
import time
from pathlib import Path

import pytest

from bench.fault_table import in_session
from tests.faults.scenarios import Script, run_script
from tests.helpers import eventually

SEED = int(os.environ.get("PV_SEED", "1"))
RANDOM_TIMES = 40

# Says what it does, line by line; what it waits for is told by its argument.
LEARNER = """
    import os, sys, time
    import puffervec, puffervec.errors
    from tests.python_envs import Faulty

    class SlowToMake(Faulty):
        def __init__(self):
            super().__init__()
            if __import__("multiprocessing").parent_process() is not None:
                time.sleep(60)

    class SlowToStep(Faulty):
        def step(self, action):
            os.close(os.open(f"{os.environ['MARKS']}/{os.getpid()}", os.O_CREAT))
            time.sleep(60)

    place = sys.argv[1]
    print("starts", flush=True)
    try:
        slow = SlowToMake if place == "make" else SlowToStep
        vec = puffervec.make(slow, num_envs=2, num_workers=2)
        vec.reset(seed=0)
        print("ready", flush=True)
        if place == "step":
            vec.step([0, 0])
        elif place == "recv":
            vec.send([0, 0])
            vec.recv()
        elif place == "close":
            vec.send([0, 0])
            while len(os.listdir(os.environ["MARKS"])) < 2:
                time.sleep(0.01)
            vec.close()
        time.sleep(60)
    finally:
        print("ends", flush=True)
        if place != "make":
            vec.close()
"""


def waits_in(script: Script, place: str, marks: Path) -> None:
    """Wait until the learner is where it is to be interrupted: its workers step, or start."""
    assert script.line() == "starts"
    if place != "make":
        assert script.line() == "ready"
        eventually(lambda: len(os.listdir(marks)) == 2, "both workers to step")
        return
    # Both workers have been forked when there are the learner, resource tracker, fork server and
    # two more.
    eventually(lambda: len(in_session(script.session)) == 5, "two workers to start")


SLOW = [pytest.param(place, marks=pytest.mark.slow) for place in ("make", "step", "close")]


@pytest.mark.parametrize("place", ["recv", *SLOW])
def test_ctrl_c_is_a_keyboard_interrupt_of_the_learner_only(place: str, tmp_path: Path) -> None:
    with Script(LEARNER, place, MARKS=str(tmp_path)) as script:
        waits_in(script, place, tmp_path)
        script.signal_group(signal.SIGINT)
        status, out, messages = script.end()
        script.nothing_left()
    assert out.splitlines() == ["ends"]
    assert status == -signal.SIGINT
    assert messages.count("Traceback") == 1 and messages.splitlines()[-1].startswith(
        "KeyboardInterrupt"
    )


@pytest.mark.slow
@pytest.mark.parametrize("place", ["step", "close"])
def test_ctrl_c_twice_ends_at_once(place: str, tmp_path: Path) -> None:
    """The second while close() waits for the workers that still step."""
    with Script(LEARNER, place, MARKS=str(tmp_path)) as script:
        waits_in(script, place, tmp_path)
        script.signal_group(signal.SIGINT)
        assert script.line() == "ends"
        script.signal_group(signal.SIGINT)
        status, _, messages = script.end()
        script.nothing_left()
    assert status == -signal.SIGINT
    assert (
        messages.splitlines()[-1].startswith("KeyboardInterrupt") and "puffervec-" not in messages
    )


@pytest.mark.slow
@pytest.mark.parametrize("place", ["step", "make"])
def test_sigterm_to_the_group_leaves_nothing(place: str, tmp_path: Path) -> None:
    with Script(LEARNER, place, MARKS=str(tmp_path)) as script:
        waits_in(script, place, tmp_path)
        script.signal_group(signal.SIGTERM)
        status, _, messages = script.end()
        script.nothing_left()
    assert (status, messages) == (-signal.SIGTERM, "")


STEPPER = """
    import puffervec
    from puffervec.envs.probe import FAULTS

    print("starts", flush=True)
    try:
        while True:
            with puffervec.make("probe", num_envs=4, num_workers=2, num_buffers=2,
                                start_method="%s") as vec:
                vec.async_reset(0)
                for _ in range(2000):
                    vec.recv()
                    vec.send([0, 0])
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_ctrl_c_at_random_times(method: str) -> None:
    """While workers start, step and end."""
    rng = random.Random(f"{SEED} {method}")
    replay = f"PV_SEED={SEED} python -m pytest -m slow {__file__} -k 'random_times and {method}'"
    for _ in range(RANDOM_TIMES):
        with Script(STEPPER % method) as script:
            assert script.line() == "starts"
            time.sleep(rng.uniform(0, 1.0))
            script.signal_group(signal.SIGINT)
            status, out, messages = script.end()
            script.nothing_left()
        # It may come before the with statement has taken hold of the vec env, which is then
        # dropped.
        assert out == "interrupted\n" and (
            messages == "" or re.fullmatch("<string>:8: UnclosedWarning.*\n", messages)
        ), f"{messages}\n{replay}"
        # CPython ends by the signal, though it was handled, where it broke off the import of a
        # module with an exec() inside.
        assert status in (0, -signal.SIGINT), replay


# ---- ends without close --------------------------------------------------------------------------

FORGETS = """
    import sys
    import puffervec, puffervec.errors
    from puffervec.envs.probe import FAULTS

    fault = {"fault": FAULTS.index(sys.argv[1]), "fault_env": 1, "fault_step": 2}
    vec = puffervec.make("probe", env_kwargs=fault, num_envs=2, num_workers=2)
    vec.reset(0)
    vec.step([0, 0])
    vec.send([0, 0])
    try:
        vec.recv(timeout_s=0.2)  # time enough for the worker to begin to hang
    except puffervec.errors.WorkerTimeout:
        pass
    print("at its end", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["none", "spin", "hang"])
@pytest.mark.parametrize("end", ["", "1 / 0"], ids=["returns", "raises"])
def test_an_interpreter_that_ends_without_close(fault: str, end: str) -> None:
    status, out, messages = run_script(FORGETS + f"    {end}\n", fault)
    assert (status, out) == (1 if end else 0, "at its end\n")
    said = (
        "ZeroDivisionError: division by zero"
        if end
        else "never closed.*call close\\(\\), or use it in a with statement"
    )
    assert re.search(said, messages.splitlines()[-1])


@pytest.mark.slow
def test_a_vec_env_that_is_closed_by_an_exit_handler() -> None:
    """Whichever of multiprocessing's own handlers have run by then."""
    text = """
        import atexit
        import puffervec

        vec = puffervec.make("probe", num_envs=2, num_workers=2)
        vec.reset(0)
        atexit.register(vec.close)
        print("ends")
    """
    assert run_script(text) == (0, "ends\n", "")


@pytest.mark.slow
def test_a_vec_env_that_a_finalizer_closes_too_late() -> None:
    """A module's variables go after the workers have been ended."""
    text = """
        import puffervec

        class Owner:
            def __init__(self):
                self.vec = puffervec.make("probe", num_envs=2, num_workers=2)
                self.vec.reset(0)

            def __del__(self):
                self.vec.close()

        owner = Owner()
        print("ends")
    """
    status, out, messages = run_script(text)
    assert (status, out) == (0, "ends\n")
    assert len(messages.splitlines()) == 1 and "UnclosedWarning" in messages


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_a_learners_handler_of_sigterm_stays_in_the_learner(method: str) -> None:
    """A forked worker would have it too, and terminate() would not end it."""
    text = """
        import os, signal, sys
        import puffervec
        from puffervec.errors import WorkerDied

        def handle(number, frame):
            print("handled", flush=True)

        signal.signal(signal.SIGTERM, handle)
        with puffervec.make("probe", num_envs=2, num_workers=2, start_method=sys.argv[1]) as vec:
            assert signal.getsignal(signal.SIGTERM) is handle
            vec.reset(0)
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(vec.processes[1].pid, signal.SIGTERM)
            try:
                while True:
                    vec.step([0, 0])
            except WorkerDied as error:
                print(error.signal)
    """
    assert run_script(text, method) == (0, "handled\nSIGTERM\n", "")
