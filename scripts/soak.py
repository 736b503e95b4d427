# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`make soak`: train with a fault every half minute, and report memory, files and threads.

    python scripts/soak.py                   10 minutes of drive and tag_grid, four workers in all
    python scripts/soak.py --minutes 1440    a day, needed to claim a slope under 1 MiB/h
    PV_SEED=7 python scripts/soak.py         the same faults in the same order

Memory, open files and threads must stay flat. Two runs of `puffer-train` run simultaneously. The
first suffers faults of all kinds; after a fatal one it is resumed from its newest checkpoint. The
second suffers only faults that it must survive, so its processes live as long as the soak, and the
slopes of their memory matter most. After each fault the run must continue from its newest
checkpoint or later, and a learner that has ended must not leave processes behind.

    kill worker    SIGKILL; the learner ends with an error, and is resumed
    kill learner   SIGKILL; its workers end by themselves, and it is resumed
    terminate      SIGTERM to its group; it saves, ends with 143, and is resumed
    stop worker    SIGSTOP, and SIGCONT after some seconds
    full disk      no file may grow (RLIMIT_FSIZE of the learner) until a checkpoint has failed

"Memory" is anonymous pages and shared memory, which grow only by a leak; the number of pages of
library files varies. See scripts/slope.py for the fit. Exit status: 0; 1 if a run did not continue,
a process was left behind, or a slope is certainly above the limit. A slope whose interval includes
the limit is undecided, which is not a failure: run longer.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common
from scripts.sabotage import end_session, in_session
from scripts.slope import Slope, fit, floors, steady

FATAL = ("kill worker", "kill learner", "terminate")
HARMLESS = ("stop worker", "full disk")
PATIENCE_S = 180.0  # Limit for a start, a checkpoint or an update on a busy machine.
LEFT_OVER_S = 10.0  # Limit for the end of the processes of a dead learner.
STOPPED_S = 3.0
POLL_S = 0.1
LIMIT_MIB_PER_HOUR = 1.0
FLAGS = (
    "--total-timesteps 1000000000000 --time-limit-s 0 --train.final-eval false --train.threads 1 "
    "--device cpu --log.dashboard plain"
)


class Trouble(Exception):
    """The error for a run that misbehaves."""


# ---- one run of puffer-train ---------------------------------------------------------------------


