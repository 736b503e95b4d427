# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Rules about the sources themselves: what may stand where, what an import loads, sizes, compiler
warnings.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.builds import source_folder
from tests.cases import PLAIN

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("puffervec", "drive_env")
CODE = ("csrc", *PACKAGES, "scripts", "bench", "tests", ".ci")
WARNINGS = (
    "-Wall -Wextra -Wshadow -Wconversion -Wmissing-prototypes -Wdouble-promotion -Werror "
    "-fvisibility=hidden"
)
C_FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-ffp-contract=off", "-Wno-psabi", *WARNINGS.split()]
C_FLAGS += [f"-I{ROOT / 'csrc'}", "-isystem", sysconfig.get_path("include")]
# Messages between the two ends of one program, nothing that comes from outside; and a reader that
# runs the instructions of plain data alone.
PICKLE = (
    "drive_env/scenes/plain_pickle.py",
    "puffervec/workers/python/mailbox.py",
    "puffervec/workers/python/travel.py",
)
# Runs in the learner, when scenes are compiled.
NO_STEP_CODE = (
    "csrc/drive/compile/beside.c",
    "csrc/drive/compile/columns.c",
    "csrc/drive/compile/index.c",
    "csrc/drive/compile/simplify.c",
)
# Files that are tested together, by a twin of what they do together.
TESTED_TOGETHER = {
    "puffervec/commands/serving.py": "tests/viewing/web/test_play.py",
    "puffervec/doors.py": "tests/test_wings.py",
    "puffervec/system/lazy.py": "tests/system/test_extras.py",
    "puffervec/wings/plan/check.py": "tests/wings/plan/test_tracing.py",
    "puffervec/wings/plan/door.py": "tests/commands/test_verbs.py",
    "puffervec/wings/profile/door.py": "tests/wings/profile/test_profiling.py",
    "puffervec/wings/export/door.py": "tests/wings/export/test_export.py",
    "puffervec/wings/pufferdrive/door.py": "tests/wings/pufferdrive/test_weights.py",
    "puffervec/wings/ray/door.py": "tests/test_wings.py",
    "puffervec/wings/sharded/door.py": "tests/wings/sharded/test_sharing.py",
    "puffervec/wings/watch/door.py": "tests/wings/watch/test_watch.py",
    "puffervec/wings/report/door.py": "tests/wings/report/test_report.py",
    "puffervec/wings/sweep/door.py": "tests/wings/sweep/test_sweep.py",
    "puffervec/wings/warpdrive/door.py": "tests/wings/warpdrive/test_run_config.py",
    "csrc/drive/motion/bodies.c": "tests/drive_env/test_step_twin.py",
    "csrc/drive/motion/actions.c": "tests/drive_env/test_actions.py",
    "csrc/drive/observe/ahead.c": "tests/drive_env/test_presets.py",
    "csrc/drive/judge/collide.c": "tests/drive_env/test_step_twin.py",
    "csrc/drive/scene/control.c": "tests/drive_env/test_agents.py",
    "csrc/drive/motion/dynamics.c": "tests/drive_env/test_step_twin.py",
    "csrc/drive/observe/encode.c": "tests/drive_env/test_presets.py",
    "csrc/drive/block/episode.c": "tests/drive_env/test_step_twin.py",
    "csrc/drive/search/lanes.c": "tests/drive_env/test_step_twin.py",
    "csrc/drive/search/conflicts.c": "tests/drive_env/test_conflicts.py",
    "csrc/drive/motion/logged.c": "tests/drive_env/test_judge_twin.py",
    "csrc/drive/motion/expert.c": "tests/drive_env/test_motion.py",
    "csrc/drive/motion/inverse.c": "tests/drive_env/test_motion.py",
    "csrc/drive/motion/followers.c": "tests/drive_env/test_follow_twin.py",
    "csrc/drive/motion/kinds.c": "tests/drive_env/test_kinds.py",
    "csrc/drive/tables.c": "tests/drive_env/test_config.py",
    "csrc/drive/motion/follow.c": "tests/drive_env/test_follow_twin.py",
    "csrc/drive/block/layout.c": "tests/drive_env/test_bundle_twin.py",
    "csrc/drive/observe/lidar.c": "tests/drive_env/test_presets.py",
    "csrc/drive/judge/measure.c": "tests/drive_env/test_judge_twin.py",
    "csrc/drive/judge/metrics.c": "tests/drive_env/test_judge_twin.py",
    "csrc/drive/motion/models.c": "tests/drive_env/test_models.py",
    "csrc/drive/observe/observe.c": "tests/drive_env/test_observe_twin.py",
    "csrc/drive/search/partners.c": "tests/drive_env/test_observe_twin.py",
    "csrc/drive/observe/raster.c": "tests/drive_env/test_raster_twin.py",
    "csrc/drive/judge/reward.c": "tests/drive_env/test_judge_twin.py",
    "csrc/drive/search/roads.c": "tests/drive_env/test_presets.py",
    "csrc/drive/block/saved.c": "tests/c/test_drive_load.py",
    "csrc/drive/search/segments.c": "tests/drive_env/test_observe_twin.py",
    "csrc/drive/motion/walkers.c": "tests/drive_env/test_models.py",
    "csrc/covid/describe.c": "tests/envs/test_covid.py",
    "csrc/covid/layout.c": "tests/envs/test_covid.py",
    "csrc/covid/model.c": "tests/envs/test_covid.py",
    "csrc/covid/rows.c": "tests/envs/test_covid.py",
    "csrc/covid/saved.c": "tests/envs/test_covid.py",
    "csrc/covid/tables.c": "tests/envs/test_covid.py",
    "csrc/tag/describe.c": "tests/envs/test_tag_continuous.py",
    "csrc/tag/layout.c": "tests/envs/test_tag_continuous.py",
    "csrc/tag/neighbours.c": "tests/envs/test_tag_continuous.py",
    "csrc/tag/observe.c": "tests/envs/test_tag_continuous.py",
    "csrc/tag/saved.c": "tests/envs/test_tag_continuous.py",
    "drive_env/evaluate/columns.py": "tests/drive_env/test_evaluate.py",
    "puffervec/envs/covid/settings.py": "tests/envs/test_covid.py",
    "drive_env/evaluate/envs.py": "tests/drive_env/test_evaluate.py",
    "puffervec/train/policies/mlp.py": "tests/train/test_policy.py",
    "puffervec/train/policies/protocol.py": "tests/train/test_policy.py",
    "puffervec/train/run/collector.py": "tests/train/test_resume.py",
    "puffervec/train/run/find.py": "tests/train/test_rundir.py",
    "puffervec/train/run/learner.py": "tests/train/test_resume.py",
    "puffervec/train/config/tables.py": "tests/train/test_config.py",
    "puffervec/train/config/hosts.py": "tests/wings/ray/test_trainer.py",
    "puffervec/train/run/setup.py": "tests/train/test_trainer.py",
    "puffervec/wings/ray/collector.py": "tests/wings/ray/test_trainer.py",
    "puffervec/commands/cache.py": "tests/drive_env/test_cache.py",
    "puffervec/wings/export/exporting.py": "tests/wings/export/test_export.py",
    "puffervec/commands/list.py": "tests/commands/test_listing.py",
    "puffervec/commands/players.py": "tests/commands/test_eval.py",
    "puffervec/commands/verb.py": "tests/commands/test_cli.py",
    "puffervec/vec/mail.py": "tests/test_mailbox.py",
    "puffervec/vec/turns.py": "tests/test_vector_env.py",
    "puffervec/vec/workers.py": "tests/test_backends.py",
}
TESTED_TOGETHER |= {
    path: "tests/test_contract.py"
    for env in PLAIN
    for path in (f"csrc/envs/{env}.c", f"puffervec/envs/{env}.py")
}


