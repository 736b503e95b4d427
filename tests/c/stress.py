# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Builds and runs the C programs that put the channel under stress: channel_stress.c and
channel_litmus.c.

    python -m tests.c.stress threads --count 1000000      workers are threads
    python -m tests.c.stress tsan --count 10000000        ... under ThreadSanitizer (make tsan)
    python -m tests.c.stress processes --count 1000000    workers are processes, with and without a
                                                          futex, stopped at random
    python -m tests.c.stress litmus --count 100000000     message passing and store buffers, and
                                                          what comes without order

`make stress` runs the last two.

PV_SEED sets the dice. A failure prints the command that failed.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-ffp-contract=off", "-pthread", "-g"]
STRICT = [
    "-Wall",
    "-Wextra",
    "-Wshadow",
    "-Wconversion",
    "-Wmissing-prototypes",
    "-Wdouble-promotion",
    "-Werror",
]
CORE = {
    "channel_stress": (
        "core/channel",
        "core/placement",
        "core/watch",
        "core/turn",
        "core/worker",
        "core/slab",
        "core/action",
        "core/autoreset",
        "core/state",
        "envs/probe",
    ),
    "channel_litmus": ("core/channel", "core/placement", "core/slab"),
}
TSAN = ("-O1", "-fsanitize=thread")
TSAN_EXIT = 66
NO_FUTEX = ("-O2", "-DPV_NO_FUTEX", "-DPV_NO_CLONES")
PLAIN = ("-O2", "-DPV_NO_CLONES")


def env_types(root: Path = ROOT) -> list[Path]:
    """Return the C files of the built-in env types, their list and their random numbers, which a
    program that includes env_list.h needs.
    """
    rooms = ("contract", "envs", "tag", "covid", "drive")
    return [path for room in rooms for path in sorted((root / "csrc" / room).rglob("*.c"))]


@dataclass(frozen=True)
class Setup:
    """Arguments of channel_stress."""

    workers: int
    halves: int
    split: str
    order: str

    def arguments(self, turns: int, seed: int) -> list[str]:
        """Return what follows "threads" or "processes"."""
        return [str(self.workers), str(self.halves), self.split, self.order, str(turns), str(seed)]


THREADS = (
    Setup(2, 1, "envs", "in_order"),
    Setup(3, 2, "envs", "in_order"),
    Setup(4, 2, "workers", "in_order"),
    Setup(2, 2, "workers", "any_order"),
    Setup(3, 2, "envs", "any_order"),
)
PROCESSES = (
    Setup(2, 1, "envs", "in_order"),
    Setup(6, 2, "envs", "in_order"),
    Setup(6, 3, "workers", "any_order"),
)


def seed() -> int:
    """PV_SEED, or 1."""
    return int(os.environ.get("PV_SEED", "1"))


def compiler() -> list[str]:
    """Return the compiler's command, CC of the environment or cc; it may have flags."""
    return shlex.split(os.environ.get("CC", "cc"))


def copy_sources(folder: Path, edits: Mapping[str, tuple[str, str]]) -> Path:
    """Copy csrc/ and tests/c/ with (old, new) put into the named files; each old text must be there
    exactly once, however its lines are broken.

    Returns `folder`, which compile_program takes as root.
    """
    for name in ("csrc", "tests/c"):
        shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.py", "__pycache__")
        )
    for name, (old, new) in edits.items():
        text = (folder / name).read_text()
        found = list(re.finditer(r"\s+".join(map(re.escape, old.split())), text))
        if len(found) != 1:
            raise ValueError(f"{name} holds {old!r} {len(found)} times: an edit needs it once")
        (folder / name).write_text(text[: found[0].start()] + new + text[found[0].end() :])
    return folder


