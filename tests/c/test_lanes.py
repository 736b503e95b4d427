# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The learner's kernels (csrc/learner/lanes.h, csrc/learner/set_encoder_wide.c,
csrc/learner/convolution_wide.c) handle whole vectors on each kind of CPU.

A compiler splits vectors that are wider than the registers: it compares their elements one by one
and keeps sums in memory, which once made these kernels 28 and 50 times as slow on CPUs without
AVX-512.
"""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from puffervec import _ffi

KERNELS = ("pv_set_encode", "pv_set_encode_grad", "pv_convolve")
VARIANTS = {"avx2": "{}_narrow.arch_x86_64_v3", "avx512": "{}_wide"}
MULTIPLIES = re.compile(r"\bvfmadd\d+ps\b")
BY_ELEMENT = re.compile(r"\bv?(?:u?comiss|cmp\w*ss|pextr\w|pinsr\w)\b")
MOST_BY_ELEMENT = 10  # The old kernels had 53 and more; indices and flags need a few.


def instructions(symbol: str) -> str:
    """Return a function of the C core as assembly, "" if it has no such function."""
    command = ["objdump", "-d", "--no-show-raw-insn", f"--disassemble={symbol}"]
    core = str(_ffi._native.__file__)
    return subprocess.run([*command, core], check=True, capture_output=True, text=True).stdout


@pytest.mark.normal_build("other builds have no variants by CPU")
@pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump")
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_handle_whole_vectors(kernel: str, variant: str) -> None:
    text = instructions(VARIANTS[variant].format(kernel))
    if not MULTIPLIES.search(text):
        pytest.skip("the core was built without variants by CPU, or without their names")
    assert len(BY_ELEMENT.findall(text)) <= MOST_BY_ELEMENT