def files(*suffixes: str, under: tuple[str, ...] = CODE) -> list[Path]:
    """Return the source files with these suffixes, without build products."""
    found = [
        path
        for folder in under
        for suffix in suffixes
        for path in (ROOT / folder).rglob(f"*{suffix}")
    ]
    return sorted(
        path for path in found if "__pycache__" not in path.parts and path.name != "_native.c"
    )


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


C_FILES = files(".c", under=("csrc",))
C_SOURCES = files(".c", ".h", under=("csrc",))
PY_SOURCES = files(".py", under=PACKAGES)


def without_comments(text: str) -> str:
    """Return C code without comments and string contents, lines kept."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
    return pattern.sub(lambda match: "\n" * match.group().count("\n"), text)


def offences(path: Path, code: str, pattern: str) -> list[str]:
    """Return "file:line: text" of all matches."""
    lines = code.splitlines()
    return [
        f"{named(path)}:{i + 1}: {line.strip()}"
        for i, line in enumerate(lines)
        if re.search(pattern, line)
    ]


# ---- all files -----------------------------------------------------------------------------------


def test_every_source_begins_with_the_licence() -> None:
    missing = []
    for path in [
        *files(".c", ".h", ".py", ".sh"),
        *(ROOT / name for name in ("setup.py", "Makefile", ".ci/run")),
    ]:
        if path.exists():
            head = "\n".join(path.read_text().splitlines()[:4])
            if not re.search(
                r"SPDX-FileCopyrightText: \d{4} the puffervec authors\n"
                r".*SPDX-License-Identifier: MIT",
                head,
            ):
                missing.append(named(path))
    assert missing == []


# ---- C -------------------------------------------------------------------------------------------


def test_lines_that_no_formatter_wraps_have_100_columns() -> None:
    names = ("Makefile", "Dockerfile", "MANIFEST.in", ".clang-format", ".ci/run")
    settings = files(".toml", ".yml", under=("bench", "scripts", "tests", ".github"))
    paths = [*(ROOT / name for name in names), *settings, *ROOT.glob("*.toml"), *ROOT.glob("*.yml")]
    assert [
        f"{named(path)}:{number}"
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 100
    ] == []


def test_atomics_stand_in_the_channel_only() -> None:
    atomics = r"__atomic_|__sync_|stdatomic|_Atomic|\bvolatile\b|atomic_thread_fence"
    found = []
    for path in C_SOURCES:
        if named(path) in ("csrc/core/channel.c", "csrc/core/channel.h"):
            continue
        code = without_comments(path.read_text())
        if (
            named(path) == "csrc/envs/probe.c"
        ):  # a fault that spins for ever must not be optimized away
            code = code.replace("volatile int forever", "")
        if (
            named(path) == "csrc/contract/env.h"
        ):  # a note for the learner, should the process die: no reader in a running program
            code = code.replace("*(volatile uint32_t*)block->error_env", "")
        if named(path) == "csrc/core/float_mode.h":  # reads and sets a register
            code = code.replace("__asm__ volatile(", "")
        if (
            named(path) == "csrc/core/stop.c"
        ):  # what C allows a signal handler to write; one thread reads it
            code = code.replace("volatile sig_atomic_t", "")
        found += offences(path, code, atomics)
    assert found == []


def test_the_channels_fences_are_in_its_four_helpers() -> None:
    header = without_comments((ROOT / "csrc/core/channel.h").read_text())
    assert len(re.findall(r"__atomic_\w+", header.replace("__ATOMIC", ""))) == 4
    assert "__atomic_" not in without_comments((ROOT / "csrc/core/channel.c").read_text())


def env_files() -> list[Path]:
    """Return the files of envs that run in a worker."""
    found = files(".c", ".h", under=("csrc/envs", "csrc/tag", "csrc/covid", "csrc/drive"))
    return [path for path in found if named(path) not in NO_STEP_CODE]


def env_code(path: Path) -> str:
    """An env's code without comments; of the probe also without its faults, which break all rules
    on purpose.
    """
    text = path.read_text()
    if path.name == "probe.c":
        text = re.sub(r"// ---- 5\. faults.*?(?=// ---- 6\.)", "", text, flags=re.DOTALL)
        assert "FAULT_OOM: " not in text
    return without_comments(text)


def test_envs_allocate_nothing_print_nothing_and_read_no_clock() -> None:
    forbidden = (
        r"\b(malloc|calloc|realloc|free|alloca|posix_memalign|aligned_alloc|mmap|printf|fprintf"
        r"|puts|fopen|open|read|write|clock_gettime|gettimeofday|time|clock|rand|srand|random"
        r"|drand48|getenv|pthread_\w+|sleep|usleep|nanosleep|system|longjmp)\s*\("
    )
    assert [
        offence for path in env_files() for offence in offences(path, env_code(path), forbidden)
    ] == []


def test_envs_have_no_writable_globals() -> None:
    """State lives in the block; a static that is not const would be shared between blocks."""
    declared = r"^static (?!inline\b)(?!.*\bconst\b)(?!.*\().*[;={]"
    assert [
        offence for path in env_files() for offence in offences(path, env_code(path), declared)
    ] == []


def test_no_wall_clock() -> None:
    clocks = (
        r"CLOCK_REALTIME|CLOCK_TAI|\b(time|gettimeofday|timespec_get|ftime|localtime|gmtime)(_r)?\("
    )
    assert [
        o for path in C_SOURCES for o in offences(path, without_comments(path.read_text()), clocks)
    ] == []


@pytest.fixture(scope="module")
def compiler() -> str:
    source_folder()
    import shutil

    for name in ("gcc", "cc"):
        if shutil.which(name):
            return name
    pytest.skip("no C compiler")


@pytest.mark.parametrize(
    "arguments",
    [
        ["-fsyntax-only"],
        pytest.param(["-DPV_NO_FUTEX", "-fsyntax-only"], marks=pytest.mark.slow),
        pytest.param(["-DPV_DEBUG", "-fsyntax-only"], marks=pytest.mark.slow),
        pytest.param(["-O2", "-o", "/dev/null", "-c"], marks=pytest.mark.slow),
    ],
    ids=["release", "no futex", "debug", "optimized"],
)
def test_the_compiler_has_nothing_to_say(compiler: str, arguments: list[str]) -> None:
    """Some warnings need the optimizer."""
    running = [
        subprocess.Popen(
            [compiler, *C_FLAGS, *arguments, str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for path in C_FILES
    ]
    said = [process.communicate(timeout=120)[0] for process in running]
    assert "".join(said) == ""
    assert all(process.returncode == 0 for process in running)


@pytest.mark.slow
def test_headers_stand_alone(compiler: str) -> None:
    for path in files(".h", under=("csrc",)):
        done = subprocess.run(
            [compiler, *C_FLAGS, "-Wno-unused-function", "-fsyntax-only", "-x", "c", "-"],
            input=f'#include "{path}"\n', capture_output=True, text=True,
        )  # fmt: skip
        assert done.stderr == "", named(path)


# ---- Python --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_import_loads_nothing_heavy() -> None:
    """Neither at the start, nor before a name is used; names that need no torch do not load it."""
    script = (
        "import sys, puffervec\n"
        "heavy = 'torch numpy gymnasium psutil multiprocessing cffi rich safetensors '\n"
        "heavy += 'puffervec._native'\n"
        "print(sorted(set(heavy.split()) & set(sys.modules)))\n"
        "with puffervec.make('tag_grid', num_envs=2, num_workers=1) as vec:\n"
        "    vec.reset(0); vec.step([0] * vec.num_agents)\n"
        "others = {'torch', 'gymnasium', 'rich', 'safetensors', 'matplotlib'}\n"
        "print(sorted(others & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=100
    )
    assert (done.stdout.split("\n")[:2], done.stderr) == (["[]", "[]"], "")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield (module, at the top of the file) of every import."""
    tree = parsed(path)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node in tree.body
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node in tree.body


