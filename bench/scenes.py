# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure sets of driving scenes: compilation, resumption after a kill, and cost of 10,000 scenes.

    python bench/scenes.py --scenes DIR                 files of real scenes; without it `many` alone is measured
    python bench/scenes.py --parts many --cache CACHE   10,000 generated scenes, compiled into CACHE if missing

rate: copies of the files in DIR, compiled into an empty cache on all cores that the command may
use. resume: the same, killed with SIGKILL halfway and restarted. many: a start with 10,000 scenes
(from `make` to the first rows), the memory of four workers against one, steps/s of one core against
200 scenes with as many envs as a core has in training, and with more. load: .pvs files one after
another, and 65 envs on one scene beyond their rows.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import psutil

import puffervec
from bench import common
from drive_env.config import DriveConfig
from drive_env.prepare import prepare_scenes, settings_of
from drive_env.scenes.compile import compile_scene
from drive_env.scenes.reader import read_scene
from drive_env.scenes.sceneset import SceneSet, write_scene_set

PARTS = ("rate", "resume", "load", "many")
LEAST_BYTES = 300_000  # of a file of the size of a real scene
MANY, FEW = 10_000, 200
ENVS = 65
WORKER_ROWS = 256  # of an env of the part `many`
ENVS_OF_A_CORE = (2, 8)  # the first: the env's preset has four on two cores
TURNS = 30


def in_process(function: str, *arguments: Any, cache: Path) -> Any:
    """Call a function of this file in a fresh process with a cache of its own; returns what it
    returns, through JSON.
    """
    code = (
        "import json, sys; from bench import scenes; "
        f"print(json.dumps(scenes.{function}(*json.loads(sys.argv[1]))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(arguments)],
        cwd=common.ROOT, env={**os.environ, "PUFFERVEC_CACHE": str(cache)}, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


# ---- compiling -----------------------------------------------------------------------------------


def copies_of(files: Sequence[Path], count: int, folder: Path) -> Path:
    """Make a folder of `count` scenes, copies of the files in turn under names of their own."""
    folder.mkdir()
    for number in range(count):
        source = files[number % len(files)]
        shutil.copy(source, folder / f"{number:05d}-{source.name}")
    return folder


def prepare(scenes: str) -> dict[str, Any]:
    """Compile a set, or find it in the cache: seconds, CPU seconds of all processes with their
    imports, scenes, bytes.
    """
    begin = time.perf_counter()
    prepared = prepare_scenes(DriveConfig(scenes=scenes))
    seconds = time.perf_counter() - begin
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "seconds": seconds,
        "cpu_s": sum(item.ru_utime + item.ru_stime for item in used),
        "scenes": len(prepared.scenes),
        "bytes": prepared.path.stat().st_size,
        "path": str(prepared.path),
    }


def rate(
    files: Sequence[Path], copies: int, repeats: int, folder: Path, note: Callable[[str], None]
) -> dict[str, Any]:
    """Scenes compiled per second, with the start of the helper processes."""
    source = copies_of(files, copies, folder / "copies")
    found = []
    for repeat in range(repeats):
        note(f"compile {repeat + 1}/{repeats}")
        found.append(in_process("prepare", str(source), cache=folder / f"cache-{repeat}"))
        shutil.rmtree(folder / f"cache-{repeat}")
    return {
        "scenes": copies,
        "megabytes_per_file": float(np.mean([path.stat().st_size for path in files])) / 1e6,
        "scenes_per_s": common.figure(item["scenes"] / item["seconds"] for item in found),
        "scenes_per_cpu_s": common.figure(item["scenes"] / item["cpu_s"] for item in found),
    }


def resume(files: Sequence[Path], copies: int, folder: Path) -> dict[str, Any]:
    """Kill a compilation when half of its parts are there, and go on; the set must be the one that
    nothing has disturbed.
    """
    source, cut = copies_of(files, copies, folder / "resumed"), folder / "cache-cut"
    code = f"from bench import scenes; scenes.prepare({str(source)!r})"
    env = {**os.environ, "PUFFERVEC_CACHE": str(cut)}
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=common.ROOT, env=env, stderr=subprocess.DEVNULL
    )
    wanted = copies // 32
    while process.poll() is None and len(list(cut.glob("scenes/*.pvset"))) < wanted:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = len(list(cut.glob("scenes/*.pvset")))
    again = in_process("prepare", str(source), cache=cut)
    whole = in_process("prepare", str(source), cache=folder / "cache-whole")
    return {
        "killed_with": process.returncode,
        "parts_kept": kept,
        "resumed_s": again["seconds"],
        "whole_s": whole["seconds"],
        "same_bytes": Path(again["path"]).read_bytes() == Path(whole["path"]).read_bytes(),
    }


