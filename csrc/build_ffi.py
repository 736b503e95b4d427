# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Builds puffervec._native with cffi in API mode (called by setup.py).

The declarations that Python sees are cut from the C headers themselves: everything between "[cffi]" and "[/cffi]". A header
is a line in HEADERS, a C file is found by itself. Switches, read from the environment:

    PUFFERVEC_NO_FUTEX=1        build the fallback for systems without a futex
    PUFFERVEC_DEBUG=1           assertions on, -O1 -g
    PUFFERVEC_NATIVE=1          -march=native: not portable, results may differ from other builds
    PUFFERVEC_OPT=-O0           optimization level (default -O3)
    PUFFERVEC_SANITIZE=address,undefined
"""

import os
import re
from pathlib import Path

from cffi import FFI

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"

# In order of dependence.
HEADERS = [
    "base.h",
    "rng.h",
    "env.h",
    "env_list.h",
    "slab.h",
    "channel.h",
    "action.h",
    "worker.h",
    "advantage.h",
    "set_encoder.h",
    "bench.h",
    "drive/config.h",
    "drive/scene.h",
    "drive/index.h",
    "drive/observe.h",
]

# What puffervec/python_block.py defines: an env type whose functions are Python.
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
    """Return the parts of a header that cffi reads, with #define lines reduced to plain integers."""
    text = (CSRC / header).read_text()
    marked = "\n".join(MARKED.findall(text))
    return DEFINE.sub(lambda match: match.group(1) + re.sub(r"[uUlL]+$", "", match.group(2)), marked)


def sources() -> list[str]:
    """Return all C files under csrc/, relative to the project's root, as setuptools wants them."""
    return sorted(str(path.relative_to(ROOT)) for path in CSRC.rglob("*.c"))


def compile_arguments() -> list[str]:
    """Return the compiler's flags for the chosen build."""
    flags = ["-std=c11", "-D_GNU_SOURCE", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno"]
    flags += ["-fno-trapping-math", "-pthread"]  # no result depends on it; without it gcc vectorizes few comparisons
    flags.append("-Wno-psabi")  # gcc notes that 64-byte vectors are passed differently since gcc 4.6
    sanitizers = os.environ.get("PUFFERVEC_SANITIZE", "")
    if sanitizers:
        flags += [f"-fsanitize={sanitizers}", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer", "-g", "-O1"]
    elif os.environ.get("PUFFERVEC_DEBUG"):
        flags += ["-DPV_DEBUG", "-g", "-O1"]
    else:
        flags += [os.environ.get("PUFFERVEC_OPT", "-O3"), "-UNDEBUG"]
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
    sanitizers = os.environ.get("PUFFERVEC_SANITIZE", "")
    ffi.set_source(
        "puffervec._native",
        "\n".join(f'#include "{header}"' for header in headers),
        sources=sources(),
        include_dirs=["csrc"],
        depends=sorted(str(path.relative_to(ROOT)) for path in CSRC.rglob("*.h")),
        extra_compile_args=compile_arguments(),
        extra_link_args=["-pthread", "-lm"] + ([f"-fsanitize={sanitizers}"] if sanitizers else []),
        py_limited_api=True,
    )
    return ffi


ffibuilder = make_ffi()