def start_compiler(
    name: str, target: Path, *flags: str, root: Path = ROOT
) -> subprocess.Popen[str]:
    """Compile tests/c/<name>.c with the parts of the core that it needs. Returns the running
    compiler.
    """
    sources = [
        root / "tests" / "c" / f"{name}.c",
        *(root / "csrc" / f"{part}.c" for part in CORE[name]),
    ]
    command = [*compiler(), *FLAGS, *STRICT, f"-I{root / 'csrc'}", *flags]
    command += [*map(str, sources), "-o", str(target), "-lm"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def compile_program(name: str, target: Path, *flags: str, root: Path = ROOT) -> Path:
    """Compile and return `target`. Raises RuntimeError with what the compiler said."""
    compiler = start_compiler(name, target, *flags, root=root)
    said, _ = compiler.communicate(timeout=300)
    if compiler.returncode:
        raise RuntimeError(f"{shlex.join(map(str, compiler.args))}\n{said}")  # type: ignore[arg-type]
    return target


def environment(**more: str) -> dict[str, str]:
    """This process's, but for another sanitizer's runtime, which `make asan` preloads."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"} | more


def tsan_command(program: Path) -> list[str]:
    """Return how to run a program under ThreadSanitizer: it knows no mappings of more than 28
        random bits.

    Source: https://github.com/google/sanitizers/issues/1716
    """
    bare = subprocess.run(
        [str(program)], capture_output=True, text=True, timeout=60, env=environment()
    )
    return [str(program)] if bare.returncode == 2 else ["setarch", "-R", str(program)]


def run(command: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run a program. Raises AssertionError with the command if it hangs."""
    options = f"halt_on_error=1 exitcode={TSAN_EXIT}"
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=environment(TSAN_OPTIONS=options),
        )
    except subprocess.TimeoutExpired as expired:
        raise AssertionError(
            f"hung for {timeout_s:g} s: {shlex.join(command)}\n{expired.stderr!r}"
        ) from None


def run_well(command: Sequence[str], timeout_s: float) -> str:
    """Run a program that has to succeed. Returns what it printed."""
    done = run(command, timeout_s)
    assert done.returncode == 0, (
        f"exit status {done.returncode}: {shlex.join(command)}\n{done.stdout}{done.stderr}"
    )
    return done.stdout.strip()


def hash_of(said: str) -> str:
    """Return the hash of all rows that channel_stress prints."""
    match = re.search(r"hash (\w+)", said)
    assert match is not None, said
    return match.group(1)


def run_setups(
    command: list[str], kind: str, setups: Sequence[Setup], turns: int, *more: str, timeout_s: float
) -> None:
    """Run channel_stress in each setup, for about `turns` turns in all."""
    for setup in setups:
        each = max(1, turns // len(setups) // setup.halves)
        print(f"{kind} {setup}: ", end="", flush=True)
        print(
            run_well([*command, kind, *setup.arguments(each, seed()), *more], timeout_s), flush=True
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    flags = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    flags.add_argument("what", choices=["threads", "tsan", "processes", "litmus"])
    flags.add_argument(
        "--count", type=int, default=100_000, help="turns in all, or how often each shape is tried"
    )
    flags.add_argument(
        "--timeout-s", type=float, default=3600.0, help="a program that takes longer hangs"
    )
    options = flags.parse_args(arguments)
    with tempfile.TemporaryDirectory() as made:
        target, limit = Path(made) / "program", {"timeout_s": options.timeout_s}
        if options.what == "litmus":
            program = str(compile_program("channel_litmus", target, *PLAIN))
            for shape in ("message_passing", "store_buffer"):
                print(
                    run_well([program, shape, str(options.count), str(seed())], options.timeout_s),
                    flush=True,
                )
            without = run(
                [program, "relaxed", str(min(options.count, 10**6)), str(seed())], options.timeout_s
            )
            print(f"(without order, to compare: {without.stdout.strip()})")
        elif options.what == "processes":
            for build in (PLAIN, NO_FUTEX):
                program = str(compile_program("channel_stress", target, *build))
                print("futex" if build == PLAIN else "no futex")
                run_setups([program], "processes", PROCESSES, options.count // 2, "jester", **limit)
        else:
            program = str(
                compile_program(
                    "channel_stress", target, *(TSAN if options.what == "tsan" else PLAIN)
                )
            )
            run_setups(tsan_command(Path(program)), "threads", THREADS, options.count, **limit)
    return 0


if __name__ == "__main__":
    sys.exit(main())