# ---- later ---------------------------------------------------------------------------------------


def started(scenes: str) -> dict[str, float]:
    """Seconds from `make` to the first rows of one env, without the import; likewise of CPU time."""
    begin, used = time.perf_counter(), time.process_time()
    with puffervec.make(
        "drive", env_kwargs={"scenes": scenes}, backend="serial", num_envs=1
    ) as vec:
        vec.reset(seed=0)
        return {"seconds": time.perf_counter() - begin, "cpu_s": time.process_time() - used}


def mapped_bytes(process: psutil.Process, file: Path) -> int:
    """Proportional set size of a process's mappings of a file: a page that n processes map counts 1
    / n.
    """
    return sum(item.pss for item in process.memory_maps() if item.path == str(file))


def memory(scenes: str, workers: int, envs: int) -> dict[str, float]:
    """Megabytes of all workers after their envs have seen many of the scenes.

    A page of the set counts once, however many processes map it, the learner among them; other
    pages that n processes share count 1 / n. Otherwise one worker would be charged half of a set
    that the learner maps too, and four of them four fifths.
    """
    file = prepare_scenes(DriveConfig(scenes=scenes)).path
    with puffervec.make(
        "drive",
        env_kwargs={"scenes": scenes, "resample_steps": 1},
        num_workers=workers,
        num_envs=envs,
    ) as vec:
        vec.reset(seed=0)
        actions = np.zeros(envs * WORKER_ROWS, int)
        for _ in range(200):
            vec.step(actions)
        processes = psutil.Process().children(recursive=True)
        own = sum(
            process.memory_full_info().pss - mapped_bytes(process, file) for process in processes
        )
        shared = sum(mapped_bytes(process, file) for process in [psutil.Process(), *processes])
        return {
            "megabytes": (own + shared) / 1e6,
            "own": own / len(processes) / 1e6,
            "set": shared / 1e6,
        }


def steps(sets: Sequence[str], envs: int, rounds: int) -> dict[str, list[float]]:
    """Agent-steps per second of one core with random actions, of several sets in turn: TURNS turns
    of each, `rounds` times.

    Each set has envs of its own in this process, and bundles are drawn anew as by default.
    """
    actions = np.random.default_rng(0).integers(0, 40, (TURNS, envs * WORKER_ROWS))
    found: dict[str, list[float]] = {scenes: [] for scenes in sets}
    with contextlib.ExitStack() as stack:
        vecs = {
            scenes: stack.enter_context(
                puffervec.make(
                    "drive", env_kwargs={"scenes": scenes}, backend="serial", num_envs=envs
                )
            )
            for scenes in sets
        }
        for vec in vecs.values():
            vec.reset(seed=0)
        for number in range(rounds):
            for scenes in sets if number % 2 else reversed(sets):
                vec = vecs[scenes]
                vec.step(actions[0])  # brings its scenes back into the caches
                before, begin = vec.counters()["active_rows"], time.process_time()
                for action in actions:
                    vec.step(action)
                found[scenes].append(
                    (vec.counters()["active_rows"] - before) / (time.process_time() - begin)
                )
    return found


def many(cache: Path, repeats: int, rounds: int, note: Callable[[str], None]) -> dict[str, Any]:
    """What a process with 10,000 scenes costs, against one with 200."""
    large, small = f"generated:{MANY}", f"generated:{FEW}"
    found: dict[str, Any] = {}
    for scenes in (small, large):
        note(f"{scenes}, compiled or found")
        found[scenes] = {"compile": in_process("prepare", scenes, cache=cache)}
        del found[scenes]["compile"]["path"]
    samples: dict[str, list[float]] = {
        name: [] for name in ("start", "start_cpu", "one", "four", "own")
    }
    for repeat in range(repeats):
        note(f"10,000 scenes {repeat + 1}/{repeats}")
        start = in_process("started", large, cache=cache)
        samples["start"].append(start["seconds"])
        samples["start_cpu"].append(start["cpu_s"])
        samples["one"].append(in_process("memory", large, 1, 8, cache=cache)["megabytes"])
        four = in_process("memory", large, 4, 8, cache=cache)
        samples["four"].append(four["megabytes"])
        samples["own"].append(four["own"])
    results = {
        "sets": found,
        "start_s": common.figure(samples["start"]),
        "start_cpu_s": common.figure(samples["start_cpu"]),
        "one_worker_mb": common.figure(samples["one"]),
        "four_workers_mb": common.figure(samples["four"]),
        "own_mb_of_a_worker": common.figure(samples["own"]),
        "memory": common.ratio(samples["four"], samples["one"]),
    }
    for envs in ENVS_OF_A_CORE:
        note(f"steps of {envs} envs")
        rates = in_process("steps", [small, large], envs, rounds, cache=cache)
        results[f"steps_{envs}"] = {
            "per_s": common.figure(rates[large]),
            "per_s_200": common.figure(rates[small]),
            "ratio": common.ratio(rates[large], rates[small]),
        }
    return results