# Loaded only when one of their names is used: see tests/compat/pufferlib/test_public_names.py.
TORCH_ON_REQUEST = {
    "puffervec/compat/pufferlib/models.py",
    "puffervec/compat/pufferlib/pytorch.py",
    "puffervec/torch_view.py",
}


def test_torch_is_imported_by_the_trainer_and_on_request_only() -> None:
    users = {
        named(path)
        for path in PY_SOURCES
        for module, _ in imports(path)
        if module.split(".")[0] == "torch"
    }
    trainer = ("puffervec/train/", "puffervec/wings/")
    assert {name for name in users if not name.startswith(trainer)} <= TORCH_ON_REQUEST


# Loaded only when a picture is made, after puffervec/system/extras.py was asked.
PILLOW_ON_REQUEST = {
    "puffervec/viewing/render/painter.py",
    "puffervec/viewing/render/film.py",
    "puffervec/train/act/own_pictures.py",
}


@pytest.mark.slow
def test_extras_are_imported_where_they_are_used() -> None:
    """At the top of a file they would break the import for all who do not have them."""
    extras = {
        "matplotlib",
        "tensorboard",
        "wandb",
        "optuna",
        "pettingzoo",
        "stable_baselines3",
        "PIL",
        "imageio_ffmpeg",
        "huggingface_hub",
        "onnx",
        "aiohttp",
        "py123d",
    }
    found = [
        f"{named(path)}: {module}"
        for path in PY_SOURCES
        for module, top in imports(path)
        if top and module.split(".")[0] in extras and named(path) not in PILLOW_ON_REQUEST
    ]
    assert found == []


