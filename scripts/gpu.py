# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`make gpu`: run everything that needs a GPU, without network and in under 20 minutes.

It runs the tests marked `gpu`, short benchmarks on CUDA (the host's share of a vector step,
training end to end beside a naive loop) and short training runs of tag_grid and drive; prints
which criteria for the trainer on a GPU were met; and writes
bench/results/<CPU>-<cores>/<day>-gpu.json. Exit status: 0; 1 if a step failed; 2, with one line, if
torch finds no CUDA device. A missed criterion is reported, but does not count as a failed step.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common

LIMIT_S = 19 * 60.0
LEAST_RATES = {"drive": 1e6, "tag_grid": 1e7}  # Agent-steps/s end to end.
TAIL_LINES = 30
GRACE_S = 10.0


@dataclass(frozen=True)
class Step:
    """One command of the list.

    Attributes:
        limit_s: seconds after which it is killed.
        collect: reads its results after success.
    """

    name: str
    command: tuple[str, ...]
    limit_s: float
    collect: Callable[[], Any] = lambda: None


def cuda_facts() -> dict[str, Any] | None:
    """Return torch's facts about the first CUDA device, None if there is none."""
    import torch

    if not torch.cuda.is_available():
        return None
    properties = torch.cuda.get_device_properties(0)
    return {
        "name": properties.name,
        "devices": torch.cuda.device_count(),
        "capability": f"{properties.major}.{properties.minor}",
        "memory_bytes": properties.total_memory,
        "processors": properties.multi_processor_count,
        "cuda": torch.version.cuda,
        "driver": _driver(),
    }


def _driver() -> str:
    """Return the version of NVIDIA's driver, or ""."""
    with contextlib.suppress(OSError):
        match = re.search(r"Module\s+([\d.]+)", Path("/proc/driver/nvidia/version").read_text())
        return match.group(1) if match else ""
    return ""


# ---- results of the steps ------------------------------------------------------------------------


def read_json(path: Path) -> Any:
    """Return the results of a benchmark, without the facts about the machine."""
    return json.loads(path.read_text())["results"]


def gpu_test_files(folder: Path = common.ROOT / "tests") -> list[str]:
    """Return the test files with a test marked `gpu`: collecting all others takes a minute."""
    return [
        str(path.relative_to(folder.parent))
        for path in sorted(folder.rglob("test_*.py"))
        if "mark.gpu" in path.read_text()
    ]


# ---- the steps -----------------------------------------------------------------------------------


def _benchmark(name: str, script: str, scratch: Path, limit_s: float, *arguments: str) -> Step:
    path = scratch / f"{name.replace(' ', '-')}.json"
    command = (sys.executable, str(common.ROOT / "bench" / script), *arguments, "--json", str(path))
    return Step(name, command, limit_s, lambda: read_json(path))


def _training(env: str, scratch: Path, seconds: float) -> Step:
    folder = scratch / f"runs-{env}"
    flags = {
        "--device": "cuda",
        "--time-limit-s": f"{seconds:g}",
        "--total-timesteps": "100000000000",
        "--train.final-eval": "false",
        "--log.folder": str(folder),
        "--log.dashboard": "plain",
    }
    words = [word for pair in flags.items() for word in pair]
    command = (sys.executable, "-m", "puffervec.commands.cli", "train", env, *words)
    return Step(f"train {env}", command, seconds + 60.0)


def _profiles(scratch: Path) -> list[Step]:
    """Return steps that profile the phases of training, and a policy that waits for the device."""
    words = "-m puffervec.commands.cli profile tag_grid --mode loop --device cuda --json"
    phases = (sys.executable, *words.split(), str(scratch / "loop.json"))
    waits = (sys.executable, str(common.ROOT / "examples" / "flow_policy.py"), "--out")
    return [
        Step("phases of training", phases, 60.0),
        Step("a policy that waits", (*waits, str(scratch)), 60.0),
    ]