# ---- loading -------------------------------------------------------------------------------------


def load(paths: Sequence[str]) -> dict[str, float]:
    """Milliseconds to open a .pvs file of one scene and check it whole, after the first; and a
    scene of a larger set.
    """
    SceneSet(paths[0])[0]
    begin = time.process_time()
    for path in paths[1:]:
        SceneSet(path)[0]
    return {"ms": 1e3 * (time.process_time() - begin) / (len(paths) - 1)}


def envs_on(path: str) -> dict[str, float]:
    """Megabytes that ENVS envs on one scene take in one process, and those of their rows among
    them.
    """
    process = psutil.Process()
    puffervec.make("cartpole", backend="serial", num_envs=1).close()  # what any env brings
    before = process.memory_full_info().uss
    with puffervec.make(
        "drive", env_kwargs={"scenes": path}, backend="serial", num_envs=ENVS
    ) as vec:
        vec.reset(seed=0)
        for _ in range(5):
            vec.step(np.zeros(ENVS * WORKER_ROWS, int))
        rows = vec.num_agents * vec.spec.groups[0].observation_bytes
        return {"megabytes": (process.memory_full_info().uss - before) / 1e6, "rows": rows / 1e6}


def loading(
    files: Sequence[Path], repeats: int, folder: Path, note: Callable[[str], None]
) -> dict[str, Any]:
    """Convert the files to .pvs, load them, and put envs on one."""
    settings = settings_of(DriveConfig())
    paths = []
    for path in files:
        paths.append(str(folder / f"{path.stem}.pvs"))
        write_scene_set(Path(paths[-1]), [compile_scene(read_scene(path), settings)], settings)
    note("loading")
    times = [in_process("load", paths * 8, cache=folder / "none")["ms"] for _ in range(repeats)]
    sizes = [in_process("envs_on", paths[0], cache=folder / "none") for _ in range(repeats)]
    return {
        "load_ms": common.figure(times),
        "envs": ENVS,
        "envs_mb": common.figure(item["megabytes"] for item in sizes),
        "rows_mb": sizes[0]["rows"],
        "beyond_rows_mb": common.figure(item["megabytes"] - item["rows"] for item in sizes),
    }


# ---- the command ---------------------------------------------------------------------------------


def run(options: argparse.Namespace, note: Callable[[str], None]) -> dict[str, Any]:
    """Measure the parts that were asked for."""
    given = options.scenes.glob("*.json") if options.scenes else ()
    files = sorted(path for path in given if path.stat().st_size > LEAST_BYTES)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if files and "rate" in options.parts:
            results["rate"] = rate(files, options.copies, options.repeats, folder, note)
        if files and "resume" in options.parts:
            results["resume"] = resume(files, options.copies, folder)
        if files and "load" in options.parts:
            results["load"] = loading(files, options.repeats, folder, note)
        if "many" in options.parts:
            results["many"] = many(
                options.cache or folder / "cache", options.repeats, options.rounds, note
            )
    return results


def show(results: dict[str, Any]) -> None:
    """Print each figure with its name."""
    rows = []
    for part, found in results.items():
        for name, value in found.items():
            inner = value if isinstance(value, dict) and name != "sets" else {"": value}
            rows += [
                (part, f"{name} {key}".strip(), str(item))
                for key, item in inner.items()
                if name != "sets"
            ]
    common.print_table("sets of driving scenes", ("part", "what", "measured"), rows, [])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    flags = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    flags.add_argument("--scenes", type=Path, help="a folder of real scenes in JSON")
    flags.add_argument(
        "--parts", type=lambda text: text.split(","), default=list(PARTS), help=", ".join(PARTS)
    )
    flags.add_argument(
        "--copies", type=int, default=512, help="scenes to compile (default: %(default)s)"
    )
    flags.add_argument("--cache", type=Path, help="keeps the compiled scenes of the part many")
    flags.add_argument("--repeats", type=int, default=5)
    flags.add_argument(
        "--rounds", type=int, default=60, help="samples of steps (default: %(default)s)"
    )
    flags.add_argument(
        "--json",
        type=Path,
        help="where the results go (default: bench/results/<CPU>/<day>-scenes.json)",
    )
    options = flags.parse_args(arguments)
    facts = common.machine()
    progress = common.Progress()
    results, foreign = common.foreign_load(lambda: run(options, progress))
    progress.clear()
    show(results)
    common.finish("scenes", options, facts, foreign, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
