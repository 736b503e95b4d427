# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The extension module; everything else stands in pyproject.toml."""

import os

from setuptools import setup

os.chdir(os.path.dirname(os.path.abspath(__file__)))

setup(
    cffi_modules=["csrc/build_ffi.py:ffibuilder"],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
