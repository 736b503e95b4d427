# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Tabulate eleven failures with this library and others, and measure the reaction times of ours.

    python bench/faults.py table      # Markdown; libraries that are not installed are skipped
    python bench/faults.py workers    # kill a worker: time until the learner has the exception
    python bench/faults.py learner    # kill the learner: time until all its processes are gone
    python bench/faults.py close      # time of close(), also while a worker hangs

Random moments come from --seed (default: PV_SEED, or 1).
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common, fault_table

MOMENTS = ("idle", "in a step", "stepping")
METHODS = ("spawn", "forkserver", "fork")
START_S = (
    0.5  # A learner is killed within this time after its start; starting takes about half of it.
)
GIVE_UP_S = 20.0


# ---- the table -----------------------------------------------------------------------------------


def _missing(name: str, interpreters: dict[str, str]) -> str:
    """Return the reason why a library cannot be tested, "" if it can."""
    needs = fault_table.LIBRARIES[name].needs
    if name in interpreters:
        done = subprocess.run(
            [interpreters[name], "-c", f"import {needs}"], capture_output=True, text=True
        )
        return done.stderr.strip().rpartition("\n")[2] if done.returncode else ""
    return "" if importlib.util.find_spec(needs) is not None else f"{needs} is not installed"


def table(options: argparse.Namespace, note: Callable[[str], None]) -> dict[str, Any]:
    """Run all rows for all libraries and return {library: {row: outcome}}."""
    interpreters = {"pufferlib": options.pufferlib_python} if options.pufferlib_python else {}
    outcomes: dict[str, Any] = {}
    for name in options.libraries.split(","):
        why = _missing(name, interpreters)
        outcomes[name] = {}
        for row in options.rows.split(","):
            note(f"{name}: {row}")
            interpreter = interpreters.get(name, sys.executable)
            outcome = (
                fault_table.skip(row, why) if why else fault_table.play(name, row, interpreter)
            )
            outcomes[name][row] = fault_table.as_json(outcome)
    return outcomes


def markdown(outcomes: dict[str, Any]) -> str:
    """Return the table as Markdown: a column per library, and the number of rows it passes."""
    played = {
        name: rows
        for name, rows in outcomes.items()
        if not any(row["skipped"] for row in rows.values())
    }
    lines = []
    for row in next(iter(played.values()), {}):
        lines.append([fault_table.ROWS[row], *[rows[row]["text"] for rows in played.values()]])
    passed = [sum(row["passed"] for row in rows.values()) for rows in played.values()]
    lines.append(
        [
            "rows passed",
            *[
                f"{count} of {len(rows)}"
                for count, rows in zip(passed, played.values(), strict=True)
            ],
        ]
    )
    titles = [fault_table.LIBRARIES[name].title for name in played]
    return common.markdown(("failure", *titles), lines)


# ---- a dead worker -------------------------------------------------------------------------------


def _probe(
    fault: str = "none", workers: int = 2, method: str = "forkserver", **settings: Any
) -> Any:
    import puffervec
    from puffervec.envs.probe import FAULTS

    kwargs = {
        "fault": FAULTS.index(fault),
        "fault_env": workers - 1,
        "fault_step": 2,
        "episode_length": 1000,
    }
    layout = {"num_envs": workers, "num_workers": workers, "start_method": method, **settings}
    return puffervec.make("probe", env_kwargs=kwargs, **layout)


def _kill_after(pid: int, seconds: float, killed: list[int]) -> threading.Thread:
    """Kill a process from a thread after `seconds` and append the time, in ns, to `killed`."""

    def kill() -> None:
        time.sleep(seconds)
        killed.append(time.monotonic_ns())
        os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def dead_worker_ms(moment: str, rng: random.Random) -> float:
    """Kill a worker of two and return the time until the learner has the exception, in ms.

    Args:
        moment: "idle": between two turns, the second of which starts immediately; "in a step" that
            never ends, while the learner waits; "stepping": at a random time while the learner
            steps without a pause.
    """
    from puffervec.errors import WorkerDied

    with _probe("hang" if moment == "in a step" else "none") as vec:
        vec.reset(0)
        actions = np.zeros(2, np.int32)
        vec.step(actions)
        victim = vec.processes[1].pid
        killed: list[int] = []
        thread = None
        if moment == "idle":
            killed.append(time.monotonic_ns())
            os.kill(victim, signal.SIGKILL)
        else:
            thread = _kill_after(victim, rng.uniform(0.001, 0.03), killed)
        try:
            while True:
                vec.step(actions)
        except WorkerDied as error:
            seen = time.monotonic_ns()
            assert (error.worker, error.signal) == (1, "SIGKILL"), error
        if thread is not None:
            thread.join()
    return (seen - killed[0]) / 1e6