# What shows the time of day, in names, notes and pages, and decides nothing by it.
SHOWS_TIME = {
    "puffervec/viewing/web/follow.py", "puffervec/wings/report/door.py",
    "puffervec/wings/sweep/door.py", "puffervec/train/run/rundir.py",
    "puffervec/train/run/provenance.py", "puffervec/sb3/worker_env.py",
}  # fmt: skip
WALL_CLOCK = {
    "time.time",
    "time.time_ns",
    "time.localtime",
    "time.gmtime",
    "time.ctime",
    "time.strftime",
}
NOW = re.compile(r"(datetime\.)?(datetime|date)\.(now|utcnow|today)")


def clock_readings(tree: ast.AST) -> list[str]:
    """Return what reads the wall clock in a module: calls, and what it takes out of `time`."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            found += [called] if called in WALL_CLOCK or NOW.fullmatch(called) else []
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            found += [
                f"from time import {one.name}"
                for one in node.names
                if f"time.{one.name}" in WALL_CLOCK
            ]
    return found


@pytest.mark.slow
def test_no_wall_clock_in_python() -> None:
    readings = {named(path): clock_readings(parsed(path)) for path in PY_SOURCES}
    assert {name for name, found in readings.items() if found} == SHOWS_TIME


@pytest.mark.parametrize(
    "code",
    [
        "time.time()",
        "from time import time\ntime()",
        "time.time_ns()",
        "datetime.now()",
        "datetime.date.today()",
    ],
)
def test_every_spelling_of_the_wall_clock_is_known(code: str) -> None:
    assert clock_readings(ast.parse(code)) and not clock_readings(
        ast.parse("time.monotonic(); time.perf_counter()")
    )


def test_no_pickle_no_eval_no_shell() -> None:
    found = []
    for path in PY_SOURCES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                shell = any(keyword.arg == "shell" for keyword in node.keywords)
                if (
                    called in ("eval", "exec", "compile", "os.system", "os.popen", "__import__")
                    or shell
                ):
                    found.append(f"{named(path)}:{node.lineno}: {called}")
        found += [
            f"{named(path)}: {module}"
            for module, _ in imports(path)
            if module.split(".")[0] in ("pickle", "marshal", "shelve", "dill")
            and named(path) not in PICKLE
        ]
    assert found == []


# ---- the mirror ----------------------------------------------------------------------------------


def test_every_source_has_a_test_that_names_it() -> None:
    """A file under tests/ is called after it, or its head or text says which file it is about."""
    tests = {
        path: path.read_text()
        for path in files(".py", under=("tests",))
        if path.name != Path(__file__).name
    }
    names = {path.name for path in tests}
    unseen = []
    for path in [*C_FILES, *PY_SOURCES]:
        if path.name in ("__init__.py", "__main__.py"):
            continue
        prefix = "drive_" if "drive" in named(path) else ""
        called_after_it = {f"test_{path.stem}.py", f"test_{prefix}{path.stem}.py"} & names
        together = TESTED_TOGETHER.get(named(path))
        if together is not None and (ROOT / together).exists():
            continue
        if not called_after_it and not any(named(path) in text for text in tests.values()):
            unseen.append(named(path))
    assert unseen == []