def steps(scratch: Path, seconds: float) -> list[Step]:
    """Return all steps.

    Args:
        scratch: folder for their files.
        seconds: length of a training run.
    """
    # If pytest-benchmark is installed, it warns that it cannot measure with `-n`.
    options = ("-q", "-m", "gpu", "-p", "no:cacheprovider", "-p", "no:benchmark", "-n", "4")
    options += ("--show-capture", "no")  # Torch logs thousands of lines.
    tests = (sys.executable, "-m", "pytest", *options, *gpu_test_files())
    once = ("--seconds", "5", "--repeats", "1", "--device", "cuda")
    return [
        Step("tests", tests, 240.0),
        _benchmark("host", "host.py", scratch, 60.0, "--device", "cuda"),
        *_profiles(scratch),
        _benchmark("training", "train.py", scratch, 300.0, *once),
        _benchmark(
            "plans",
            "plan.py",
            scratch,
            240.0,
            "--device",
            "cuda",
            "--seconds",
            "0.1",
            "--repeats",
            "5",
        ),
        _benchmark(
            "columns over GPUs",
            "sharded.py",
            scratch,
            180.0,
            "--device",
            "cuda",
            "--size",
            "xl",
            "--repeats",
            "1",
        ),
        _training("tag_grid", scratch, seconds),
        _training("drive", scratch, seconds),
    ]