class Run:
    """A training run that is started, hit by faults and resumed.

    Times are in seconds since the start of the soak.
    """

    def __init__(
        self, env: str, workers: int, folder: Path, checkpoint_s: float, extra: Sequence[str] = ()
    ) -> None:
        """Start the run. Args: folder: the folder of all runs."""
        self.env, self.folder = env, folder / env
        self.lines: deque[str] = deque(maxlen=200)
        self.notes = 0  # Number of failed checkpoints that the run has reported.
        command = [
            env,
            "--log.folder",
            str(folder),
            "--run-name",
            env,
            "--log.checkpoint-interval-s",
            str(checkpoint_s),
        ]
        self._start([*command, "--num-workers", str(workers), *FLAGS.split(), *extra])

    def _start(self, arguments: Sequence[str]) -> None:
        self._before = self._metrics_bytes()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "puffervec.commands.cli", *arguments],
            cwd=common.ROOT, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, output: Any) -> None:
        with output:
            for text in output:
                self.lines.append(text.rstrip())
                self.notes += "cannot save" in text

    def resume(self) -> None:
        """Resume the run from its newest checkpoint."""
        self._start(["--resume", str(self.folder)])

    @property
    def learner(self) -> psutil.Process:
        return psutil.Process(self.process.pid)

    def workers(self) -> list[psutil.Process]:
        """Return the worker processes, without multiprocessing's helpers."""
        processes = []
        with contextlib.suppress(psutil.Error):
            for child in self.learner.children():
                with contextlib.suppress(psutil.Error):
                    if "spawn_main" in " ".join(child.cmdline()):
                        processes.append(child)
        return processes

    def _metrics_bytes(self) -> int:
        with contextlib.suppress(OSError):
            return (self.folder / "metrics.jsonl").stat().st_size
        return 0

    def is_going(self) -> bool:
        """Return whether the run has made updates since its start, so that it is set up."""
        return bool(self.workers()) and self.steps() > 0 and self._metrics_bytes() > self._before

    def steps(self) -> int:
        """Return the agent-steps of the last complete line of metrics, 0 before the first."""
        with contextlib.suppress(OSError):
            return last_step((self.folder / "metrics.jsonl").read_bytes()[-20_000:])
        return 0

    def checkpoint(self) -> int:
        """Return the agent-steps of the newest checkpoint, -1 if there is none."""
        with contextlib.suppress(OSError):
            names = [path.name.split("-")[0] for path in (self.folder / "checkpoints").iterdir()]
            return max((int(name) for name in names if name.isdigit()), default=-1)
        return -1

    def await_(self, condition: Callable[[], bool], what: str, alive: bool = True) -> None:
        """Wait until a condition holds.

        Raises: Trouble: it takes too long, or (alive) the learner ends before.
        """
        give_up = time.monotonic() + PATIENCE_S
        while not condition():
            if alive and self.process.poll() is not None:
                raise Trouble(
                    f"{self.env} ended with {self.process.returncode} before {what}: "
                    f"{self.last_words()}"
                )
            if time.monotonic() > give_up:
                raise Trouble(f"{self.env}: {PATIENCE_S:g} s without {what}: {self.last_words()}")
            time.sleep(POLL_S)

    def last_words(self) -> str:
        """Return the end of the run's output in one line."""
        return " / ".join(list(self.lines)[-3:])

    def await_end(self, expected: int, pid: int) -> None:
        """Wait until the learner has ended as expected and its processes are gone.

        Raises: Trouble.
        """
        self.await_(lambda: self.process.poll() is not None, "its end", alive=False)
        give_up = time.monotonic() + LEFT_OVER_S
        while remaining := [
            p for p in in_session(pid) if p.pid != pid and p.status() != psutil.STATUS_ZOMBIE
        ]:
            if time.monotonic() > give_up:
                raise Trouble(
                    f"{self.env} left {len(remaining)} processes behind: "
                    f"{[p.cmdline()[-3:] for p in remaining]}"
                )
            time.sleep(POLL_S)
        self._reader.join(LEFT_OVER_S)
        if self.process.returncode != expected:
            raise Trouble(
                f"{self.env} ended with {self.process.returncode}, not {expected}: "
                f"{self.last_words()}"
            )

    def close(self) -> None:
        """Kill the run."""
        end_session(self.process.pid)
        self.process.wait()
        self._reader.join(LEFT_OVER_S)


def last_step(tail: bytes) -> int:
    """Return the "step" of the last complete line of metrics in the tail of a log, else 0.

    Lines of markers do not count.

    >>> last_step(b'"cut": 1}\\n{"step": 5, "x": 1}\\n{"step": 7, "x"')
    5
    """
    import json

    for line in reversed(tail[: tail.rfind(b"\n") + 1].splitlines()):
        with contextlib.suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, dict) and "step" in entry and "event" not in entry:
                return int(entry["step"])
    return 0


# ---- faults --------------------------------------------------------------------------------------


def plan(runs: int, seed: int) -> Iterator[tuple[int, str]]:
    """Yield (index of the run, kind of fault) for ever, in rounds that contain each fault once.

    The order is drawn from the seed. Only the first run has fatal faults.
    """
    chance = random.Random(seed)
    while True:
        one_round = [(0, kind) for kind in FATAL] + [
            (run, kind) for run in range(runs) for kind in HARMLESS
        ]
        chance.shuffle(one_round)
        yield from one_round


def inject(run: Run, kind: str, chance: random.Random) -> None:
    """Cause a fault in a run and wait for the expected reaction.

    Raises: Trouble.
    """
    pid = run.process.pid
    if kind == "kill worker":
        chance.choice(run.workers()).kill()
        run.await_end(1, pid)
        if not any("SIGKILL" in line for line in run.lines):
            raise Trouble(f"{run.env} does not say that a worker was killed: {run.last_words()}")
    elif kind == "kill learner":
        run.process.kill()
        run.await_end(-signal.SIGKILL, pid)
    elif kind == "terminate":
        os.killpg(pid, signal.SIGTERM)
        run.await_end(128 + signal.SIGTERM, pid)
    elif kind == "stop worker":
        worker = chance.choice(run.workers())
        worker.suspend()
        time.sleep(STOPPED_S)
        worker.resume()
    else:
        _fill_disk(run)
    if kind in FATAL:
        run.resume()


