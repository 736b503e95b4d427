# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Write the golden hashes of the C envs (tests/golden), with a reason, or check them.

    make golden REASON="cartpole: pole length as in Gymnasium 1.3"
    make golden-check

Writing adds the reason to the log in the same file and prints the names of changed envs. Checking
compiles the core with both compilers at several optimization levels and with the vector variants on
and off, and runs each env in this process and with one to four workers: every combination must give
the committed bytes.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from drive_env.generate.generate import generate_scene  # noqa: E402
from drive_env.generate.place import place  # noqa: E402
from drive_env.scenes.compile import CompileSettings, compile_scene  # noqa: E402
from drive_env.scenes.sceneset import SceneSet, write_scene_set  # noqa: E402
from drive_env.scenes.schema import Scene  # noqa: E402
from puffervec.errors import SceneError  # noqa: E402
from tests.builds import Build  # noqa: E402
from tests.drive_env.worlds import lit, random_scene  # noqa: E402
from tests.golden import cases, record  # noqa: E402

SHORTEST_REASON = 10
STEPS = record.CHECKPOINTS[-1]
SCENE_SEED, SCENE_COUNT = 7, 2
PER_KM = 30.0  # vehicles that are placed


# ---- writing -------------------------------------------------------------------------------------


def scenes_of(name: str) -> list[Scene]:
    """Return the scenes of a committed set.

    They are generated scenes, their maps with placed vehicles, or random ones with traffic lights
    and objects of all types.
    """
    generated = [generate_scene(SCENE_SEED, index) for index in range(SCENE_COUNT)]
    if name == "drive":
        return generated
    if name == "drive_placed":
        return [place(scene, SCENE_SEED, index, PER_KM) for index, scene in enumerate(generated)]
    scenes = [
        random_scene(seed, objects=16, roads=24, spread_m=25.0, frames=25)
        for seed in range(1, SCENE_COUNT + 1)
    ]
    return [lit(scene, seed) for seed, scene in enumerate(scenes, 1)]


def ensure_scenes(name: str, path: Path, anew: bool = False) -> bool:
    """Compile drive's scenes if `anew`, or if the set cannot be read; return whether it did."""
    try:
        SceneSet(path)
        readable = True
    except SceneError:
        readable = False
    if readable and not anew:
        return False
    settings = CompileSettings(cases.DRIVE_K, cases.DRIVE_RANGE_M)
    write_scene_set(path, [compile_scene(scene, settings) for scene in scenes_of(name)], settings)
    return True


def record_all(steps: int = STEPS, only: str = "") -> dict[str, record.Shown]:
    """Run all cases whose name contains `only` with every seed here, and return the hashes."""
    runs = {}
    for case in (case for case in cases.CASES if only in case.name):
        for seed in case.seeds:
            with case.make() as vec:
                runs[record.run_name(case, seed)] = record.run(vec, case, seed, steps)
    return runs


def regenerate(
    reason: str, path: Path = record.HASHES, steps: int = STEPS, only: str = ""
) -> list[str]:
    """Write new hashes, with the reason in the log; return the names of changed and new runs.

    With `only`, runs of cases whose name does not contain it keep their hashes.

    Raises:
        ValueError: the reason is missing or too short.
    """
    reason = " ".join(reason.split())
    if len(reason) < SHORTEST_REASON:
        raise ValueError(
            f"the reason is {reason!r}: say in a sentence why the bytes change: make golden "
            'REASON="..."'
        )
    before = record.load() if path == record.HASHES and path.exists() else {"log": [], "runs": {}}
    recorded = record_all(steps, only)
    names = [record.run_name(case, seed) for case in cases.CASES for seed in case.seeds]
    kept = before["runs"] if only else {}
    runs = {name: of for name in names if (of := recorded.get(name) or kept.get(name))}
    changed = [name for name, hashes in runs.items() if before["runs"].get(name) != hashes]
    changed += [f"{name} (gone)" for name in before["runs"] if name not in runs]
    if changed:
        entry = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "reason": reason, "changed": changed}
        record.write(path, [*before["log"], entry], runs)
    return changed