def workers(options: argparse.Namespace, note: Callable[[str], None]) -> dict[str, Any]:
    """Kill a worker at each kind of moment in turn and return the times by moment."""
    rng = random.Random(options.seed)
    times: dict[str, list[float]] = {moment: [] for moment in MOMENTS}
    for index in range(options.kills):
        # Half of the kills hit an idle worker.
        moment = "idle" if index % 2 == 0 else MOMENTS[1 + index // 2 % 2]
        note(f"kill {index + 1} of {options.kills}: {moment}")
        times[moment].append(dead_worker_ms(moment, rng))
    every = [time_ms for group in times.values() for time_ms in group]
    return {"all": _summary(every), **{moment: _summary(group) for moment, group in times.items()}}


def _summary(times_ms: Sequence[float]) -> dict[str, float]:
    if not times_ms:
        return {"count": 0}
    times = np.asarray(times_ms)
    p50, p99 = np.percentile(times, [50, 99])
    return {
        "count": len(times),
        "p50_ms": float(p50),
        "p99_ms": float(p99),
        "max_ms": float(times.max()),
    }


# ---- a dead learner ------------------------------------------------------------------------------


def _learn(method: str, ready: int) -> None:
    """Make a vec env, step and close it repeatedly, as the learner that will be killed."""
    actions = np.zeros(2, np.int32)
    while True:
        with _probe(method=method) as vec:
            vec.reset(0)
            os.write(ready, b"r")
            for _ in range(2000):
                vec.step(actions)


def _fork_learner(method: str) -> tuple[int, int]:
    """Fork a learner with its own session; return its pid and a pipe.

    The learner writes to the pipe once it has stepped.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        os.set_blocking(read, False)
        return pid, read
    try:
        os.close(read)
        os.setsid()
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 2)  # A starting interpreter may print errors when it loses its learner.
        _learn(method, write)
    finally:
        os._exit(1)


def _is_ready(pipe: int) -> bool:
    try:
        return bool(os.read(pipe, 1))
    except BlockingIOError:
        return False


def dead_learner_ms(method: str, delay_s: float) -> tuple[float, bool]:
    """Kill a learner `delay_s` after its start; return the ms until all its processes are gone.

    The second result is whether it had stepped.
    """
    pid, pipe = _fork_learner(method)
    time.sleep(delay_s)
    ready = _is_ready(pipe)
    begin = time.monotonic_ns()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    while fault_table.in_session(pid):
        if time.monotonic_ns() - begin > GIVE_UP_S * 1e9:
            fault_table.end_session(pid)
            break
    end = time.monotonic_ns()
    os.close(pipe)
    return (end - begin) / 1e6, ready


def _shmem_kib() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Shmem:")).split()[1])


def _new_names(before: set[str]) -> int:
    """Return the number of new, lasting names in /dev/shm; other programs' names are temporary."""
    names = set(os.listdir("/dev/shm")) - before
    time.sleep(1.0)
    return len(names & set(os.listdir("/dev/shm")))


def learner(options: argparse.Namespace, note: Callable[[str], None]) -> dict[str, Any]:
    """Kill learners while they start, step and close; return times and leaks of shared memory."""
    rng = random.Random(options.seed)
    names, shmem_kib = set(os.listdir("/dev/shm")), _shmem_kib()
    times, started = [], 0
    import puffervec.vec.backends  # noqa: F401  forked learners inherit the import

    for index in range(options.kills):
        note(f"kill {index + 1} of {options.kills}")
        method = METHODS[index % len(METHODS)]
        # Forked workers start much faster than spawned ones.
        time_ms, ready = dead_learner_ms(
            method, rng.uniform(0.0, START_S / (10 if method == "fork" else 1))
        )
        times.append(time_ms)
        started += ready
    return {
        "all": _summary(times),
        "had started": started,
        "alive after 500 ms": sum(time_ms > 500 for time_ms in times),
        "names in /dev/shm": _new_names(names),
        "Shmem, KiB more": _shmem_kib() - shmem_kib,
    }


# ---- close ---------------------------------------------------------------------------------------


def _close_ms(vec: Any) -> float:
    begin = time.monotonic_ns()
    vec.close()
    return (time.monotonic_ns() - begin) / 1e6


def _python(how: str) -> Any:
    import puffervec

    return puffervec.make(
        fault_table._makers(how), num_envs=fault_table.ENVS, num_workers=fault_table.ENVS
    )


def normal_close_ms(kind: str, rng: random.Random) -> float:
    """Measure the ms of close() of a vec env of C or Python envs, at a random point of the loop."""
    vec = _probe() if kind == "C" else _python("none")
    vec.async_reset(0)
    for _ in range(rng.randrange(4)):
        vec.recv()
        vec.send(np.zeros(vec.agents_per_batch, np.int32))
    return _close_ms(vec)


def hung_close_ms(kind: str, index: int) -> float:
    """Measure the ms of close() while an env hangs in its step, asleep or (C envs) spinning."""
    from puffervec.errors import WorkerTimeout

    vec = _probe("spin" if index % 2 else "hang") if kind == "C" else _python("hang")
    vec.reset(0)
    actions = np.zeros(vec.agents_per_batch, np.int32)
    vec.step(actions)
    vec.send(actions)
    with contextlib.suppress(WorkerTimeout):
        vec.recv(timeout_s=0.1)  # The env hangs from here on.
    return _close_ms(vec)


def close(options: argparse.Namespace, note: Callable[[str], None]) -> dict[str, Any]:
    """Close many vec envs and return the times."""
    rng = random.Random(options.seed)
    times = {}
    for kind in ("C", "Python"):
        note(f"close, {kind} envs")
        times[f"{kind} envs"] = _summary([normal_close_ms(kind, rng) for _ in range(options.kills)])
        times[f"{kind} envs, hung"] = _summary(
            [hung_close_ms(kind, index) for index in range(max(2, options.kills // 10))]
        )
    return times


# ---- the command ---------------------------------------------------------------------------------

WORK = {"table": table, "workers": workers, "learner": learner, "close": close}
KILLS = {"table": 0, "workers": 1000, "learner": 500, "close": 100}


def _show(what: str, result: dict[str, Any]) -> None:
    if what == "table":
        print(markdown(result))
        for name, rows in result.items():
            why = next(iter(rows.values()))["skipped"]
            if why:
                print(f"left out: {fault_table.LIBRARIES[name].title}: {why}")
        print(
            f"3 envs, env 1 fails; limit {fault_table.LIMIT_S:g} s; puffervec with "
            f"timeout_s={fault_table.OUR_TIMEOUT_S:g}"
        )
        return
    for name, figures in result.items():
        cells = (
            figures
            if not isinstance(figures, dict)
            else ", ".join(f"{k} {v:.4g}" for k, v in figures.items())
        )
        print(f"{what}: {name}: {cells}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 1 if a row of ours does not pass."""
    flags = common.parser(__doc__)
    flags.add_argument("what", choices=WORK)
    flags.add_argument(
        "--kills",
        type=int,
        help="number of kills (default: 1000 workers, 500 learners, 100 closes)",
    )
    flags.add_argument(
        "--seed",
        type=int,
        default=int(os.environ.get("PV_SEED", "1")),
        help="default: PV_SEED, or 1",
    )
    flags.add_argument(
        "--libraries",
        default=",".join(fault_table.LIBRARIES),
        help="columns (default: %(default)s)",
    )
    flags.add_argument(
        "--rows", default=",".join(fault_table.ROWS), help="rows of the table (default: all)"
    )
    flags.add_argument(
        "--pufferlib-python", help="an interpreter with PufferLib 3.0: see bench/README.md"
    )
    common.add_json(flags, "faults-<what>")
    options = flags.parse_args(arguments)
    options.kills = KILLS[options.what] if options.kills is None else options.kills
    facts, progress = common.machine(), common.Progress()
    result, foreign = common.foreign_load(lambda: WORK[options.what](options, progress))
    progress.clear()
    _show(options.what, result)
    common.finish(f"faults-{options.what}", options, facts, foreign, result)
    ours = [
        rows
        for name, rows in result.items()
        if options.what == "table" and name.startswith("puffervec")
    ]
    return 0 if all(row["passed"] for rows in ours for row in rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