def _fill_disk(run: Run) -> None:
    """Prevent the growth of the learner's files until a checkpoint has failed.

    Its output is written to a pipe, which is not limited.
    """
    notes, (_, hard) = run.notes, resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE, (0, hard))
    try:
        run.await_(lambda: run.notes > notes, "a word about the full disk")
    finally:
        resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE, (hard, hard))


def strike(run: Run, kind: str, chance: random.Random) -> dict[str, Any]:
    """Cause a fault, wait until the run continues, and return a record of it.

    Raises: Trouble.
    """
    run.await_(lambda: run.checkpoint() >= 0 and bool(run.workers()), "a first checkpoint")
    saved, begin = run.checkpoint(), time.monotonic()
    inject(run, kind, chance)
    before = run.steps() if kind not in FATAL else -1
    first = _next_step(run, before)
    if first <= saved:
        raise Trouble(
            f"{run.env}: after {kind} it went on at {first} agent-steps, before its checkpoint of "
            f"{saved}"
        )
    return {"run": run.env, "kind": kind, "checkpoint": saved, "went_on_at": first,
            "seconds": round(time.monotonic() - begin, 1)}  # fmt: skip


def _next_step(run: Run, before: int) -> int:
    """Wait for the next line of metrics and return its agent-steps.

    Args:
        before: agent-steps of the last line, -1 after a new start.
    """
    path = run.folder / "metrics.jsonl"
    size = path.stat().st_size
    newest = 0

    def written() -> bool:
        nonlocal newest
        with path.open("rb") as file:
            file.seek(size)
            new = file.read()
        steps = [step for line in new.splitlines(keepends=True) if (step := last_step(line))]
        newest = steps[0] if steps and before < 0 else max(steps, default=0)
        return newest > before and bool(steps)

    run.await_(written, "going on")
    return newest


# ---- samples -------------------------------------------------------------------------------------


@dataclass
class Life:
    """The samples of one process since its first update.

    They are (seconds of the soak, value) by measure.

    Attributes:
        role: a name such as "drive learner".
    """

    role: str
    pid: int
    began_s: float
    seen: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def after(self, warm_up_s: float, measure: str) -> list[tuple[float, float]]:
        """Return the samples of a measure after the life's warm-up."""
        return [
            point for point in self.seen.get(measure, []) if point[0] - self.began_s >= warm_up_s
        ]


def look(process: psutil.Process) -> dict[str, float]:
    """Return the resources of a process.

    They are bytes (memory: anonymous and shared pages; rss; pss), open files, threads and children.
    """
    sizes = {"Anonymous": 0, "Rss": 0, "Pss": 0}
    for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in sizes:
            sizes[name] = int(value.split()[0]) * 1024
    shared = next(
        int(line.split()[1]) * 1024
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines()
        if "RssShmem" in line
    )
    with process.oneshot():
        return {
            "memory": sizes["Anonymous"] + shared,
            "rss": sizes["Rss"],
            "pss": sizes["Pss"],
            "fds": process.num_fds(),
            "threads": process.num_threads(),
            "children": len(process.children()),
        }


class Sampler:
    """A thread that samples all processes of the runs at intervals; each process is a life."""

    def __init__(self, runs: Sequence[Run], every_s: float) -> None:
        self.runs, self.every_s = runs, every_s
        self.lives: dict[int, Life] = {}
        self._begin = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    def _loop(self) -> None:
        while not self._stop.wait(self.every_s):
            for run in self.runs:
                if run.is_going():
                    self._look_at(run)

    def _look_at(self, run: Run) -> None:
        with contextlib.suppress(psutil.Error, OSError, StopIteration):  # It may end meanwhile.
            self._note(f"{run.env} learner", run.learner)
            for worker in run.workers():
                self._note(f"{run.env} worker", worker)

    def _note(self, role: str, process: psutil.Process) -> None:
        now = time.monotonic() - self._begin
        values = look(process)
        life = self.lives.get(process.pid)
        if life is None or life.role != role:
            life = self.lives[process.pid] = Life(role, process.pid, now)
        for name, value in values.items():
            life.seen.setdefault(name, []).append((now, value))

    def stop(self) -> list[Life]:
        """Stop the thread and return all lives."""
        self._stop.set()
        self._thread.join()
        return list(self.lives.values())


