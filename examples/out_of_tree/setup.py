# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Builds the shared library coin_grid._core with puffervec's headers; everything else is in
pyproject.toml.
"""

from setuptools import Extension, setup

from puffervec.contract.env_types import compile_args, get_include

setup(
    ext_modules=[
        Extension(
            "coin_grid._core",
            ["coin_grid/coin_grid.c"],
            include_dirs=[get_include()],
            extra_compile_args=compile_args(),
        )
    ]
)
