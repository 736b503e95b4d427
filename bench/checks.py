# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure the cost of a release build's checks: steps/s as shipped (A) and without checks (B).

    python bench/checks.py    probe, tag_grid, drive and a Python env; the target is less than 2 %
    python bench/checks.py --envs drive --repeats 15

A and B take turns. B checks neither actions nor the order of calls nor the floating-point mode, and
does not record the current turn, step and env (an error needs them to name the env of a dead
worker). Both variants are copies of the sources, built in a temporary folder with the same flags.
"""

from __future__ import annotations

import argparse
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common
from puffervec.errors import ConfigError

TARGET = 0.02
ENVS: dict[str, dict[str, Any]] = {
    "probe": {"env": "probe", "num_envs": 256},
    "tag_grid": {"env": "tag_grid", "num_envs": 4096},
    "drive": {"env": "drive", "num_envs": 64},
    "CartPole-v1": {"env": "CartPole-v1", "num_envs": 64},
}
# Entries are (file, text, text without the check); each text occurs exactly once.
CUTS: tuple[tuple[str, str, str], ...] = (
    ("csrc/core/action.c", "if (PV_LIKELY(most < size)) {", "if (1) {                     "),
    ("csrc/core/action.c", "bad += index >= allowed.size[i];", "bad += 0 * allowed.size[i];"),
    (
        "csrc/core/action.c",
        "rows[i] = index < allowed.size[i] ? (row)index : 0;",
        "rows[i] = (row)index;",
    ),
    ("csrc/core/action.c", "if (!isfinite(value)) {", "if (0) {"),
    (
        "csrc/core/action.c",
        "(float)(value < low ? low : value > high ? high : value);",
        "(float)value; (void)low; (void)high;",
    ),
    (
        "csrc/contract/env.h",
        "*(volatile uint32_t*)block->error_env = block->first_env + env;",
        "(void)block; (void)env;",
    ),
    ("csrc/core/worker.c", "    status->begun = turn;", "   "),
    ("csrc/core/worker.c", "    uint32_t float_mode = pv_float_mode_enter();\n", ""),
    ("csrc/core/worker.c", "    pv_float_mode_leave(float_mode);\n", ""),
    ("csrc/core/worker.c", "        status->steps++;\n", ""),
    (
        "csrc/core/worker.c",
        "        slot->env = PV_ALL_ENVS; // no env is at work between turns\n",
        "",
    ),
    ("puffervec/workers/python/cells.py", "            at[0] = first + env\n", ""),
    (
        "puffervec/vec/vector_env.py",
        "        if turns.state[half] is not HELD:\n            turns.refuse_send(half)\n"
        '        if self.autoreset_mode == "disabled":\n            turns.refuse_over(half)\n'
        "        self._step_half",
        "        self._step_half",
    ),
    (
        "puffervec/vec/vector_env.py",
        "        if turns.state[half] is PENDING:\n            slice_ns",
        "        if 1:\n            slice_ns",
    ),
)


def cut(folder: Path, cuts: Sequence[tuple[str, str, str]] = CUTS) -> None:
    """Remove the checks from the sources in `folder`.

    Raises:
        ConfigError: a text does not occur exactly once, so the list above is out of date.
    """
    for name, old, new in cuts:
        text = (folder / name).read_text()
        if text.count(old) != 1:
            raise ConfigError(
                f"{name} has {old.strip()!r} {text.count(old)} times, not once: update CUTS in "
                "bench/checks.py"
            )
        (folder / name).write_text(text.replace(old, new))


def copy_sources(folder: Path) -> None:
    """Copy the files that a build needs, without build products."""
    ignore = shutil.ignore_patterns("*.so", "__pycache__", "_native.c", "*.o")
    for name in ("csrc", "puffervec", "drive_env", "bench"):
        shutil.copytree(common.ROOT / name, folder / name, ignore=ignore)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(common.ROOT / name, folder / name)


def build(folder: Path) -> None:
    """Build the C core in `folder`.

    Raises:
        ConfigError: the build fails.
    """
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise ConfigError(f"the sources do not build: {done.stderr.strip()[-1000:]}")


def measure(env: str, num_envs: int, seconds: float) -> float:
    """Measure the env-steps per second of two worker processes with the build of this process."""
    import numpy as np

    import puffervec

    with puffervec.make(env, num_envs=num_envs, num_workers=2) as vec:
        vec.reset(0)
        rng = np.random.default_rng(0)
        space = vec.spec.groups[0]
        shape = (
            (vec.agents_per_batch,)
            if len(space.action_sizes) == 1
            else (vec.agents_per_batch, len(space.action_sizes))
        )
        actions = rng.integers(0, min(space.action_sizes), shape)
        turns, begin = 0, time.perf_counter() + 0.3
        while time.perf_counter() < begin:
            vec.step(actions)
        while (
            now := time.perf_counter()
        ) < begin + seconds or not turns:  # At least one, however busy the machine is.
            vec.step(actions)
            turns += 1
        return turns * num_envs / (now - begin)


def sample(folder: Path, settings: Mapping[str, Any], seconds: float) -> float:
    """Return the result of `measure` in a fresh interpreter that imports the build in `folder`."""
    words = [
        sys.executable,
        str(folder / "bench" / "checks.py"),
        "--child",
        settings["env"],
        str(settings["num_envs"]),
        str(seconds),
    ]
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise ConfigError(f"a run in {folder.name} failed: {done.stderr.strip()[-1000:]}")
    return float(done.stdout)


def run(options: argparse.Namespace, progress: common.Progress) -> tuple[dict[str, Any], float]:
    """Build both variants, measure them and return results by env, and the highest foreign load."""
    results: dict[str, Any] = {}
    worst = 0.0
    with tempfile.TemporaryDirectory(prefix="puffervec-checks-") as scratch:
        places = {"shipped": Path(scratch, "shipped"), "cut": Path(scratch, "cut")}
        for name, place in places.items():
            progress(f"building: {name}")
            copy_sources(place)
            if name == "cut":
                cut(place)
            build(place)
        for env in common.names("--envs", options.envs, ENVS):
            one = functools.partial(sample, settings=ENVS[env], seconds=options.seconds)
            variants = {name: functools.partial(one, place) for name, place in places.items()}
            result = common.interleave(variants, options.repeats, progress, options.attempts)
            shipped, without = result.results["shipped"], result.results["cut"]
            worst = max(worst, result.foreign)
            results[env] = {
                "shipped": common.figure(shipped),
                "cut": common.figure(without),
                "ratio": common.ratio(shipped, without),
            }
    return results, worst


@common.command
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0, or 2 for bad input."""
    flags = common.parser(__doc__)
    common.add_flags(flags, "checks", 1.0)
    flags.add_argument(
        "--envs", default=",".join(ENVS), help="comma-separated, of the default: %(default)s"
    )
    flags.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = flags.parse_args(arguments)
    if options.child:
        print(measure(options.child[0], int(options.child[1]), float(options.child[2])))
        return 0
    progress = common.Progress()
    results, foreign = run(options, progress)
    rows = [
        (env, str(r["shipped"]), str(r["cut"]), f"{100 * (1 - r['ratio'].median):+.1f}%")
        for env, r in results.items()
    ]
    common.print_table(
        "what the checks cost, env-steps/s", ("env", "as shipped", "without checks", "cost"), rows,
        [f"cost: median over pairs of runs; the target is below {100 * TARGET:.0f}%"],
    )  # fmt: skip
    common.finish("checks", options, common.machine(), foreign, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