# ---- the report ----------------------------------------------------------------------------------


def judge(lives: Sequence[Life], warm_up_s: float) -> list[dict[str, Any]]:
    """Return an entry per role.

    It has lives, level, slope with verdict, and floors of open files and threads.
    """
    entries = []
    for role in sorted({life.role for life in lives}):
        mine = [life for life in lives if life.role == role]
        memory = [life.after(warm_up_s, "memory") for life in mine]
        slope = fit(memory)
        counts = {
            name: [life.after(warm_up_s, name) for life in mine]
            for name in ("fds", "threads", "children")
        }
        last = [floors(points)[-1][1] for points in memory if points]
        rss, pss = (
            max((value for life in mine for _, value in life.seen[name]), default=0)
            for name in ("rss", "pss")
        )
        verdict = "too short to fit" if slope is None else slope.verdict(LIMIT_MIB_PER_HOUR)
        entries.append(
            {
                "role": role, "lives": len(mine),
                "lives_fitted": sum(bool(points) for points in memory),
                "level_mib": [round(value / 2**20, 2) for value in last],
                "rss_mib": round(rss / 2**20, 1),
                "pss_mib": round(pss / 2**20, 1),
                "slope": None if slope is None else asdict(slope),
                "verdict": verdict,
                **{name: sorted({value for points in lives for _, value in floors(points)})
                   for name, lives in counts.items()},
                "steady": all(steady(lives) for lives in counts.values()),
            }
        )  # fmt: skip
    return entries


def show(
    entries: Sequence[dict[str, Any]], incidents: Sequence[dict[str, Any]], troubles: Sequence[str]
) -> None:
    """Print the result."""
    rows = [
        (
            entry["role"],
            entry["verdict"],
            str(Slope(**entry["slope"])) if entry["slope"] else "-",
            f"{entry['slope']['hours']:.2f}" if entry["slope"] else "-",
            str(entry["lives"]),
            f"{entry['rss_mib']:.0f}",
            f"{entry['pss_mib']:.0f}",
            "/".join(f"{value:g}" for value in entry["fds"]) or "-",
            "/".join(f"{value:g}" for value in entry["threads"]) or "-",
        )
        for entry in entries
    ]
    columns = (
        "process",
        f"under {LIMIT_MIB_PER_HOUR:g} MiB/h",
        "slope (95 %)",
        "hours",
        "lives",
        "RSS MiB",
        "PSS MiB",
        "fds",
        "threads",
    )
    common.print_table("anonymous and shared memory", columns, rows)
    kinds = {
        kind: sum(incident["kind"] == kind for incident in incidents) for kind in FATAL + HARMLESS
    }
    resumed = sum(incident["kind"] in FATAL for incident in incidents)
    print(
        f"{len(incidents)} faults, {resumed} resumes: "
        + ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    )
    undecided = [entry["role"] for entry in entries if entry["verdict"] not in ("flat", "grows")]
    if undecided:
        print(
            f"undecided: the run was too short to claim less than {LIMIT_MIB_PER_HOUR:g} MiB/h of "
            f"{', '.join(undecided)}"
        )
    for trouble in troubles:
        print(f"TROUBLE: {trouble}")


def incident_line(incident: dict[str, Any]) -> str:
    """Return one line about a fault.

    >>> fault = {"kind": "terminate", "run": "drive", "seconds": 8.25}
    >>> incident_line(fault | {"checkpoint": 1000, "went_on_at": 1234})
    'terminate     drive      went on after 8.2 s at 1,234 agent-steps, from a checkpoint of 1,000'
    """
    return (
        f"{incident['kind']:13} {incident['run']:10} went on after {incident['seconds']:.1f} s at "
        f"{incident['went_on_at']:,} agent-steps, from a checkpoint of {incident['checkpoint']:,}"
    )


# ---- the soak ------------------------------------------------------------------------------------