def criteria(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the criteria for the trainer on a GPU.

    Each has the measured value (None if its step has no result), the target, and whether it is met.
    """
    ended = {entry["name"]: entry for entry in entries if entry["status"] == "ok"}
    result = []
    for env, target in LEAST_RATES.items():
        rate: float | None = None
        if "training" in ended:
            rate = ended["training"]["results"]["speed"][env]["agent_steps_per_s"]["median"]
        result.append(
            _criterion(
                f"{env}, agent-steps/s end to end, at least",
                rate,
                target,
                rate is not None and rate >= target,
            )
        )
    for cost in ended["host"]["results"] if "host" in ended else [None]:
        us, below = (cost["host"]["median"], cost["target"]) if cost else (None, None)
        result.append(
            _criterion(
                "host time per vector step, us, below", us, below, bool(cost and cost["met"])
            )
        )
    tested = "tests" in ended
    return [
        *result,
        _criterion("no allocation and no synchronisation in a step", tested or None, True, tested),
    ]


def markdown(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of docs/training.md. Args: entries: the results of a JSON file."""
    results = {entry["name"]: entry["results"] for entry in entries if entry["status"] == "ok"}
    rows = []
    if "training" in results:
        for env, result in results["training"]["speed"].items():
            parts = ("env", "copy", "forward", "update")
            shares = [f"{part} {100 * result['shares'][part]['median']:.0f} %" for part in parts]
            rate = common.number(result["agent_steps_per_s"]["median"])
            rows.append((f"training of {env}: {', '.join(shares)}", f"{rate} agent-steps/s"))
        for env, ladder in results["training"]["ladder"].items():
            gain = f"{ladder[-1]['over_naive']['median']:.1f}"
            what = f"training of {env}, times the rate of a plain PyTorch loop on the same GPU"
            rows.append((what, gain))
    for result in results.get("host", ()):
        time_us = f"{result['host']['median']:.0f} us"
        rows.append(
            ("the learner's own time for a vector step of an env that does nothing", time_us)
        )
    for result in results.get("plans", ()):
        if result["mode"] == "cudagraph" and result["rows"] == 1024:
            what = f"a CUDA graph's share of eager's time, 1,024 rows: {result['policy']}"
            rows.append((what, f"{result['of_eager']['median']:.2f}"))
    return common.markdown(("what", ">figure"), rows)


def _criterion(name: str, found: Any, target: Any, met: bool) -> dict[str, Any]:
    return {"criterion": name, "found": found, "target": target, "met": met}


def _run(command: Sequence[str], limit_s: float, log: Path) -> int | None:
    """Run a command in the project's folder, with its output in a file; return its exit status.

    None: it was killed after `limit_s`.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=common.ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children if it still runs."""
    if process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run_step(step: Step, limit_s: float, log: Path) -> dict[str, Any]:
    """Run one step and return its entry.

    The entry has a status ("ok", "failed", "timed out" or "left out"), seconds, results, and the
    end of the output.
    """
    entry: dict[str, Any] = {
        "name": step.name,
        "command": _without_folders(step.command, log.parent),
        "status": "left out",
    }
    limit_s = min(step.limit_s, limit_s)
    if limit_s <= 0:
        return {**entry, "reason": "no time was left"}
    begin = time.monotonic()
    code = _run(step.command, limit_s, log)
    entry["seconds"] = round(time.monotonic() - begin, 1)
    output = log.read_text(errors="replace").replace(str(log.parent), "TEMPORARY")
    tail = output.strip().splitlines()[-TAIL_LINES:]
    entry["last_line"] = tail[-1] if tail else ""
    if code != 0:
        status = "timed out" if code is None else "failed"
        return {**entry, "status": status, "exit_status": code, "output": tail}
    try:
        return {**entry, "status": "ok", "results": step.collect()}
    except (OSError, ValueError, KeyError) as error:
        return {**entry, "status": "failed", "reason": f"no results: {error}", "output": tail}


def _without_folders(command: Sequence[str], scratch: Path) -> str:
    """Return a command as typed, without folders of this machine."""
    text = " ".join(command).replace(sys.executable, "python").replace(str(scratch), "TEMPORARY")
    return text.replace(str(common.ROOT) + os.sep, "")


def run_all(steps: Sequence[Step], scratch: Path, limit_s: float) -> list[dict[str, Any]]:
    """Run the steps one after another, within `limit_s` in total; print one line for each."""
    deadline = time.monotonic() + limit_s
    entries = []
    for number, step in enumerate(steps):
        print(f"{step.name} ...", end=" ", flush=True)
        entry = run_step(step, deadline - time.monotonic(), scratch / f"step-{number}.log")
        print(
            f"{entry['status']}, {entry.get('seconds', 0):g} s: "
            f"{entry.get('reason') or entry.get('last_line', '')}",
            flush=True,
        )
        entries.append(entry)
    return entries


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    flags = common.parser(__doc__)
    flags.add_argument(
        "--train-seconds",
        type=float,
        default=60.0,
        help="length of each training run (default: %(default)s)",
    )
    common.add_json(flags, "gpu")
    flags.add_argument(
        "--minutes",
        type=float,
        default=LIMIT_S / 60,
        help="time for all steps; those that would begin later are left out (default: %(default)g)",
    )
    flags.add_argument("--steps", help="names of the steps to run, by commas (default: all)")
    options = flags.parse_args(arguments)
    known = [step.name for step in steps(Path(), 0)]
    chosen = options.steps.split(",") if options.steps else known
    if unknown := [name for name in chosen if name not in known]:
        flags.error(f"--steps {','.join(unknown)}: no such step; there are: {', '.join(known)}")
    gpu = cuda_facts()
    if gpu is None:
        print(
            "no CUDA device: torch.cuda.is_available() is False, so there is nothing to run here",
            file=sys.stderr,
        )
        return 2
    facts = {**common.machine(), "gpu": gpu}
    print(
        f"{gpu['name']}, {gpu['memory_bytes'] / 2**30:.0f} GiB, CUDA {gpu['cuda']}; "
        f"{common.machine_line(facts)}"
    )
    with tempfile.TemporaryDirectory(prefix="puffervec-gpu-") as scratch:
        every = steps(Path(scratch), options.train_seconds)
        entries = run_all(
            [step for step in every if step.name in chosen], Path(scratch), 60 * options.minutes
        )
    verdicts = criteria(entries)
    for one in verdicts:
        print(
            f"{'met' if one['met'] else 'NOT MET'}: {one['criterion']} {one['target']}; found "
            f"{one['found']}"
        )
    path = options.json or common.results_path("gpu", facts, common.RESULTS)
    settings = {"train_seconds": options.train_seconds, "minutes": options.minutes}
    report = common.report("gpu", facts, {**settings, "steps": chosen}, entries)
    common.write_json(path, {**report, "criteria": verdicts})
    print(f"results: {path}")
    return 0 if all(entry["status"] == "ok" for entry in entries) else 1


if __name__ == "__main__":
    sys.exit(main())
