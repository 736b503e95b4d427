# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Builds puffervec._native with cffi in API mode (called by setup.py).

The declarations that Python sees are cut from the C headers themselves: everything between "[cffi]"
and "[/cffi]". HEADERS lists the headers; C files are found without a list. Switches, read from the
environment:

    PUFFERVEC_NO_FUTEX=1        build the fallback for systems without a futex
    PUFFERVEC_NATIVE=1          -march=native: not portable, results may differ from other builds
    PUFFERVEC_OPT=-O0           optimization level (default -O3)

Two switches build a separate module next to the normal one, which is left unchanged;
PUFFERVEC_BUILD=debug or =sanitize makes puffervec import it (puffervec/_ffi.py):

    PUFFERVEC_DEBUG=1           assertions, guard zones around rows (core/guard.h), libc's checks,
                                -O1 -g
    PUFFERVEC_SANITIZE=address,undefined
                                the same under these sanitizers; `make asan` has the environment
                                that it needs
"""

import os
import re
import zlib
from pathlib import Path

from cffi import FFI

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"

# In order of dependence.
HEADERS = [
    "contract/base.h",
    "contract/rng.h",
    "contract/env.h",
    "envs/env_list.h",
    "core/state.h",
    "core/slab.h",
    "core/placement.h",
    "core/channel.h",
    "core/action.h",
    "core/turn.h",
    "core/worker.h",
    "core/watch.h",
    "core/guard.h",
    "core/crash.h",
    "core/stop.h",
    "learner/advantage.h",
    "learner/choices.h",
    "learner/sample.h",
    "learner/ppo_loss.h",
    "learner/set_encoder.h",
    "learner/convolution.h",
    "core/bench.h",
    "python/fast_turn.h",
    "drive/scene/scene.h",
    "drive/compile/index.h",
    "drive/compile/simplify.h",
    "drive/compile/columns.h",
    "drive/compile/beside.h",
    "drive/tables.h",
    "drive/motion/actions.h",
    "drive/motion/expert.h",
    "drive/motion/kinds.h",
    "drive/judge/reward.h",
    "drive/observe/observe.h",
]

# What puffervec/workers/python/block.py defines: an env type whose functions are Python.
PYTHON_ENV = """
extern "Python" {
    uint64_t pv_python_bytes(const pv_context* context, uint32_t env_count);
    int pv_python_init(pv_block* block);
    int pv_python_reset(pv_block* block, const uint8_t* mask, const uint64_t* seeds);
    int pv_python_step(pv_block* block);
    int pv_python_call(pv_block* block);
    void pv_python_close(pv_block* block);
}
"""

MARKED = re.compile(r"/\* \[cffi\] \*/(.*?)/\* \[/cffi\] \*/", re.DOTALL)
DEFINE = re.compile(r"^(#define \w+ )\(?([^\s()/]+)\)?.*$", re.MULTILINE)


def declarations(header: str) -> str:
    """Return the parts of a header that cffi reads; #define lines become plain integers."""
    text = (CSRC / header).read_text()
    marked = "\n".join(MARKED.findall(text))
    return DEFINE.sub(
        lambda match: match.group(1) + re.sub(r"[uUlL]+$", "", match.group(2)), marked
    )


def sources() -> list[str]:
    """Return all C files under csrc/, relative to the project's root, as setuptools wants them."""
    return sorted(str(path.relative_to(ROOT)) for path in CSRC.rglob("*.c"))


def source_check(folder: Path = CSRC) -> int:
    """Return a checksum of all C sources; its twin at import is in puffervec/_ffi.py."""
    check = 0
    for path in sorted([*folder.rglob("*.c"), *folder.rglob("*.h")]):
        check = zlib.crc32(
            path.read_bytes(), zlib.crc32(path.relative_to(folder).as_posix().encode(), check)
        )
    return check


def variant() -> str:
    """Return what the module's name ends with: nothing for the normal build."""
    return (
        "_sanitize"
        if os.environ.get("PUFFERVEC_SANITIZE")
        else "_debug"
        if os.environ.get("PUFFERVEC_DEBUG")
        else ""
    )


def compile_arguments() -> list[str]:
    """Return the compiler's flags for the chosen build."""
    flags = [
        "-std=c11",
        "-D_GNU_SOURCE",
        "-fvisibility=hidden",
        "-ffp-contract=off",
        "-fno-math-errno",
    ]
    flags += [
        "-fno-trapping-math",
        "-pthread",
    ]  # no result depends on it; without it gcc vectorizes few comparisons
    flags.append(
        "-Wno-psabi"
    )  # gcc notes that 64-byte vectors are passed differently since gcc 4.6
    sanitizers = os.environ.get("PUFFERVEC_SANITIZE", "")
    if sanitizers:
        flags += [
            f"-fsanitize={sanitizers}",
            "-fno-sanitize-recover=undefined",
            "-fno-omit-frame-pointer",
            "-DPV_DEBUG",
            "-g",
            "-O1",
        ]
    elif os.environ.get("PUFFERVEC_DEBUG"):
        flags += [
            "-DPV_DEBUG",
            "-g",
            "-O1",
            "-U_FORTIFY_SOURCE",
            "-D_FORTIFY_SOURCE=3",
            "-fstack-protector-strong",
        ]
    else:
        flags += [os.environ.get("PUFFERVEC_OPT", "-O3"), "-UNDEBUG"]
        flags.append("-g0")  # Python's own -g would triple the file
    if os.environ.get("PUFFERVEC_NO_FUTEX"):
        flags.append("-DPV_NO_FUTEX")
    if os.environ.get("PUFFERVEC_NATIVE"):
        flags.append("-march=native")
    return flags


def make_ffi() -> FFI:
    """Return the FFI object that setuptools compiles."""
    ffi = FFI()
    headers = [header for header in HEADERS if (CSRC / header).exists()]
    for header in headers:
        ffi.cdef(declarations(header))
    ffi.cdef(PYTHON_ENV)
    ffi.cdef("#define PV_SOURCE_CHECK ...")
    sanitizers = os.environ.get("PUFFERVEC_SANITIZE", "")
    ffi.set_source(
        f"puffervec._native{variant()}",
        "\n".join(
            [
                f"#define PV_SOURCE_CHECK {source_check():#x}u",
                *(f'#include "{header}"' for header in headers),
            ]
        ),
        sources=sources(),
        include_dirs=["csrc"],
        depends=sorted(str(path.relative_to(ROOT)) for path in CSRC.rglob("*.h")),
        extra_compile_args=compile_arguments(),
        extra_link_args=["-pthread", "-lm", "-ldl"]
        + ([f"-fsanitize={sanitizers}"] if sanitizers else []),
        py_limited_api=True,
    )
    return ffi


ffibuilder = make_ffi()