def soak(
    runs: Sequence[Run], seconds: float, every_s: float, seed: int
) -> tuple[list[dict[str, Any]], list[str]]:
    """Cause faults until the time is up; return their records and the failures.

    A failure ends the soak.
    """
    begin = time.monotonic()
    chance = random.Random(seed + 1)
    incidents: list[dict[str, Any]] = []
    try:
        for run in runs:
            run.await_(
                lambda run=run: run.checkpoint() >= 0 and run.steps() > 0, "a first checkpoint"
            )  # type: ignore[misc]
        due = time.monotonic() + every_s
        for index, kind in plan(len(runs), seed):
            while time.monotonic() < min(due, begin + seconds):
                time.sleep(POLL_S)
                _require_alive(runs)
            if time.monotonic() >= begin + seconds:
                break
            incident = strike(runs[index], kind, chance)
            incidents.append(incident)
            print(f"{time.monotonic() - begin:6.0f} s  {incident_line(incident)}", flush=True)
            due = max(due + every_s, time.monotonic())
        for run in runs:
            _finish(run)
    except Trouble as trouble:
        return incidents, [str(trouble)]
    return incidents, []


def _require_alive(runs: Sequence[Run]) -> None:
    for run in runs:
        if run.process.poll() is not None:
            raise Trouble(
                f"{run.env} ended with {run.process.returncode} without a fault: {run.last_words()}"
            )


def _finish(run: Run) -> None:
    """Stop a run as Ctrl-C does, and load its last checkpoint.

    Raises: Trouble.
    """
    from puffervec.train.run import checkpoint as ckpt

    os.killpg(run.process.pid, signal.SIGINT)
    run.await_end(128 + signal.SIGINT, run.process.pid)
    newest = ckpt.newest(run.folder / "checkpoints")
    if newest is None or ckpt.read(newest).manifest["counters"]["agent_steps"] < run.steps():
        raise Trouble(
            f"{run.env}: the checkpoint of its end is {newest}, and its last step {run.steps()}"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    flags = common.parser(__doc__)
    flags.add_argument("--minutes", type=float, default=10.0, help="length (default: %(default)s)")
    flags.add_argument(
        "--fault-every",
        type=float,
        default=30.0,
        metavar="S",
        help="seconds between faults (default: %(default)s)",
    )
    flags.add_argument(
        "--checkpoint-s",
        type=float,
        default=60.0,
        help="seconds between checkpoints (default: %(default)s)",
    )
    flags.add_argument(
        "--warm-up-s",
        type=float,
        default=120.0,
        help="seconds at the start of each life that are not fitted (default: %(default)s)",
    )
    flags.add_argument(
        "--sample-s", type=float, default=2.0, help="seconds between samples (default: %(default)s)"
    )
    flags.add_argument(
        "--envs",
        nargs="+",
        default=["drive", "tag_grid"],
        help="the first takes fatal faults (default: drive tag_grid)",
    )
    flags.add_argument(
        "--workers", type=int, default=4, help="workers of all runs together (default: %(default)s)"
    )
    flags.add_argument("--json", type=Path, help="path of the results (default: not written)")
    options, extra = flags.parse_known_args(arguments)
    seed = int(os.environ.get("PV_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
    print(f"PV_SEED={seed} {common.command_line()}", flush=True)
    # A shell's "&" ignores SIGINT, and runs would inherit that; both signals clean up.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with (
        tempfile.TemporaryDirectory(prefix="puffervec-soak-") as scratch,
        contextlib.ExitStack() as stack,
    ):
        runs = []
        for env in options.envs:
            runs.append(
                Run(
                    env,
                    max(2, options.workers // len(options.envs)),
                    Path(scratch),
                    options.checkpoint_s,
                    extra,
                )
            )
            stack.callback(runs[-1].close)
        sampler = Sampler(runs, options.sample_s)
        (incidents, troubles), foreign = common.foreign_load(
            lambda: soak(runs, 60 * options.minutes, options.fault_every, seed)
        )
        entries = judge(sampler.stop(), options.warm_up_s)
    troubles += [
        f"{entry['role']}: open files, threads or children did not stay as they were"
        for entry in entries
        if not entry["steady"]
    ]
    troubles += [f"{entry['role']} grows" for entry in entries if entry["verdict"] == "grows"]
    show(entries, incidents, troubles)
    if options.json:
        settings = {
            **{name: value for name, value in vars(options).items() if name != "json"},
            "seed": seed,
        }
        results = {"processes": entries, "faults": incidents, "troubles": troubles}
        facts = {**common.machine(), "foreign_load": foreign}
        common.write_json(options.json, common.report("soak", facts, settings, results))
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
