# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The C core for processors and systems that this machine is not: aarch64 in an emulator, macOS as
far as a compiler goes.

On aarch64 memory is ordered weakly and char has no sign. The emulator keeps what the code asks for,
but on a host with stronger order it shows little of what would happen without.

    apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static clang
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.builds import source_folder
from tests.c import memcheck, stress
from tests.c.memcheck import CASES, Case
from tests.needs import AARCH64, ARM_HEADERS, PROGRAMS

COMPILER, EMULATOR = AARCH64
TIMEOUT_S = 200.0
IDS = [f"{case.name} {case.autoreset}" for case in CASES]


@pytest.fixture(scope="module", autouse=True)
def sources() -> None:
    source_folder()


@pytest.fixture
def for_aarch64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", f"{COMPILER} -static")


@pytest.fixture(scope="module")
def envs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """How to run envs_main: built for this processor, for this one with another char, and for
    aarch64.
    """
    folder, commands = tmp_path_factory.mktemp("envs"), {}
    with pytest.MonkeyPatch.context() as patch:
        commands["here"] = [str(memcheck.compile_envs(folder / "here"))]
        patch.setenv("CC", f"{' '.join(stress.compiler())} -funsigned-char")
        commands["unsigned char"] = [str(memcheck.compile_envs(folder / "unsigned"))]
        if PROGRAMS["aarch64"].there():
            patch.setenv("CC", f"{COMPILER} -static")
            commands["aarch64"] = [EMULATOR, str(memcheck.compile_envs(folder / "aarch64"))]
    return commands


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=IDS)
@pytest.mark.parametrize(
    "where", ["unsigned char", pytest.param("aarch64", marks=pytest.mark.needs("aarch64"))]
)
def test_envs_show_the_same_bytes(
    envs: dict[str, list[str]], tmp_path: Path, where: str, case: Case
) -> None:
    """A hash of all rows, saved bytes and states; numbers of C's library (expf and such) are in no
    env.
    """
    arguments = memcheck.arguments(case, tmp_path, 1)
    assert stress.run_well([*envs[where], *arguments], TIMEOUT_S) == stress.run_well(
        [*envs["here"], *arguments], TIMEOUT_S
    )


@pytest.mark.needs("aarch64")
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["threads", "processes"])
@pytest.mark.parametrize("futex", [stress.PLAIN, stress.NO_FUTEX], ids=["futex", "no futex"])
def test_the_channel_on_aarch64(
    for_aarch64: None, tmp_path: Path, kind: str, futex: tuple[str, ...]
) -> None:
    program = [
        EMULATOR,
        str(stress.compile_program("channel_stress", tmp_path / "program", *futex)),
    ]
    for setup in stress.THREADS if kind == "threads" else stress.PROCESSES:
        stress.run_well([*program, kind, *setup.arguments(200, stress.seed())], TIMEOUT_S)


@pytest.mark.needs("aarch64")
@pytest.mark.slow
def test_no_payload_is_older_than_its_turn_on_aarch64(for_aarch64: None, tmp_path: Path) -> None:
    program = str(stress.compile_program("channel_litmus", tmp_path / "litmus", *stress.PLAIN))
    said = stress.run_well(
        [EMULATOR, program, "message_passing", "20000", str(stress.seed())], TIMEOUT_S
    )
    assert "; forbidden 0" in said


@pytest.mark.needs("aarch64")
@pytest.mark.parametrize("march", ["armv8-a", "armv8.5-a"])
def test_no_look_passes_a_store_on_aarch64(tmp_path: Path, march: str) -> None:
    """A processor does not let `ldar` pass an earlier `stlr`, but `ldapr` may. The emulator lets
    both, so it cannot tell.
    """
    (tmp_path / "both.c").write_text(
        '#include "core/channel.h"\nuint32_t both(uint32_t* mine, const uint32_t* other);\n'
        "uint32_t both(uint32_t* mine, const uint32_t* other) {\n"
        "    pv_store_seq_cst(mine, 1);\n    return pv_load_seq_cst(other);\n}\n"
    )
    command = [
        COMPILER,
        *stress.FLAGS,
        f"-march={march}",
        "-O2",
        "-Icsrc",
        "-S",
        "-o",
        "-",
        str(tmp_path / "both.c"),
    ]
    code = subprocess.run(
        command, cwd=stress.ROOT, capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert [word for word in code.split() if word.startswith(("stlr", "str", "ld", "dmb"))] == [
        "stlr",
        "ldar",
    ]


@pytest.mark.slow
def test_processes_without_a_futex_lose_no_turn(tmp_path: Path) -> None:
    """What macOS gets: a sleeper naps and looks again."""
    program = str(
        stress.compile_program("channel_stress", tmp_path / "program", "-O0", *stress.NO_FUTEX[1:])
    )
    stress.run_well(
        [program, "processes", *stress.PROCESSES[0].arguments(100, stress.seed())], TIMEOUT_S
    )


@pytest.mark.needs("clang")
@pytest.mark.slow
def test_the_core_compiles_for_macos(tmp_path: Path) -> None:
    """To Mach-O for Apple's processors. The headers are glibc's: that Apple's have the same
    functions, this does not show.
    """
    target = [
        "clang",
        "--target=arm64-apple-macos12",
        "-U__nonnull",
        "-isystem",
        str(ARM_HEADERS),
        "-Icsrc",
        "-O1",
        "-c",
    ]
    for file in sorted((stress.ROOT / "csrc").rglob("*.c")):
        if "python" in file.parts:  # Python's headers are configured for this system.
            continue
        out = tmp_path / "out.o"
        command = [
            *target,
            *stress.FLAGS,
            "-Werror=implicit-function-declaration",
            "-o",
            str(out),
            str(file),
        ]
        done = subprocess.run(command, cwd=stress.ROOT, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        assert out.read_bytes()[:4] == bytes.fromhex("cffaedfe"), file
        assert (
            file.name != "channel.c" or b"\0_nanosleep\0" in out.read_bytes()
        )  # no futex, so it naps
