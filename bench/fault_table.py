# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Test eleven ways in which a vector env of three envs can fail, with several libraries.

Worker 1 is always the one that fails. Each case runs in a separate process and session, which is
killed after LIMIT_S seconds with all its children:

    python -m bench.fault_table puffervec raise      # one case, as bench/faults.py starts it
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 10.0
LEFT_S = 2.0  # Time in which processes must end after their learner.
ENVS = 3
BROKEN = 1
OUR_TIMEOUT_S = 2.0  # The default of 60 s exceeds the limit.
ORIGINAL = "told to fail"

ROWS = {
    "none": "none, close twice, step after close",
    "init": "constructor raises in the worker",
    "raise": "step() raises",
    "kill": "worker kill -9 inside step",
    "idle": "worker kill -9 while idle",
    "exit": "os._exit(3) in step",
    "main raises": "main raises, no close",
    "main returns": "main returns without close",
    "main killed": "main kill -9",
    "ctrl-c": "Ctrl-C to the group",
    "hang": "step never returns",
}


# ---- the env -------------------------------------------------------------------------------------


class Broken(gymnasium.Env[Any, Any]):
    """An env that fails in the chosen way, in its second step or in its constructor."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, how: str) -> None:
        self._how, self._steps = how, 0
        if how == "init":
            raise ValueError(ORIGINAL)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Return zeros."""
        super().reset(seed=seed)
        return np.zeros(4, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return zeros, or fail."""
        self._steps += 1
        if self._steps == 2:
            if self._how == "raise":
                raise ValueError(ORIGINAL)
            if self._how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self._how == "exit":
                os._exit(3)
            while self._how == "hang":
                time.sleep(0.05)
        return np.zeros(4, np.float32), 0.0, False, False, {}


def _makers(how: str) -> list[Callable[[], Any]]:
    return [functools.partial(Broken, how if index == BROKEN else "none") for index in range(ENVS)]


# ---- the libraries -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Subject:
    """A vector env under test.

    Attributes:
        pids: returns the process ids of its workers.
    """

    reset: Callable[[], Any]
    step: Callable[[], Any]
    close: Callable[[], Any]
    pids: Callable[[], Sequence[int]]


def _puffervec(how: str) -> Subject:
    import puffervec

    vec: Any = puffervec.make(
        _makers(how), num_envs=ENVS, num_workers=ENVS, timeout_s=OUR_TIMEOUT_S
    )
    return Subject(
        lambda: vec.reset(seed=0),
        lambda: vec.step([0] * ENVS),
        vec.close,
        lambda: [p.pid for p in vec.processes],
    )


def _puffervec_c(how: str) -> Subject:
    import puffervec
    from puffervec.envs.probe import FAULTS, MOMENTS

    fault = {"init": "error", "raise": "error"}.get(how, how if how in FAULTS else "none")
    kwargs = {
        "fault": FAULTS.index(fault),
        "fault_env": BROKEN,
        "fault_step": MOMENTS["init"] if how == "init" else 2,
    }
    vec: Any = puffervec.make(
        "probe", env_kwargs=kwargs, num_envs=ENVS, num_workers=ENVS, timeout_s=OUR_TIMEOUT_S
    )
    return Subject(
        lambda: vec.reset(seed=0),
        lambda: vec.step([0] * ENVS),
        vec.close,
        lambda: [p.pid for p in vec.processes],
    )


def _gymnasium(how: str) -> Subject:
    vec: Any = gymnasium.vector.AsyncVectorEnv(_makers(how))
    actions = np.zeros(ENVS, np.int64)
    return Subject(
        lambda: vec.reset(seed=0),
        lambda: vec.step(actions),
        vec.close,
        lambda: [p.pid for p in vec.processes],
    )


def _sb3(start_method: str, how: str) -> Subject:
    from stable_baselines3.common.vec_env import SubprocVecEnv

    vec: Any = SubprocVecEnv(_makers(how), start_method=start_method)
    actions = np.zeros(ENVS, np.int64)
    return Subject(
        vec.reset, lambda: vec.step(actions), vec.close, lambda: [p.pid for p in vec.processes]
    )


def _tianshou(how: str) -> Subject:
    from tianshou.env import ShmemVectorEnv

    vec: Any = ShmemVectorEnv(_makers(how))
    actions = np.zeros(ENVS, np.int64)
    return Subject(
        vec.reset,
        lambda: vec.step(actions),
        vec.close,
        lambda: [w.process.pid for w in vec.workers],
    )


def _torchrl_env(how: str) -> Any:
    from torchrl.envs import GymWrapper

    return GymWrapper(Broken(how))


def _torchrl(how: str) -> Subject:
    from torchrl.envs import ParallelEnv

    makers = [
        functools.partial(_torchrl_env, how if index == BROKEN else "none") for index in range(ENVS)
    ]
    vec: Any = ParallelEnv(ENVS, makers, mp_start_method="fork")
    return Subject(
        vec.reset,
        lambda: vec.step(vec.rand_action(vec.reset())),
        vec.close,
        lambda: [p.pid for p in vec.rows.workers],
    )


def _pufferlib_env(how: str, buf: Any = None, seed: int = 0) -> Any:
    from pufferlib.emulation import GymnasiumPufferEnv

    return GymnasiumPufferEnv(env_creator=functools.partial(Broken, how), buf=buf, seed=seed)


def _pufferlib(how: str) -> Subject:
    from pufferlib import vector

    creators = [
        functools.partial(_pufferlib_env, how if index == BROKEN else "none")
        for index in range(ENVS)
    ]
    empty: Any = [[] for _ in creators], [{} for _ in creators]
    vec: Any = vector.make(
        creators, env_args=empty[0], env_kwargs=empty[1],
        backend=vector.Multiprocessing, num_envs=ENVS, num_workers=ENVS,
        overwork=True,
    )  # fmt: skip
    actions = np.zeros(ENVS, np.int64)

    def reset() -> None:
        vec.async_reset(0)
        vec.recv()

    def step() -> None:
        vec.send(actions)
        vec.recv()

    return Subject(reset, step, vec.close, lambda: [p.pid for p in vec.processes])


@dataclass(frozen=True)
class Library:
    """A column of the table.

    Attributes:
        needs: the required package.
    """

    title: str
    needs: str
    open: Callable[[str], Subject]


LIBRARIES = {
    "puffervec": Library("puffervec", "puffervec", _puffervec),
    "puffervec-c": Library("puffervec, C env", "puffervec", _puffervec_c),
    "gymnasium": Library("Gymnasium AsyncVectorEnv", "gymnasium", _gymnasium),
    "sb3": Library(
        "SB3 SubprocVecEnv, forkserver", "stable_baselines3", functools.partial(_sb3, "forkserver")
    ),
    "sb3-fork": Library(
        "SB3 SubprocVecEnv, fork", "stable_baselines3", functools.partial(_sb3, "fork")
    ),
    "tianshou": Library("Tianshou ShmemVectorEnv", "tianshou", _tianshou),
    "torchrl": Library("TorchRL ParallelEnv", "torchrl", _torchrl),
    "pufferlib": Library("PufferLib 3.0 Multiprocessing", "pufferlib", _pufferlib),
}


# ---- one case, in a separate process -------------------------------------------------------------


def _say(**facts: Any) -> None:
    os.write(1, (json.dumps(facts) + "\n").encode())


def _attempt(what: str, work: Callable[[], Any]) -> tuple[Any, bool]:
    """Call a function; return its result or exception, and whether it raised."""
    _say(begins=what)
    try:
        result = work()
    except BaseException as error:
        _say(did=what, raised=type(error).__name__, text=str(error))
        return None, True
    _say(did=what)
    return result, False


def _wait_for_death(pid: int) -> None:
    """Wait until a child is a zombie or gone."""
    path = Path(f"/proc/{pid}/stat")
    while path.exists() and path.read_text().rpartition(")")[2].split()[0] not in "ZX":
        time.sleep(0.001)


def _until_it_raises(subject: Subject, steps: int) -> None:
    for _ in range(steps):
        if _attempt("step", subject.step)[1]:
            return


def _for_ever(subject: Subject) -> None:
    _say(ready=True)
    while True:
        subject.step()


def _play(library: str, row: str) -> None:
    subject, failed = _attempt("make", lambda: LIBRARIES[library].open(row))
    if failed:
        return
    if _attempt("reset", subject.reset)[1] or row == "init":
        _attempt("close", subject.close)
        return
    _attempt("first step", subject.step)
    if row == "main raises":
        raise RuntimeError("of main's own")
    elif row == "main returns":
        return
    elif row == "main killed":
        _for_ever(subject)
    elif row == "ctrl-c":
        _attempt("step", lambda: _for_ever(subject))
    elif row == "idle":
        victim = subject.pids()[BROKEN]
        os.kill(victim, signal.SIGKILL)
        _wait_for_death(victim)
        _until_it_raises(subject, 2)
    elif row != "none":
        _until_it_raises(subject, 2)
    _attempt("close", subject.close)
    if row == "none":
        _attempt("close again", subject.close)
        _attempt("step after close", subject.step)


# ---- outcomes ------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """The outcome of a case.

    Attributes:
        hung: the operation that did not end ("step", "close", "exit", ...), "" if all did.
        raised: type and text of a call's exception.
        closed: outcome of close(), "" if it was not called.
        later: type and text of the exception of a later call.
        left: number of processes that outlived their learner.
        status: exit status of the learner, None if it was killed.
        skipped: reason why the case could not run.
    """

    row: str
    hung: str = ""
    raised: tuple[str, str] | None = None
    closed: str = ""
    later: tuple[str, str] | None = None
    left: int = 0
    status: int | None = None
    skipped: str = ""

    @property
    def text(self) -> str:
        """The cell of the table."""
        if self.skipped:
            return "-"
        parts = []
        if self.raised is not None:
            parts.append(self.raised[0] + self._describe_message())
        elif self.row in ("init", "raise", "kill", "idle", "exit", "hang") and not self.hung:
            parts.append("no exception")
        if self.hung:
            parts.append(
                "HUNG" if self.hung in ("make", "reset", "step") else f"HUNG in {self.hung}"
            )
        if self.closed:
            parts.append(f"close {self.closed}")
        if self.row == "none" and self.later is not None:
            parts.append(f"then {self.later[0]}")
        if self.row in ("main raises", "main returns") and not self.hung:
            parts.append(f"exits {self.status}")
        if self.left or self.row == "main killed":
            parts.append(f"{self.left} processes left" if self.left else "nothing left")
        return "; ".join(parts)

    def _describe_message(self) -> str:
        assert self.raised is not None
        text = self.raised[1]
        words_by_text = {
            f"worker {BROKEN}": f"worker {BROKEN}",
            ORIGINAL: "original text",
            "SIGKILL": "signal",
            "exit status 3": "exit code",
            "exit code": "exit code",
        }
        descriptions = [words for part, words in words_by_text.items() if part in text]
        return f" ({', '.join(descriptions)})" if descriptions else ""

    @property
    def passed(self) -> bool:
        """Whether nothing hung, no process was left, and one exception reported the failure."""
        if self.skipped or self.hung or self.left or self.closed not in ("", "ok"):
            return False
        if self.row == "none":
            return self.raised is None and self.later is not None
        if self.row in ("main raises", "main returns"):
            return self.status == (1 if self.row == "main raises" else 0)
        return self.row == "main killed" or self.raised is not None


def in_session(session: int) -> list[int]:
    """Return the live processes of a session, of all process groups."""
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, _, of = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            except OSError:
                continue
            if int(of) == session and state not in "ZX":
                pids.append(int(entry.name))
    return pids


def end_session(session: int) -> None:
    """Kill all processes of a session."""
    for pid in in_session(session):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _events(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text().splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def _judge(row: str, events: list[dict[str, Any]], status: int | None, left: int) -> Outcome:
    outcome = Outcome(row, left=left, status=status)
    under_way = ""
    for event in events:
        under_way = event.get("begins", "" if "did" in event else under_way)
        exception = (event["raised"], event["text"]) if "raised" in event else None
        did = event.get("did")
        if did == "close":
            outcome.closed = "ok" if exception is None else f"raises {exception[0]}"
        elif did == "close again" and exception is not None:
            outcome.closed += f", again raises {exception[0]}"
        elif did == "step after close":
            outcome.later = exception
        elif did and exception and outcome.raised is None:
            outcome.raised = exception
    if status is None and row != "main killed":
        outcome.hung = under_way or "exit"
    return outcome


def _wait(process: subprocess.Popen[bytes], seconds: float, condition: Callable[[], bool]) -> bool:
    """Wait until the process ends or `condition()` holds; return False after `seconds`."""
    give_up = time.monotonic() + seconds
    while process.poll() is None and not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.005)
    return True


def play(library: str, row: str, interpreter: str = sys.executable) -> Outcome:
    """Run one case in a separate session and return its outcome."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "said"
        with log.open("wb") as out, (Path(folder) / "messages").open("wb") as messages:
            process = subprocess.Popen(
                [interpreter, "-m", "bench.fault_table", library, row],
                stdin=subprocess.DEVNULL, stdout=out,
                stderr=messages, cwd=ROOT, start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
            try:
                if row in ("main killed", "ctrl-c"):
                    _wait(
                        process,
                        2 * LIMIT_S,
                        lambda: any("ready" in event for event in _events(log)),
                    )
                    time.sleep(0.2)
                    os.killpg(process.pid, signal.SIGINT) if row == "ctrl-c" else process.kill()
                # The limit applies to the failure alone: importing a library may take some
                # additional seconds.
                _wait(process, 2 * LIMIT_S, lambda: any("did" in event for event in _events(log)))
                ended = _wait(process, LIMIT_S, lambda: False)
                if ended:
                    _wait_until(lambda: not in_session(process.pid), LEFT_S)
                left = len(in_session(process.pid)) if ended else 0
                return _judge(row, list(_events(log)), process.poll(), left)
            finally:
                process.kill()
                process.wait()
                end_session(process.pid)


def _wait_until(condition: Callable[[], bool], seconds: float) -> None:
    give_up = time.monotonic() + seconds
    while not condition() and time.monotonic() < give_up:
        time.sleep(0.01)


def skip(row: str, why: str) -> Outcome:
    """Return the outcome of a case that cannot run here."""
    return Outcome(row, skipped=why)


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome for JSON, including its cell and whether it passed."""
    return {**dataclasses.asdict(outcome), "text": outcome.text, "passed": outcome.passed}


if __name__ == "__main__":
    # Workers of other libraries import Broken by its module's name, which must not be __main__.
    from bench import fault_table

    fault_table._play(sys.argv[1], sys.argv[2])