# ---- checking ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """A way to compile the core.

    Attributes:
        needs: CPU flag that the result requires.
    """

    name: str
    compiler: str = "gcc"
    level: str = "-O2"
    flags: str = ""
    needs: str = ""
    switches: dict[str, str] = field(default_factory=dict)

    def missing(self) -> str:
        """Return the reason why this kind cannot be checked here, "" if it can."""
        if shutil.which(self.compiler) is None:
            return f"{self.compiler} is not installed"
        if self.needs and self.needs not in Path("/proc/cpuinfo").read_text().split():
            return f"this CPU has no {self.needs}"
        return ""

    def environment(self) -> dict[str, str]:
        """Return the environment variables for setup.py and for compilations in tests."""
        flags = f"{self.level} {self.flags}".strip()
        return {
            "CC": self.compiler, "LDSHARED": f"{self.compiler} -shared",
            "PUFFERVEC_OPT": self.level, "CFLAGS": self.flags,
            "PV_GOLDEN_CFLAGS": flags, **self.switches,
        }  # fmt: skip


KINDS = [
    Kind("gcc -O0", level="-O0"),
    Kind("gcc -O2, variants by CPU"),
    Kind("gcc -O3, no variants", level="-O3", flags="-DPV_NO_CLONES"),
    Kind("gcc -O2 -mavx2, no variants", flags="-mavx2 -DPV_NO_CLONES", needs="avx2"),
    Kind(
        "gcc -O3 -march=native",
        level="-O3",
        flags="-DPV_NO_CLONES",
        switches={"PUFFERVEC_NATIVE": "1"},
    ),
    Kind("gcc -O2, char without a sign, as on aarch64", flags="-funsigned-char"),
    Kind("gcc -O1, no futex", level="-O1", switches={"PUFFERVEC_NO_FUTEX": "1"}),
    Kind("clang -O0", "clang", "-O0"),
    Kind("clang -O2", "clang"),
    Kind("clang -O3", "clang", "-O3"),
]


def check(kinds: Sequence[Kind], steps: int) -> bool:
    """Build each kind in a copy of the sources and check it; return whether all passed."""
    fine = True
    for kind in kinds:
        if kind.missing():
            print(f"{kind.name}: left out: {kind.missing()}", flush=True)
            continue
        with tempfile.TemporaryDirectory(prefix="puffervec-golden-") as folder:
            build = Build(Path(folder) / "copy", **kind.environment())
            build.wait()
            build.environment.update(kind.environment())
            for plan in (
                ["--plan", "workers", "--five-seeds", "--steps", str(steps)],
                ["--plan", "all", "--steps", "400"],
            ):
                done = build.python(
                    "-m", "tests.golden.check", "--build", kind.name, *plan, timeout_s=3600
                )
                print(done.stdout + done.stderr, end="", flush=True)
                fine = fine and done.returncode == 0
    return fine


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    flags = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    flags.add_argument(
        "--reason",
        default="",
        help="reason for the change of bytes, for the log next to the hashes",
    )
    flags.add_argument(
        "--new-scenes", action="store_true", help="compile the scenes of the drive cases anew, too"
    )
    flags.add_argument(
        "--check", action="store_true", help="compare all builds with the committed hashes instead"
    )
    flags.add_argument(
        "--steps",
        type=int,
        default=STEPS,
        choices=record.CHECKPOINTS,
        help="steps of --check (default: %(default)s)",
    )
    flags.add_argument(
        "--only",
        default="",
        help="only cases whose name contains this; with --check, only such builds",
    )
    options = flags.parse_args(arguments)
    if options.check:
        return (
            0 if check([kind for kind in KINDS if options.only in kind.name], options.steps) else 1
        )
    try:
        has_reason = len(options.reason.split()) > 0
        wrote = [
            name
            for name, path in cases.SCENES.items()
            if has_reason and ensure_scenes(name, path, options.new_scenes)
        ]
        changed = regenerate(options.reason, only=options.only)
    except ValueError as error:
        print(f"nothing was written: {error}", file=sys.stderr)
        return 2
    print(
        "\n".join([*(f"the scenes of {name} were compiled anew" for name in wrote), *changed])
        or "nothing has changed"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
